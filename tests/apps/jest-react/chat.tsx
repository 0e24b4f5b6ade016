import "tabloom/element";
import type {} from "tabloom/react";
import type { Engine } from "tabloom";
import { useState } from "react";

export function Chat({ engine }: { engine: Engine }) {
  const [said, setSaid] = useState("nothing");
  return (
    <>
      <h1>{said}</h1>
      <tabloom-chat engine={engine} ontabloom-message={({ detail }) => setSaid(detail.message.content)} />
    </>
  );
}
