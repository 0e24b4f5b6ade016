//! The formats in which models write tool calls, as data.

use serde_json::{Value, json};

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
    /// Granite and Phi 4: `<|tool_call|>[{"name": …, "arguments": …}, …]`, with an optional end marker;
    /// Phi 4 and Firefunction also `functools[…]`.
    Listed,
    /// Nemotron Nano 2 and Apriel: a list as above between tags.
    Tagged,
    /// Qwen3-Coder, Qwen3.5, Nemotron 3: `<function=name><parameter=key>value</parameter></function>`
    /// within `<tool_call>`, per call.
    Parameters,
    /// MiniCPM 5: `<function name="name"><param name="key">value</param></function>` per call.
    Params,
    /// GLM 4.5 and later: `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`.
    ArgKeys,
    /// Functionary 3.1: `<function=name>{…}</function>` per call.
    Functions,
    /// DeepSeek V3.1: `name<｜tool▁sep｜>{…}` between markers of each call and of all.
    DeepSeek,
    /// DeepSeek R1 and V3: the name follows `function<｜tool▁sep｜>`, the arguments are in a code block.
    DeepSeekBlock,
    /// LFM2: `<|tool_call_start|>[name(key="value", …), …]<|tool_call_end|>`, as in Python.
    Python,
    /// Gemma 4: `<|tool_call>call:name{key:value,…}<tool_call|>` with marks of its own around strings.
    Gemma,
    /// gpt-oss: messages in channels; a call is a message to `functions.name`.
    Harmony,
}

/// How a dialect other than [`Dialect::Harmony`] writes calls. White space around all these texts may
/// differ in an answer.
pub struct Format {
    /// Texts of which one is before a call or several; a grammar writes the first.
    pub opens: &'static [&'static str],
    /// Whether `[` and `]` are around the calls.
    pub bracketed: bool,
    pub call: Call,
    /// White space between the markers and what they enclose.
    pub space: &'static str,
    /// Whether several calls are between the same markers.
    pub shared: bool,
    /// The text between two calls.
    pub separator: &'static str,
    /// Texts of which one follows; a model may leave it out.
    pub closes: &'static [&'static str],
}

/// How one call is written.
pub enum Call {
    /// A JSON object with `name` and this key of the arguments.
    Object(&'static str),
    /// The name between two texts, its arguments, and texts that may follow.
    Named {
        before: &'static str,
        after: &'static str,
        arguments: Arguments,
        end: &'static [&'static str],
    },
}

/// How arguments are written.
pub enum Arguments {
    /// A JSON object.
    Json,
    /// Each key and each value between two texts.
    Pairs { key: [&'static str; 2], value: [&'static str; 2], notation: Notation },
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Strings as they are, all else as JSON: the tool's schema says which.
    Plain,
    /// With quotes around strings, as in Python or JSON, and this text between arguments.
    Literal(&'static str),
}

impl Format {
    /// Calls with `name` and `arguments`, as a model writes them.
    pub fn written<'a>(&self, calls: impl Iterator<Item = &'a Value>) -> String {
        let calls: Vec<String> = calls.map(|call| self.call.written(call)).collect();
        let open = self.opens.first().unwrap_or(&"");
        let close = self.closes.first().unwrap_or(&"");
        let [before, after] = if self.bracketed { ["[", "]"] } else { [self.space; 2] };
        let marked = |calls: &str| format!("{open}{before}{calls}{after}{close}");
        match self.shared {
            true => marked(&calls.join(self.separator)),
            false => calls.iter().map(|call| marked(call)).collect::<Vec<_>>().join(self.separator),
        }
    }
}

impl Call {
    fn written(&self, call: &Value) -> String {
        let name = call["name"].as_str().unwrap_or_default();
        let json = &call["arguments"];
        match self {
            Call::Object(key) => json!({ "name": name, *key: json }).to_string(),
            Call::Named { before, after, arguments, end } => {
                let arguments = match arguments {
                    Arguments::Json => json.to_string(),
                    Arguments::Pairs { key, value, notation } => {
                        let pairs = json.as_object().into_iter().flatten().map(|(name, json)| {
                            let text = match (json, notation) {
                                (Value::String(text), Notation::Plain) => text.clone(),
                                (json, _) => json.to_string(),
                            };
                            [key[0], name, key[1], value[0], &text, value[1]].concat()
                        });
                        let separator = match notation {
                            Notation::Plain => "",
                            Notation::Literal(separator) => separator,
                        };
                        pairs.collect::<Vec<_>>().join(separator)
                    }
                };
                [before, name, after, &arguments, &end.concat()].concat()
            }
        }
    }
}

const HERMES: Format = Format {
    opens: &["<tool_call>"],
    bracketed: false,
    call: Call::Object("arguments"),
    space: "\n",
    shared: false,
    separator: "\n",
    closes: &["</tool_call>"],
};

const MISTRAL: Format = Format {
    opens: &["[TOOL_CALLS]"],
    bracketed: true,
    space: "",
    shared: true,
    separator: ", ",
    closes: &[],
    ..HERMES
};

impl Dialect {
    /// The format that a chat template uses.
    pub fn of(template: &str) -> Option<Dialect> {
        let has = |text: &str| template.contains(text);
        // Phi 4's template shows the tools of a message, but no call.
        let shows_tools = has("<|tool|>") && has("['tools']");
        Some(if has("<|start|>") && has("<|channel|>") && has("<|message|>") {
            Dialect::Harmony
        } else if has("<tool_call>[") {
            // Calls as in Python, in tags of JSON: not supported.
            return None;
        } else if has("<function=") && has("<parameter=") {
            Dialect::Parameters
        } else if has("<function=") {
            Dialect::Functions
        } else if has("<function name=\"") && has("<param name=\"") {
            Dialect::Params
        } else if has("<arg_key>") {
            Dialect::ArgKeys
        } else if has("<｜tool▁sep｜>") {
            if has("```json") { Dialect::DeepSeekBlock } else { Dialect::DeepSeek }
        } else if has("<|tool_call>") && has("<tool_call|>") {
            Dialect::Gemma
        } else if has("<|tool_call_start|>")
            || has("<|tool_list_start|>")
            || has("List of tools: [")
        {
            Dialect::Python
        } else if has("[TOOL_CALLS]") {
            if has("[ARGS]") { Dialect::MistralNamed } else { Dialect::Mistral }
        } else if has("<|start_header_id|>") && has("\"parameters\": ") {
            Dialect::Llama
        } else if has("<|tool_call|>") || has("functools[") || shows_tools {
            Dialect::Listed
        } else if has("<TOOLCALL>[") || has("<tool_calls>[") {
            Dialect::Tagged
        } else if has("<tool_call>") {
            Dialect::Hermes
        } else {
            return None;
        })
    }

    /// How it writes calls.
    pub fn format(self) -> &'static Format {
        match self {
            Dialect::Hermes => &HERMES,
            Dialect::Llama => &Format {
                opens: &["<|python_tag|>"],
                call: Call::Object("parameters"),
                space: "",
                shared: true,
                separator: "; ",
                closes: &[],
                ..HERMES
            },
            Dialect::Mistral => &MISTRAL,
            Dialect::MistralNamed => &Format {
                opens: &["[TOOL_CALLS]"],
                call: Call::Named {
                    before: "",
                    after: "[ARGS]",
                    arguments: Arguments::Json,
                    end: &[],
                },
                separator: "",
                space: "",
                closes: &[],
                ..HERMES
            },
            Dialect::Listed => &Format {
                opens: &["<|tool_call|>", "functools"],
                closes: &["<|/tool_call|>"],
                ..MISTRAL
            },
            Dialect::Tagged => &Format {
                opens: &["<TOOLCALL>", "<tool_calls>"],
                closes: &["</TOOLCALL>", "</tool_calls>"],
                ..MISTRAL
            },
            Dialect::Parameters => &Format {
                // Models often forget the outer tag.
                opens: &["<tool_call>", "<seed:tool_call>", "<function="],
                call: Call::Named {
                    before: "<function=",
                    after: ">\n",
                    arguments: Arguments::Pairs {
                        key: ["<parameter=", ">"],
                        value: ["\n", "\n</parameter>\n"],
                        notation: Notation::Plain,
                    },
                    end: &["</function>"],
                },
                closes: &["</tool_call>", "</seed:tool_call>"],
                ..HERMES
            },
            Dialect::Params => &Format {
                opens: &["<function name=\""],
                call: Call::Named {
                    before: "<function name=\"",
                    after: "\">",
                    arguments: Arguments::Pairs {
                        key: ["<param name=\"", "\">"],
                        value: ["", "</param>"],
                        notation: Notation::Plain,
                    },
                    end: &["</function>"],
                },
                space: "",
                closes: &[],
                ..HERMES
            },
            Dialect::ArgKeys => &Format {
                call: Call::Named {
                    before: "",
                    after: "\n",
                    arguments: Arguments::Pairs {
                        key: ["<arg_key>", "</arg_key>\n"],
                        value: ["<arg_value>", "</arg_value>\n"],
                        notation: Notation::Plain,
                    },
                    end: &["</tool_call>"],
                },
                space: "",
                closes: &[],
                ..HERMES
            },
            Dialect::Functions => &Format {
                opens: &["<function="],
                call: Call::Named {
                    before: "<function=",
                    after: ">",
                    arguments: Arguments::Json,
                    end: &["</function>"],
                },
                separator: "",
                space: "",
                closes: &[],
                ..HERMES
            },
            Dialect::DeepSeek => &Format {
                opens: &["<｜tool▁calls▁begin｜>"],
                call: Call::Named {
                    before: "<｜tool▁call▁begin｜>",
                    after: "<｜tool▁sep｜>",
                    arguments: Arguments::Json,
                    end: &["<｜tool▁call▁end｜>"],
                },
                shared: true,
                separator: "",
                space: "",
                closes: &["<｜tool▁calls▁end｜>"],
                ..HERMES
            },
            Dialect::DeepSeekBlock => &Format {
                opens: &["<｜tool▁calls▁begin｜>"],
                call: Call::Named {
                    before: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                    after: "\n```json\n",
                    arguments: Arguments::Json,
                    end: &["\n```", "<｜tool▁call▁end｜>"],
                },
                shared: true,
                separator: "\n",
                space: "",
                closes: &["<｜tool▁calls▁end｜>"],
                ..HERMES
            },
            Dialect::Python => &Format {
                opens: &["<|tool_call_start|>"],
                call: Call::Named {
                    before: "",
                    after: "(",
                    arguments: Arguments::Pairs {
                        key: ["", "="],
                        value: ["", ""],
                        notation: Notation::Literal(", "),
                    },
                    end: &[")"],
                },
                closes: &["<|tool_call_end|>"],
                ..MISTRAL
            },
            Dialect::Gemma => &Format {
                opens: &["<|tool_call>"],
                call: Call::Named {
                    before: "call:",
                    after: "{",
                    arguments: Arguments::Pairs {
                        key: ["", ":"],
                        value: ["", ""],
                        notation: Notation::Literal(","),
                    },
                    end: &["}"],
                },
                separator: "",
                space: "",
                closes: &["<tool_call|>"],
                ..HERMES
            },
            Dialect::Harmony => &Format { opens: &[], closes: &[], ..HERMES },
        }
    }

    /// All markers that may be special tokens of the model.
    pub fn markers(self) -> impl Iterator<Item = &'static str> {
        let format = self.format();
        let more: &[&str] = match self {
            Dialect::MistralNamed => &["[ARGS]", "[CALL_ID]"],
            Dialect::ArgKeys => {
                &["</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]
            }
            Dialect::Parameters => &["</function>", "<parameter=", "</parameter>"],
            Dialect::DeepSeek | Dialect::DeepSeekBlock => {
                &["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"]
            }
            Dialect::Gemma => &["<|\"|>"],
            Dialect::Harmony => &HARMONY,
            _ => &[],
        };
        [format.opens, format.closes, more].into_iter().flatten().copied()
    }

    /// Whether a call may be the whole answer, without a marker.
    pub fn bare(self) -> bool {
        self == Dialect::Llama
    }
}

/// The tokens that gpt-oss writes between its messages.
const HARMONY: [&str; 7] = [
    "<|start|>",
    "<|channel|>",
    "<|constrain|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
];
