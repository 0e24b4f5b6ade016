// assistant-ui: its local runtime keeps the messages, and the engine is its model.
import {
  ActionBarPrimitive,
  AssistantRuntimeProvider,
  ComposerPrimitive,
  ErrorPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useLocalRuntime,
} from "@assistant-ui/react";

/** @import { ChatModelAdapter } from "@assistant-ui/react" */

/** @returns {ChatModelAdapter} */
const adapter = (engine, settings) => ({
  async *run({ messages, abortSignal: signal }) {
    const asked = messages.map(({ role, content }) => ({
      role,
      content: content.map((part) => (part.type === "text" ? part.text : "")).join(""),
    }));
    const request = { messages: asked, temperature: 0, ...settings, stream: true };
    let text = "";
    for await (const { choices } of await engine.chat.completions.create(request, { signal })) {
      text += choices[0]?.delta.content ?? "";
      yield { content: [{ type: "text", text }] };
    }
  },
});

function Message() {
  return (
    <MessagePrimitive.Root>
      <article>
        <MessagePrimitive.Parts />
      </article>
      <ErrorPrimitive.Message role="alert" />
      <ActionBarPrimitive.Root>
        <ActionBarPrimitive.Reload>Again</ActionBarPrimitive.Reload>
      </ActionBarPrimitive.Root>
    </MessagePrimitive.Root>
  );
}

/** The library's parts for a chat. */
function Chat({ model }) {
  return (
    <AssistantRuntimeProvider runtime={useLocalRuntime(model)}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages>{() => <Message />}</ThreadPrimitive.Messages>
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Your message" />
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

export const local = (engine, settings) => <Chat model={adapter(engine, settings)} />;
