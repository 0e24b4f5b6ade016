//! Tokenizer, chat template and generation defaults of a model: messages in, token ids out.

mod files;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::ends;
use super::generation::GenerationDefaults;
use super::gguf::GgufText;
use super::json;
use super::pause::at_once;
use super::quote::{END, unquoted};
use super::template::{ChatTemplate, NamedTemplates, TemplateOptions};
use super::tokenizer::Tokenizer;
use super::tools::{self, Dialect, Reading, THINK, Thinking};
use crate::api::{Conversation, Form, Message, Role, Tool, ToolCall};
use crate::error::{Error, Result};
pub use files::ChatFiles;
use files::{Fields, NamedToken, template_sources};

/// Tokenizer, chat template and defaults of one model.
pub struct Chat {
    tokenizer: Arc<Tokenizer>,
    templates: NamedTemplates,
    defaults: GenerationDefaults,
}

/// A model's prompt, and how to parse the answer to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    pub ids: Vec<u32>,
    pub reading: Reading,
    /// The grammar that the conversation's tools impose on the answer.
    pub form: Option<Form>,
}

impl From<Vec<u32>> for Prompt {
    /// A prompt without a chat template.
    fn from(ids: Vec<u32>) -> Self {
        Prompt { ids, ..Default::default() }
    }
}

/// The fields of `tokenizer_config.json`, and the defaults for generation.
fn small(files: &ChatFiles) -> Result<(Fields, GenerationDefaults)> {
    let fields = match files.tokenizer_config {
        Some(bytes) => json::parse("tokenizer_config.json", bytes)?,
        None => Fields::default(),
    };
    Ok((fields, GenerationDefaults::from_files(files.generation_config, files.config)?))
}

/// The names under which templates read a message's reasoning.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

impl Chat {
    /// Reads a model's files.
    ///
    /// A model without a chat template, or with one that cannot be read or compiled, loads: it can
    /// complete text, and [`Chat::prompt`] returns an error that says what is wrong.
    pub fn new(files: &ChatFiles) -> Result<Self> {
        let tokenizer = Tokenizer::from_bytes(files.tokenizer)?;
        let (fields, mut defaults) = small(files)?;
        let eos = fields.eos_token.as_ref().map_or("", NamedToken::content);
        defaults.eos_ids.extend(tokenizer.token_id(eos));
        defaults.eos_ids = ends::completed(defaults.eos_ids, |text| {
            tokenizer.token_id(text).filter(|id| tokenizer.is_special(*id))
        });
        let bos = fields.bos_token.as_ref().map_or("", NamedToken::content);
        let sources = template_sources(files, fields.chat_template);
        Chat::assembled(tokenizer, sources, bos, eos, defaults)
    }

    /// Refuses the small files that [`Chat::new`] refuses.
    pub fn check(files: &ChatFiles) -> Result<()> {
        small(files).map(|_| ())
    }

    /// Reads the metadata of a GGUF file; `file` is its name in error messages.
    pub fn from_gguf(file: &str, metadata: &Map<String, Value>) -> Result<Self> {
        let GgufText { tokenizer, bos, eos, templates, defaults } = GgufText::read(file, metadata)?;
        let templates = templates.into_iter().map(|(name, source)| (name, Ok(source))).collect();
        Chat::assembled(tokenizer, templates, &bos, &eos, defaults)
    }

    /// What the templates write is kept out of users' text.
    fn assembled(
        mut tokenizer: Tokenizer,
        sources: Vec<(String, Result<String>)>,
        bos: &str,
        eos: &str,
        defaults: GenerationDefaults,
    ) -> Result<Self> {
        let mut written: String =
            sources.iter().filter_map(|(_, source)| source.as_deref().ok()).collect();
        let templates = NamedTemplates::new(sources, bos, eos);
        written.extend(templates.compiled().map(self::written));
        tokenizer.reserve(&written)?;
        Ok(Chat { tokenizer: Arc::new(tokenizer), templates, defaults })
    }

    /// The prompt of a conversation. It ends with the start of the assistant's next turn, or inside the
    /// last message if the answer continues that message.
    ///
    /// `now` is the reader's wall clock in seconds since 1970, for templates that
    /// print a date.
    pub fn prompt(&self, conversation: &Conversation, now: Option<i64>) -> Result<Prompt> {
        at_once(self.prompt_in_pieces(conversation, now))
    }

    /// As [`Chat::prompt`], with pauses in a long conversation.
    pub async fn prompt_in_pieces(
        &self,
        conversation: &Conversation,
        now: Option<i64>,
    ) -> Result<Prompt> {
        let template = self.template(conversation)?;
        let (rendered, dialect) = self.render(template, conversation, now, true)?;
        let ids = self.encode(&rendered).await?;
        let reading = self.reading(template, conversation, &rendered, dialect);
        let form = tools::form(&conversation.tools, &reading);
        Ok(Prompt { ids, reading, form })
    }

    /// The token ids of a conversation, with pauses in a long one; with the start of the assistant's next
    /// turn if `begins`.
    pub async fn tokens(
        &self,
        conversation: &Conversation,
        now: Option<i64>,
        begins: bool,
    ) -> Result<Vec<u32>> {
        self.encode(&self.render(self.template(conversation)?, conversation, now, begins)?.0).await
    }

    /// The text of a conversation as the template renders it. Unlike in [`Chat::tokens`], a control token
    /// that a message spells out looks like a real one.
    pub fn text(
        &self,
        conversation: &Conversation,
        now: Option<i64>,
        begins: bool,
    ) -> Result<String> {
        Ok(unquoted(&self.render(self.template(conversation)?, conversation, now, begins)?.0))
    }

    fn template(&self, conversation: &Conversation) -> Result<&ChatTemplate> {
        self.templates.choose(!conversation.tools.list.is_empty())
    }

    async fn encode(&self, rendered: &str) -> Result<Vec<u32>> {
        let ids = self.tokenizer.prompt_ids(rendered).await?;
        if ids.is_empty() {
            let message = "found nothing to answer once rendered, expected some text".into();
            return Err(Error::InvalidRequest { param: "messages".into(), message });
        }
        Ok(ids)
    }

    /// The rendered prompt, quoted, and the dialect of tool calls in the answer.
    fn render(
        &self,
        template: &ChatTemplate,
        conversation: &Conversation,
        now: Option<i64>,
        begins: bool,
    ) -> Result<(String, Dialect)> {
        let (rendered, dialect) = self.whole(template, conversation, now, begins)?;
        if !conversation.continues {
            return Ok((rendered, dialect));
        }
        let end = rendered.rfind(END).ok_or_else(|| Error::InvalidRequest {
            param: "messages".into(),
            message: "found a last message to continue, but the model's chat template leaves out \
                      its text; end with another message or set continue_final_message to false"
                .into(),
        })?;
        Ok((rendered[..end].replace(END, ""), dialect))
    }

    /// As `render`, but with the text that the template adds after a last message to continue.
    fn whole(
        &self,
        template: &ChatTemplate,
        conversation: &Conversation,
        now: Option<i64>,
        begins: bool,
    ) -> Result<(String, Dialect)> {
        let mut messages = self.messages(template, conversation);
        if template.dialect() == Some(Dialect::Harmony) {
            messages = tools::one_call_each(messages);
        }
        let list = &conversation.tools.list;
        let tools: Vec<Value> = list.iter().map(|tool| self.tool(tool)).collect();
        let options = |with_tools: bool| {
            let mut variables = self.variables(&conversation.variables);
            if with_tools {
                variables.insert("tools".into(), tools.clone().into());
            }
            let add_generation_prompt = begins && !conversation.continues;
            TemplateOptions { add_generation_prompt, now, variables }
        };
        let plain = |messages: &Vec<Value>| template.render(messages, &options(false));
        let earlier = messages.iter().any(|m| m["role"] == "tool" || m["tool_calls"].is_array());
        match template.dialect() {
            None if tools.is_empty() && !earlier => {
                return Ok((plain(&messages)?, Dialect::Hermes));
            }
            Some(dialect) => {
                let options = options(!tools.is_empty());
                let called = with_calls(template, messages.clone(), dialect, &options);
                let rendered = template.render(&called, &options)?;
                let always = tools.is_empty() || dialect == Dialect::Harmony;
                if always || plain(&called).ok().as_ref() != Some(&rendered) {
                    return Ok((rendered, dialect));
                }
                // Phi 4 reads the tools from the system message.
                let carried = tools::carried(called, &tools);
                if let (Ok(rendered), Some(list)) = (plain(&carried), carried[0]["tools"].as_str())
                    && rendered.contains(list)
                {
                    return Ok((rendered, dialect));
                }
            }
            None => {}
        }
        let instructions = (!tools.is_empty()).then(|| tools::instructions(&tools));
        let worded =
            |in_system| plain(&tools::worded(messages.clone(), instructions.as_deref(), in_system));
        // Some templates raise an exception on system messages.
        let rendered = match worded(true) {
            Err(Error::InvalidRequest { .. }) if instructions.is_some() => worded(false)?,
            rendered => rendered?,
        };
        Ok((rendered, Dialect::Hermes))
    }

    /// The messages as templates expect them.
    fn messages(&self, template: &ChatTemplate, conversation: &Conversation) -> Vec<Value> {
        let mistral = matches!(template.dialect(), Some(Dialect::Mistral | Dialect::MistralNamed));
        let id =
            |id: &str| if mistral { short_id(id) } else { self.tokenizer.quote(Role::User, id) };
        let all = &conversation.messages;
        let calls = || all.iter().flat_map(|message| &message.calls);
        let last = all.len().saturating_sub(1);
        let message = |(i, message): (usize, &Message)| {
            let quoted = |text: &String| {
                let mut quoted = self.tokenizer.quote(message.role, text);
                if conversation.continues && i == last {
                    quoted.push_str(END);
                }
                quoted
            };
            let content = message.content.as_ref().map(quoted);
            let mut json = json!({ "role": message.role, "content": content });
            if let Some(reasoning) = &message.reasoning {
                let reasoning = self.tokenizer.quote(Role::User, reasoning);
                for name in REASONING {
                    json[name] = reasoning.as_str().into();
                }
            }
            if !message.calls.is_empty() {
                let call = |call: &ToolCall| {
                    let function = json!({
                        "name": self.tokenizer.quote(Role::User, &call.name),
                        "arguments": self.tokenizer.quote_json(&call.arguments.clone().into()),
                    });
                    json!({ "id": id(&call.id), "type": "function", "function": function })
                };
                json["tool_calls"] = message.calls.iter().map(call).collect();
            }
            if let Some(answered) = &message.tool_call_id {
                json["tool_call_id"] = id(answered).into();
                if let Some(call) = calls().find(|call| call.id == *answered) {
                    json["name"] = self.tokenizer.quote(Role::User, &call.name).into();
                }
            }
            json
        };
        all.iter().enumerate().map(message).collect()
    }

    /// A tool as templates expect it.
    fn tool(&self, tool: &Tool) -> Value {
        let mut function = Map::new();
        function.insert("name".into(), tool.name.as_str().into());
        if let Some(description) = &tool.description {
            function.insert("description".into(), description.as_str().into());
        }
        let none = || json!({ "type": "object", "properties": {} });
        let parameters = tool.parameters.clone().map_or_else(none, Value::Object);
        function.insert("parameters".into(), parameters);
        json!({ "type": "function", "function": self.tokenizer.quote_json(&function.into()) })
    }

    /// The request's template variables. Plain words stay as they are, since templates compare them; all
    /// other values are quoted.
    fn variables(&self, variables: &Map<String, Value>) -> Map<String, Value> {
        let is_word = |text: &str| {
            let word = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
            word && self.tokenizer.token_id(text).is_none_or(|id| !self.tokenizer.is_control(id))
        };
        let value = |value: &Value| match value {
            Value::String(text) if is_word(text) => value.clone(),
            value => self.tokenizer.quote_json(value),
        };
        variables.iter().map(|(name, given)| (name.clone(), value(given))).collect()
    }

    /// How to parse the answer to a prompt.
    fn reading(
        &self,
        template: &ChatTemplate,
        conversation: &Conversation,
        rendered: &str,
        dialect: Dialect,
    ) -> Reading {
        let tools: Vec<Tool> = conversation.tools.callable().cloned().collect();
        let dialect = (!tools.is_empty() || dialect == Dialect::Harmony).then_some(dialect);
        let last = conversation.messages.last().and_then(|message| message.content.as_deref());
        let [begin, end] = THINK;
        let knows = |token: &str| self.tokenizer.token_id(token).is_some();
        let thinks = template.thinks() || knows(begin) && knows(end);
        let thinking = if dialect == Some(Dialect::Harmony) {
            Thinking::Possible
        } else if !thinks {
            Thinking::Never
        } else if conversation.continues {
            let last = last.unwrap_or_default();
            match last.rfind(begin) {
                Some(at) if !last[at..].contains(end) => Thinking::Amid,
                _ => Thinking::Never,
            }
        } else if rendered.trim_end().ends_with(begin) {
            Thinking::Begun
        } else {
            Thinking::Possible
        };
        let markers = dialect.into_iter().flat_map(Dialect::markers);
        let markers = markers.chain(THINK.into_iter().filter(|_| thinking != Thinking::Never));
        let special = markers.filter_map(|marker| {
            let id = self.tokenizer.token_id(marker)?;
            self.tokenizer.is_special(id).then_some((id, marker))
        });
        Reading {
            dialect,
            tools,
            single: conversation.tools.single,
            thinking,
            markers: special.collect(),
            continues: conversation.continues,
        }
    }

    /// The tokenizer; detokenisers share it.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Sampling defaults and end-of-sequence ids.
    pub fn defaults(&self) -> &GenerationDefaults {
        &self.defaults
    }
}

/// The messages, with earlier calls as text if the template leaves them out.
fn with_calls(
    template: &ChatTemplate,
    messages: Vec<Value>,
    dialect: Dialect,
    options: &TemplateOptions,
) -> Vec<Value> {
    let mut silent = messages.clone();
    let removed =
        silent.iter_mut().filter_map(|message| message.as_object_mut()?.remove("tool_calls"));
    if removed.count() == 0 {
        return messages;
    }
    match [&messages, &silent].map(|messages| template.render(messages, options).ok()) {
        [Some(whole), Some(silent)] if whole == silent => tools::spoken(messages, dialect),
        _ => messages,
    }
}

/// A call's id in the form that Mistral's templates require: nine letters and digits.
fn short_id(id: &str) -> String {
    if id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()) {
        return id.into();
    }
    blake3::hash(id.as_bytes()).to_hex()[..9].into()
}

/// What a template writes around a short conversation; it may put tokens together, as in
/// `'<|' + message.role + '|>'`.
fn written(template: &ChatTemplate) -> String {
    let turn = |role: &str| json!({"role": role, "content": "x"});
    let all = ["system", "user", "assistant", "user"].map(turn);
    // Some templates raise an exception on system messages.
    let rendered = |messages: &[Value]| template.render(&messages, &TemplateOptions::default());
    rendered(&all).or_else(|_| rendered(&all[1..])).unwrap_or_default()
}

#[cfg(test)]
mod tests;
