//! What a template may make is limited, whatever it makes it with.

use serde_json::json;
use tabloom::{
    Error, Result,
    text::{ChatTemplate, TemplateOptions},
};

fn render(source: &str) -> Result<String> {
    let template = ChatTemplate::new(source.into(), "", "")?;
    template.render(&json!([]), &TemplateOptions::default())
}

fn refusal(source: &str) -> String {
    match render(source) {
        Err(Error::Template { message }) => message,
        other => panic!("expected an error of the template, got {other:?}"),
    }
}

#[test]
fn what_a_step_makes_is_limited() {
    let long = "{% set s = 'x' * 9999999 %}";
    for step in [
        "'a' | indent(99999999000000000)",
        "'a' | indent(width=99999999000000000)",
        "'a\nb' | indent(s + s)",
        "[1] | batch(99999999000000000, 0) | list",
        "[1] | slice(99999999000000000) | list",
        "'%99999999000000000d' | format(1)",
        "'%99999999000000000d' % 1",
        "'{:99999999000000000}'.format(1)",
        "'%s%s' % (s, s)",
        "'{0}{0}'.format(s)",
        "'a' * 99999999000000000",
        "99999999000000000 * 'a'",
        "[1] * 99999999000000000",
        "(1,) * 99999999000000000",
        "2 ** 99999999000000000",
        "99999999000000000 ** 99999999000000000",
        "2.0 ** 99999 | int",
        "s + s",
        "s ~ s",
        "s.replace('x', s)",
        "s | replace('', s)",
        "s.center(99999999000000000)",
        "s | center(99999999000000000)",
        "'a'.ljust(99999999000000000)",
        "'a'.rjust(99999999000000000)",
        "'a'.zfill(99999999000000000)",
        "'\t\t'.expandtabs(9999999)",
        "s.join('abc')",
        "'abc' | join(s)",
        "s.translate({120: s})",
        "('<' * 9999999) | escape",
        "('é' * 2800000) | urlencode",
        "('a b ' * 4000) | wordwrap(1, wrapstring=s)",
        "{'a': s, 'b': s} | tojson",
        "[s, s] | string",
        "'a' | tojson(indent=s)~ ([[[1]]] | tojson(indent=s))",
        "{'a': '<' * 9999999} | xmlattr",
        "s | list",
        "range(99999999000000000) | list",
        "s | truncate(99999999000000000) ~ s",
        "[s, s] | sum(start='')",
        "'x' | round(99999999000000000)",
        "loop.cycle()",
        "word[::-99999999000000000]()",
    ] {
        let error = refusal(&format!("{long}{{{{ {step} }}}}"));
        assert!(!error.is_empty(), "{step}");
    }
    let modest = "{{ 'a\nb' | indent(2, true) }}{{ [1, 2, 3] | batch(2, 0) | list }}\
         {{ '%03d' | format(7) }}{{ '{:>3}'.format('x') }}{{ 'c\nd' | indent(width=1) }}";
    let rendered = render(modest).unwrap();
    assert_eq!(rendered, "  a\n  b[[1, 2], [3, 0]]007  xc\n d");
}

#[test]
fn what_all_steps_make_is_limited() {
    let doubled = |start: &str, step: &str| {
        format!(
            "{{% set ns = namespace(x={start}) %}}{{% for i in range(99) %}}\
             {{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x }}}}"
        )
    };
    for source in [
        doubled("'a'", "ns.x ~ ns.x"),
        doubled("'a'", "ns.x + ns.x"),
        doubled("'ab'", "ns.x.replace('a', 'aa')"),
        doubled("'a'", "[ns.x, ns.x] | join"),
        doubled("'a'", "[ns.x, ns.x] | string"),
        doubled("[1]", "ns.x + ns.x"),
        doubled("[1]", "[ns.x, ns.x]"),
        doubled("(1,)", "(ns.x, ns.x)"),
        doubled("{}", "{'a': ns.x, 'b': ns.x}"),
        doubled("'a'", "ns.x | tojson | tojson"),
        "{% set s = 'x' * 9999999 %}{% set t %}{% for i in range(9999) %}{{ s }}{% endfor %}{% endset %}".into(),
        "{% set s = 'x' * 9999999 %}{% set ns = namespace(l=[]) %}{% for i in range(9999) %}\
         {% set ns.l = ns.l + [s ~ i] %}{% endfor %}".into(),
        "{% set s = 'x' * 9999999 %}{% for i in range(9999) %}{% set n = s.count('y') %}{% endfor %}".into(),
    ] {
        assert!(!refusal(&source).is_empty(), "{source}");
    }
}
