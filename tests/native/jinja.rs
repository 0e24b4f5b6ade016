//! Jinja's snippets against jinja2 in the settings of transformers.

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value};
use tabloom::text::{ChatTemplate, TemplateOptions};

/// 5 October 2026, 14:07:09.
const NOW: i64 = 1_791_209_229;

/// What is meant to differ, each with its reason.
const DIFFERENT: &[(&str, &[&str])] = &[
    (
        "macros take no varargs, kwargs or earlier arguments, and are no values",
        &[
            "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
            "{% macro m(a) %}{{ a }}{{ m.name }}{{ m.arguments }}{% endmacro %}{{ m(1) }}",
            "{% macro f(x) %}{{ x }}{% endmacro %}{{ list | map('string') | join }}{{ f(x=[1]) }}{{ f is callable }}",
            "{% macro a(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ a(1) }}",
        ],
    ),
    (
        "methods and numbers' parts are no attributes",
        &[
            "{{ '{x.real}'.format(x=1) }}",
            "{{ dict.items is defined }}",
            "{{ dict['items'] is defined }}",
            "{{ word.upper is defined }}",
            "{{ dict.items.x }}",
            "{{ self is defined }}",
            "{{ (5).real }}",
            "{{ word.format.__globals__ }}",
        ],
    ),
    (
        "ranges, views, groups and iterators are lists",
        &[
            "{{ items | groupby('n') }}",
            "{{ items | map(attribute='n') is sequence }}",
            "{{ dict.items() is sequence }}",
            "{{ dict.items() is filter }}",
            "{{ dict.items() }}",
            "{{ dict.keys() }}",
            "{{ dict.values() }}",
            "{{ range(5)[1:3] }}",
            "{{ range(5)[::-1] }}",
            "{{ [dict.items()] }}",
            "{{ [range(3)] }}",
            "{{ range(3) }}",
            "{{ range(2) | tojson }}",
            "{{ dict.keys() | tojson }}",
            "{{ (dict | items | list)[0][0] }}{{ dict.items() is iterable }}{{ dict.keys() is sequence }}",
        ],
    ),
    (
        "what prints in no prompt: namespaces, loops, sorted keys",
        &["{{ dict | pprint }}", "{{ namespace() }}", "{% for x in list %}{{ loop }}{% endfor %}"],
    ),
    (
        "lenient: none is an empty list to a loop, names may have underscores, dictionaries can be compared",
        &[
            "{{ items | unique | list }}",
            "{{ list is filter }}",
            "{{ dict is filter }}",
            "{{ list is test }}",
            "{{ dict is test }}",
            "{{ list[1:] is filter }}",
            "{{ items | unique(true) | list }}",
            "{{ namespace(_a=1) }}",
            "{% for x in none %}{{ x }}{% endfor %}",
            "{% set ns = namespace() %}{% set ns._x = 1 %}{{ ns._x }}",
        ],
    ),
    (
        "bytes, fractions, numbers above 128 bits",
        &[
            "{{ [word.encode()] }}",
            "{{ [s.encode()] }}",
            "{{ 2 ** 200 }}",
            "{{ (2.5).as_integer_ratio() }}",
        ],
    ),
    (
        "minijinja's format strings know no conversions and no per cent",
        &["{{ '%r' % 'a' }}", "{{ '{!r}'.format('a') }}", "{{ '{:.1%}'.format(0.256) }}"],
    ),
    (
        "names of characters and their title case need Unicode's tables",
        &["{{ [accents.title()] }}", "{{ '\\N{BULLET}' }}"],
    ),
    ("escaping belongs to HTML", &["{% autoescape true %}{{ html }}{% endautoescape %}"]),
    (
        "Jinja takes the item '0' of a default text",
        &["{{ items | map(attribute='tags.0', default='none') | list }}"],
    ),
];

#[derive(Deserialize)]
struct Golden {
    variables: Map<String, Value>,
    /// Source and text; no text where jinja2 has an error.
    snippets: Vec<(String, Option<String>)>,
}

#[test]
fn snippets_render_as_in_jinja2() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens/jinja.json");
    let file = fs::read(path).expect("golden file");
    let golden: Golden = serde_json::from_slice(&file).expect("golden JSON");
    assert!(golden.snippets.len() > 1500);
    let options = TemplateOptions {
        now: Some(NOW),
        variables: golden.variables,
        ..TemplateOptions::default()
    };
    let render = |source: &str| {
        let template = ChatTemplate::new(source.into(), "", "").ok()?;
        template.render(&Vec::<Value>::new(), &options).ok()
    };
    let wrong = golden.snippets.iter().filter(|(source, text)| render(source) != *text);
    let wrong: BTreeSet<&str> = wrong.map(|(source, _)| source.as_str()).collect();
    let meant: BTreeSet<&str> =
        DIFFERENT.iter().flat_map(|(_, sources)| *sources).copied().collect();
    let differs: Vec<_> = wrong.symmetric_difference(&meant).collect();
    assert!(differs.is_empty(), "{differs:#?}");
}
