import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";
import { Engine } from "tabloom";

const engine = await Engine.load("../../model/");
// The address is never asked: `engine.fetch` answers in its place.
const tabloom = createOpenAICompatible({ name: "tabloom", baseURL: "https://localhost/v1", fetch: engine.fetch });

form.onsubmit = async (event) => {
  event.preventDefault();
  output.textContent = "";
  const { textStream } = streamText({ model: tabloom(engine.info.model), prompt: question.value });
  for await (const piece of textStream) output.append(piece);
};
