//! Log-probabilities are sent with the text of their tokens.

use super::*;

/// Each chunk's text and log-probabilities, up to the finish.
fn pieces(text: Vec<u32>, fields: serde_json::Value) -> Vec<(String, Option<Vec<f32>>)> {
    let (mut service, _) = service(&[text]);
    service.submit(with(fields), NOW, &[]).expect("it is accepted");
    let chunks = run(&mut service).into_iter().filter_map(|reply| match reply {
        Reply::Chunk { value, .. } => value.choices.into_iter().next(),
        _ => None,
    });
    let piece = |choice: api::ChunkChoice| {
        let content = choice.logprobs.map(|logprobs| logprobs.content);
        let logprobs = content.map(|all| all.into_iter().map(|one| one.chosen.logprob).collect());
        Some((choice.delta.content?, logprobs))
    };
    chunks.filter_map(piece).collect()
}

#[test]
fn log_probabilities_come_with_the_text_of_their_tokens() {
    let chat = chat();
    let tokenizer = chat.tokenizer();
    let logprobs = |tokens: &[u32]| {
        let logprobs = tokens.iter().enumerate().map(|(place, token)| likelihood(*token, place));
        Some(logprobs.collect::<Vec<_>>())
    };
    let ids = tokenizer.encode_plain("say 🙂 now", false).unwrap();
    let whole = logprobs(&ids).unwrap();
    let all = |found: &[(String, Option<Vec<f32>>)]| -> (String, Vec<f32>) {
        let logprobs = found.iter().filter_map(|(_, all)| all.clone()).flatten().collect();
        (found.iter().map(|(text, _)| text.as_str()).collect(), logprobs)
    };

    // A token is returned if some of its text is before the cut; " now" is one token.
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
        // A character that is split over several tokens comes with all of them.
        let emoji = found.iter().find(|(text, _)| text.contains('🙂')).expect("it came");
        assert!(emoji.1.as_ref().is_some_and(|logprobs| logprobs.len() >= 2), "{found:?}");
    }

    // Without stop strings, every token is returned.
    let plain = serde_json::json!({ "stream": true, "logprobs": true });
    assert_eq!(all(&pieces(ids.clone(), plain)), ("say 🙂 now".to_owned(), whole));
    // An incomplete character is returned at the end.
    let cut = tokenizer.encode_plain("🙂", false).unwrap();
    let cut = &cut[..cut.len() - 1];
    assert!(!cut.is_empty());
    let found = pieces(cut.to_vec(), serde_json::json!({ "stream": true, "logprobs": true }));
    assert_eq!(found.last(), Some(&("\u{FFFD}".to_owned(), logprobs(cut))));
    // Log-probabilities were not requested.
    let found = pieces(ids, serde_json::json!({ "stream": true }));
    assert!(found.iter().all(|(_, logprobs)| logprobs.is_none()));
}
