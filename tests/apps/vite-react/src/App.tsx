import { useState } from "react";
import "tabloom/element";
import type {} from "tabloom/react";

export function App() {
  const [ready, setReady] = useState(false);
  return (
    <main>
      <h1>{ready ? "Ready" : "A private chat"}</h1>
      <tabloom-chat
        model={`${import.meta.env.BASE_URL}models/my-model/`}
        device="cpu"
        temperature={0}
        ontabloom-ready={() => setReady(true)}
        ontabloom-error={({ detail }) => console.error(detail.error.code, detail.error.message)}
      />
    </main>
  );
}
