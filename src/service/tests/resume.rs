//! Streams that are interrupted and resumed in another service.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A request for a stream with usage.
fn stream(fields: Value) -> ChatRequest {
    let mut all = json!({ "stream": true, "stream_options": { "include_usage": true } });
    all.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    with(all)
}

/// The `resume` of a page that received these chunks.
fn received(chunks: &[Reply], n: usize) -> Vec<Resumed> {
    let mut resume = vec![Resumed::default(); n];
    for chunk in chunks {
        let Reply::Chunk { value, tokens, ended } = chunk else { panic!("{chunk:?}") };
        for choice in &value.choices {
            let resumed = &mut resume[choice.index as usize];
            resumed.started = true;
            resumed.tokens.extend(tokens);
            resumed.ended = *ended;
        }
    }
    resume
}

/// The usage at the end of a stream: tokens of the prompt and of the answers.
fn usage(replies: &[Reply]) -> (u32, u32) {
    let [.., Reply::Chunk { value, tokens, ended: None }, Reply::End] = replies else {
        panic!("{replies:?}")
    };
    assert!(value.choices.is_empty() && tokens.is_empty());
    let usage = value.usage.flatten().expect("it was asked for");
    assert_eq!(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    (usage.prompt_tokens, usage.completion_tokens)
}

/// Checks that a resumed stream sends exactly the chunks that were not received.
fn check_rest(
    service: &mut Service<Script>,
    request: &ChatRequest,
    whole: &[Reply],
    cuts: &[usize],
) {
    let choices = |replies: &[Reply]| -> Vec<Vec<Reply>> {
        (0..request.n).map(|index| of_choice(replies, index)).collect()
    };
    let expected = choices(whole);
    let heard = expected.iter().zip(cuts).flat_map(|(chunks, cut)| chunks[..*cut].to_vec());
    let resume = received(&heard.collect::<Vec<_>>(), request.n);
    let rest = replies(service, request, &resume);
    for ((expected, found), cut) in expected.iter().zip(choices(&rest)).zip(cuts) {
        assert_eq!(found, expected[*cut..], "from {resume:?}");
    }
    assert_eq!(usage(&rest), usage(whole), "from {resume:?}");
}

/// Common tokens of the built-in model: letters, words, an end of turn, parts of characters.
fn common() -> Vec<u32> {
    let chat = chat();
    let encode = |text: &str| chat.tokenizer().encode_plain(text, false).expect("a valid text");
    [&encode("🙂 é a b say now and then"), &[0, VOCAB as u32 - 1][..]].concat()
}

#[test]
fn a_stream_resumes_after_every_cut() {
    let common = common();
    let token = prop::sample::select(common);
    let answer = prop::collection::vec(token.clone(), 0..16);
    let stops = prop::collection::vec("[ anow🙂\u{FFFD}]{1,3}", 0..3);
    let shown = any::<(bool, bool)>();
    let ends = (prop::option::of(1..12usize), prop::option::weighted(0.3, token));
    let (logprobs, cuts) = (any::<bool>(), any::<[prop::sample::Index; 3]>());
    let answers = prop::collection::vec(answer, 1..=3);
    proptest!(|(answers in answers, stops in stops, shown in shown, ends in ends, logprobs in logprobs, cuts in cuts)| {
        let (mut service, shared) = service(&answers);
        let n = answers.len();
        let mut fields = json!({ "n": n, "stop": stops, "logprobs": logprobs, "max_tokens": ends.0 });
        fields["stop_token_ids"] = Vec::from_iter(ends.1).into();
        fields["include_stop_str_in_output"] = shown.0.into();
        fields["skip_special_tokens"] = shown.1.into();
        let request = stream(fields);
        let whole = replies(&mut service, &request, &[]);

        // Every chunk has the tokens of its text; the last one has the token count.
        let mut count = 0;
        for (index, answer) in answers.iter().enumerate() {
            let mut rest = answer.iter().enumerate();
            for chunk in of_choice(&whole, index) {
                let Reply::Chunk { value, tokens, ended } = chunk else { panic!("{chunk:?}") };
                let choice = &value.choices[0];
                prop_assert_eq!(ended.is_some(), choice.finish_reason.is_some());
                count += ended.unwrap_or(0);
                let expected: Vec<_> = rest.by_ref().take(tokens.len()).collect();
                prop_assert!(tokens.iter().eq(expected.iter().map(|(_, token)| *token)));
                if let Some(logprobs) = &choice.logprobs {
                    let found = logprobs.content.iter().map(|entry| entry.chosen.logprob);
                    prop_assert!(found.eq(expected.iter().map(|(place, id)| likelihood(**id, *place))));
                } else {
                    prop_assert!(!logprobs || tokens.is_empty());
                }
            }
        }
        prop_assert_eq!(usage(&whole).1 as usize, count);

        let chunks = &whole[..whole.len() - 2];
        let lengths: Vec<usize> = (0..n).map(|index| of_choice(chunks, index).len()).collect();
        for cut in 0..=chunks.len() {
            let cuts = (0..n).map(|index| of_choice(&chunks[..cut], index).len());
            let cuts: Vec<usize> = cuts.collect();
            shared.borrow_mut().sampled.clear();
            check_rest(&mut service, &request, &whole, &cuts);
            // Answers that have ended are not sampled again.
            for (index, seed) in (0..n).zip(NOW.entropy..) {
                let ended = cuts[index] == lengths[index];
                prop_assert!(!ended || !shared.borrow().sampled.contains(&seed));
            }
        }
        let cuts: Vec<usize> =
            lengths.iter().zip(cuts).map(|(length, cut)| cut.index(length + 1)).collect();
        check_rest(&mut service, &request, &whole, &cuts);
    });
}

#[test]
fn an_answer_that_has_all_its_tokens_ends_at_once() {
    let chat = chat();
    let ids = chat.tokenizer().encode_plain("say now and then", false).expect("a valid text");
    let says_now = |count: &usize| chat.tokenizer().decode(&ids[..*count]).unwrap().contains("now");
    let now = (0..ids.len()).find(says_now).expect("it says so");
    let (mut service, shared) = service(std::slice::from_ref(&ids));
    let resumed = |tokens: &[u32], ended: Option<usize>| {
        [Resumed { tokens: tokens.to_vec(), started: true, ended }]
    };
    let after_end = [&ids[..2], &[END], &ids[2..]].concat();
    for (fields, tokens, ended, reason, count) in [
        (json!({}), &ids[..3], Some(9), None, 9),
        (json!({ "max_tokens": 3 }), &ids[..3], None, Some(api::FinishReason::Length), 3),
        (json!({ "max_tokens": 2 }), &ids[..3], None, Some(api::FinishReason::Length), 3),
        (json!({ "stop": "now" }), &ids[..now], None, Some(api::FinishReason::Stop), now),
        (json!({ "stop_token_ids": [ids[1]] }), &ids[..2], None, Some(api::FinishReason::Stop), 2),
        (json!({}), &after_end, None, Some(api::FinishReason::Stop), after_end.len()),
    ] {
        let request = stream(fields);
        let found = replies(&mut service, &request, &resumed(tokens, ended));
        assert_eq!(usage(&found).1, count as u32, "{found:?}");
        match (&found[..found.len() - 2], reason) {
            ([], None) => {}
            ([Reply::Chunk { value, tokens, ended }], Some(_)) => {
                let choice = &value.choices[0];
                assert_eq!((choice.finish_reason, *ended), (reason, Some(count)));
                assert_eq!((&choice.delta.content, &tokens[..]), (&None, &[][..]));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(shared.borrow().sampled, [0; 0]);
}

#[test]
fn answers_that_do_not_fit_the_request_are_refused() {
    let (mut service, _) = service(&[]);
    let most = service.capacity.longest() - service_prompt();
    let tokens = |tokens: Vec<u32>| Resumed { tokens, ..Default::default() };
    let ended = |count: usize| Resumed { ended: Some(count), ..Default::default() };
    let two = json!({ "n": 2 });
    for (fields, resume, expected) in [
        (json!({ "stream": false, "stream_options": null }), vec![tokens(vec![])], "unless stream"),
        (two.clone(), vec![tokens(vec![])], "1 answers, expected 2"),
        (two.clone(), vec![tokens(vec![]); 3], "3 answers, expected 2"),
        (two.clone(), vec![tokens(vec![5]), tokens(vec![5, VOCAB as u32])], "ids below 2050"),
        (json!({}), vec![tokens(vec![u32::MAX])], "token id 4294967295"),
        (json!({}), vec![tokens(vec![5; most + 1])], "tokens, expected at most"),
        (two, vec![ended(1), ended(usize::MAX)], "tokens, expected at most"),
    ] {
        match service.submit(stream(fields), NOW, &resume) {
            Err(Error::InvalidRequest { param, message }) => {
                assert_eq!(param, "resume");
                assert!(message.contains(expected), "{message}");
            }
            other => panic!("{expected}: {other:?}"),
        }
        assert!(service.is_idle());
    }
    let full = replies(&mut service, &stream(json!({})), &[tokens(vec![5; most])]);
    assert_eq!(usage(&full).1 as usize, most);
}

/// Number of prompt tokens of every request here.
fn service_prompt() -> usize {
    service(&[]).1.borrow().prompt
}

#[test]
fn a_full_queue_takes_all_answers_or_none() {
    let (mut service, _) = service(&[]);
    let fields = json!({ "n": 15 });
    let resume = vec![Resumed::default(); 15];
    let mut taken = 0;
    let refused = loop {
        match service.submit(stream(fields.clone()), NOW, &resume) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::QueueFull { .. }), "{refused:?}");
    let found = run(&mut service);
    assert_eq!(found.iter().filter(|reply| **reply == Reply::End).count(), taken);
    assert!(found.iter().all(|reply| !matches!(reply, Reply::Error(_))));
}

proptest! {
    #[test]
    fn made_up_answers_are_refused_or_end(
        resume in prop::collection::vec(
            (prop::collection::vec(0..VOCAB as u32 + 9, 0..600), any::<bool>(), any::<Option<u16>>()),
            0..4,
        ),
        n in 1..4usize,
        stops in prop::collection::vec("[a-e ]{1,2}", 0..3),
        max_tokens in prop::option::of(1..700usize),
    ) {
        let (mut service, _) = service(&[]);
        let resumed = |(tokens, started, ended): (_, _, Option<u16>)| {
            Resumed { tokens, started, ended: ended.map(usize::from) }
        };
        let resume: Vec<Resumed> = resume.into_iter().map(resumed).collect();
        let request = stream(json!({ "n": n, "stop": stops, "max_tokens": max_tokens }));
        match service.submit(request, NOW, &resume) {
            Ok(_) => {
                let found = run(&mut service);
                prop_assert_eq!(found.last(), Some(&Reply::End));
            }
            Err(Error::InvalidRequest { param, .. }) => prop_assert_eq!(param, "resume"),
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}
