//! Messages of a conversation.

use serde::Serialize;
use serde_json::{Map, Value};

use super::tools::Tools;

/// A conversation, as it is passed to the model's chat template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub tools: Tools,
    /// More variables of the template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// Whether the answer continues the last message, which is the assistant's.
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
    /// Absent only if the assistant calls tools and writes no text.
    pub content: Option<String>,
    /// The assistant's reasoning before its answer.
    pub reasoning: Option<String>,
    /// The tools that the assistant calls.
    pub calls: Vec<ToolCall>,
    /// In a message of role `tool`: the id of the earlier call that it answers.
    pub tool_call_id: Option<String>,
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
    /// A message with text only.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Message { role, content, reasoning: None, calls: Vec::new(), tool_call_id: None }
    }

    /// A message from the user.
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

    /// A tool's result for the call with the id `call`.
    pub fn tool(call: impl Into<String>, content: impl Into<String>) -> Self {
        Message { tool_call_id: Some(call.into()), ..Message::new(Role::Tool, content) }
    }
}
