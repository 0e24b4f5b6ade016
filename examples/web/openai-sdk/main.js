import OpenAI from "openai";
import { Engine } from "tabloom";

const engine = await Engine.load("../../model/");
const client = new OpenAI({ fetch: engine.fetch, apiKey: "none", dangerouslyAllowBrowser: true });

form.onsubmit = async (event) => {
  event.preventDefault();
  output.textContent = "";
  const stream = await client.chat.completions.create({
    model: engine.info.model,
    messages: [{ role: "user", content: question.value }],
    stream: true,
  });
  for await (const { choices } of stream) output.append(choices[0]?.delta.content ?? "");
};
