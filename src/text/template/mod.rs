//! Chat templates: Jinja as transformers renders it, with limits on time and output.

mod builtins;
mod html;
mod json;
mod layout;
mod lists;
mod markup;
mod methods;
mod named;
mod numbers;
mod objects;
mod operators;
mod python;
mod shape;
mod source;
mod work;

use std::fmt::Write as _;
use std::io::{self, Write};

use chrono::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value, context};
pub use named::NamedTemplates;
use python::invalid;
use serde::Serialize;
use shape::Shape;
use work::{MAX_FUEL, PROBE_FUEL};

use super::tools::{Dialect, THINK};
use crate::error::{Error, Result};

const NAME: &str = "chat_template";
const MAX_SOURCE: usize = 1 << 20;
const MAX_OUTPUT: usize = 16 << 20;
/// The same for each of the small conversations that show what a template takes.
const PROBE_OUTPUT: usize = 1 << 20;
const MAX_DEPTH: usize = 100;

/// A compiled chat template.
///
/// A template is part of a model and not trusted: its size, run time and output are limited, and it
/// can access only its variables.
pub struct ChatTemplate {
    environment: Environment<'static>,
    dialect: Option<Dialect>,
    thinks: bool,
    shape: Shape,
    bos_token: String,
    eos_token: String,
}

/// Inputs of a rendering besides the messages.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateOptions {
    /// Whether the prompt ends with the start of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Seconds since 1970 on the reader's wall clock; without it, `strftime_now` is undefined.
    pub now: Option<i64>,
    /// More variables, such as `tools` or `enable_thinking`.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

impl Default for TemplateOptions {
    fn default() -> Self {
        TemplateOptions { add_generation_prompt: true, now: None, variables: Default::default() }
    }
}

impl ChatTemplate {
    /// Compiles a template; the tokens' contents are its variables `bos_token` and `eos_token`.
    pub fn new(source: String, bos_token: &str, eos_token: &str) -> Result<Self> {
        if source.len() > MAX_SOURCE {
            let message = format!("it has {} bytes, expected at most {MAX_SOURCE}", source.len());
            return Err(Error::Template { message });
        }
        let mut environment = Environment::new();
        // Jinja's settings in transformers.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(failed)?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        builtins::install(&mut environment);
        environment.add_function("raise_exception", raise_exception);
        environment.set_fuel(Some(PROBE_FUEL));
        environment.set_recursion_limit(MAX_DEPTH);
        let (dialect, thinks) = (Dialect::of(&source), source.contains(THINK[1]));
        let source = source::rewritten(&source).map_err(|message| Error::Template { message })?;
        environment.add_template_owned(NAME, source).map_err(failed)?;
        let (bos_token, eos_token) = (bos_token.into(), eos_token.into());
        let shape = Shape::default();
        let mut template =
            ChatTemplate { environment, dialect, thinks, shape, bos_token, eos_token };
        template.shape = Shape::find(|messages, tools| {
            let mut options = TemplateOptions { now: Some(0), ..TemplateOptions::default() };
            if !tools.is_empty() {
                options.variables.insert("tools".into(), tools.into());
            }
            template.fill(messages, &options, PROBE_OUTPUT).ok()
        });
        template.environment.set_fuel(Some(MAX_FUEL));
        Ok(template)
    }

    /// The model's format of tool calls, if the template shows it.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Whether the template mentions reasoning.
    pub fn thinks(&self) -> bool {
        self.thinks
    }

    /// Renders a list of messages, in the shape that the template takes.
    ///
    /// If the template raises an exception, the conversation is at fault: the error is
    /// [`Error::InvalidRequest`].
    pub fn render(&self, messages: &impl Serialize, options: &TemplateOptions) -> Result<String> {
        let messages = match serde_json::to_value(messages) {
            Ok(serde_json::Value::Array(messages)) => messages,
            other => {
                let message = format!("found the messages {other:?}, expected a list");
                return Err(Error::Template { message });
            }
        };
        self.fill(&self.shape.apply(&messages), options, MAX_OUTPUT)
    }

    /// Renders messages as they are, to at most `most` bytes.
    fn fill(
        &self,
        messages: &[serde_json::Value],
        options: &TemplateOptions,
        most: usize,
    ) -> Result<String> {
        let mut variables = context! {
            ..Value::from(Serde(&options.variables)),
            ..context! {
                messages => Value::from(Serde(messages)),
                add_generation_prompt => options.add_generation_prompt,
                bos_token => self.bos_token.as_str(),
                eos_token => self.eos_token.as_str(),
                tools => Value::from(()),
                documents => Value::from(()),
            }
        };
        if let Some(now) = options.now {
            let strftime_now = Value::from_function(move |format: &str| strftime(format, now));
            variables = context! { strftime_now, ..variables };
        }
        let mut output = Bounded { bytes: Vec::new(), most };
        let template = self.environment.get_template(NAME).map_err(failed)?;
        template.render_captured_to(variables, &mut output).map_err(failed)?;
        String::from_utf8(output.bytes)
            .map_err(|error| Error::Template { message: error.to_string() })
    }
}

/// Collects output up to `most` bytes.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            let message = format!("its output is longer than {} bytes", self.most);
            return Err(io::Error::other(message));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The exception that a template raises about a conversation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raised").with_source(Raised(message)))
}

fn failed(error: minijinja::Error) -> Error {
    let mut source = std::error::Error::source(&error);
    let mut message = error.to_string();
    while let Some(cause) = source {
        if let Some(Raised(reason)) = cause.downcast_ref() {
            let message = format!("the model's chat template refuses them: {reason}");
            return Error::InvalidRequest { param: "messages".into(), message };
        }
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Error::Template { message }
}

/// `strftime_now(format)`: the time as C's `strftime` writes it.
fn strftime(format: &str, now: i64) -> Result<String, minijinja::Error> {
    let mut text = String::new();
    let time = DateTime::from_timestamp(now, 0);
    let written = time.is_some_and(|time| write!(text, "{}", time.format(format)).is_ok());
    written.then_some(text).ok_or_else(|| invalid(format!("{format:?} is no format of a time")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str, messages: serde_json::Value) -> Result<String> {
        let options = TemplateOptions { now: Some(1_792_540_800), ..Default::default() };
        ChatTemplate::new(source.into(), "<s>", "</s>")?.render(&messages, &options)
    }

    fn template_error(result: Result<String>) -> String {
        match result {
            Err(Error::Template { message }) => message,
            other => panic!("expected a template error, got {other:?}"),
        }
    }

    #[test]
    fn variables_are_those_of_transformers() {
        let source = "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m['content'] }}{{ eos_token }}\
             {% endfor %}{% if add_generation_prompt and not tools and documents is none %}go{% endif %}";
        let messages = json!([{"role": "user", "content": "<b>&'\"</b>"}]);
        assert_eq!(render(source, messages).unwrap(), "<s>user:<b>&'\"</b></s>go");
    }

    #[test]
    fn json_is_python_s() {
        let messages = json!([{"b": [1, true, null, "é<'\n"], "a": {}}]);
        assert_eq!(
            render("{{ messages[0] | tojson }}", messages.clone()).unwrap(),
            r#"{"b": [1, true, null, "é<'\n"], "a": {}}"#
        );
        assert_eq!(
            render("{{ messages[0].b[:2] | tojson(indent=1) }}", messages).unwrap(),
            "[\n 1,\n true\n]"
        );
    }

    #[test]
    fn dates_come_from_the_given_time() {
        let source = "{{ strftime_now('%d %b %Y, %A %H:%M') }}";
        assert_eq!(render(source, json!([])).unwrap(), "21 Oct 2026, Wednesday 00:00");
        assert!(template_error(render("{{ strftime_now('%') }}", json!([]))).contains('%'));
        let template = ChatTemplate::new("{{ strftime_now is defined }}".into(), "", "").unwrap();
        assert_eq!(template.render(&json!([]), &TemplateOptions::default()).unwrap(), "False");
    }

    #[test]
    fn an_exception_of_the_template_blames_the_messages() {
        let refused = render("{{ raise_exception('Two in a row!') }}", json!([]));
        let Err(Error::InvalidRequest { param, message }) = refused else {
            panic!("expected an invalid request, got {refused:?}");
        };
        assert_eq!(param, "messages");
        assert!(message.contains("Two in a row!"), "{message}");
    }

    #[test]
    fn broken_templates_are_errors() {
        for source in [
            "{% if %}",
            "{{ messages[ }}",
            "{% include 'x' %}",
            "{{ a.b.c }}",
            "{{ f() }}",
            "{{ 'a",
            "{{",
            "{%",
            "{% raw",
            "{{ [1:2:3 }}",
            "{{ a[:",
            "{{ a | }}",
            "{{ a is }}",
            "{{ a. }}",
            "{{ - }}",
            "{{ '\\x' }}",
            "{% for %}",
            "{% generation x %}",
        ] {
            assert!(!template_error(render(source, json!([]))).is_empty());
        }
        let depth = 10_000;
        let nested = format!("{{{{ {}1{} }}}}", "(".repeat(depth), ")".repeat(depth));
        template_error(render(&nested, json!([])));
        let recursive = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
        template_error(render(recursive, json!([])));
    }

    #[test]
    fn hostile_templates_exceed_the_fuel_or_output_limit() {
        let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert!(template_error(render(loops, json!([]))).contains("fuel"));
        let flood = "{% for i in range(9999) %}{{ 'x' * 10000 }}{% endfor %}";
        assert!(template_error(render(flood, json!([]))).contains("longer than"));
        let long = " ".repeat(MAX_SOURCE + 1);
        assert!(template_error(render(&long, json!([]))).contains("at most"));
    }

    #[test]
    fn nothing_is_repeated_at_once() {
        let times = u64::MAX / 4;
        let source = format!("{{{{ [] * {times} }}}}{{{{ () * {times} }}}}{{{{ '' * {times} }}}}");
        assert_eq!(render(&source, json!([])).unwrap(), "[]()");
    }

    #[test]
    fn the_small_conversations_of_a_hostile_template_cost_little() {
        for (source, limit) in [
            ("{{ [1000000] * 1000000 }}", "more than 5368709 bytes"),
            ("{% for i in range(9999) %}{{ 'x' * 10000 }}{% endfor %}", "longer than 1048576"),
            ("{% for i in range(999) %}{% set x = 'x' * 10000 %}{% endfor %}", "more than 5368709"),
        ] {
            let mut template = ChatTemplate::new(source.into(), "", "").unwrap();
            template.environment.set_fuel(Some(PROBE_FUEL));
            let probed = template.fill(&[], &TemplateOptions::default(), PROBE_OUTPUT);
            let message = template_error(probed);
            assert!(message.contains(limit), "{source}: {message}");
        }
    }

    #[test]
    fn a_long_conversation_is_well_within_the_limits() {
        let source = "{% for m in messages[::-1] %}{% for c in m.content.split(' ') %}{{ c }}{% endfor %}{% endfor %}";
        let messages = vec![json!({"role": "user", "content": "a b c d e f g h"}); 5000];
        assert_eq!(render(source, messages.into()).unwrap().len(), 40_000);
    }
}
