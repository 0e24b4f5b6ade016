//! The text side of a model in a folder: tokenizer, chat template and defaults.

use super::parts::Part;
use crate::{
    Result,
    text::{Chat, ChatFiles},
    weights::{Source, missing},
};

const TOKENIZER: &str = "tokenizer.json";

/// The text files of a folder, except its tokenizer and its templates.
struct SmallTexts {
    config: Vec<u8>,
    tokenizer_config: Option<Vec<u8>>,
    generation_config: Option<Vec<u8>>,
}

impl SmallTexts {
    async fn read(source: &impl Source) -> Result<SmallTexts> {
        Ok(SmallTexts {
            config: source.read("config.json").await?,
            tokenizer_config: source.read_optional("tokenizer_config.json").await?,
            generation_config: source.read_optional("generation_config.json").await?,
        })
    }

    fn files(&self) -> ChatFiles<'_> {
        ChatFiles {
            tokenizer_config: self.tokenizer_config.as_deref(),
            generation_config: self.generation_config.as_deref(),
            config: Some(&self.config),
            ..ChatFiles::default()
        }
    }
}

/// Reads the files of a folder.
pub async fn read(source: &impl Source) -> Result<Chat> {
    let tokenizer = match source.read(TOKENIZER).await {
        Ok(tokenizer) => tokenizer,
        Err(error) => return Err(Part::Tokenizer.explain(source, error).await),
    };
    let texts = SmallTexts::read(source).await?;
    let chat_template_jinja = source.read_optional("chat_template.jinja").await?;
    let chat_template_json = source.read_optional("chat_template.json").await?;
    // transformers looks for it only beside that file.
    let tool_use_jinja = match chat_template_jinja {
        Some(_) => source.read_optional("additional_chat_templates/tool_use.jinja").await?,
        None => None,
    };
    Chat::new(&ChatFiles {
        tokenizer: &tokenizer,
        chat_template_jinja: chat_template_jinja.as_deref(),
        tool_use_jinja: tool_use_jinja.as_deref(),
        chat_template_json: chat_template_json.as_deref(),
        ..texts.files()
    })
}

/// Refuses what [`read`] refuses, as far as the small files show it. The tokenizer has to be there.
pub async fn check(source: &impl Source) -> Result<()> {
    match source.open(TOKENIZER).await {
        Ok(Some(_)) => Chat::check(&SmallTexts::read(source).await?.files()),
        Ok(None) => Err(Part::Tokenizer.explain(source, missing(source, TOKENIZER)).await),
        Err(error) => Err(error),
    }
}
