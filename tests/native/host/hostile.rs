//! Messages that our own pages never send.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tabloom::host::Call;

use super::page::{World, chat_call, complete_call, hello, text, tokens};

/// Any JSON, with frequent use of the names and numbers that matter here.
fn anything() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "type", "id", "request", "moment", "messages", "credit", "resume", "tokens", "options",
        "chat", "load", "hello", "embed", "stream", "n", "now", "entropy", "ended", "started",
        "url", "visible", "files", "complete", "prompt", "echo", "template",
    ]);
    let numbers = prop::sample::select(vec![
        json!(0),
        json!(-1),
        json!(1),
        json!(2.5),
        json!(4_294_967_295u64),
        json!(4_294_967_296u64),
        json!(9_007_199_254_740_993u64),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers,
        names.clone().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..8).prop_map(|fields| {
                Value::from(
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.into(), value))
                        .collect::<Map<_, _>>(),
                )
            }),
        ]
    })
}

/// A call as a page would send it, with one field replaced or added.
fn nearly_a_call() -> impl Strategy<Value = Value> {
    let calls = prop::sample::select(vec![
        hello(),
        json!({"type": "load", "id": 1, "url": "a", "options": {"context": 64}}),
        json!({"type": "load", "id": 2, "url": "local:1/a/", "options": {}, "files": {}}),
        chat_call(3, json!({"stream": true, "max_tokens": 4, "n": 2})),
        complete_call(7, json!({"stream": true, "echo": true, "n": 2, "prompt": ["a", [5, 6]]})),
        json!({"type": "tokens", "task": "tokenize", "id": 8, "request": {"prompt": "a"}, "now": 0}),
        json!({"type": "tokens", "task": "detokenize", "id": 9, "request": {"tokens": [1, 2]}, "now": 0}),
        json!({"type": "embed", "id": 4, "request": {"input": ["a", "b"]}}),
        json!({"type": "credit", "id": 3, "chunks": 5}),
        json!({"type": "cancel", "id": 3}),
        json!({"type": "visible", "visible": false}),
        json!({"type": "metrics", "id": 5}),
        json!({"type": "ping", "id": 6}),
    ]);
    (calls, any::<prop::sample::Index>(), anything(), any::<bool>()).prop_map(
        |(mut call, at, value, within)| {
            let object = match (within, call.get_mut("request")) {
                (true, Some(request)) => request,
                _ => &mut call,
            };
            let object = object.as_object_mut().unwrap();
            let names: Vec<String> =
                object.keys().cloned().chain(["other".into(), "resume".into()]).collect();
            object.insert(at.get(&names).clone(), value);
            call
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// For any text, the decoder returns a call or an error.
    #[test]
    fn any_text_is_read_or_refused(
        text in prop_oneof![
            ".{0,200}",
            anything().prop_map(|value| value.to_string()),
            (nearly_a_call(), any::<prop::sample::Index>()).prop_map(|(call, at)| {
                let mut text = call.to_string();
                let mut end = at.index(text.len());
                while !text.is_char_boundary(end) { end -= 1 }
                text.truncate(end);
                text
            }),
        ],
    ) {
        if let Err((_, error)) = Call::read(&text) {
            prop_assert!(error.to_string().starts_with("message: "));
        }
    }

    /// Whatever one tab sends, before a hello or after, the other tab's stream is the same as without
    /// it.
    #[test]
    fn other_tabs_are_not_affected(
        messages in prop::collection::vec((prop_oneof![anything(), nearly_a_call()], any::<bool>()), 1..30),
    ) {
        let mut world = World::new();
        let [good, bad] = world.pages(["a", "a"]);
        let stranger = world.connect();
        good.chat(&mut world, 7, json!({"stream": true, "max_tokens": 25}));
        for (message, greeted) in messages {
            world.post(if greeted { bad.tab } else { stranger }, message);
            world.step();
        }
        world.run();
        let answers = world.take(good.tab);
        let mut alone = World::new();
        let [page] = alone.pages(["a"]);
        page.chat(&mut alone, 7, json!({"stream": true, "max_tokens": 25}));
        alone.run();
        let expected = alone.take(page.tab);
        prop_assert_eq!((text(&answers, 0), tokens(&answers, 0)), (text(&expected, 0), tokens(&expected, 0)));
        prop_assert_eq!(&answers.last().unwrap()["type"], "end");
        for tab in [bad.tab, stranger] {
            for answer in world.take(tab) {
                prop_assert!(answer["type"].is_string() && answer["id"].is_u64(), "{}", answer);
            }
            world.host.close(tab);
        }
        world.collect();
        world.run();
        let metrics = world.metrics(&good);
        prop_assert_eq!(&metrics["kv_cache_usage_perc"], &json!(0.0));
        prop_assert_eq!(&metrics["num_requests_running"], &json!(0));
    }
}

#[test]
fn depth_and_length_are_limited() {
    let deep =
        format!("{{\"type\":\"ping\",\"id\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let (id, error) = Call::read(&deep).unwrap_err();
    assert_eq!(id, 0);
    assert!(error.to_string().contains("recursion limit"), "{error}");
    let (id, _) = Call::read(&format!("{{\"request\":{deep},\"id\":7}}")).unwrap_err();
    assert_eq!(id, 7, "whose call ends with it");
    let long = format!("{{\"type\":\"ping\",\"id\":1,\"more\":\"{}\"}}", "x".repeat(64 << 20));
    let (id, error) = Call::read(&long).unwrap_err();
    assert_eq!(id, 1);
    assert!(error.to_string().contains("expected at most"), "{error}");
    let (id, error) = Call::read(r#"{"type": "pong", "id": 12}"#).unwrap_err();
    assert_eq!(id, 12);
    assert!(error.to_string().contains("found \"pong\""), "{error}");
}
