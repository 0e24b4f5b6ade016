//! Validates a wire request: every value is in range and no field is ignored silently.

use serde_json::{Map, Value, json};
use tabloom_grammar::Form;

use super::constraint::Spec;
use super::conversation::conversation;
use super::message::Conversation;
use super::neutral;
use super::refusal::{invalid, refuse_unsupported};
use super::request::{ChatCompletionRequest, ReasoningEffort, Stop, StreamOptions};
use super::sampling::{SamplingParams, TokenRules, prompt_logprobs};
use super::tools::Tools;
use crate::error::Result;

/// Largest `n`.
const MAX_ANSWERS: i64 = 16;
const MAX_STOPS: usize = 16;
const MAX_STOP_CHARS: usize = 256;

/// A chat request whose every value is in range.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// The model's name as the client gave it; the response repeats it.
    pub model: Option<String>,
    /// At least one message, except in [`ChatCompletionRequest::settings`].
    pub conversation: Conversation,
    /// Number of answers, 1 ..= 16.
    pub n: usize,
    pub stream: bool,
    pub include_usage: bool,
    /// At least 1; `None` means up to the context length.
    pub max_tokens: Option<u32>,
    pub sampling: SamplingParams,
    pub tokens: TokenRules,
    /// How many top tokens to return with the log-probability of each prompt token; `None` returns no
    /// log-probabilities. `None` in a stream.
    pub prompt_logprobs: Option<u32>,
    pub text: TextRules,
    /// The structured output that is required.
    pub constraint: Option<Spec>,
    /// Whether speculative decoding may be used.
    pub speculates: bool,
}

/// A request's rules on the text of its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextRules {
    /// Stop strings; none is empty.
    pub stop: Vec<String>,
    /// Whether the stop string stays in the text (`include_stop_str_in_output`).
    pub keeps_stop: bool,
    /// Whether special tokens appear in the text, by name (`skip_special_tokens: false`).
    pub shows_special: bool,
}

impl ChatCompletionRequest {
    /// Checks every field and returns the plain request.
    ///
    /// The first field that is unsupported or out of range gives
    /// [`Error::InvalidRequest`], which names it, what was found and what was expected.
    pub fn validate(mut self) -> Result<ChatRequest> {
        let messages = std::mem::take(&mut self.messages);
        let continues = self.continue_final_message;
        let variables = variables(self.chat_template_kwargs.take(), self.reasoning_effort.take())?;
        let parallel = self.parallel_tool_calls;
        let mut tools = Tools::read(self.tools.take(), self.tool_choice.take(), parallel)?;
        let mut request = self.settings()?;
        if let Some(Spec { form, param, .. }) =
            request.constraint.take_if(|_| !tools.list.is_empty())
        {
            tools.content = Some(match form {
                Form::JsonObject => json!({ "type": "object" }),
                Form::JsonSchema(schema) => schema,
                _ => {
                    let expected = "JSON beside them, or tool_choice \"none\"";
                    return Err(invalid(param, "it beside tools", expected));
                }
            });
        }
        if let Some(budget) = request.tokens.thinking.filter(|_| tools.constrain()) {
            let expected = "none where calls of tools are constrained";
            return Err(invalid("thinking_token_budget", budget, expected));
        }
        let conversation = conversation(messages, continues, tools, variables)?;
        Ok(ChatRequest { conversation, ..request })
    }

    /// Checks every field except those of the conversation.
    pub(super) fn settings(self) -> Result<ChatRequest> {
        refuse_unsupported("", &self.other, neutral::REQUEST)?;
        let stream = self.stream.unwrap_or(false);
        let StreamOptions { include_usage, include_obfuscation } =
            self.stream_options.clone().unwrap_or_default();
        let include_usage = include_usage.unwrap_or(false);
        if include_usage && !stream {
            return Err(invalid("stream_options", "options", "none unless stream is true"));
        }
        if include_obfuscation == Some(true) {
            return Err(invalid("stream_options.include_obfuscation", true, "false or nothing"));
        }
        let n = self.n.unwrap_or(1);
        if !(1..=MAX_ANSWERS).contains(&n) {
            return Err(invalid("n", n, "1 to 16 answers"));
        }
        let max_tokens = max_tokens(self.max_tokens, self.max_completion_tokens)?;
        Ok(ChatRequest {
            sampling: SamplingParams::read(&self)?,
            tokens: TokenRules::read(&self, max_tokens)?,
            prompt_logprobs: prompt_logprobs(self.prompt_logprobs, stream)?,
            conversation: Conversation::default(),
            n: n as usize,
            stream,
            include_usage,
            max_tokens,
            text: TextRules {
                stop: stop(self.stop)?,
                keeps_stop: self.include_stop_str_in_output.unwrap_or(false),
                shows_special: !self.skip_special_tokens.unwrap_or(true),
            },
            constraint: Spec::read(self.response_format, self.structured_outputs)?,
            speculates: self.speculative_decoding.unwrap_or(true),
            model: self.model,
        })
    }
}

fn max_tokens(older: Option<i64>, newer: Option<i64>) -> Result<Option<u32>> {
    let (param, value) = match (older, newer) {
        (Some(a), Some(b)) if a != b => {
            return Err(invalid("max_tokens", a, "the same as max_completion_tokens, or neither"));
        }
        (_, Some(newer)) => ("max_completion_tokens", newer),
        (Some(older), None) => ("max_tokens", older),
        (None, None) => return Ok(None),
    };
    match u32::try_from(value) {
        Ok(limit) if limit >= 1 => Ok(Some(limit)),
        _ => Err(invalid(param, value, "at least 1 and below 2^32")),
    }
}

fn stop(stop: Option<Stop>) -> Result<Vec<String>> {
    let stops = match stop {
        None => Vec::new(),
        Some(Stop::One(stop)) => vec![stop],
        Some(Stop::Many(stops)) => stops,
    };
    if stops.len() > MAX_STOPS {
        return Err(invalid("stop", format!("{} strings", stops.len()), "at most 16"));
    }
    for stop in &stops {
        let chars = stop.chars().count();
        if !(1..=MAX_STOP_CHARS).contains(&chars) {
            return Err(invalid("stop", format!("{chars} characters"), "1 to 256 in each string"));
        }
    }
    Ok(stops)
}

/// Template variables that the engine sets itself.
const RESERVED: [&str; 6] =
    ["messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"];

/// The template variables that a request sets, and those that `reasoning_effort` stands for.
fn variables(
    named: Option<Map<String, Value>>,
    effort: Option<ReasoningEffort>,
) -> Result<Map<String, Value>> {
    let named = named.unwrap_or_default();
    if let Some(name) = RESERVED.iter().find(|name| named.contains_key(**name)) {
        let param = format!("chat_template_kwargs.{name}");
        return Err(invalid(param, "a variable of the request itself", "other variables"));
    }
    let mut variables = Map::new();
    match effort {
        None => {}
        Some(ReasoningEffort::None) => {
            drop(variables.insert("enable_thinking".into(), false.into()))
        }
        Some(effort) => drop(variables.insert("reasoning_effort".into(), json!(effort))),
    }
    variables.extend(named);
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::super::request::RequestMessage;
    use super::super::sampling::RepetitionLimit;
    use super::*;

    fn read(json: &str) -> Result<ChatRequest> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        ChatCompletionRequest::read(&mut deserializer)?.validate()
    }

    /// A valid request with one more field.
    fn with(field: &str) -> Result<ChatRequest> {
        read(&format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],{field}}}"#))
    }

    fn refusal<T: std::fmt::Debug>(result: Result<T>) -> (String, String) {
        match result {
            Err(crate::Error::InvalidRequest { param, message }) => (param, message),
            other => panic!("expected an invalid request, got {other:?}"),
        }
    }

    #[test]
    fn a_full_request_is_read() {
        let request = read(
            r#"{"model":"m","messages":[
                {"role":"developer","content":"Be kind."},
                {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                {"role":"assistant","content":"","tool_calls":[]},
                {"role":"user","content":"go"}],
              "stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7,
              "temperature":0.5,"top_p":1,"top_k":-1,"min_p":0.1,"seed":-3,"stop":"x","n":1,
              "include_stop_str_in_output":true,"skip_special_tokens":false,
              "presence_penalty":-2,"frequency_penalty":1.5,"repetition_penalty":1.1,
              "logit_bias":{"5":-100,"70000":0.5,"6":0},"logprobs":true,"top_logprobs":20,"logprob_token_ids":[3],
              "allowed_token_ids":[1,2],"bad_words":["no"," never"],"stop_token_ids":[9],
              "min_tokens":7,"ignore_eos":true,"thinking_token_budget":5,
              "repetition_detection":{"max_pattern_size":20,"min_count":4},"prompt_logprobs":null,
              "speculative_decoding":false,
              "tools":[],"user":"me","metadata":null}"#,
        )
        .unwrap();
        assert_eq!(
            request,
            ChatRequest {
                n: 1,
                model: Some("m".into()),
                conversation: Conversation::from(vec![
                    Message::system("Be kind."),
                    Message::user("ab"),
                    Message::assistant(""),
                    Message::user("go"),
                ]),
                stream: true,
                include_usage: true,
                max_tokens: Some(7),
                sampling: SamplingParams {
                    temperature: Some(0.5),
                    top_p: Some(1.0),
                    top_k: Some(0),
                    min_p: Some(0.1),
                    seed: Some(u64::MAX - 2),
                    presence_penalty: -2.0,
                    frequency_penalty: 1.5,
                    repetition_penalty: Some(1.1),
                    logit_bias: vec![(5, -100.0), (70000, 0.5)],
                    logprobs: Some(20),
                    logprob_tokens: vec![3],
                },
                tokens: TokenRules {
                    allowed: Some(vec![1, 2]),
                    bad_words: vec!["no".into(), " never".into()],
                    stop: vec![9],
                    ignore_eos: true,
                    min_tokens: 7,
                    thinking: Some(5),
                    repetition: Some(RepetitionLimit { min_size: 1, max_size: 20, count: 4 }),
                },
                prompt_logprobs: None,
                text: TextRules { stop: vec!["x".into()], keeps_stop: true, shows_special: true },
                constraint: None,
                speculates: false,
            }
        );
    }

    #[test]
    fn a_short_request_leaves_everything_to_the_model() {
        let request = with(r#""stream":null"#).unwrap();
        assert_eq!(request.sampling, SamplingParams::default());
        assert!(!request.stream && !request.include_usage && request.speculates);
        assert_eq!(request.text, TextRules::default());
        assert_eq!((request.model, request.max_tokens), (None, None));
        assert_eq!(request.tokens, TokenRules::default());
        assert_eq!(with(r#""logprobs":true"#).unwrap().sampling.logprobs, Some(0));
        assert_eq!(with(r#""logprobs":false"#).unwrap().sampling.logprobs, None);
        assert_eq!(with(r#""prompt_logprobs":0"#).unwrap().prompt_logprobs, Some(0));
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (field, param, found) in [
            (r#""temperature":2.1"#, "temperature", "2.1"),
            (
                r#""response_format":{"type":"json_object","json_schema":{}}"#,
                "response_format.json_schema",
                "json_schema",
            ),
            (
                r#""response_format":{"type":"json_object","schema":"{"}"#,
                "response_format.schema",
                "EOF",
            ),
            // As JSON has `z.object({})` of Zod 4.6 and of its version 3.
            (
                r#""structured_outputs":{"json":{"def":{"type":"object","shape":{}},"type":"object"}}"#,
                "structured_outputs.json",
                "library",
            ),
            (
                r#""tools":[{"type":"function","function":{"name":"f","parameters":{"_def":
                    {"unknownKeys":"strip","typeName":"ZodObject"},"_cached":null}}}]"#,
                "tools[0].function.parameters",
                "library",
            ),
            (r#""temperature":-0.1"#, "temperature", "-0.1"),
            (r#""temperature":"hot""#, "temperature", "hot"),
            (r#""top_p":0"#, "top_p", "0"),
            (r#""top_p":1.01"#, "top_p", "1.01"),
            (r#""min_p":-1e300"#, "min_p", "-1"),
            (r#""top_k":-2"#, "top_k", "-2"),
            (r#""top_k":4294967296"#, "top_k", "4294967296"),
            (r#""top_k":1.5"#, "top_k", "1.5"),
            (r#""max_tokens":0"#, "max_tokens", "0"),
            (r#""max_tokens":-5"#, "max_tokens", "-5"),
            (r#""max_tokens":1e30"#, "max_tokens", "1e+30"),
            (r#""max_completion_tokens":99999999999"#, "max_completion_tokens", "99999999999"),
            (r#""max_tokens":1,"max_completion_tokens":2"#, "max_tokens", "1"),
            (r#""presence_penalty":2.5"#, "presence_penalty", "2.5"),
            (r#""frequency_penalty":-3"#, "frequency_penalty", "-3"),
            (r#""repetition_penalty":0"#, "repetition_penalty", "0"),
            (r#""repetition_penalty":-1"#, "repetition_penalty", "-1"),
            (r#""repetition_penalty":1e300"#, "repetition_penalty", "1e300"),
            (r#""repetition_penalty":1e-300"#, "repetition_penalty", "1e-300"),
            (r#""logit_bias":{"5":101}"#, "logit_bias.5", "101"),
            (r#""logit_bias":{"five":1}"#, "logit_bias", "five"),
            (r#""logit_bias":{"05":1}"#, "logit_bias", "05"),
            (r#""logit_bias":{"-1":1}"#, "logit_bias", "-1"),
            (r#""logit_bias":{"4294967296":1}"#, "logit_bias", "4294967296"),
            (r#""logit_bias":{"5":"1"}"#, "logit_bias.5", "expected f64"),
            (r#""top_logprobs":3"#, "top_logprobs", "3"),
            (r#""logprob_token_ids":[3]"#, "logprob_token_ids", "ids"),
            (r#""logprobs":true,"logprob_token_ids":[-3]"#, "logprob_token_ids[0]", "-3"),
            (r#""thinking_token_budget":-1"#, "thinking_token_budget", "-1"),
            (
                r#""thinking_token_budget":7,"structured_outputs":{"choice":["a"]}"#,
                "thinking_token_budget",
                "7",
            ),
            (r#""logprobs":false,"top_logprobs":1"#, "top_logprobs", "1"),
            (r#""logprobs":true,"top_logprobs":21"#, "top_logprobs", "21"),
            (r#""logprobs":true,"top_logprobs":-1"#, "top_logprobs", "-1"),
            (r#""logprobs":5"#, "logprobs", "5"),
            (r#""prompt_logprobs":21"#, "prompt_logprobs", "21"),
            (r#""prompt_logprobs":1,"stream":true"#, "prompt_logprobs", "1"),
            (r#""allowed_token_ids":[]"#, "allowed_token_ids", "empty"),
            (r#""allowed_token_ids":[3,-1]"#, "allowed_token_ids[1]", "-1"),
            (r#""stop_token_ids":[4294967296]"#, "stop_token_ids[0]", "4294967296"),
            (r#""bad_words":["a",""]"#, "bad_words[1]", "0 characters"),
            (r#""bad_words":"a""#, "bad_words", "expected a sequence"),
            (r#""min_tokens":-1"#, "min_tokens", "-1"),
            (r#""min_tokens":8,"max_tokens":7"#, "min_tokens", "8"),
            (
                r#""repetition_detection":{"max_pattern_size":1025,"min_count":2}"#,
                "repetition_detection.max_pattern_size",
                "1025",
            ),
            (
                r#""repetition_detection":{"max_pattern_size":3,"min_pattern_size":4,"min_count":2}"#,
                "repetition_detection.min_pattern_size",
                "4",
            ),
            (
                r#""repetition_detection":{"max_pattern_size":3,"min_count":1}"#,
                "repetition_detection.min_count",
                "1",
            ),
            (r#""repetition_detection":{"size":3}"#, "repetition_detection.size", "size"),
            (r#""ignore_eos":1"#, "ignore_eos", "1"),
            (r#""speculative_decoding":1"#, "speculative_decoding", "1"),
            (r#""speculative_decoding":"off""#, "speculative_decoding", "off"),
            (r#""n":17"#, "n", "17"),
            (r#""n":0"#, "n", "0"),
            (r#""seed":0.5"#, "seed", "0.5"),
            (r#""stop":"""#, "stop", "0 characters"),
            (r#""stop":["a",""]"#, "stop", "0 characters"),
            (r#""stop":3"#, "stop", "expected a string"),
            (r#""stop":["a",3]"#, "stop[1]", "expected a string"),
            (r#""skip_special_tokens":0"#, "skip_special_tokens", "0"),
            (r#""stream":"yes""#, "stream", "yes"),
            (r#""stream_options":{"include_usage":true}"#, "stream_options", "options"),
            (r#""stream":true,"stream_options":{"x":1}"#, "stream_options.x", "x"),
            (r#""response_format":{"type":"yaml"}"#, "response_format.type", "yaml"),
            (r#""structured_outputs":{"xml":""}"#, "structured_outputs.xml", "xml"),
            (r#""structured_outputs":{"choice":["a",1]}"#, "structured_outputs.choice[1]", "1"),
        ] {
            let (at, message) = refusal(with(field));
            assert_eq!(at, param, "{field}");
            assert!(message.contains(found), "{field}: {message}");
            assert!(message.contains("expected"), "{field}: {message}");
        }
        let (at, message) = refusal(with(r#""response_format":{"type":"text","schema":{}}"#));
        assert_eq!(at, "response_format.schema");
        assert!(message.contains("json_object"), "{message}");
        assert_eq!(refusal(with(&format!(r#""stop":["{}"]"#, "é".repeat(257)))).0, "stop");
        assert!(with(&format!(r#""stop":["{}"]"#, "é".repeat(256))).is_ok());
        let many = vec![r#""s""#; 17].join(",");
        assert_eq!(refusal(with(&format!(r#""stop":[{many}]"#))).0, "stop");
        let words = |n| format!(r#""bad_words":[{}]"#, vec![r#""s""#; n].join(","));
        assert_eq!(refusal(with(&words(257))).0, "bad_words");
        assert!(with(&words(256)).is_ok());
        let bias = |n: u32| {
            let entries: Vec<_> = (0..n).map(|id| format!(r#""{id}":1"#)).collect();
            format!(r#""logit_bias":{{{}}}"#, entries.join(","))
        };
        assert_eq!(refusal(with(&bias(1025))).0, "logit_bias");
        assert_eq!(with(&bias(1024)).unwrap().sampling.logit_bias.len(), 1024);
    }

    #[test]
    fn numbers_that_json_cannot_write_are_refused() {
        let base = || ChatCompletionRequest {
            messages: vec![RequestMessage {
                role: "user".into(),
                content: Some("hi".into()),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert!(base().validate().is_ok());
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let request = ChatCompletionRequest { temperature: Some(value), ..base() };
            assert_eq!(refusal(request.validate()).0, "temperature");
            let request = ChatCompletionRequest { top_p: Some(value), ..base() };
            assert_eq!(refusal(request.validate()).0, "top_p");
            let request = ChatCompletionRequest { min_p: Some(value), ..base() };
            assert_eq!(refusal(request.validate()).0, "min_p");
        }
    }

    #[test]
    fn unsupported_fields_are_never_ignored() {
        for (field, param) in
            [(r#""functions":[{"name":"f"}]"#, "functions"), (r#""temprature":1"#, "temprature")]
        {
            let (at, message) = refusal(with(field));
            assert_eq!(at, param);
            assert!(message.contains("not supported"), "{message}");
        }
    }

    #[test]
    fn messages_are_checked_one_by_one() {
        for (messages, param) in [
            ("[]", "messages"),
            ("null", "messages"),
            (r#"[{"content":"x"}]"#, "messages[0].role"),
            (r#"[{"role":"robot","content":"x"}]"#, "messages[0].role"),
            (r#"[{"role":"user","content":"x"},{"role":"user"}]"#, "messages[1].content"),
            (r#"[{"role":"user","content":" \n"}]"#, "messages[0].content"),
            (r#"[{"role":"user","content":7}]"#, "messages[0].content"),
            (
                r#"[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]"#,
                "messages[0].content[0]",
            ),
        ] {
            let (at, message) = refusal(read(&format!(r#"{{"messages":{messages}}}"#)));
            assert_eq!(at, param, "{messages}: {message}");
        }
        assert_eq!(refusal(read("{}")).0, "messages");
        assert_eq!(refusal(read("[")).0, "request");
    }

    #[test]
    fn long_values_are_shortened_in_messages() {
        let (_, message) = refusal(with(&format!(r#""x":"{}""#, "é".repeat(500))));
        assert!(message.chars().count() < 150, "{message}");
        let (_, message) = refusal(with(&format!(r#""n":"{}""#, "é".repeat(5000))));
        assert!(message.len() < 600 && message.ends_with("expected i64"), "{message}");
    }
}
