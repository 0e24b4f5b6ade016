"use client";

import { useEffect, useState } from "react";
import { Engine } from "tabloom";

export default function Page() {
  const [engine, setEngine] = useState(/** @type {Engine | null} */ (null));
  const [answer, setAnswer] = useState("Loading…");

  // Effects run in the browser alone: on the server the module is imported, and nothing is loaded.
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const loading = Engine.load("/models/my-model/", { signal });
    loading.then(
      (engine) => {
        setEngine(engine);
        setAnswer("");
      },
      (error) => signal.aborted || setAnswer(error.message),
    );
    return () => {
      leaving.abort();
      loading.then(
        (engine) => engine.close(),
        () => {},
      );
    };
  }, []);

  /** @param {import("react").FormEvent<HTMLFormElement>} event */
  async function ask(event) {
    event.preventDefault();
    if (!engine) return;
    const content = `${new FormData(event.currentTarget).get("question")}`;
    setAnswer("");
    try {
      const stream = await engine.chat.completions.create({ messages: [{ role: "user", content }], stream: true });
      for await (const { choices } of stream) setAnswer((answer) => answer + (choices[0]?.delta.content ?? ""));
    } catch (/** @type {any} */ error) {
      setAnswer(error.message);
    }
  }

  return (
    <form onSubmit={ask}>
      <input name="question" aria-label="Your question" defaultValue="What is the capital of France?" required />
      <button type="submit" disabled={!engine}>
        Ask
      </button>
      <output>{answer}</output>
    </form>
  );
}
