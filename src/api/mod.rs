//! The OpenAI-compatible API: wire types of requests and responses, and validation.
//!
//! This module does not depend on the engine. A request arrives as a
//! [`ChatCompletionRequest`], becomes a checked [`ChatRequest`], and is
//! answered through a [`Responder`]; likewise a [`CompletionRequest`] becomes a
//! [`CompleteRequest`], answered by a [`Completion`], and an [`EmbeddingRequest`] an
//! [`EmbedRequest`], answered by an [`EmbeddingResponse`].

mod completion;
mod constraint;
mod conversation;
mod embeddings;
mod fields;
mod input;
mod message;
mod models;
mod neutral;
mod refusal;
mod request;
mod response;
mod sampling;
mod tokens;
mod tools;
mod typed;
mod validate;

pub use completion::{
    Chunk, CompleteRequest, Completion, CompletionChoice, CompletionLogprobs, CompletionRequest,
};
pub use constraint::{FormatKind, JsonSchemaFormat, ResponseFormat, Spec, StructuredOutputs};
pub use embeddings::{
    EmbedRequest, Embedding, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, Encoding, Vector,
};
pub use fields::Fields;
pub use input::{Input, TextInput};
pub use message::{Conversation, Message, Role, ToolCall};
pub use models::{Model, ModelList};
pub(crate) use refusal::{invalid, refuse_unsupported};
pub use request::{
    ChatCompletionRequest, Content, ContentPart, ReasoningDetail, ReasoningEffort,
    RepetitionDetection, RequestCall, RequestCallFunction, RequestMessage, Stop, StreamOptions,
};
pub use response::{
    ChatCompletion, ChatCompletionChunk, Choice, ChoiceLogprobs, ChunkChoice,
    CompletionTokensDetails, Delta, FinishReason, FunctionDelta, PromptTokensDetails, Responder,
    ResponseCall, ResponseFunction, ResponseMessage, TokenLogprob, ToolCallDelta, TopLogprob,
    Usage,
};
pub use sampling::{RepetitionLimit, SamplingParams, TokenRules};
pub use tabloom_grammar::Form;
pub use tokens::{
    DetokenizeRequest, DetokenizeResponse, ToTokenize, TokenSource, TokenizeRequest,
    TokenizeResponse,
};
pub use tools::{
    AllowedTool, AllowedTools, PickKind, RequestFunction, RequestTool, Tool, ToolChoice, ToolMode,
    ToolName, ToolPick, Tools,
};
pub(crate) use typed::{Misfit, typed};
pub use validate::{ChatRequest, TextRules};
