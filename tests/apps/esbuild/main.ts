import { Engine } from "tabloom";

const form = document.querySelector("form")!;
const stop = document.querySelector<HTMLButtonElement>("button[type=button]")!;
const output = document.querySelector("output")!;
const loading = Engine.load("models/my-model/", { device: "cpu", workerUrl: "tabloom/worker.js" });

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const content = `${new FormData(form).get("question")}`;
  const controller = new AbortController();
  stop.onclick = () => controller.abort();
  output.textContent = "";
  try {
    const engine = await loading;
    const messages = [{ role: "user", content } as const];
    const stream = await engine.chat.completions.create({ messages, temperature: 0, stream: true }, controller);
    for await (const chunk of stream) output.append(chunk.choices[0]?.delta.content ?? "");
  } catch (error) {
    if (!controller.signal.aborted) output.textContent = `${error}`;
  }
});
