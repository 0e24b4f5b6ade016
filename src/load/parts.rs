//! The parts of a model that a folder may lack: what it has in their place, and what to load instead.

use crate::{
    Error,
    model::json::Fields,
    weights::{Source, missing},
};

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Config,
    Weights,
    Tokenizer,
}

/// A file that shows what a folder is, and what to do about it.
type Sign = (&'static str, &'static str);

const ADAPTER: Sign = (
    "adapter_config.json",
    "It is an adapter (LoRA) without its model: merge the two (peft has merge_and_unload) and load the \
     result",
);
const COMPILED: &str = "It is compiled for WebLLM (MLC): take the model that it was made from, or a \
                        GGUF file of it";
const ONNX: &str = "It has ONNX files, as for transformers.js: take the model that they were made from, \
                    or a GGUF file of it";
const TORCH: &str = "It has PyTorch's files: take a revision with safetensors, convert it \
                     (save_pretrained of transformers does), or take a GGUF file of it";
const OTHERS: &str = "It has the files of other software: take the model's folder for transformers, or \
                      a GGUF file of it";
const VOCABULARY: &str = "It has a vocabulary for other software: convert it (of transformers, \
                          AutoTokenizer.from_pretrained(…).save_pretrained(…)), or take a GGUF file of \
                          the model, which has its tokenizer inside";

/// Signs of folders without `config.json`.
const FOLDERS: [Sign; 5] = [
    ("model_index.json", "It is a pipeline for images (diffusers), and no language model"),
    ("mlc-chat-config.json", COMPILED),
    ADAPTER,
    ("params.json", OTHERS),
    ("genai_config.json", ONNX),
];

/// Signs of weights in other formats.
const WEIGHTS: [Sign; 12] = [
    ADAPTER,
    ("onnx/model.onnx", ONNX),
    ("onnx/model_quantized.onnx", ONNX),
    ("onnx/model_q4.onnx", ONNX),
    ("onnx/model_q4f16.onnx", ONNX),
    ("onnx/decoder_model_merged.onnx", ONNX),
    ("model.onnx", ONNX),
    ("pytorch_model.bin", TORCH),
    ("pytorch_model.bin.index.json", TORCH),
    ("mlc-chat-config.json", COMPILED),
    ("consolidated.safetensors", OTHERS),
    ("tf_model.h5", OTHERS),
];

/// Signs of tokenizers in other formats.
const TOKENIZERS: [Sign; 5] = [
    ("tokenizer.model", VOCABULARY),
    ("merges.txt", VOCABULARY),
    ("tekken.json", VOCABULARY),
    ("vocab.txt", VOCABULARY),
    ("qwen.tiktoken", VOCABULARY),
];

impl Part {
    fn file(self) -> &'static str {
        match self {
            Part::Config => "config.json",
            Part::Weights => "model.safetensors",
            Part::Tokenizer => "tokenizer.json",
        }
    }

    /// The error for a folder whose part could not be read for `error`: if the part is not there, it says
    /// what is in its place.
    pub async fn explain(self, source: &impl Source, error: Error) -> Error {
        if error != missing(source, self.file()) {
            return error;
        }
        let signs: &[Sign] = match self {
            Part::Config => &FOLDERS,
            Part::Weights => &WEIGHTS,
            Part::Tokenizer => &TOKENIZERS,
        };
        for (file, advice) in signs {
            if matches!(source.open(file).await, Ok(Some(_))) {
                let advice = match *file == ADAPTER.0 {
                    true => format!("{advice}{}", base(source).await),
                    false => format!("{advice}; found {file}"),
                };
                return self.absent(source, advice);
            }
        }
        match self {
            Part::Tokenizer => {
                let advice = "It turns text into tokens: take it from the folder of the model, or of \
                              the one that it was made from";
                self.absent(source, advice.into())
            }
            // The address may be wrong altogether.
            _ => error,
        }
    }

    fn absent(self, source: &impl Source, advice: String) -> Error {
        let folder = match source.locate("") {
            folder if folder.is_empty() => "the model's folder".into(),
            folder => folder,
        };
        Error::MissingPart { folder, part: self.file().into(), advice }
    }
}

/// Which model an adapter is for, in words.
async fn base(source: &impl Source) -> String {
    let json = source.read(ADAPTER.0).await;
    let fields = json.and_then(|json| Fields::parse(ADAPTER.0, &json));
    let name =
        fields.and_then(|fields| Ok(fields.text("base_model_name_or_path")?.map(String::from)));
    name.ok().flatten().map(|name| format!(". Its model is {name}")).unwrap_or_default()
}
