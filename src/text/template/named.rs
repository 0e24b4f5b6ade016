//! The chat templates of a model by name, and which one a conversation takes.

use super::ChatTemplate;
use crate::error::{Error, Result};

/// A model's templates. One that cannot be read or compiled is an error for the chats that take it.
#[derive(Default)]
pub struct NamedTemplates(Vec<(String, Result<ChatTemplate>)>);

impl NamedTemplates {
    /// Compiles templates, given as names and sources or why there is no source.
    pub fn new(
        sources: Vec<(String, Result<String>)>,
        bos_token: &str,
        eos_token: &str,
    ) -> NamedTemplates {
        let compile = |source| ChatTemplate::new(source, bos_token, eos_token);
        let compiled = sources.into_iter().map(|(name, source)| (name, source.and_then(compile)));
        NamedTemplates(compiled.collect())
    }

    /// Those that can be compiled.
    pub fn compiled(&self) -> impl Iterator<Item = &ChatTemplate> {
        self.0.iter().filter_map(|(_, template)| template.as_ref().ok())
    }

    /// The template that transformers chooses: `tool_use` where tools are given, otherwise `default`.
    pub fn choose(&self, with_tools: bool) -> Result<&ChatTemplate> {
        let named = |name: &str| self.0.iter().find(|(known, _)| known == name);
        let chosen = named("tool_use").filter(|_| with_tools).or_else(|| named("default"));
        match chosen {
            Some((_, template)) => template.as_ref().map_err(Error::clone),
            None if self.0.is_empty() => Err(Error::Template {
                message: "the model has none, neither in chat_template.jinja nor in \
                          tokenizer_config.json. Use a model tuned for chat, or add a template"
                    .into(),
            }),
            None => {
                let names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!("found templates named {names:?}, expected \"default\"");
                Err(Error::Template { message })
            }
        }
    }
}
