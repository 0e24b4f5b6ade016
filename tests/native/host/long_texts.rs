//! Long texts are tokenised in pieces, between the steps of others.

use serde_json::{Value, json};

use super::page::{Page, World, chat, chat_call, tokens};

/// A text of about so many characters.
fn text(chars: usize) -> String {
    let mut text = String::new();
    for i in 0.. {
        if text.len() >= chars {
            break;
        }
        text += ["Once upon a time, ", "there was\na cat ", "and 1234 mice. "][i % 3];
    }
    text
}

fn tokenize(id: u32, text: &str) -> Value {
    json!({"type": "tokens", "task": "tokenize", "id": id, "request": {"prompt": text}, "now": 0})
}

/// A page that is answered, and one that asks something long.
fn reader_and_writer(world: &mut World) -> [Page; 2] {
    let pages = world.pages(["a", "a"]);
    pages[0].chat(world, 1, json!({"stream": true, "max_tokens": 300}));
    world.step();
    world.take(pages[0].tab);
    pages
}

#[test]
fn steps_go_on_while_a_long_text_is_tokenised() {
    let mut world = World::new();
    let [reader, writer] = reader_and_writer(&mut world);
    let long = text(200_000);
    world.post(writer.tab, tokenize(1, &long));
    let mut told = world.take(writer.tab);
    assert_eq!(told, [json!(null); 0]);
    while told.is_empty() {
        world.step();
        told = world.take(writer.tab);
    }
    let count = tokens(&world.take(reader.tab), 0).len();
    assert!((15..40).contains(&count), "{count} tokens came meanwhile");
    let expected = chat().tokenizer().encode_raw(&long, true).expect("tokens");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["value"]["tokens"], json!(expected));
}

#[test]
fn nothing_waits_for_a_long_text_but_its_own_call() {
    let mut world = World::new();
    let [page, other] = world.pages(["a", "a"]);
    let mut long = chat_call(1, json!({"stream": true, "max_tokens": 5}));
    long["request"]["messages"][0]["content"] = text(200_000).into();
    world.post(page.tab, long.clone());
    world.post(page.tab, long);
    assert_eq!(world.take(page.tab)[0]["error"]["param"], "id", "an id in use");
    page.chat(&mut world, 2, json!({"stream": true, "max_tokens": 5}));
    let lengthy = vec![text(400); 200];
    let embed = json!({"type": "embed", "id": 3, "request": {"input": lengthy}});
    world.post(page.tab, embed);
    other.chat(&mut world, 1, json!({"stream": true, "max_tokens": 5}));
    for _ in 0..7 {
        world.step();
    }
    assert_eq!(tokens(&world.take(other.tab), 0).len(), 5);
    let told = world.take(page.tab);
    assert!(told.iter().all(|answer| answer["id"] == 2), "{told:?}");
    assert_eq!(tokens(&told, 0).len(), 5);
    world.run();
    let told = world.take(page.tab);
    assert_eq!(told.len(), 2, "{told:?}");
    let of = |id: u32| told.iter().find(|answer| answer["id"] == id).expect("an answer");
    assert_eq!(of(1)["error"]["code"], "context_length_exceeded");
    assert_eq!(of(3)["value"]["data"].as_array().map(Vec::len), Some(200));
}

#[test]
fn a_call_with_a_long_text_can_be_cancelled_and_its_tab_closed() {
    let mut world = World::new();
    let [reader, writer] = reader_and_writer(&mut world);
    for leaves in [false, true] {
        world.post(writer.tab, tokenize(1, &text(200_000)));
        world.step();
        match leaves {
            true => world.host.close(writer.tab),
            false => world.post(writer.tab, json!({"type": "cancel", "id": 1})),
        }
        world.step();
        assert_eq!(world.take(writer.tab), [json!(null); 0]);
        if !leaves {
            world.post(writer.tab, tokenize(1, "short"));
            assert_eq!(world.take(writer.tab).len(), 1, "the id is free again");
        }
    }
    world.run();
    assert_eq!(tokens(&world.take(reader.tab), 0).len(), 299);
    assert_eq!(world.take(writer.tab), [json!(null); 0]);
}
