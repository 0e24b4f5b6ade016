// The AI SDK's `useChat` without a server.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { useChat } from "@ai-sdk/react";
import { convertToModelMessages, DirectChatTransport, streamText, ToolLoopAgent } from "ai";

/** @import { ChatTransport, UIMessage } from "ai" */

const onError = (/** @type {any} */ { message }) => message;

/** What answers: a model of the SDK, and settings of its requests. */
function model({ fetch, info }, { max_tokens: maxOutputTokens, temperature = 0, ...tabloom }) {
  const provider = createOpenAICompatible({ name: "tabloom", baseURL: "https://nowhere.invalid/v1", fetch });
  return { model: provider(info.model), maxRetries: 0, maxOutputTokens, temperature, providerOptions: { tabloom } };
}

/** @param {{ transport: ChatTransport<UIMessage> }} props */
function Chat({ transport }) {
  const { messages, sendMessage, status, stop, regenerate, error } = useChat({ transport });
  return (
    <form action={(fields) => void sendMessage({ text: `${fields.get("question")}` })}>
      {messages.map(({ id, parts }) => (
        <article key={id}>{parts.map((part) => (part.type === "text" ? part.text : ""))}</article>
      ))}
      <input name="question" aria-label="Your message" />
      <button type="button" onClick={stop} disabled={status !== "submitted" && status !== "streaming"}>
        Stop
      </button>
      <button type="button" onClick={() => regenerate()}>
        Again
      </button>
      {error && <p role="alert">{error.message}</p>}
    </form>
  );
}

/** With the SDK's own transport, to an agent in the page. */
export const direct = (engine, settings) => (
  <Chat transport={new DirectChatTransport({ agent: new ToolLoopAgent(model(engine, settings)), onError })} />
);

/** With one that a page writes itself. */
export const own = (engine, settings) => (
  <Chat
    transport={{
      async sendMessages({ messages, abortSignal }) {
        const asked = await convertToModelMessages(messages);
        return streamText({ ...model(engine, settings), messages: asked, abortSignal }).toUIMessageStream({ onError });
      },
      reconnectToStream: async () => null,
    }}
  />
);
