//! Log-probabilities beside the text of their tokens.

use super::*;

/// Each chunk's text and the log-probabilities that came with it, until the finish.
fn pieces(text: Vec<u32>, fields: serde_json::Value) -> Vec<(String, Option<Vec<f32>>)> {
    let (mut service, _) = service(&[text]);
    service.submit(with(fields), NOW, &[]).expect("it is accepted");
    let chunks = run(&mut service).into_iter().filter_map(|reply| match reply {
        Reply::Chunk { value, .. } => value.choices.into_iter().next(),
        _ => None,
    });
    let piece = |choice: api::ChunkChoice| {
        let told = choice.logprobs.map(|told| told.content);
        let told = told.map(|told| told.into_iter().map(|entry| entry.chosen.logprob).collect());
        Some((choice.delta.content?, told))
    };
    chunks.filter_map(piece).collect()
}

#[test]
fn log_probabilities_come_with_the_text_of_their_tokens() {
    let chat = chat();
    let tokenizer = chat.tokenizer();
    let told = |tokens: &[u32]| {
        let told = tokens.iter().enumerate().map(|(place, token)| likelihood(*token, place));
        Some(told.collect::<Vec<_>>())
    };
    let ids = tokenizer.encode_plain("say 🙂 now", false).unwrap();
    let whole = told(&ids).unwrap();
    let all = |found: &[(String, Option<Vec<f32>>)]| -> (String, Vec<f32>) {
        let told = found.iter().filter_map(|(_, told)| told.clone()).flatten().collect();
        (found.iter().map(|(text, _)| text.as_str()).collect(), told)
    };

    // A token is told if some of its text comes before the cut; " now" is one token.
    for (stop, keeps, text, count) in [
        ("now", false, "say 🙂 ", ids.len()),
        (" now", false, "say 🙂", ids.len() - 1),
        ("no", true, "say 🙂 no", ids.len()),
    ] {
        let mut fields = serde_json::json!({ "stream": true, "logprobs": true, "stop": stop });
        fields["include_stop_str_in_output"] = keeps.into();
        let found = pieces(ids.clone(), fields);
        assert_eq!(all(&found), (text.to_owned(), whole[..count].to_vec()));
        assert!(found[1..].iter().all(|(text, _)| !text.is_empty()), "{found:?}");
        // A character of several tokens comes with all of them.
        let emoji = found.iter().find(|(text, _)| text.contains('🙂')).expect("it came");
        assert!(emoji.1.as_ref().is_some_and(|told| told.len() >= 2), "{found:?}");
    }

    // Without stop strings, every token is told.
    let plain = serde_json::json!({ "stream": true, "logprobs": true });
    assert_eq!(all(&pieces(ids.clone(), plain)), ("say 🙂 now".to_owned(), whole));
    // A character that is cut off is told at the end.
    let cut = tokenizer.encode_plain("🙂", false).unwrap();
    let cut = &cut[..cut.len() - 1];
    assert!(!cut.is_empty());
    let found = pieces(cut.to_vec(), serde_json::json!({ "stream": true, "logprobs": true }));
    assert_eq!(found.last(), Some(&("\u{FFFD}".to_owned(), told(cut))));
    // Nobody asked.
    let found = pieces(ids, serde_json::json!({ "stream": true }));
    assert!(found.iter().all(|(_, told)| told.is_none()));
}
