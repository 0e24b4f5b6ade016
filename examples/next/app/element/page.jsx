"use client";

import "tabloom/element";

export default function Page() {
  return <tabloom-chat model="/models/my-model/" />;
}
