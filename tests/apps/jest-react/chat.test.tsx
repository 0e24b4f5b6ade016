import { expect, test } from "@jest/globals";
import { act, render, screen } from "@testing-library/react";
import { Chat } from "./chat";

test("a component hears what the chat's engine says", async () => {
  const engine: any = {
    info: { context: 4096 },
    countTokens: async () => 1,
    chat: { completions: { create: async () => said("Hello") } },
  };
  render(<Chat engine={engine} />);
  await act(() => document.querySelector("tabloom-chat")!.send("Hi"));
  expect(screen.getByRole("heading").textContent).toBe("Hello");
});

async function* said(content: string) {
  yield { choices: [{ delta: { content }, finish_reason: "stop" }] };
}
