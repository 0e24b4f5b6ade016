//! JSON Schema's official test suite: each schema gives answers that an independent validator accepts,
//! or is refused because of a keyword that cannot be enforced.

use std::{collections::BTreeMap, fs};

use jsonschema::{Registry, Validator};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tabloom::{
    Error,
    api::{ChatCompletionRequest, FinishReason, Form},
    engine::TabId,
    service::{Moment, Reply},
};

use crate::walks::{Model, random};

/// How many schemas of the suite are refused, and why: mostly by keyword.
const REFUSED: [(&str, usize); 27] = [
    ("$dynamicRef", 8),
    ("$ref", 82),
    ("const", 1),
    ("contains", 18),
    ("contentMediaType", 2),
    ("dependencies", 9),
    ("dependentRequired", 3),
    ("dependentSchemas", 7),
    ("enum", 1),
    ("format", 36),
    ("if", 16),
    ("maxItems", 1),
    ("maxLength", 1),
    ("maxProperties", 1),
    ("minItems", 1),
    ("minLength", 1),
    ("minProperties", 1),
    ("multipleOf", 4),
    ("not", 10),
    ("oneOf", 8),
    ("pattern", 2),
    ("patternProperties", 3),
    (NOTHING, 10),
    ("then", 1),
    ("unevaluatedItems", 12),
    ("unevaluatedProperties", 16),
    ("uniqueItems", 5),
];

/// Valid instances that cannot be answers, by file: properties in another order, whole numbers with a
/// fraction or an exponent, numbers beyond 2^53, formats where they are only annotations, and the rarer
/// forms of some.
const NARROWER: [(&str, usize); 16] = [
    ("draft2020-12/allOf", 2),
    ("draft2020-12/const", 5),
    ("draft2020-12/enum", 4),
    ("draft2020-12/format", 10),
    ("draft2020-12/optional/bignum", 4),
    ("draft2020-12/optional/ecmascript-regex", 2),
    ("draft2020-12/optional/float-overflow", 1),
    ("draft2020-12/optional/format/date-time", 2),
    ("draft2020-12/optional/format/email", 5),
    ("draft2020-12/optional/format/hostname", 16),
    ("draft2020-12/optional/format/ipv6", 4),
    ("draft2020-12/optional/format/time", 6),
    ("draft2020-12/type", 1),
    ("draft2020-12/vocabulary", 1),
    ("draft7/optional/format/date-time", 2),
    ("draft7/ref", 1),
];

/// Messages of refusals of whole schemas, and their subjects.
const ABOUT: [(&str, &str); 5] = [
    ("$ref", "$ref"),
    ("oneOf", "oneOf"),
    ("patternProperty", "patternProperties"),
    ("Unsatisfiable", NOTHING),
    ("a schema that something meets", NOTHING),
];

const NOTHING: &str = "schemas that nothing meets";

/// Walks per schema and tokenizer.
const WALKS: usize = 3;

/// Written by `golden_schemas.py`.
#[derive(Deserialize)]
struct Suite {
    /// Schemas that others refer to, by address.
    remotes: Map<String, Value>,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    file: String,
    about: String,
    schema: Value,
    valid: Vec<Value>,
    invalid: Vec<Value>,
}

impl Suite {
    fn open() -> Suite {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens/json_schema_suite.json");
        serde_json::from_slice(&fs::read(file).expect("it is there")).expect("it is valid")
    }

    /// The independent validator of a schema's instances.
    fn judge(&self, schema: &Value) -> Validator {
        let remotes = self.remotes.iter().map(|(name, schema)| (name, schema.clone()));
        let registry = Registry::new().extend(remotes).and_then(|all| all.prepare());
        let registry = registry.expect("the suite's schemas are valid");
        let options = jsonschema::options().should_validate_formats(true).with_registry(&registry);
        options.build(schema).expect("the schema is valid")
    }
}

impl Group {
    fn form(&self) -> Form {
        Form::JsonSchema(self.schema.clone())
    }

    fn name(&self) -> String {
        format!("{}: {}: {}", self.file, self.about, self.schema)
    }
}

/// The subject of a refusal: mostly a keyword of the schema.
fn reason(error: &Error, group: &Group) -> String {
    let Error::InvalidRequest { param, message } = error else { panic!("{error:?}") };
    assert!(!message.is_empty(), "{}", group.name());
    if let Some((_, keyword)) = param.rsplit_once('.') {
        let named = group.schema.to_string().contains(&format!("{keyword:?}:"));
        assert!(named, "{}: {param}", group.name());
        return keyword.into();
    }
    let about = ABOUT.into_iter().find(|(part, _)| message.contains(part));
    about.unwrap_or_else(|| panic!("{}: {message}", group.name())).1.into()
}

/// Whether this text can be an answer.
fn takes(model: &Model, form: &Form, text: &str) -> bool {
    let mut constraint = model.compile(form).unwrap();
    let ids = model.tokenizer.encode_plain(text, false).expect("it is text");
    ids.iter().all(|&id| !constraint.is_complete() && constraint.accept(id).is_ok())
        && (constraint.is_complete() || model.allows_end(constraint.as_mut()))
}

#[test]
fn schemas_of_the_suite_are_followed_or_refused_by_keyword() {
    let suite = Suite::open();
    let mut random = random();
    let models = [
        Model::open("www/model", "<|im_end|>"),
        Model::open("tests/goldens/tokenizer_words", "</s>"),
    ];
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut narrower: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut walks, mut taken) = (0, 0);
    for group in &suite.groups {
        let form = group.form();
        if let Err(error) = models[0].compile(&form) {
            *refused.entry(reason(&error, group)).or_default() += 1;
            continue;
        }
        let judge = suite.judge(&group.schema);
        for model in &models {
            for _ in 0..WALKS {
                let (text, value) = model.json(&form, &mut random);
                assert!(judge.is_valid(&value), "{}: {}: {text}", model.name, group.name());
                walks += 1;
            }
        }
        for instance in &group.invalid {
            assert!(
                !takes(&models[0], &form, &instance.to_string()),
                "{}: {instance}",
                group.name()
            );
        }
        let missed =
            group.valid.iter().filter(|it| !takes(&models[0], &form, &it.to_string())).count();
        taken += group.valid.len() - missed;
        if missed > 0 {
            *narrower.entry(&group.file).or_default() += missed;
        }
    }
    let count: usize = refused.values().sum();
    let all = suite.groups.len();
    println!("{all} schemas: {count} refused, {walks} walks, {taken} valid instances taken");
    let guide = include_str!("../../docs/guides/structured-output.md");
    let is_listed = |why: &&String| guide.contains(&format!("`{why}`")) || why.as_str() == NOTHING;
    assert_eq!(refused.keys().find(|why| !is_listed(why)), None, "the guide leaves it out");
    assert_eq!(refused, REFUSED.map(|(why, count)| (why.to_owned(), count)).into());
    assert_eq!(narrower, NARROWER.into());
}

#[test]
fn long_answers_and_compiler_options_terminate() {
    let mut random = random();
    let model = Model::open("www/model", "<|im_end|>");
    for schema in [
        json!({ "type": "string", "minLength": 4000 }),
        json!({ "type": "string", "minLength": 4000, "maxLength": 4100, "pattern": "^[a-z ]*$" }),
        json!({ "type": "array", "items": { "type": "boolean" }, "minItems": 100 }),
        json!({ "properties": { "a": { "enum": [1, 2] } }, "required": ["a"], "maxProperties": 1,
            "x-guidance": { "whitespace_flexible": false, "lenient": true }, "type": "object" }),
    ] {
        let judge = jsonschema::validator_for(&schema).expect("the schema is valid");
        let inside = Form::Grammar(format!("start: %json {schema}"));
        for form in [Form::JsonSchema(schema.clone()), inside] {
            let (text, value) = model.json(&form, &mut random);
            assert!(judge.is_valid(&value), "{schema}: {text}");
        }
    }
}

/// The engine answers one of this many schemas.
const STRIDE: usize = 7;

#[test]
fn the_engine_gives_valid_answers() {
    let suite = Suite::open();
    let mut service = crate::built_in::service();
    let moment = Moment { now: 1_800_000_000, entropy: 7, tab: TabId(0), salt: 0 };
    let model = Model::open("www/model", "<|im_end|>");
    let compiled = suite.groups.iter().filter(|group| model.compile(&group.form()).is_ok());
    let mut asked = BTreeMap::new();
    for group in compiled.step_by(STRIDE) {
        let format = json!({ "type": "json_schema", "json_schema": { "schema": group.schema } });
        let request = json!({
            "messages": [{ "role": "user", "content": "Say something in JSON." }],
            "response_format": format, "temperature": 1, "seed": 3, "max_tokens": 200,
        });
        let request = ChatCompletionRequest::read(&request).unwrap().validate().unwrap();
        asked.insert(service.submit(request, moment, &[]).expect("it is accepted"), group);
    }
    let mut whole = 0;
    for _ in 0..20_000 {
        if service.is_idle() {
            break;
        }
        for (id, reply) in pollster::block_on(service.step()).expect("the engine runs") {
            let Reply::Completion(completion) = reply else { panic!("{reply:?}") };
            let group = asked.remove(&id).expect("it was asked");
            let choice = &completion.choices[0];
            let text = choice.message.content.as_deref().unwrap_or_default();
            // Too long answers are cut off.
            if choice.finish_reason == FinishReason::Length {
                continue;
            }
            let value = serde_json::from_str(text).expect(text);
            assert!(suite.judge(&group.schema).is_valid(&value), "{}: {text}", group.name());
            whole += 1;
        }
    }
    assert!(asked.is_empty(), "{} are not answered", asked.len());
    assert!(whole > 24, "{whole} answers are whole");
}
