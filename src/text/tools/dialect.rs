//! The ways in which models write calls of tools.

/// How a family of models writes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Hermes, Qwen, SmolLM3: `<tool_call>{"name": …, "arguments": …}</tool_call>`, each call for itself.
    Hermes,
    /// Llama 3: `{"name": …, "parameters": …}` is the whole answer, perhaps after `<|python_tag|>`.
    Llama,
    /// Mistral up to 2024: `[TOOL_CALLS][{"name": …, "arguments": …}, …]`.
    Mistral,
    /// Mistral since: `[TOOL_CALLS]name[ARGS]{…}`, each call for itself, perhaps with a `[CALL_ID]`.
    MistralNamed,
    /// Granite and Phi 4: `<|tool_call|>[{"name": …, "arguments": …}, …]`, perhaps closed.
    Listed,
}

impl Dialect {
    /// What a template's text says of its model.
    pub fn of(template: &str) -> Option<Dialect> {
        let has = |text: &str| template.contains(text);
        // Calls of functions in tags of their own are another matter.
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

    /// What a call, or a list of them, begins with.
    pub fn marker(self) -> &'static str {
        match self {
            Dialect::Hermes => "<tool_call>",
            Dialect::Llama => "<|python_tag|>",
            Dialect::Mistral | Dialect::MistralNamed => "[TOOL_CALLS]",
            Dialect::Listed => "<|tool_call|>",
        }
    }

    /// What it ends with, if the model does not forget it.
    pub fn end(self) -> Option<&'static str> {
        match self {
            Dialect::Hermes => Some("</tool_call>"),
            Dialect::Listed => Some("<|/tool_call|>"),
            Dialect::Llama | Dialect::Mistral | Dialect::MistralNamed => None,
        }
    }

    /// Everything that may be a special token of the model.
    pub fn markers(self) -> impl Iterator<Item = &'static str> {
        let more: &[&str] = match self {
            Dialect::MistralNamed => &["[ARGS]", "[CALL_ID]"],
            _ => &[],
        };
        [self.marker()].into_iter().chain(self.end()).chain(more.iter().copied())
    }

    /// Whether calls are the items of a list.
    pub fn lists(self) -> bool {
        matches!(self, Dialect::Mistral | Dialect::Listed)
    }

    /// The name that arguments have in a call.
    pub fn arguments(self) -> &'static str {
        if self == Dialect::Llama { "parameters" } else { "arguments" }
    }
}
