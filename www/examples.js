// What the playground begins with.

const object = (/** @type {Record<string, any>} */ properties) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/** @type {{name: string, question: string, schema: any}[]} */
export const EXAMPLES = [
  {
    name: "One of a few",
    question: "What is the capital of France?",
    schema: { enum: ["London", "Paris", "Rome"] },
  },
  {
    name: "A fact",
    question: "What is the capital of France?",
    schema: object({
      answer: { type: "string", minLength: 1, maxLength: 40 },
      sure: { type: "boolean" },
    }),
  },
  {
    name: "A sum",
    question: "What is 17 + 25?",
    schema: object({
      first: { type: "integer", minimum: 0, maximum: 99 },
      second: { type: "integer", minimum: 0, maximum: 99 },
      sum: { type: "integer", minimum: 0, maximum: 198 },
    }),
  },
  {
    name: "A character for a story",
    question: "Make up an animal for a story.",
    schema: object({
      name: { type: "string", pattern: "^[A-Z][a-z]{1,9}$" },
      kind: { enum: ["fox", "cat", "owl", "bear"] },
      likes: { type: "array", items: { type: "string", minLength: 2, maxLength: 16 }, minItems: 1, maxItems: 3 },
    }),
  },
];
