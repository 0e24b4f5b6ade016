import { Engine } from "../../tabloom/index.js";

const HOSTS = {
  shared: "The engine runs in a worker that all tabs share.",
  leader: "The engine runs in the worker of one tab, for all of them.",
  private: "This browser shares no engine here: this tab has its own.",
};

const engine = await Engine.load("../../model/");

form.onsubmit = async (event) => {
  event.preventDefault();
  output.textContent = "";
  const stream = await engine.chat.completions.create({
    messages: [{ role: "user", content: question.value }],
    stream: true,
  });
  for await (const { choices } of stream) output.append(choices[0]?.delta.content ?? "");
};

for (;;) {
  const metrics = await engine.metrics();
  host.textContent = HOSTS[engine.host ?? "private"];
  tabs.replaceChildren(
    ...metrics.host.tabs.map(({ id, you }) => {
      const { running = 0, kv_blocks = 0, generation_tokens = 0 } = metrics.tabs[id] ?? {};
      return row([`${id + 1}${you ? " (this one)" : ""}`, running, kv_blocks, generation_tokens]);
    }),
  );
  await new Promise((resolve) => setTimeout(resolve, 500));
}

/** @param {(string | number)[]} cells */
function row(cells) {
  const row = document.createElement("tr");
  for (const cell of cells) row.insertCell().textContent = `${cell}`;
  return row;
}
