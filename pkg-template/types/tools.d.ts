// Functions that a model may call.

/** A function that the model may call; the page carries out the call and sends back the result. */
export interface Tool {
  type: "function";
  function: {
    /** 1 to 64 letters, digits, `_` and `-`; unique. */
    name: string;
    /** What it does, for the model. */
    description?: string | null;
    /** The JSON schema of its arguments, an object; without it there are none. */
    parameters?: { readonly [keyword: string]: unknown } | null;
    /**
     * Enforces the schema for the arguments of each call, also with `auto`, and refuses one that cannot be
     * enforced.
     */
    strict?: boolean | null;
  };
}

/** OpenAI's tools without a schema, and calls of them: requests that have such are refused. */
export interface CustomTool {
  type: "custom";
}

/** A tool, by its name. */
export interface NamedTool {
  type: "function";
  function: { name: string };
}

/**
 * Whether tools are called: `none`; `auto` (default where there are tools), as the model decides;
 * `required`, at least one; a tool: that one, once; or only some of the tools. Where a call is required,
 * the answer consists of calls with valid arguments; of tools that are not `strict`, as far as their schema can
 * be enforced.
 */
export type ToolChoice =
  | "none"
  | "auto"
  | "required"
  | NamedTool
  | CustomTool
  | { type: "allowed_tools"; allowed_tools: { mode: "auto" | "required"; tools: readonly AllowedTool[] } };

/** A tool by its name; OpenAI's types say no more of it than that it is an object. */
type AllowedTool = NamedTool | { readonly [field: string]: unknown };

/** A call of a tool. */
export interface ToolCall {
  /** Names the call in its result. */
  id: string;
  type: "function";
  function: {
    name: string;
    /** A JSON object as text, as the model wrote it: check it unless the tool is `strict`. */
    arguments: string;
  };
}

/** A piece of a call in a stream: first its id and name, then its arguments bit by bit. */
export interface ToolCallDelta {
  /** Which of the message's calls it belongs to. */
  index: number;
  /** In the first piece. */
  id?: string;
  /** In the first piece. */
  type?: "function";
  function: {
    /** In the first piece. */
    name?: string;
    /** The next piece of the JSON. */
    arguments: string;
  };
}
