//! Chat templates: Jinja as transformers renders it, with limits on time and output.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use chrono::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, ValueOrKwargs};
use minijinja::{Environment, ErrorKind, State, Value, context, filters};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::tools::{Dialect, THINK};
use crate::error::{Error, Result};

const NAME: &str = "chat_template";
const MAX_SOURCE: usize = 1 << 20;
const MAX_OUTPUT: usize = 16 << 20;
/// Instructions per rendering; a long conversation takes tens of thousands.
const MAX_FUEL: u64 = 5_000_000;
const MAX_DEPTH: usize = 100;
/// Largest count that a template may pass to a filter: columns of an indent, items of a batch.
const MAX_COUNT: u64 = 10_000;

/// A compiled chat template.
///
/// A template is part of a model and not trusted: its size, run time and output are limited, and it
/// can access only its variables.
pub struct ChatTemplate {
    environment: Environment<'static>,
    dialect: Option<Dialect>,
    thinks: bool,
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
        environment.set_unknown_method_callback(python_method);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.add_filter("tojson", to_json);
        environment.add_filter("indent", bounded(Value::from_function(filters::indent)));
        environment.add_filter("batch", bounded(Value::from_function(filters::batch)));
        environment.add_filter("slice", bounded(Value::from_function(filters::slice)));
        environment.add_filter("format", format);
        environment.add_function("raise_exception", raise_exception);
        environment.set_fuel(Some(MAX_FUEL));
        environment.set_recursion_limit(MAX_DEPTH);
        let (dialect, thinks) = (Dialect::of(&source), source.contains(THINK[1]));
        environment.add_template_owned(NAME, source).map_err(failed)?;
        let (bos_token, eos_token) = (bos_token.into(), eos_token.into());
        Ok(ChatTemplate { environment, dialect, thinks, bos_token, eos_token })
    }

    /// The model's format of tool calls, if the template shows it.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Whether the template mentions reasoning.
    pub fn thinks(&self) -> bool {
        self.thinks
    }

    /// Renders a list of messages.
    ///
    /// If the template raises an exception, the conversation is at fault: the error is
    /// [`Error::InvalidRequest`].
    pub fn render(&self, messages: &impl Serialize, options: &TemplateOptions) -> Result<String> {
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
        let mut output = Bounded { bytes: Vec::new() };
        let template = self.environment.get_template(NAME).map_err(failed)?;
        template.render_captured_to(variables, &mut output).map_err(failed)?;
        String::from_utf8(output.bytes)
            .map_err(|error| Error::Template { message: error.to_string() })
    }
}

/// Collects output up to [`MAX_OUTPUT`] bytes.
struct Bounded {
    bytes: Vec<u8>,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!("its output is longer than {MAX_OUTPUT} bytes")));
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

/// Wraps a filter of minijinja that allocates as much as its argument says, and limits the argument.
fn bounded(
    filter: Value,
) -> impl Fn(&mut State, Rest<ValueOrKwargs>) -> Result<Value, minijinja::Error> {
    move |state, arguments| {
        let arguments = arguments.into_values();
        let asked = arguments.iter().skip(1).flat_map(|argument| {
            match Kwargs::try_from(argument.clone()) {
                Ok(named) => named.args().filter_map(|name| named.peek(name).ok()).collect(),
                Err(_) => vec![argument.clone()],
            }
        });
        match asked.filter_map(|number| u64::try_from(number).ok()).find(|&asked| asked > MAX_COUNT)
        {
            Some(asked) => Err(invalid(format!("found {asked}, expected at most {MAX_COUNT}"))),
            None => filter.call(state, &arguments),
        }
    }
}

/// The `format` filter with limited field widths.
fn format(
    state: &mut State,
    format: &Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<Value, minijinja::Error> {
    narrow(format)?;
    filters::format(state, format, arguments)
}

/// Python's methods of strings, lists and dictionaries, with the same limits.
fn python_method(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    if method == "format" {
        narrow(value)?;
    }
    unknown_method_callback(state, value, method, arguments)
}

/// Refuses a format string with a number above 9999, which would be a field's width.
fn narrow(format: &Value) -> Result<(), minijinja::Error> {
    let format = format.as_str().unwrap_or_default();
    let mut fields = format.split(['%', '{']).skip(1);
    let is_wide = |field: &str| {
        field
            .split(|c: char| !c.is_ascii_digit())
            .any(|number| number.trim_start_matches('0').len() > 4)
    };
    match fields.any(is_wide) {
        true => Err(invalid("a format holds a number of more than four digits")),
        false => Ok(()),
    }
}

/// `tojson` as in transformers: Python's `json.dumps` without HTML escapes and `ensure_ascii`.
fn to_json(
    value: &Value,
    indent: Option<usize>,
    options: Kwargs,
) -> Result<String, minijinja::Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get("indent")?,
    };
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if ensure_ascii == Some(true) {
        return Err(invalid("tojson(ensure_ascii=true) is not supported"));
    }
    let mut json = Vec::new();
    let written = match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut json, Spaced)),
        Some(indent) => {
            let spaces = " ".repeat(indent.min(16));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut json, formatter))
        }
    };
    written.map_err(invalid)?;
    String::from_utf8(json).map_err(invalid)
}

fn invalid(error: impl Display) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, error.to_string())
}

/// JSON on one line with a space after each separator.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
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
        for source in
            ["{% if %}", "{{ messages[ }}", "{% include 'x' %}", "{{ a.b.c }}", "{{ f() }}"]
        {
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
    fn counts_in_filters_are_limited() {
        for source in [
            "{{ 'a' | indent(99999999000000000) }}",
            "{{ 'a' | indent(width=99999999000000000) }}",
            "{{ [1] | batch(99999999000000000, 0) | list }}",
            "{{ [1] | slice(99999999000000000) | list }}",
            "{{ '%99999999000000000d' | format(1) }}",
            "{{ '{:99999999000000000}'.format(1) }}",
            "{{ 'a' * 99999999000000000 }}",
        ] {
            assert!(!template_error(render(source, json!([]))).is_empty(), "{source}");
        }
        let modest = "{{ 'a\nb' | indent(2, true) }}{{ [1, 2, 3] | batch(2, 0) | list }}\
             {{ '%03d' | format(7) }}{{ '{:>3}'.format('x') }}{{ 'c\nd' | indent(width=1) }}";
        let rendered = render(modest, json!([])).unwrap();
        assert_eq!(rendered, "  a\n  b[[1, 2], [3, 0]]007  xc\n d");
    }

    #[test]
    fn a_long_conversation_is_well_within_the_limits() {
        let source = "{% for m in messages[::-1] %}{% for c in m.content.split(' ') %}{{ c }}{% endfor %}{% endfor %}";
        let messages = vec![json!({"role": "user", "content": "a b c d e f g h"}); 5000];
        assert_eq!(render(source, messages.into()).unwrap().len(), 40_000);
    }
}
