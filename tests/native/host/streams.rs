//! Streams of pages: at their own speed, in their own cache partition, across hosts.

use serde_json::{Value, json};

use super::page::{Page, World, chat_call, complete_call, text, tokens};

const MANY: u32 = 300;

fn stream(max_tokens: u32) -> Value {
    json!({"stream": true, "max_tokens": max_tokens, "stream_options": {"include_usage": true}})
}

/// The whole stream of a call, read by a page that keeps up.
fn whole(call: u32, fields: Value) -> Vec<Value> {
    let mut world = World::new();
    let [page] = world.pages(["a"]);
    page.chat(&mut world, call, fields);
    world.run();
    world.take(page.tab)
}

#[test]
fn a_page_that_does_not_read_delays_only_its_own_stream() {
    let mut world = World::new();
    let [slow, quick] = world.pages(["a", "a"]);
    let mut call = chat_call(1, stream(MANY));
    call["credit"] = json!(3);
    world.post(slow.tab, call);
    quick.chat(&mut world, 2, stream(MANY));
    world.run();
    assert_eq!(tokens(&world.take(quick.tab), 0).len(), MANY as usize);
    let metrics = world.metrics(&quick);
    assert_eq!(
        metrics["num_requests_running"].as_u64().unwrap()
            + metrics["num_requests_waiting"].as_u64().unwrap(),
        1
    );
    assert!(metrics["generation_tokens"].as_u64().unwrap() < u64::from(MANY) + 100, "{metrics}");

    let mut told = world.take(slow.tab);
    assert_eq!(told.iter().filter(|answer| answer["type"] == "chunk").count(), 3);
    let mut reads = 0;
    while told.last().unwrap()["type"] != "end" {
        world.post(slow.tab, json!({"type": "credit", "id": 1, "chunks": 1}));
        world.run();
        told.extend(world.take(slow.tab));
        reads += 1;
        assert!(reads < MANY, "the stream never ends");
    }
    let whole = whole(1, stream(MANY));
    assert_eq!((text(&told, 0), tokens(&told, 0)), (text(&whole, 0), tokens(&whole, 0)));
    assert!(reads < 20, "what waited came in few chunks, not {reads}");
    assert_eq!(world.metrics(&quick)["kv_cache_usage_perc"], 0.0);
}

#[test]
fn a_held_stream_can_be_cancelled_and_its_tab_closed() {
    let mut world = World::new();
    let [slow, other] = world.pages(["a", "a"]);
    for id in [1, 2] {
        let mut call = chat_call(id, stream(MANY));
        call["credit"] = json!(0);
        world.post(slow.tab, call);
    }
    world.run();
    assert_eq!(world.metrics(&other)["num_requests_running"], 2);
    world.post(slow.tab, json!({"type": "cancel", "id": 1}));
    world.run();
    assert_eq!(world.metrics(&other)["num_requests_running"], 1);
    world.host.close(slow.tab);
    world.collect();
    world.run();
    let metrics = world.metrics(&other);
    assert_eq!(
        (&metrics["num_requests_running"], &metrics["kv_cache_usage_perc"]),
        (&json!(0), &json!(0.0))
    );
}

/// What a page sends to continue each choice.
fn resume(seen: &[Value], choices: u32) -> Value {
    let choice = |index| {
        let of_choice = |answer: &&Value| answer["value"]["choices"][0]["index"] == index;
        let chunks: Vec<&Value> = seen.iter().filter(of_choice).collect();
        let ended = chunks.iter().find_map(|chunk| chunk["ended"].as_u64());
        json!({"tokens": tokens(seen, index), "started": !chunks.is_empty(), "ended": ended})
    };
    (0..choices).map(choice).collect()
}

#[test]
fn a_stream_continues_at_another_host_after_any_interruption() {
    for choices in [1, 3] {
        let mut fields = stream(30);
        fields["n"] = json!(choices);
        fields["stop"] = json!(["e", "th"]);
        let whole = whole(9, fields.clone());
        let chunks: Vec<Value> =
            whole.into_iter().filter(|answer| answer["type"] == "chunk").collect();
        for cut in 0..chunks.len() {
            let mut world = World::new();
            let [other, page] = world.pages(["a", "a"]);
            other.chat(&mut world, 5, stream(20));
            world.step();
            let mut call = chat_call(9, fields.clone());
            call["resume"] = resume(&chunks[..cut], choices);
            world.post(page.tab, call);
            world.run();
            let rest = world.take(page.tab);
            assert_eq!(rest.last().unwrap()["type"], "end", "cut at {cut}: {rest:?}");
            let all: Vec<Value> = chunks[..cut].iter().cloned().chain(rest).collect();
            for index in 0..choices {
                let found = (text(&all, index), tokens(&all, index));
                assert_eq!(found, (text(&chunks, index), tokens(&chunks, index)), "cut at {cut}");
                let ends = |answers: &[Value]| -> Vec<Value> {
                    let ends = answers.iter().filter(|answer| {
                        answer["value"]["choices"][0]["index"] == index
                            && !answer["ended"].is_null()
                    });
                    ends.map(|end| {
                        json!([end["ended"], end["value"]["choices"][0]["finish_reason"]])
                    })
                    .collect()
                };
                assert_eq!(ends(&all), ends(&chunks), "cut at {cut}");
                let roles = all.iter().filter(|answer| {
                    let choice = &answer["value"]["choices"][0];
                    choice["index"] == index && choice["delta"]["role"] == "assistant"
                });
                assert_eq!(roles.count(), 1, "cut at {cut}");
            }
            let usage = |answers: &[Value]| -> Vec<Value> {
                let usages = answers.iter().map(|answer| &answer["value"]["usage"]);
                let counts = usages.filter(|usage| usage.is_object());
                counts
                    .map(|usage| json!([usage["prompt_tokens"], usage["completion_tokens"]]))
                    .collect()
            };
            assert_eq!(usage(&all), usage(&chunks), "cut at {cut}");
        }
    }
}

#[test]
fn cached_prefixes_are_shared_only_within_a_partition() {
    let long = "Tell me about the fox and the hen. ".repeat(12);
    let cached = |world: &mut World, page: Page, id: u32| {
        let messages = json!([{"role": "user", "content": long}]);
        page.chat(world, id, json!({"stream": false, "max_tokens": 2, "messages": messages}));
        world.run();
        let answer = world.take(page.tab).pop().unwrap();
        answer["value"]["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    let mut world = World::new();
    let session = |name: &str| json!({"session": name});
    let partitions = [json!("shared"), json!("tab"), json!("tab"), session("ann"), session("bob")];
    let pages = partitions.map(|isolation| {
        let page = Page::greet_with(&mut world, isolation);
        page.load(&mut world, 0, "a");
        world.finish_loads();
        world.take(page.tab);
        page
    });
    for page in pages {
        assert_eq!(cached(&mut world, page, 1), 0, "nobody of this partition has asked");
        assert!(cached(&mut world, page, 2) >= 64);
    }
    let ann = Page::greet_with(&mut world, session("ann"));
    ann.load(&mut world, 0, "a");
    world.take(ann.tab);
    assert!(cached(&mut world, ann, 1) >= 64, "the session goes on in another tab");

    // The metrics do not show other tabs' cache hits.
    for page in pages {
        let metrics = world.metrics(&page);
        let tabs = metrics["host"]["tabs"].as_array().unwrap();
        let own = if page.tab == pages[3].tab { 2 } else { 1 };
        assert_eq!((tabs.len(), metrics["tabs"].as_object().unwrap().len()), (own, own));
        let of_tabs = |count: &str| -> u64 {
            let tabs = metrics["tabs"].as_object().unwrap().values();
            tabs.map(|tab| tab[count].as_u64().unwrap()).sum()
        };
        assert_eq!(metrics["prefix_cache_hits"], of_tabs("cached_tokens"));
        for count in ["prefix_cache_queries", "prompt_tokens", "generation_tokens"] {
            assert_eq!(metrics[count], of_tabs(count));
        }
    }
}

#[test]
fn visible_tabs_come_before_hidden_ones() {
    let mut world = World::new();
    let [hidden, seen] = world.pages(["a", "a"]);
    world.post(hidden.tab, json!({"type": "visible", "visible": false}));
    for id in 0..6 {
        hidden.chat(&mut world, id, json!({"stream": false, "max_tokens": 30}));
    }
    for id in 0..6 {
        seen.chat(&mut world, id, json!({"stream": false, "max_tokens": 30}));
    }
    while world.take(hidden.tab).is_empty() {
        world.step();
    }
    assert!(world.take(seen.tab).len() >= 4, "the visible tab's answers come first");
}

#[test]
fn text_completions_stream_at_the_page_s_speed_and_continue_at_another_host() {
    let fields = || json!({"prompt": ["Hi!", "Ho!"], "n": 2, "echo": true, "max_tokens": 30});
    let mut world = World::new();
    let [page] = world.pages(["a"]);
    world.post(page.tab, complete_call(9, fields()));
    world.run();
    let answers = world.take(page.tab);
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    let choices = answer["value"]["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);

    let mut fields = fields();
    fields["stream"] = json!(true);
    let mut call = complete_call(9, fields);
    call["credit"] = json!(5);
    world.post(page.tab, call.clone());
    world.run();
    let mut told = world.take(page.tab);
    assert_eq!(told.remove(0)["type"], "accepted");
    assert_eq!(told.len(), 5, "as many as there is room for");

    let mut other = World::new();
    let [page] = other.pages(["a"]);
    call["resume"] = resume(&told, 4);
    call["credit"] = json!(60_000);
    other.post(page.tab, call);
    other.run();
    told.extend(other.take(page.tab));
    assert_eq!(told.last().unwrap()["type"], "end");
    for (index, choice) in choices.iter().enumerate() {
        let pieces = told.iter().map(|answer| &answer["value"]["choices"][0]);
        let pieces = pieces.filter(|piece| piece["index"] == index);
        let text: String = pieces.filter_map(|piece| piece["text"].as_str()).collect();
        assert_eq!(choice["text"], text);
        assert!(text.starts_with(["Hi!", "Ho!"][index / 2]), "{text}");
    }
}

#[test]
fn tokenising_and_templates_are_answered_at_once() {
    let mut world = World::new();
    let [page] = world.pages(["a"]);
    let mut ask = |id: u32, task: &str, request: &Value| {
        let call = json!({"type": "tokens", "task": task, "id": id, "request": request, "now": 0});
        world.post(page.tab, call);
        world.take(page.tab).remove(0)
    };
    let request = json!({"messages": [{"role": "user", "content": "Hi!"}]});
    let text = ask(1, "template", &request);
    let text = &text["value"];
    let told = ask(2, "tokenize", &json!({"prompt": text}));
    assert_eq!(told["value"], ask(3, "tokenize", &request)["value"]);
    let tokens = &told["value"]["tokens"];
    let back = ask(4, "detokenize", &json!({"tokens": tokens}));
    assert_eq!(back["value"], json!({"prompt": text}));
    let wrong = ask(5, "template", &json!({"prompt": "a"}));
    assert_eq!(wrong["error"]["param"], "prompt");
    let wrong = ask(6, "detokenize", &json!({"tokens": "a"}));
    assert_eq!(wrong["error"]["param"], "tokens");
    let wrong = ask(7, "tokenize", &json!([]));
    assert_eq!(wrong["error"]["param"], "request");
}
