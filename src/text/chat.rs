//! A model's text side in one place: messages in, token ids out.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::generation::GenerationDefaults;
use super::gguf::GgufText;
use super::json;
use super::template::{ChatTemplate, TemplateOptions};
use super::tokenizer::Tokenizer;
use crate::api::Message;
use crate::error::{Error, Result};

/// The bytes of the files of a model folder that concern text; only the tokenizer is needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChatFiles<'a> {
    /// `tokenizer.json`
    pub tokenizer: &'a [u8],
    /// `tokenizer_config.json`
    pub tokenizer_config: Option<&'a [u8]>,
    /// `chat_template.jinja`, preferred to all other templates.
    pub chat_template_jinja: Option<&'a [u8]>,
    /// `chat_template.json`, preferred to the template of `tokenizer_config.json`.
    pub chat_template_json: Option<&'a [u8]>,
    /// `generation_config.json`
    pub generation_config: Option<&'a [u8]>,
    /// `config.json`
    pub config: Option<&'a [u8]>,
}

/// Tokenizer, chat template and defaults of one model.
pub struct Chat {
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
    defaults: GenerationDefaults,
}

/// The fields of `tokenizer_config.json` and `chat_template.json` that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    bos_token: Option<NamedToken>,
    eos_token: Option<NamedToken>,
    chat_template: Option<Templates>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a token or an object with its content")]
enum NamedToken {
    Content(String),
    Object { content: String },
}

impl NamedToken {
    fn content(&self) -> &str {
        let (NamedToken::Content(content) | NamedToken::Object { content }) = self;
        content
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a template or a list of named templates")]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl Chat {
    /// Reads a model's files.
    ///
    /// A model without a chat template loads; it can continue text, and
    /// [`Chat::prompt`] says what is missing.
    pub fn new(files: &ChatFiles) -> Result<Self> {
        let tokenizer = Tokenizer::from_bytes(files.tokenizer)?;
        let fields: Fields = match files.tokenizer_config {
            Some(bytes) => json::parse("tokenizer_config.json", bytes)?,
            None => Fields::default(),
        };
        let mut defaults = GenerationDefaults::from_files(files.generation_config, files.config)?;
        let eos = fields.eos_token.as_ref().map_or("", NamedToken::content);
        if let Some(id) = tokenizer.token_id(eos)
            && !defaults.eos_ids.contains(&id)
        {
            defaults.eos_ids.push(id);
        }
        let bos = fields.bos_token.as_ref().map_or("", NamedToken::content);
        let source = template_source(files, fields.chat_template)?;
        let template = source.map(|source| ChatTemplate::new(source, bos, eos)).transpose()?;
        Ok(Chat { tokenizer: Arc::new(tokenizer), template, defaults })
    }

    /// Reads the metadata of a GGUF file, which `file` names in messages.
    pub fn from_gguf(file: &str, metadata: &Map<String, Value>) -> Result<Self> {
        let GgufText { tokenizer, bos, eos, template, defaults } = GgufText::read(file, metadata)?;
        let template = template.map(|source| ChatTemplate::new(source, &bos, &eos)).transpose()?;
        Ok(Chat { tokenizer: Arc::new(tokenizer), template, defaults })
    }

    /// The token ids of a conversation, up to the beginning of the assistant's next turn.
    ///
    /// `now` is the reader's wall clock in seconds since 1970, for templates that
    /// print a date.
    pub fn prompt(&self, messages: &[Message], now: Option<i64>) -> Result<Vec<u32>> {
        self.tokens(messages, &TemplateOptions { now, ..Default::default() })
    }

    /// The token ids of a conversation as the template writes it.
    pub fn tokens(&self, messages: &[Message], options: &TemplateOptions) -> Result<Vec<u32>> {
        let quote = |message: &Message| self.tokenizer.quote(message.role, &message.content);
        let ids = self.tokenizer.encode_prompt(&self.rendered(messages, options, quote)?)?;
        if ids.is_empty() {
            let message = "found nothing to answer once rendered, expected some text".into();
            return Err(Error::InvalidRequest { param: "messages".into(), message });
        }
        Ok(ids)
    }

    /// The text of a conversation as the template writes it. Unlike in [`Chat::tokens`], what merely
    /// looks like a control token in a message cannot be told from one.
    pub fn render(&self, messages: &[Message], options: &TemplateOptions) -> Result<String> {
        self.rendered(messages, options, |message| message.content.clone())
    }

    fn rendered(
        &self,
        messages: &[Message],
        options: &TemplateOptions,
        content: impl Fn(&Message) -> String,
    ) -> Result<String> {
        let template = self.template.as_ref().ok_or_else(|| Error::Template {
            message: "the model has none, neither in chat_template.jinja nor in \
                      tokenizer_config.json. Use a model tuned for chat, or add a template"
                .into(),
        })?;
        let message =
            |message: &Message| json!({ "role": message.role, "content": content(message) });
        template.render(&messages.iter().map(message).collect::<Vec<_>>(), options)
    }

    /// The tokenizer, to be shared with detokenisers.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// What holds where a request says nothing, and the ids that end an answer.
    pub fn defaults(&self) -> &GenerationDefaults {
        &self.defaults
    }
}

/// The first of the places where a template may be.
fn template_source(files: &ChatFiles, in_config: Option<Templates>) -> Result<Option<String>> {
    if let Some(bytes) = files.chat_template_jinja {
        return match str::from_utf8(bytes) {
            Ok(source) => Ok(Some(source.to_owned())),
            Err(error) => Err(Error::Malformed {
                what: "chat_template.jinja".into(),
                expected: "UTF-8 text".into(),
                found: error.to_string(),
            }),
        };
    }
    let in_file = match files.chat_template_json {
        Some(bytes) => json::parse::<Fields>("chat_template.json", bytes)?.chat_template,
        None => None,
    };
    match in_file.or(in_config) {
        None => Ok(None),
        Some(Templates::One(source)) => Ok(Some(source)),
        Some(Templates::Named(list)) => {
            let names: Vec<_> = list.iter().map(|named| named.name.clone()).collect();
            let default = list.into_iter().find(|named| named.name == "default");
            default.map(|named| Some(named.template)).ok_or_else(|| Error::Template {
                message: format!("found templates named {names:?}, expected one named \"default\""),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    const TEMPLATE: &str =
        "{{ bos_token }}{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}";

    fn chat(tokenizer_config: &str, more: ChatFiles) -> Result<Chat> {
        let tokenizer_config = Some(tokenizer_config.as_bytes());
        Chat::new(&ChatFiles { tokenizer: &samples::bytes(), tokenizer_config, ..more })
    }

    fn text(chat: &Chat) -> Result<Vec<u32>> {
        chat.prompt(&[Message::user("hi<|end|>")], None)
    }

    #[test]
    fn a_prompt_is_the_template_around_quoted_text() {
        let config = format!(
            r#"{{"bos_token":{{"content":"<｜bos｜>"}},"eos_token":"<|end|>","chat_template":{}}}"#,
            json!(TEMPLATE)
        );
        let generation_config = Some(&br#"{"eos_token_id":[7]}"#[..]);
        let chat = chat(&config, ChatFiles { generation_config, ..Default::default() }).unwrap();
        let ids = text(&chat).unwrap();
        let controls: Vec<_> =
            ids.iter().copied().filter(|&id| chat.tokenizer().is_control(id)).collect();
        assert_eq!(controls, [265, 260, 256]);
        assert_eq!(chat.tokenizer().decode(&ids).unwrap(), "hi<|end|>");
        assert_eq!(chat.defaults().eos_ids, [7, 256]);
    }

    #[test]
    fn templates_are_found_where_models_keep_them() {
        let prompt = |config: &str, more| text(&chat(config, more).unwrap()).unwrap();
        let named = r#"{"chat_template":[{"name":"tool_use","template":"a"},{"name":"default","template":"b"}]}"#;
        let none = ChatFiles::default();
        let json = ChatFiles { chat_template_json: Some(br#"{"chat_template":"c"}"#), ..none };
        let jinja = ChatFiles { chat_template_jinja: Some(b"d"), ..json };
        let ids = [prompt(named, none), prompt(named, json), prompt(named, jinja)];
        let id = |token| chat("{}", none).unwrap().tokenizer().token_id(token).unwrap();
        assert_eq!(ids, [[id("b")], [id("c")], [id("d")]]);
    }

    #[test]
    fn a_model_without_a_template_says_so() {
        for config in ["{}", r#"{"chat_template":null}"#] {
            let error = text(&chat(config, ChatFiles::default()).unwrap()).unwrap_err();
            assert!(matches!(error, Error::Template { .. }));
            assert!(error.to_string().contains("chat_template.jinja"));
        }
        let unnamed = r#"{"chat_template":[{"name":"rag","template":"a"}]}"#;
        assert!(matches!(chat(unnamed, ChatFiles::default()), Err(Error::Template { .. })));
    }

    #[test]
    fn bad_files_are_named() {
        let error = chat("<html>", ChatFiles::default()).err().unwrap().to_string();
        assert!(error.contains("tokenizer_config.json") && error.contains("HTML"), "{error}");
        let error = chat(r#"{"eos_token":5}"#, ChatFiles::default()).err().unwrap().to_string();
        assert!(error.contains("eos_token"), "{error}");
        let jinja = ChatFiles { chat_template_jinja: Some(b"\xFF"), ..Default::default() };
        assert!(chat("{}", jinja).err().unwrap().to_string().contains("chat_template.jinja"));
    }

    #[test]
    fn an_empty_prompt_is_refused() {
        let jinja = ChatFiles { chat_template_jinja: Some(b""), ..Default::default() };
        let empty = super::Chat::new(&ChatFiles { tokenizer: &samples::bytes(), ..jinja }).unwrap();
        assert!(matches!(text(&empty), Err(Error::InvalidRequest { .. })));
    }
}
