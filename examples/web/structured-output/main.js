import { Engine } from "../../tabloom/index.js";

/** @typedef {{animal: "cat" | "dog" | "fox", legs: number, wild: boolean}} Animal */

const schema = {
  type: "object",
  properties: {
    animal: { enum: ["cat", "dog", "fox"] },
    legs: { type: "integer", minimum: 0, maximum: 8 },
    wild: { type: "boolean" },
  },
  required: ["animal", "legs", "wild"],
  additionalProperties: false,
};

const engine = await Engine.load("../../model/");

/**
 * Answers with an object of the schema, whatever is asked.
 *
 * @param {string} content
 * @returns {Promise<Animal>}
 */
async function ask(content) {
  const { choices } = await engine.chat.completions.create({
    messages: [{ role: "user", content }],
    response_format: { type: "json_schema", json_schema: { name: "animal", schema } },
  });
  return JSON.parse(choices[0].message.content ?? "");
}

form.onsubmit = async (event) => {
  event.preventDefault();
  output.replaceChildren();
  for (const [name, value] of Object.entries(await ask(question.value))) {
    const row = output.insertRow();
    row.append(Object.assign(document.createElement("th"), { textContent: name }));
    row.insertCell().textContent = `${value} (${typeof value})`;
  }
};
