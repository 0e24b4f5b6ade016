//! Messages of a conversation.

use serde::Serialize;
use serde_json::{Map, Value};

use super::tools::Tools;

/// A conversation, as the model's chat template gets it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub tools: Tools,
    /// More variables of the template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// Whether the last message, the assistant's, is to be gone on with.
    pub continues: bool,
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Conversation { messages, ..Default::default() }
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub role: Role,
    /// Absent only where the assistant calls tools and says nothing.
    pub content: Option<String>,
    /// What the assistant thought before it answered.
    pub reasoning: Option<String>,
    /// The tools that the assistant calls.
    pub calls: Vec<ToolCall>,
    /// In a message of a tool: the call that it answers, which an earlier message made.
    pub answers: Option<String>,
}

/// A call of a tool in an earlier message.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Message {
    /// A message that is nothing but text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Message { role, content, reasoning: None, calls: Vec::new(), answers: None }
    }

    /// A message from the person.
    pub fn user(content: impl Into<String>) -> Self {
        Message::new(Role::User, content)
    }

    /// A message from the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Message::new(Role::Assistant, content)
    }

    /// Instructions from the application.
    pub fn system(content: impl Into<String>) -> Self {
        Message::new(Role::System, content)
    }

    /// What a tool gave for a call.
    pub fn tool(call: impl Into<String>, content: impl Into<String>) -> Self {
        Message { answers: Some(call.into()), ..Message::new(Role::Tool, content) }
    }
}
