//! Tokens that come several at a time, as they were guessed.

use serde_json::json;

use super::*;
use crate::speculate::Drafter;

/// Proposes the end of what it knows.
#[derive(Debug)]
struct Known(Vec<u32>);

impl Drafter for Known {
    fn propose(&self, tokens: &[u32], most: usize) -> Vec<u32> {
        let rest = self.0.strip_prefix(tokens).unwrap_or_default();
        rest.iter().copied().take(most).collect()
    }
}

/// A service that writes an answer and guesses as much of it as it may.
fn guessing(answer: &[u32]) -> Service<Script> {
    let prompt = chat().prompt(&with(json!({})).conversation, None).expect("a valid prompt").ids;
    let shared = Shared { prompt: prompt.len(), answers: vec![answer.to_vec()], drawn: Vec::new() };
    let script = Script { shared: Rc::new(RefCell::new(shared)), plans: VecDeque::new() };
    let options = Options { adaptive_drafts: false, ..Options::default() };
    let known = Known([&prompt, answer].concat());
    Service::new(script, chat(), "m".into(), options, crate::engine::steady_clock())
        .with_drafter(Rc::new(known))
}

#[test]
fn an_answer_ends_with_its_stop_string_whatever_came_with_it() {
    let ids = chat()
        .tokenizer()
        .encode_plain("one two three four five six seven eight nine ten", false)
        .expect("tokens");
    let (mut beyond, mut guessed_before) = (0, 0);
    for stop in [" two", " three", " five", " eight"] {
        let told = |count: &usize| chat().tokenizer().decode(&ids[..*count]).expect("a text");
        let count = (0..ids.len()).find(|count| told(count).ends_with(stop)).expect("the words");
        let text = told(&count).trim_end_matches(stop).to_owned();

        let mut service = guessing(&ids);
        let whole = with(json!({ "stop": stop }));
        service.submit(whole, NOW, &[]).expect("it is accepted");
        let replies = run(&mut service);
        let [Reply::Completion(completion)] = &replies[..] else { panic!("{replies:?}") };
        let choice = &completion.choices[0];
        assert_eq!((choice.finish_reason, choice.stop_reason), (api::FinishReason::Stop, None));
        assert_eq!(choice.message.content.as_ref(), Some(&text));
        assert_eq!(completion.usage.completion_tokens, count as u32, "up to {stop:?}");
        let details = &completion.usage.completion_tokens_details;
        let guessed = details.accepted_prediction_tokens;
        assert!(guessed < count as u32, "{guessed} of {count}");
        guessed_before += guessed;
        let drafts = details.rejected_prediction_tokens + guessed;
        assert_eq!(u64::from(drafts), service.metrics().spec_decode.spec_decode_num_draft_tokens);
        beyond += service.metrics().generation_tokens - count as u64;

        let mut service = guessing(&ids);
        service
            .submit(with(json!({ "stop": stop, "stream": true })), NOW, &[])
            .expect("it is accepted");
        let replies = run(&mut service);
        let ends = replies.iter().filter_map(|reply| match reply {
            Reply::Chunk { ended, .. } => *ended,
            _ => None,
        });
        assert_eq!(ends.collect::<Vec<_>>(), [count], "up to {stop:?}");
    }
    assert!(beyond > 0 && guessed_before > 0, "more came with a stop string");
}
