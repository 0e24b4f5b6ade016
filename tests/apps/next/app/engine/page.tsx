"use client";

import { type FormEvent, useEffect, useRef, useState } from "react";
import { Engine } from "tabloom";

export default function Page() {
  const engine = useRef<Promise<Engine>>(null);
  const [asked, setAsked] = useState<AbortController | null>(null);
  const [answer, setAnswer] = useState("");

  useEffect(() => {
    const loading = Engine.load("/below/models/my-model/", { device: "cpu" });
    engine.current = loading;
    loading.catch((error) => setAnswer(`${error}`));
    return () => void loading.then((engine) => engine.close()).catch(() => {});
  }, []);

  async function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const content = `${new FormData(event.currentTarget).get("question")}`;
    const controller = new AbortController();
    setAsked(controller);
    setAnswer("");
    try {
      const messages = [{ role: "user", content } as const];
      const { completions } = (await engine.current!).chat;
      const stream = await completions.create({ messages, temperature: 0, stream: true }, controller);
      for await (const { choices } of stream) setAnswer((answer) => answer + (choices[0]?.delta.content ?? ""));
    } catch (error) {
      if (!controller.signal.aborted) setAnswer(`${error}`);
    }
  }

  return (
    <form onSubmit={ask}>
      <input name="question" aria-label="Your question" />
      <button type="submit">Send</button>
      <button type="button" onClick={() => asked?.abort()}>
        Stop
      </button>
      <output>{answer}</output>
    </form>
  );
}
