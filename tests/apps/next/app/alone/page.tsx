"use client";

import dynamic from "next/dynamic";

const PrivateChat = dynamic(() => import("./private-chat"), { ssr: false });

export default function Page() {
  return <PrivateChat />;
}
