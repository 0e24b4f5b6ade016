//! Speculative decoding: several tokens per step.

use serde_json::json;

use super::*;
use crate::speculate::Proposer;

/// Proposes the rest of the answer, which it knows.
#[derive(Clone, Debug)]
struct Known(Vec<u32>);

impl Proposer for Known {
    fn fresh(&self) -> Box<dyn Proposer> {
        Box::new(self.clone())
    }

    fn propose(&mut self, tokens: &[u32], most: usize) -> Vec<u32> {
        let rest = self.0.strip_prefix(tokens).unwrap_or_default();
        rest.iter().copied().take(most).collect()
    }
}

/// A service that writes an answer and drafts as much of it as allowed.
fn drafting(answer: &[u32]) -> Service<Script> {
    let prompt = chat().prompt(&with(json!({})).conversation, None).expect("a valid prompt").ids;
    let shared =
        Shared { prompt: prompt.len(), answers: vec![answer.to_vec()], sampled: Vec::new() };
    let script = Script { shared: Rc::new(RefCell::new(shared)), plans: VecDeque::new() };
    let options = Options { adaptive_drafts: false, ..Options::default() };
    let known = Known([&prompt, answer].concat());
    Service::new(script, chat(), "m".into(), options, crate::engine::steady_clock())
        .with_proposer(Rc::new(known))
}

#[test]
fn an_answer_ends_in_the_step_that_completes_its_stop_string() {
    let ids = chat().tokenizer().encode_plain("one two three four five", false).expect("tokens");
    let (mut service, _) = service(std::slice::from_ref(&ids));
    service.submit(with(json!({ "stop": " three" })), NOW, &[]).expect("it is accepted");
    let mut before = 0;
    let replies = loop {
        let replies = pollster::block_on(service.step()).expect("it runs");
        if !replies.is_empty() {
            break replies;
        }
        before = service.metrics().generation_tokens;
    };
    let [(_, Reply::Completion(completion))] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(completion.choices[0].message.content.as_deref(), Some("one two"));
    assert_eq!(u64::from(completion.usage.completion_tokens), before + 1, "its token came now");
}

#[test]
fn an_answer_ends_at_its_stop_string_whatever_tokens_came_in_the_same_step() {
    let ids = chat()
        .tokenizer()
        .encode_plain("one two three four five six seven eight nine ten", false)
        .expect("tokens");
    let (mut beyond, mut total_accepted) = (0, 0);
    for stop in [" two", " three", " five", " eight"] {
        let text = |count: &usize| chat().tokenizer().decode(&ids[..*count]).expect("a text");
        let count = (0..ids.len()).find(|count| text(count).ends_with(stop)).expect("the words");
        let text = text(&count).trim_end_matches(stop).to_owned();

        let mut service = drafting(&ids);
        let whole = with(json!({ "stop": stop }));
        service.submit(whole, NOW, &[]).expect("it is accepted");
        let replies = run(&mut service);
        let [Reply::Completion(completion)] = &replies[..] else { panic!("{replies:?}") };
        let choice = &completion.choices[0];
        assert_eq!((choice.finish_reason, choice.stop_reason), (api::FinishReason::Stop, None));
        assert_eq!(choice.message.content.as_ref(), Some(&text));
        assert_eq!(completion.usage.completion_tokens, count as u32, "up to {stop:?}");
        let details = &completion.usage.completion_tokens_details;
        let accepted = details.accepted_prediction_tokens;
        assert!(accepted < count as u32, "{accepted} of {count}");
        total_accepted += accepted;
        let drafts = details.rejected_prediction_tokens + accepted;
        assert_eq!(u64::from(drafts), service.metrics().spec_decode.spec_decode_num_draft_tokens);
        beyond += service.metrics().generation_tokens - count as u64;

        let mut service = drafting(&ids);
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
    assert!(beyond > 0 && total_accepted > 0, "more came with a stop string");
}
