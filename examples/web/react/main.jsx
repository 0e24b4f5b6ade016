import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { useEngine } from "./engine.js";

/** @typedef {{role: "user" | "assistant", content: string}} Message */

/** @param {{model: string}} props */
function Chat({ model }) {
  const { engine, progress, error } = useEngine(model);
  const [messages, setMessages] = useState(/** @type {Message[]} */ ([]));
  const [busy, setBusy] = useState(false);

  /** @param {import("react").FormEvent<HTMLFormElement>} event */
  async function ask(event) {
    event.preventDefault();
    if (!engine) return;
    const question = `${new FormData(event.currentTarget).get("question")}`;
    /** @type {Message[]} */
    const asked = [...messages, { role: "user", content: question }];
    let content = "";
    const show = () => setMessages([...asked, { role: "assistant", content }]);
    show();
    setBusy(true);
    try {
      const stream = await engine.chat.completions.create({ messages: asked, stream: true });
      for await (const { choices } of stream) {
        content += choices[0]?.delta.content ?? "";
        show();
      }
    } catch (/** @type {any} */ error) {
      content = error.message;
      show();
    }
    setBusy(false);
  }

  if (error) return <p role="alert">{error.message}</p>;
  if (!engine) return <progress aria-label="Loading" value={progress?.loaded ?? 0} max={progress?.total || 1} />;
  return (
    <>
      <ol role="log">
        {messages.map(({ role, content }, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: messages are only added at the end
          <li key={i} className={role}>
            {content}
          </li>
        ))}
      </ol>
      <form onSubmit={ask}>
        <input name="question" aria-label="Your question" defaultValue="What is the capital of France?" required />
        <button type="submit" disabled={busy}>
          Ask
        </button>
      </form>
    </>
  );
}

createRoot(/** @type {HTMLElement} */ (document.getElementById("root"))).render(
  <StrictMode>
    <Chat model="../../model/" />
  </StrictMode>,
);
