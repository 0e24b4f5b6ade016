// The messages between a page and a host, in the words of `src/host/protocol.rs`, and those by which they find
// each other.
import type { TabloomError } from "../error.js";
import type { ChatCompletion, ChatCompletionChunk, Completion, CompletionChunk } from "../types.js";
import type { EmbeddingResponse, EngineInfo, EngineMetrics, LoadOptions, Progress } from "../types.js";

/** What messages go through: a MessagePort, or a BroadcastChannel, whose messages are numbered (`asked` and `said`). */
export interface Port<Sent, Received> {
  postMessage(message: Sent): void;
  onmessage: ((event: MessageEvent<Received>) => void) | null;
  close(): void;
}

/** A page's end of a port, once it has been greeted. */
export type PagePort = Port<Call, Reply>;

/** A host's end: everybody can send anything. */
// biome-ignore lint/suspicious/noExplicitAny: the worker checks what comes
export type HostPort = Port<Greeting | Reply, any>;

/** What a worker says to each new port at once, before it has loaded anything. */
export interface Greeting {
  type: "here";
  /** The worker has WebGPU. */
  gpu: boolean;
  /** The lock that the worker holds as long as it lives; null where locks are denied. */
  host: string | null;
  /** Of the leader whose worker it is. */
  epoch?: number;
}

/** What a host says of what it has loaded. */
export type LoadedInfo = Omit<EngineInfo, "name" | "budgetBytes" | "budgetReason">;

/** What a page sends to a host. */
export type Call = (Request & { id: number }) | Notice;

/** What gets answers. The first is `hello`. */
export type Request =
  | {
      type: "hello";
      version: string;
      protocol: number;
      tab: string | null;
      visible: boolean;
      isolation: LoadOptions["isolation"];
    }
  | { type: "load"; url: string; files?: Map<string, Blob>; options: object; sparing: boolean }
  | { type: "inspect"; url: string; options: object }
  | CompletionRequest
  | { type: "tokens"; task: "tokenize" | "detokenize" | "template"; request: object; now: number }
  | { type: "embed"; request: object }
  | { type: "metrics" }
  | { type: "ping" };

/** A chat or a text completion, streamed or whole. */
export interface CompletionRequest {
  type: "chat" | "complete";
  request: { stream?: boolean; stream_options?: { include_usage?: boolean } };
  /** When it was first asked, in seconds since 1970, and a random number. */
  moment: { now: number; entropy: number };
  /** Chunks that the page has room for. */
  credit: number;
  /** What the page has of each choice of a stream that another host began. */
  resume: Received[] | null;
}

/** What has been received of one of a stream's choices. */
export interface Received {
  tokens: number[];
  started: boolean;
  /** Completion tokens in all, once it has ended. */
  ended: number | null;
}

/** What gets no answer. */
export type Notice =
  // To the worker's script, on a channel: the lock of the host that the page has, of those that have greeted.
  | { type: "join"; host: string | null }
  | { type: "credit"; id: number; chunks: number }
  | { type: "cancel"; id: number }
  | { type: "visible"; visible: boolean }
  // To the worker's script, not its host: what of models is shared with other sites.
  | { type: "share"; models: string[]; on: boolean; integrity?: LoadOptions["integrity"] }
  | { type: "offer"; models: string[]; store: string }
  // The page leaves; `free`: the model goes, too, if no other page uses it.
  | { type: "bye"; free?: true };

/** What a host sends to a page. */
export type Reply = (Answer & { id: number }) | Failed;

/** What a call is answered with; it is over with the first `value`, `end` or `error`. */
export type Answer =
  | { type: "progress"; progress: Progress }
  // To a ping, by the worker before its host answers.
  | { type: "alive" }
  | { type: "accepted" }
  | Chunk
  | { type: "end" }
  | { type: "value"; value: Value }
  | { type: "error"; error: WireError };

export interface Chunk {
  type: "chunk";
  value: ChatCompletionChunk | CompletionChunk;
  /** The choice's tokens that are new since its last chunk. */
  tokens: number[];
  /** In the chunk that ends a choice: its tokens in all. */
  ended: number | null;
}

/** The result of a call: of `hello`, `load`, `inspect`, `chat`, `complete`, `embed`, `tokens`, `metrics` or `ping`. */
export type Value =
  | { version: string; protocol: number; host: string | null }
  | LoadedInfo
  | Inspection
  | ChatCompletion
  | Completion
  | EmbeddingResponse
  | { tokens: number[] }
  | { prompt: string }
  | string
  | EngineMetrics
  | null;

/** What a load of a model takes, in bytes. */
export interface Inspection {
  weightBytes: number;
  /** Of keys and values. */
  kvBytes: number;
  /** Of the weights' files. */
  fileBytes: number;
}

export type WireError = ConstructorParameters<typeof TabloomError>[0];

/** The worker ends: all calls fail. */
export type Failed = { type: "failed"; error: WireError };

/**
 * To a dedicated worker: a page's port comes with it, or the worker is to serve the leader of an epoch. Each leader
 * holds a lock whose name is `since` and its epoch.
 */
export type Order = { type: "connect" } | { type: "lead"; lobby: string; since: string; epoch: number };

/** What the leader's worker answers. */
export type Leading = Pick<Greeting, "host">;

/** In the leader's lobby: a page wants to join, a worker is up, a leader leaves; a page asks the leader's, which answers. */
export type Lobby =
  | { type: "join"; channel: string; epoch: number }
  | { type: "up"; epoch: number }
  | { type: "ask"; epoch: number }
  | { type: "leads"; epoch: number }
  | { type: "down"; epoch: number };
