//! The filters, tests and functions of a chat template: Jinja's, where minijinja's differ or it has
//! none.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, State, Value, tests};

use super::json::to_json;
use super::layout::{center, file_size, indent, replace, trim, truncate, word_wrap};
use super::lists::{
    batch, dict_sort, join, length, most, pairs, reverse, slices, sort, sum, unique,
};
use super::markup::{escape, strip_tags, url_encode, xml_attributes};
use super::methods::{self, capitalized, text_method, titled};
use super::numbers::{absolute, round, to_float, to_int};
use super::objects::{cycler, joiner};
use super::operators::{contains, formatted, operate, slice};
use super::python::{
    Result, bind, invalid, is_blank, is_float, is_list, is_true, items, needed, one, only, repr,
    text,
};
use super::source::{OPERATE, SLICE};
use super::work::{count, counted};

type Function = fn(&[Value]) -> Result<Value>;

const FILTERS: [(&str, Function); 44] = [
    ("abs", absolute),
    ("attr", |arguments| bind(["", "name"], arguments).map(|_| Value::UNDEFINED)),
    ("batch", batch),
    ("capitalize", |arguments| Ok(capitalized(&one(arguments)?).into())),
    ("center", center),
    ("count", length),
    ("d", default),
    ("default", default),
    ("dictsort", dict_sort),
    ("e", |arguments| escape(arguments, false)),
    ("escape", |arguments| escape(arguments, false)),
    ("filesizeformat", file_size),
    ("first", |arguments| Ok(items(&only(arguments)?)?.into_iter().next().unwrap_or_default())),
    ("float", to_float),
    ("forceescape", |arguments| escape(arguments, true)),
    ("format", |arguments| match arguments.split_first() {
        Some((format, values)) => formatted(FormatStyle::Printf, &text(format)?, values),
        None => Err(invalid("format: expected a text")),
    }),
    ("indent", indent),
    ("int", to_int),
    ("items", pairs),
    ("join", join),
    ("last", |arguments| Ok(items(&only(arguments)?)?.pop().unwrap_or_default())),
    ("length", length),
    ("list", |arguments| Ok(items(&only(arguments)?)?.into())),
    ("lower", |arguments| Ok(one(arguments)?.to_lowercase().into())),
    ("max", |arguments| most(arguments, false)),
    ("min", |arguments| most(arguments, true)),
    ("pprint", |arguments| Ok(repr(&only(arguments)?)?.into())),
    ("replace", replace),
    ("reverse", reverse),
    ("round", round),
    ("slice", slices),
    ("sort", sort),
    ("string", |arguments| Ok(one(arguments)?.into())),
    ("striptags", strip_tags),
    ("sum", sum),
    ("title", |arguments| {
        Ok(titled(&one(arguments)?, |c| !is_blank(c) && !"-({[<".contains(c)).into())
    }),
    ("tojson", to_json),
    ("trim", trim),
    ("truncate", truncate),
    ("unique", unique),
    ("upper", |arguments| Ok(one(arguments)?.to_uppercase().into())),
    ("urlencode", url_encode),
    ("wordcount", |arguments| {
        let text = one(arguments)?;
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        Ok(words.filter(|word| !word.is_empty()).count().into())
    }),
    ("xmlattr", xml_attributes),
];

const TESTS: [(&str, Function); 24] = [
    ("boolean", |arguments| Ok((only(arguments)?.kind() == ValueKind::Bool).into())),
    ("callable", |arguments| {
        Ok(matches!(only(arguments)?.kind(), ValueKind::Plain | ValueKind::Undefined).into())
    }),
    ("divisibleby", |arguments| {
        let [value, by] = bind(["", "num"], arguments)?;
        let rest = [needed(value, "value")?, "%".into(), needed(by, "num")?];
        Ok((operate(&rest)? == Value::from(0)).into())
    }),
    ("even", |arguments| {
        Ok((operate(&[only(arguments)?, "%".into(), 2.into()])? == Value::from(0)).into())
    }),
    ("false", |arguments| is_truth(arguments, false)),
    ("float", |arguments| Ok(is_float(&only(arguments)?).into())),
    ("ge", |arguments| compare(arguments, ">=")),
    ("greaterthan", |arguments| compare(arguments, ">")),
    ("gt", |arguments| compare(arguments, ">")),
    ("in", |arguments| {
        let [part, whole] = bind(["", "seq"], arguments)?;
        Ok(contains(&needed(whole, "seq")?, &needed(part, "value")?)?.into())
    }),
    ("int", |arguments| Ok(only(arguments)?.is_integer().into())),
    ("integer", |arguments| Ok(only(arguments)?.is_integer().into())),
    ("iterable", |arguments| {
        let value = only(arguments)?;
        Ok((!value.is_none() && value.try_iter().is_ok()).into())
    }),
    ("le", |arguments| compare(arguments, "<=")),
    ("lessthan", |arguments| compare(arguments, "<")),
    ("lower", |arguments| text_method(&one(arguments)?, "islower", &[])),
    ("lt", |arguments| compare(arguments, "<")),
    ("odd", |arguments| {
        Ok((operate(&[only(arguments)?, "%".into(), 2.into()])? == Value::from(1)).into())
    }),
    ("sequence", |arguments| {
        let value = only(arguments)?;
        let listed =
            matches!(value.kind(), ValueKind::String | ValueKind::Map | ValueKind::Undefined);
        Ok((listed || is_list(&value)).into())
    }),
    ("true", |arguments| is_truth(arguments, true)),
    ("upper", |arguments| text_method(&one(arguments)?, "isupper", &[])),
    (">", |arguments| compare(arguments, ">")),
    (">=", |arguments| compare(arguments, ">=")),
    ("<", |arguments| compare(arguments, "<")),
];

/// Adds all of them to an environment.
pub fn install(environment: &mut Environment) {
    for (name, filter) in FILTERS {
        environment.add_filter(name, function(filter));
    }
    environment.add_filter("wordwrap", function(word_wrap));
    for (name, test) in TESTS {
        let test = function(test);
        environment.add_test(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
            test(state, arguments).map(|value| value.is_true())
        });
    }
    let named = |value: &Value, is: &dyn Fn(&str) -> bool| value.as_str().is_some_and(is);
    environment.add_test("filter", move |state: &State, value: &Value| {
        named(value, &|name| tests::is_filter(state, name))
    });
    environment.add_test("test", move |state: &State, value: &Value| {
        named(value, &|name| tests::is_test(state, name))
    });
    environment.add_function(OPERATE, function(operate));
    environment.add_function(
        SLICE,
        function(|arguments| match arguments {
            [value, bounds @ ..] if bounds.len() == 3 => {
                slice(value, [&bounds[0], &bounds[1], &bounds[2]])
            }
            _ => Err(invalid("a slice has a start, a stop and a step")),
        }),
    );
    environment.add_function("cycler", function(cycler));
    environment.add_function("joiner", function(joiner));
    environment.remove_global("debug");
    for filter in ["lines", "split", "bool", "chain", "zip"] {
        environment.remove_filter(filter);
    }
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(|out, state, value| {
        let text = text(value)?;
        count(state, text.len())?;
        out.write_str(&text).map_err(minijinja::Error::from)
    });
}

/// A function whose work is counted.
fn function(
    function: impl Fn(&[Value]) -> Result<Value>,
) -> impl Fn(&mut State, Rest<ValueOrKwargs>) -> Result<Value> {
    move |state, arguments| {
        let arguments = arguments.into_values();
        let made = function(&arguments)?;
        counted(state, &arguments, made)
    }
}

fn compare(arguments: &[Value], sign: &str) -> Result<Value> {
    let [a, b] = bind(["", ""], arguments)?;
    operate(&[needed(a, "value")?, sign.into(), needed(b, "other")?])
}

fn default(arguments: &[Value]) -> Result<Value> {
    let [value, default, boolean] = bind(["", "default_value", "boolean"], arguments)?;
    let value = value.unwrap_or_default();
    let missing = value.is_undefined() || is_true(&boolean) && !value.is_true();
    Ok(if missing { default.unwrap_or_else(|| "".into()) } else { value })
}

fn is_truth(arguments: &[Value], truth: bool) -> Result<Value> {
    let value = only(arguments)?;
    Ok((value.kind() == ValueKind::Bool && value.is_true() == truth).into())
}
