//! Errors that refuse a request: the parameter, what was found, what was expected.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::Value;

use super::neutral::Table;
use crate::error::{Error, Result};

/// What to do with a field of which nothing better is known.
const OTHERWISE: &str = "leave it out";

/// What other libraries, and people, call a parameter: the name here, or what to do instead.
const ADVICE: &[(&str, &str)] = &[
    (
        "use max_tokens",
        "maxTokens maxOutputTokens max_output_tokens max_new_tokens maxNewTokens n_predict num_predict",
    ),
    ("use min_p, top_k or top_p", "minP topK topP"),
    ("use stop", "stopSequences stop_sequences stopStrings stop_strings"),
    ("use repetition_penalty", "repeat_penalty repeatPenalty repetitionPenalty"),
    ("use frequency_penalty or presence_penalty", "frequencyPenalty presencePenalty"),
    ("use response_format", "responseFormat output_format grammar json_schema guided_json"),
    ("use structured_outputs", "guided_choice guided_grammar guided_regex"),
    ("use tool_choice", "toolChoice"),
    ("use a message of role system", "system instructions systemPrompt system_prompt"),
    ("use chat_template_kwargs: { enable_thinking }", "enable_thinking enableThinking"),
    ("use temperature: 0 for it", "do_sample doSample"),
    ("put what it has beside the other parameters", "extra_body extraBody"),
    ("it belongs in the second argument, as signal", "signal abortSignal timeout"),
];

/// Refuses the first of these fields that is not null and not neutral.
pub(crate) fn refuse_unsupported(
    prefix: &str,
    fields: &BTreeMap<String, Value>,
    neutral: &Table,
) -> Result<()> {
    let harmless = |name: &str, value: &Value| {
        value.is_null()
            || neutral.iter().any(|(known, neutral)| *known == name && neutral.covers(value))
    };
    match fields.iter().find(|(name, value)| !harmless(name, value)) {
        None => Ok(()),
        Some((name, value)) => Err(Error::InvalidRequest {
            param: format!("{prefix}{name}"),
            message: format!(
                "found {}, but this parameter is not supported; {}",
                brief(value),
                if prefix.is_empty() { advice(name) } else { OTHERWISE }
            ),
        }),
    }
}

fn advice(name: &str) -> &'static str {
    let known = ADVICE.iter().find(|(_, names)| names.split(' ').any(|known| known == name));
    known.map_or(OTHERWISE, |(advice, _)| advice)
}

pub(crate) fn invalid(param: impl Into<String>, found: impl Display, expected: &str) -> Error {
    let message = format!("found {found}, expected {expected}");
    Error::InvalidRequest { param: param.into(), message }
}

/// A value, shortened for an error message.
pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_other_libraries_are_refused_with_what_to_use() {
        for (name, expected) in [
            ("maxTokens", "use max_tokens"),
            ("topP", "top_p"),
            ("guided_choice", "structured_outputs"),
            ("signal", "second argument"),
            ("weight", "leave it out"),
        ] {
            let fields = BTreeMap::from([(name.to_string(), Value::from(5))]);
            let refused = refuse_unsupported("", &fields, &[]).unwrap_err();
            let message = refused.to_string();
            assert!(message.contains(name) && message.contains(expected), "{message}");
        }
    }
}
