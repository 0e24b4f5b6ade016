//! Which models a host has loaded, for which tabs, and for how long.

use serde_json::json;
use tabloom::{
    Error,
    host::{Call, Draft, Progress, Stage},
};

use super::page::{Page, World};

fn urls(metrics: &serde_json::Value) -> Vec<&str> {
    let models = metrics["host"]["models"].as_array().unwrap();
    models.iter().map(|model| model["url"].as_str().unwrap()).collect()
}

fn progress(loaded: f64) -> Progress {
    Progress {
        stage: Stage::Download,
        file: "model.safetensors".into(),
        loaded,
        total: 10.0,
        rate: 1.0,
    }
}

#[test]
fn a_model_is_loaded_once_for_all_who_ask() {
    let mut world = World::new();
    let pages = [(); 3].map(|()| Page::greet(&mut world));
    pages[0].load(&mut world, 1, "a");
    pages[1].load(&mut world, 2, "a");
    assert_eq!(world.loading(), ["a"]);
    let model = world.next_load();
    assert!(world.host.sized(model, 100));
    world.host.progress(model, &progress(3.0));
    pages[2].load(&mut world, 3, "a");
    world.host.progress(model, &progress(7.0));
    world.finish_load(model, Ok("a".into()));
    for (page, id, seen) in
        [(pages[0], 1, &[3.0, 7.0]), (pages[1], 2, &[3.0, 7.0]), (pages[2], 3, &[3.0, 7.0])]
    {
        let answers = world.take(page.tab);
        let loaded: Vec<f64> =
            answers.iter().filter_map(|answer| answer["progress"]["loaded"].as_f64()).collect();
        assert_eq!(loaded, seen);
        assert!(answers.iter().all(|answer| answer["id"] == id));
        assert_eq!(answers.last().unwrap()["value"]["model"], "a");
    }
    assert_eq!(world.loads, 1);
    let late = Page::greet(&mut world);
    late.load(&mut world, 1, "a");
    assert_eq!(world.take(late.tab)[0]["value"]["model"], "a", "at once");
    assert_eq!(world.metrics(&late)["host"]["models"][0]["tabs"], 4);
}

#[test]
fn a_signature_is_no_part_of_a_model_s_name() {
    let mut world = World::new();
    let pages = [(); 2].map(|()| Page::greet(&mut world));
    pages[0].load(&mut world, 1, "https://a/?v=2#sig=first");
    pages[1].load(&mut world, 1, "https://a/?v=2#sig=second");
    assert_eq!(world.loading(), ["https://a/?v=2#sig=first"]);
    world.finish_loads();
    assert_eq!(world.loads, 1);
    assert_eq!(urls(&world.metrics(&pages[1])), ["https://a/?v=2"]);
}

#[test]
fn only_local_models_come_with_files() {
    let mut world = World::new();
    let page = Page::greet(&mut world);
    let load =
        |url, files| json!({"type": "load", "id": 1, "url": url, "options": {}, "files": files});
    for (url, files) in [("local:1/a.gguf", json!(null)), ("https://a/", json!({}))] {
        world.post(page.tab, load(url, files));
        assert_eq!(world.take(page.tab)[0]["error"]["param"], "files", "{url}");
    }
    assert_eq!(world.loading(), [""; 0]);
    // In JSON, a browser's blobs are empty objects.
    world.post(page.tab, load("local:1/a.gguf", json!({"a.gguf": {}})));
    assert_eq!(world.loading(), ["local:1/a.gguf"]);
    let other = Page::greet(&mut world);
    world.post(other.tab, load("local:1/a.gguf", json!({})));
    world.finish_loads();
    for tab in [page.tab, other.tab] {
        assert_eq!(world.take(tab).last().unwrap()["value"]["model"], "local:1/a.gguf");
    }
    assert_eq!(world.loads, 1);
}

#[test]
fn other_options_load_another_model() {
    let mut world = World::new();
    let [one] = world.pages(["a"]);
    let two = Page::greet(&mut world);
    let load = |options| json!({"type": "load", "id": 1, "url": "a", "options": options});
    world.post(two.tab, load(json!({"context": 100})));
    assert_eq!(world.loading(), ["a"]);
    world.finish_loads();
    assert_eq!(urls(&world.metrics(&one)), ["a", "a"]);
    // The budget belongs to the host, not to the model, whose KV cache it has sized.
    let three = Page::greet(&mut world);
    world.post(three.tab, load(json!({"context": 100, "budgetBytes": 1000})));
    assert_eq!(world.take(three.tab)[0]["value"]["model"], "a");
    assert_eq!(world.metrics(&three)["host"]["budget_bytes"], 1000);
    for (options, param) in [
        (json!({"context": "x"}), "context"),
        (json!({"contxt": 1}), "contxt"),
        (json!(7), "options"),
        (json!({"store": "attic"}), "store"),
        (json!({"speculation": "off"}), "speculation"),
        (json!({"speculation": {"maxDrafts": 8}}), "speculation"),
        (json!({"speculation": {"maxDrafts": -1}}), "speculation"),
        (json!({"speculation": {"drafts": 1}}), "speculation"),
        (json!({"draft": {"layers": 1}}), "draft"),
        (json!({"gpu": {"subgroups": 1}}), "gpu.subgroups"),
        (json!({"gpu": {"subgoups": false}}), "gpu.subgoups"),
        (json!({"sparing": true}), "sparing"),
        (json!({"integrity": {"files": {"a": {"sha256": "12"}}}}), "integrity.files.a.sha256"),
    ] {
        let page = Page::greet(&mut world);
        world.post(page.tab, load(options));
        assert_eq!(world.take(page.tab)[0]["error"]["param"], param);
    }
}

#[test]
fn a_page_chooses_the_number_of_drafts() {
    for (options, most) in [
        (json!({}), 7),
        (json!({"speculation": true}), 7),
        (json!({"speculation": {}}), 7),
        (json!({"speculation": {"maxDrafts": 3}}), 3),
        (json!({"speculation": {"maxDrafts": 0}}), 0),
        (json!({"speculation": false}), 0),
    ] {
        let call = json!({"type": "load", "id": 1, "url": "a", "options": options});
        let Ok(Call::Load { options: Ok(options), .. }) = Call::read(&call.to_string()) else {
            panic!("{call}")
        };
        assert_eq!(options.speculation.max_drafts, most, "{call}");
    }
}

#[test]
fn a_page_chooses_the_drafter() {
    for (draft, expected) in [
        (json!(true), Draft::Bundled),
        (json!(false), Draft::Nothing),
        (json!({"earlyExit": 2}), Draft::EarlyExit(2)),
        (json!("https://a.example/head/"), Draft::Folder("https://a.example/head/".into())),
    ] {
        let options = json!({ "draft": draft });
        let call = json!({"type": "load", "id": 1, "url": "a", "options": options});
        let Ok(Call::Load { options: Ok(options), .. }) = Call::read(&call.to_string()) else {
            panic!("{call}")
        };
        assert_eq!(options.draft, expected);
    }
}

#[test]
fn a_load_stops_when_no_tab_waits_for_it() {
    let mut world = World::new();
    let [one, two] = [(); 2].map(|()| Page::greet(&mut world));
    one.load(&mut world, 1, "a");
    two.load(&mut world, 1, "a");
    world.post(one.tab, json!({"type": "cancel", "id": 1}));
    assert_eq!(world.loading(), ["a"], "the other waits on");
    world.host.close(two.tab);
    world.collect();
    assert_eq!(world.loading(), [""; 0]);
    assert_eq!(world.take(one.tab), [json!(null); 0]);
    one.load(&mut world, 2, "a");
    assert_eq!(world.loading(), ["a"], "a new one");
    world.finish_loads();
    assert_eq!(world.take(one.tab).last().unwrap()["value"]["model"], "a");
}

#[test]
fn a_failed_load_is_reported_to_all_and_can_be_retried() {
    let mut world = World::new();
    let pages = [(); 2].map(|()| Page::greet(&mut world));
    for page in pages {
        page.load(&mut world, 1, "a");
    }
    let model = world.next_load();
    let missing = Error::Fetch { what: "a/config.json".into(), reason: "HTTP status 404".into() };
    world.finish_load(model, Err(missing));
    for page in pages {
        assert_eq!(world.codes(page.tab), ["fetch"]);
        page.load(&mut world, 2, "a");
    }
    world.finish_loads();
    assert_eq!(world.loads, 1);
}

#[test]
fn a_tab_has_one_model() {
    let mut world = World::new();
    let [page] = world.pages(["a"]);
    page.load(&mut world, 1, "b");
    assert_eq!(world.codes(page.tab), ["invalid_request"]);
    page.load(&mut world, 2, "a");
    assert_eq!(world.take(page.tab)[0]["value"]["model"], "a", "the same again");
    let other = Page::greet(&mut world);
    other.load(&mut world, 1, "c");
    other.load(&mut world, 2, "c");
    assert_eq!(world.codes(other.tab), ["invalid_request"], "while the first goes on");
}

#[test]
fn unused_models_are_evicted_the_longest_unused_first() {
    let mut world = World::new();
    let [a, b, c] = world.pages(["a", "b", "c"]);
    let watcher = c;
    for page in [b, a] {
        world.post(page.tab, json!({"type": "bye"}));
    }
    assert_eq!(
        urls(&world.metrics(&watcher)),
        ["a", "b", "c"],
        "they stay as long as there is room"
    );
    let load = |world: &mut World, url: &str| {
        let page = Page::greet(world);
        let options = json!({"budgetBytes": 300});
        world.post(page.tab, json!({"type": "load", "id": 1, "url": url, "options": options}));
        world.finish_loads();
        (page, world.take(page.tab).remove(0))
    };
    load(&mut world, "d");
    assert_eq!(urls(&world.metrics(&watcher)), ["a", "c", "d"]);
    let (_, back) = load(&mut world, "a");
    assert_eq!((&back["value"]["model"], world.loads), (&json!("a"), 4), "it was still there");
    let (page, refused) = load(&mut world, "e");
    assert_eq!(refused["error"]["code"], "over_budget");
    assert_eq!(refused["error"]["details"], json!({"needed": 100, "budget": 300, "used": 300}));
    assert_eq!(urls(&world.metrics(&watcher)), ["a", "c", "d"], "all are in use");
    assert_eq!(world.metrics(&watcher)["host"]["used_bytes"], 300);
    // Freed room is available for the next attempt.
    world.post(watcher.tab, json!({"type": "bye"}));
    page.load(&mut world, 2, "e");
    world.finish_loads();
    assert_eq!(world.take(page.tab)[0]["value"]["model"], "e");
    assert_eq!(urls(&world.metrics(&page)), ["a", "d", "e"]);
}

#[test]
fn a_model_that_is_released_goes_with_its_last_tab() {
    let mut world = World::new();
    let [a, other, watcher] = world.pages(["a", "a", "b"]);
    let free = json!({"type": "bye", "free": true});
    world.post(a.tab, free.clone());
    assert_eq!(urls(&world.metrics(&watcher)), ["a", "b"], "another tab uses it");
    world.post(other.tab, free);
    assert_eq!(urls(&world.metrics(&watcher)), ["b"]);
    assert_eq!(world.metrics(&watcher)["host"]["used_bytes"], 100);
}

#[test]
fn a_smaller_budget_evicts_unused_models() {
    let mut world = World::new();
    let [a, b, c] = world.pages(["a", "b", "c"]);
    let used = |world: &mut World| world.metrics(&c)["host"]["used_bytes"].clone();
    world.post(a.tab, json!({"type": "bye"}));
    let load = json!({"type": "load", "id": 9, "url": "c", "options": {"budgetBytes": 150}});
    world.post(c.tab, load);
    assert_eq!(urls(&world.metrics(&c)), ["b", "c"]);
    assert_eq!(used(&mut world), 200, "what tabs have stays");
    world.post(b.tab, json!({"type": "bye"}));
    assert_eq!(urls(&world.metrics(&c)), ["c"]);
    assert_eq!(used(&mut world), 100);
}

#[test]
fn a_device_without_memory_gets_that_of_idle_models() {
    let mut world = World::new();
    let [a, b] = world.pages(["a", "b"]);
    world.post(a.tab, json!({"type": "bye"}));
    let page = Page::greet(&mut world);
    page.load(&mut world, 1, "c");
    let full = || Error::OutOfMemory { what: "weights".into(), bytes: 9, advised: None };
    let model = world.next_load();
    assert!(world.host.sized(model, 100));
    world.finish_load(model, Err(full()));
    assert_eq!(world.loading(), ["c"], "it is tried again without a");
    assert_eq!(urls(&world.metrics(&b)), ["b"]);
    let model = world.next_load();
    assert!(world.host.sized(model, 100));
    assert_eq!(world.metrics(&b)["host"]["used_bytes"], 200);
    world.finish_load(model, Err(full()));
    assert_eq!(world.loading(), ["c"], "b is in use: it is tried with less");
    assert!(world.sparing(model));
    assert!(world.host.sized(model, 50));
    world.finish_load(model, Err(full()));
    let error = world.take(page.tab).pop().unwrap()["error"].clone();
    assert_eq!(error["code"], "out_of_memory");
    assert_eq!(error["details"], json!({"what": "weights", "bytes": 9, "advised": 25}));
    assert_eq!(world.metrics(&b)["host"]["used_bytes"], 100);
}

#[test]
fn a_model_whose_device_was_lost_does_with_less_for_every_tab() {
    let mut world = World::new();
    let [one] = world.pages(["a"]);
    let again = Page::greet(&mut world);
    let load = json!({"type": "load", "id": 1, "url": "b", "options": {}, "sparing": true});
    world.post(again.tab, load);
    let model = world.next_load();
    assert!(world.sparing(model));
    // A page that knows of no loss does not load it beside that.
    let late = Page::greet(&mut world);
    late.load(&mut world, 1, "b");
    assert_eq!(world.loading(), [""; 0]);
    assert!(world.host.sized(model, 100));
    world.finish_load(model, Err(Error::DeviceLost { reason: "full".into() }));
    for page in [again, late] {
        let answer = world.take(page.tab).pop().unwrap();
        assert_eq!(answer["error"]["code"], "device_lost_again");
        assert_eq!(answer["error"]["details"], json!({"needed": 100, "advised": 50}));
    }
    // A first loss is reported as it is.
    let other = Page::greet(&mut world);
    other.load(&mut world, 1, "c");
    let model = world.next_load();
    world.finish_load(model, Err(Error::DeviceLost { reason: "full".into() }));
    assert_eq!(world.codes(other.tab), ["device_lost"]);
    assert_eq!(urls(&world.metrics(&one)), ["a"]);
}

#[test]
fn a_request_is_told_that_its_device_was_lost_again() {
    for (sparing, code) in [(false, "device_lost"), (true, "device_lost_again")] {
        let mut world = World::new();
        world.fails_after = Some(1);
        let page = Page::greet(&mut world);
        let load = json!({"type": "load", "id": 1, "url": "a", "options": {}, "sparing": sparing});
        world.post(page.tab, load);
        world.finish_loads();
        world.take(page.tab);
        page.chat(&mut world, 2, json!({}));
        world.run();
        assert_eq!(world.codes(page.tab).pop().as_deref(), Some(code));
    }
}
