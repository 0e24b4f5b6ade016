//! Conversations that are held.

use super::*;

#[test]
fn a_held_conversation_waits_as_a_whole_and_then_continues() {
    let fields = serde_json::json!({ "stream": true, "n": 2 });
    let answers = [vec![300; 20], vec![301; 20]];
    let (mut service, shared) = service(&answers);
    service.submit(with(fields.clone()), NOW, &[]).expect("it is accepted");
    let whole = run(&mut service);

    let id = service.submit(with(fields), NOW, &[]).expect("it is accepted");
    let mut found = Vec::new();
    let mut step = |service: &mut Service<Script>| {
        let replies = pollster::block_on(service.step()).expect("it runs");
        found.extend(replies.into_iter().map(|(_, reply)| reply));
    };
    for _ in 0..5 {
        step(&mut service);
    }
    service.hold(id, true);
    // Let the steps in flight finish.
    for _ in 0..DEPTH {
        step(&mut service);
    }
    let sampled = shared.borrow().sampled.len();
    for _ in 0..5 {
        step(&mut service);
    }
    assert_eq!(shared.borrow().sampled.len(), sampled);
    service.hold(id, false);
    found.extend(run(&mut service));
    for index in 0..2 {
        assert_eq!(of_choice(&found, index), of_choice(&whole, index));
    }
    assert_eq!(found.last(), Some(&Reply::End));
}
