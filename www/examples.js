// What the playground begins with. The built-in model has never seen JSON: it gets right what begins as
// its own answers do.

const object = (/** @type {Record<string, any>} */ properties) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/** @import { texts } from "./texts.js" */

/** @type {{name: keyof typeof texts.examples, question: string, schema: any}[]} */
export const EXAMPLES = [
  {
    name: "number",
    question: "How many legs does a cat have?",
    schema: object({
      answer: { type: "string", pattern: "^A cat has [0-9] legs\\.$" },
      legs: { enum: [2, 4, 6, 8] },
    }),
  },
  {
    name: "fact",
    question: "What is the capital of France?",
    schema: object({
      answer: { type: "string", pattern: "^The capital of France is [A-Z][a-z]+\\.$" },
    }),
  },
  {
    name: "choice",
    question: "What sound does a cat make?",
    schema: object({
      sound: { enum: ["A cat barks.", "A cat meows.", "A cat moos."] },
    }),
  },
  {
    name: "story",
    question: "Tell me a story about a fox.",
    schema: object({
      story: {
        type: "string",
        pattern: "^Once upon a time, [A-Za-z ,]+\\. (He|She) loved to [a-z ]+\\. One day, [A-Z][A-Za-z ,]+\\.$",
      },
    }),
  },
];
