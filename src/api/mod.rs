//! The OpenAI-shaped surface: wire types, their validation, and the shapes of answers.
//!
//! Nothing here knows the engine. A request arrives as a
//! [`ChatCompletionRequest`], becomes a checked [`ChatRequest`], and is
//! answered through a [`Responder`]; likewise an [`EmbeddingRequest`] becomes an
//! [`EmbedRequest`], answered by an [`EmbeddingResponse`].

mod constraint;
mod embeddings;
mod message;
mod request;
mod response;
mod sampling;
mod typed;
mod validate;

pub use constraint::{JsonSchemaFormat, ResponseFormat, Spec, StructuredOutputs};
pub use embeddings::{
    EmbedInput, EmbedRequest, Embedding, EmbeddingInput, EmbeddingRequest, EmbeddingResponse,
    EmbeddingUsage, Encoding, Vector,
};
pub use message::{Message, Role};
pub use request::{
    ChatCompletionRequest, Content, ContentPart, RepetitionDetection, RequestMessage, Stop,
    StreamOptions,
};
pub use response::{
    ChatCompletion, ChatCompletionChunk, Choice, ChoiceLogprobs, ChunkChoice,
    CompletionTokensDetails, Delta, FinishReason, PromptTokensDetails, Responder, ResponseMessage,
    TokenLogprob, TopLogprob, Usage,
};
pub use sampling::{Circles, SamplingParams, TokenRules};
pub use tabloom_grammar::Form;
pub(crate) use typed::{Misfit, typed};
pub use validate::{ChatRequest, TextRules};
