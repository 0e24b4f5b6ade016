//! The text files of a checkpoint: special tokens and chat templates in them.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::text::json;

/// Contents of a checkpoint's text files; only the tokenizer is required.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChatFiles<'a> {
    /// `tokenizer.json`
    pub tokenizer: &'a [u8],
    /// `tokenizer_config.json`
    pub tokenizer_config: Option<&'a [u8]>,
    /// `chat_template.jinja`, preferred over all other templates.
    pub chat_template_jinja: Option<&'a [u8]>,
    /// `additional_chat_templates/tool_use.jinja`, beside `chat_template.jinja`.
    pub tool_use_jinja: Option<&'a [u8]>,
    /// `chat_template.json`, preferred over the template of `tokenizer_config.json`.
    pub chat_template_json: Option<&'a [u8]>,
    /// `generation_config.json`
    pub generation_config: Option<&'a [u8]>,
    /// `config.json`
    pub config: Option<&'a [u8]>,
}

/// The fields used of `tokenizer_config.json` and `chat_template.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Fields {
    pub bos_token: Option<NamedToken>,
    pub eos_token: Option<NamedToken>,
    pub chat_template: Option<Templates>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a token or an object with its content")]
pub enum NamedToken {
    Content(String),
    Object { content: String },
}

impl NamedToken {
    pub fn content(&self) -> &str {
        let (NamedToken::Content(content) | NamedToken::Object { content }) = self;
        content
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a template or a list of named templates")]
pub enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
pub struct NamedTemplate {
    pub name: String,
    pub template: String,
}

/// The chat templates by name, from the first source that has any. What is wrong with one of their files
/// is an error for the chats that take it.
pub fn template_sources(
    files: &ChatFiles,
    in_config: Option<Templates>,
) -> Vec<(String, Result<String>)> {
    if let Some(bytes) = files.chat_template_jinja {
        let mut sources = vec![("default".into(), jinja("chat_template.jinja", bytes))];
        if let Some(bytes) = files.tool_use_jinja {
            sources.push(("tool_use".into(), jinja("tool_use.jinja", bytes)));
        }
        return sources;
    }
    let in_file = match files.chat_template_json {
        Some(bytes) => match json::parse::<Fields>("chat_template.json", bytes) {
            Ok(fields) => fields.chat_template,
            Err(error) => return vec![("default".into(), Err(unusable(&error)))],
        },
        None => None,
    };
    match in_file.or(in_config) {
        None => Vec::new(),
        Some(Templates::One(source)) => vec![("default".into(), Ok(source))],
        Some(Templates::Named(list)) => {
            list.into_iter().map(|named| (named.name, Ok(named.template))).collect()
        }
    }
}

fn jinja(file: &str, bytes: &[u8]) -> Result<String> {
    match str::from_utf8(bytes) {
        Ok(source) => Ok(source.to_owned()),
        Err(error) => Err(unusable(&Error::Malformed {
            what: file.into(),
            expected: "UTF-8 text".into(),
            found: error.to_string(),
        })),
    }
}

fn unusable(error: &Error) -> Error {
    Error::Template { message: error.to_string() }
}
