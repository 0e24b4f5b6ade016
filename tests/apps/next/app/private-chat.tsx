"use client";

import "tabloom/element";
import type {} from "tabloom/react";
import type { TabloomChat } from "tabloom/element";
import { useEffect, useRef, useState } from "react";

export function PrivateChat() {
  const chat = useRef<TabloomChat>(null);
  const [ready, setReady] = useState(false);
  useEffect(() => {
    const listening = new AbortController();
    chat.current?.addEventListener("tabloom-ready", () => setReady(true), listening);
    return () => listening.abort();
  }, []);

  return (
    <>
      <h1>{ready ? "Ready" : "A private chat"}</h1>
      <tabloom-chat ref={chat} model="/below/models/my-model/" device="cpu" temperature={0} />
    </>
  );
}
