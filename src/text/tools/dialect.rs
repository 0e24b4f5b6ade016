//! The formats in which models write tool calls.

/// The tool call format of a model family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Hermes, Qwen, SmolLM3: `<tool_call>{"name": …, "arguments": …}</tool_call>` per call.
    Hermes,
    /// Llama 3: `{"name": …, "parameters": …}` is the whole answer, after an optional `<|python_tag|>`.
    Llama,
    /// Mistral up to 2024: `[TOOL_CALLS][{"name": …, "arguments": …}, …]`.
    Mistral,
    /// Mistral since: `[TOOL_CALLS]name[ARGS]{…}` per call, with an optional `[CALL_ID]`.
    MistralNamed,
    /// Granite and Phi 4: `<|tool_call|>[{"name": …, "arguments": …}, …]`, with an optional end marker.
    Listed,
}

impl Dialect {
    /// The format that a chat template uses.
    pub fn of(template: &str) -> Option<Dialect> {
        let has = |text: &str| template.contains(text);
        // These calls are not JSON objects in the tags, and not supported.
        if has("<function=") || has("<tool_call>[") {
            None
        } else if has("[TOOL_CALLS]") {
            Some(if has("[ARGS]") { Dialect::MistralNamed } else { Dialect::Mistral })
        } else if has("<|start_header_id|>") && has("\"parameters\": ") {
            Some(Dialect::Llama)
        } else if has("<|tool_call|>") {
            Some(Dialect::Listed)
        } else if has("<tool_call>") {
            Some(Dialect::Hermes)
        } else {
            None
        }
    }

    /// The marker before a call or a list of calls.
    pub fn marker(self) -> &'static str {
        match self {
            Dialect::Hermes => "<tool_call>",
            Dialect::Llama => "<|python_tag|>",
            Dialect::Mistral | Dialect::MistralNamed => "[TOOL_CALLS]",
            Dialect::Listed => "<|tool_call|>",
        }
    }

    /// The marker after it; a model may leave it out.
    pub fn end(self) -> Option<&'static str> {
        match self {
            Dialect::Hermes => Some("</tool_call>"),
            Dialect::Listed => Some("<|/tool_call|>"),
            Dialect::Llama | Dialect::Mistral | Dialect::MistralNamed => None,
        }
    }

    /// All markers that may be special tokens of the model.
    pub fn markers(self) -> impl Iterator<Item = &'static str> {
        let more: &[&str] = match self {
            Dialect::MistralNamed => &["[ARGS]", "[CALL_ID]"],
            _ => &[],
        };
        [self.marker()].into_iter().chain(self.end()).chain(more.iter().copied())
    }

    /// Whether the calls are items of a JSON list.
    pub fn lists(self) -> bool {
        matches!(self, Dialect::Mistral | Dialect::Listed)
    }

    /// The key of the arguments in a call.
    pub fn arguments(self) -> &'static str {
        if self == Dialect::Llama { "parameters" } else { "arguments" }
    }
}
