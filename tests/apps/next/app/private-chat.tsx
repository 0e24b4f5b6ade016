"use client";

import "tabloom/element";
import type {} from "tabloom/react";

export function PrivateChat() {
  return <tabloom-chat model="/below/models/my-model/" device="cpu" temperature={0} />;
}
