"use client";

import "tabloom/element";
import type {} from "tabloom/react";
import { useState } from "react";

export default function PrivateChat() {
  const [ready, setReady] = useState(false);
  return (
    <>
      <h1>{ready ? "Ready" : "A private chat"}</h1>
      <tabloom-chat
        model="/below/models/my-model/"
        device="cpu"
        temperature={0}
        ontabloom-ready={({ detail }) => setReady(detail.engine.info.context > 0)}
      />
    </>
  );
}
