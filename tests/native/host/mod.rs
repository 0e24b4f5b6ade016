//! One host and several tabs, without browser and GPU.

mod hostile;
mod long_texts;
mod models;
mod page;
mod stored;
mod streams;
mod toy;
mod turns;

use page::{Page, World};
use serde_json::json;
use tabloom::host::Task;

#[test]
fn a_page_is_served_after_a_matching_hello() {
    let mut world = World::new();
    let (tab, early) = (
        world.connect(),
        [json!({"type": "ping", "id": 5}), json!({"type": "visible", "visible": true})],
    );
    for call in early {
        world.post(tab, call);
    }
    assert_eq!(world.codes(tab), ["handshake", "handshake"]);

    let hello = |change: serde_json::Value| {
        let mut hello = page::hello();
        hello.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        hello
    };
    for (change, code, words) in [
        (json!({"version": "0.0.1"}), "version_mismatch", "0.0.1"),
        (json!({"protocol": 99}), "version_mismatch", "protocol 99"),
        (
            json!({"tab": "somebody else's lock"}),
            "invalid_request",
            "expected that of a tab's lock",
        ),
        (json!({"isolation": "nobody"}), "invalid_request", "unknown variant"),
        (json!({"more": 1}), "invalid_request", "more: found 1"),
    ] {
        world.post(tab, hello(change));
        let [answer] = &world.take(tab)[..] else { panic!("one answer") };
        assert_eq!(answer["error"]["code"], code);
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
    assert_eq!(world.tasks, []);
    world.post(tab, hello(json!({"tab": "tabloom tab 1"})));
    let welcome = world.take(tab).remove(0);
    assert_eq!(welcome["value"]["host"], "tabloom host test");
    assert_eq!(world.tasks, [Task::Watch { tab, lock: "tabloom tab 1".into() }]);
    world.post(tab, page::hello());
    assert_eq!(world.codes(tab), ["invalid_request"], "a second hello");
}

#[test]
fn calls_without_a_model_get_an_error() {
    let mut world = World::new();
    let page = Page::greet(&mut world);
    page.chat(&mut world, 1, json!({"stream": false}));
    world.post(page.tab, json!({"type": "metrics", "id": 2}));
    assert_eq!(world.codes(page.tab), ["closed", "closed"]);
    world.post(page.tab, json!({"type": "ping", "id": 3}));
    assert_eq!(world.take(page.tab), [json!({"type": "value", "id": 3, "value": null})]);
}

#[test]
fn a_tab_that_leaves_ends_its_requests_alone() {
    let mut world = World::new();
    let [leaver, other] = world.pages(["a", "a"]);
    leaver.chat(&mut world, 1, json!({"stream": true, "max_tokens": 200}));
    other.chat(&mut world, 1, json!({"stream": true, "max_tokens": 40}));
    (0..5).for_each(|_| world.step());
    assert_eq!(world.metrics(&other)["num_requests_running"], 2);
    world.take(leaver.tab);
    world.host.close(leaver.tab);
    let metrics = world.metrics(&other);
    assert_eq!(
        (&metrics["num_requests_running"], &metrics["request_success"]["abort"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(metrics["host"]["tabs"].as_array().unwrap().len(), 1);
    assert_eq!(world.tasks, [Task::ClosePort { tab: leaver.tab }]);
    world.run();
    assert_eq!(world.take(leaver.tab), [json!(null); 0], "nobody is notified of it any more");
    assert_eq!(page::tokens(&world.take(other.tab), 0).len(), 40);
    assert_eq!(world.metrics(&other)["kv_cache_usage_perc"], 0.0);
}

#[test]
fn calls_belong_to_the_tab_that_made_them() {
    let mut world = World::new();
    let [one, two] = world.pages(["a", "a"]);
    one.chat(&mut world, 1, json!({"stream": true, "max_tokens": 20}));
    world.post(two.tab, json!({"type": "cancel", "id": 1}));
    world.post(two.tab, json!({"type": "credit", "id": 1, "chunks": 7}));
    world.step();
    two.chat(&mut world, 1, json!({"stream": true, "max_tokens": 10}));
    two.chat(&mut world, 1, json!({"stream": true, "max_tokens": 10}));
    world.step();
    world.post(two.tab, json!({"type": "cancel", "id": 1}));
    world.run();
    let (first, second) = (world.take(one.tab), world.take(two.tab));
    assert_eq!(page::tokens(&first, 0).len(), 20);
    assert!(second.iter().any(|answer| answer["error"]["param"] == "id"), "an id in use");
    assert!(page::tokens(&second, 0).len() < 10, "its own call it can cancel");
}

#[test]
fn a_lost_device_is_reported_to_all_waiting_tabs_and_the_model_can_be_loaded_again() {
    let mut world = World::new();
    world.fails_after = Some(3);
    let [one, two] = world.pages(["a", "a"]);
    world.fails_after = None;
    one.chat(&mut world, 1, json!({"stream": true, "max_tokens": 100}));
    two.chat(&mut world, 1, json!({"stream": false, "max_tokens": 100}));
    world.run();
    for page in [one, two] {
        let answers = world.take(page.tab);
        assert_eq!(answers.last().unwrap()["error"]["code"], "device_lost");
        page.chat(&mut world, 2, json!({"stream": false}));
        assert_eq!(world.codes(page.tab), ["closed"]);
        page.load(&mut world, 3, "a");
    }
    world.finish_loads();
    for page in [one, two] {
        assert_eq!(world.take(page.tab).last().unwrap()["value"]["model"], "a");
        page.chat(&mut world, 4, json!({"stream": false, "max_tokens": 5}));
        world.run();
        let answer = world.take(page.tab).remove(0);
        assert_eq!(answer["value"]["usage"]["completion_tokens"], 5);
    }
    assert_eq!(world.loads, 2);
}
