//! The service over an executor that writes given answers.

mod constraints;
mod drafts;
mod hold;
mod logprobs;
mod requests;
mod resume;
mod tools;

use std::{cell::RefCell, collections::VecDeque, fs, rc::Rc};

use super::*;
use crate::{
    api::{ChatCompletionRequest, Conversation},
    step::{HostMemory, KvGroups, RowTokens, Sample, StepPlan, StepResult},
    text::ChatFiles,
};

const NOW: Moment = Moment { now: 1_800_000_000, entropy: 7, tab: TabId(0), salt: 0 };

/// The built-in model's tokenizer and template.
fn chat() -> Chat {
    let folder = format!("{}/www/model", env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read(format!("{folder}/{name}")).ok();
    let tokenizer = read("tokenizer.json").expect("a tokenizer");
    Chat::new(&ChatFiles {
        tokenizer: &tokenizer,
        tokenizer_config: read("tokenizer_config.json").as_deref(),
        generation_config: read("generation_config.json").as_deref(),
        config: read("config.json").as_deref(),
        chat_template_json: read("chat_template.json").as_deref(),
        chat_template_jinja: read("chat_template.jinja").as_deref(),
        tool_use_jinja: None,
    })
    .expect("a valid model")
}

/// A valid request with these fields added.
fn with(fields: serde_json::Value) -> ChatRequest {
    let mut request = serde_json::json!({ "messages": [{ "role": "user", "content": "Hi!" }] });
    let fields = fields.as_object().expect("an object").clone();
    request.as_object_mut().expect("an object").extend(fields);
    let request = ChatCompletionRequest::read(request).expect("a request");
    request.validate().expect("a valid request")
}

/// Steps that a [`Script`] has in flight.
const DEPTH: usize = 2;

/// Writes given answers; the seed selects one.
struct Script {
    shared: Rc<RefCell<Shared>>,
    plans: VecDeque<StepPlan>,
}

/// State that a test shares with its [`Script`].
#[derive(Default)]
struct Shared {
    /// Number of tokens of the prompt.
    prompt: usize,
    /// The answers of the seeds from [`NOW`] on; after an answer's end, only end tokens follow.
    answers: Vec<Vec<u32>>,
    /// The seed of each sampled token so far.
    sampled: Vec<u64>,
}

const VOCAB: usize = 2050;
const END: u32 = 2;

impl Executor for Script {
    fn depth(&self) -> usize {
        DEPTH
    }

    fn capacity(&self) -> Capacity {
        Capacity {
            rows: 24,
            seqs: 2,
            logit_rows: 16,
            blocks: 64,
            context: 512,
            vocab: VOCAB,
            groups: KvGroups::FULL,
            host: HostMemory::NONE,
        }
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        self.plans.push_back(plan.clone());
        Ok(())
    }

    async fn result(&mut self, _turn: impl AsyncFn()) -> Result<StepResult> {
        let plan = self.plans.pop_front().expect("a step is in flight");
        let mut shared = self.shared.borrow_mut();
        let mut samples = Vec::new();
        for seq in &plan.seqs {
            let Some(sampling) = seq.sample else { continue };
            shared.sampled.push(sampling.seed);
            let answer = shared.answers.get((sampling.seed - NOW.entropy) as usize);
            let place = seq.start as usize + seq.tokens.count() - shared.prompt;
            if let (RowTokens::Known(known), Some(answer)) = (&seq.tokens, answer) {
                let known = &known[known.len().saturating_sub(place)..];
                assert_eq!(known, &answer[place - known.len()..place], "it is given its answer");
            }
            let mut drafts = seq.drafts.iter().map(|draft| draft.token);
            for place in place.. {
                let token = answer.and_then(|answer| answer.get(place)).copied().unwrap_or(END);
                let logprobs = sampling.logprobs.map(|top| Logprobs {
                    chosen: likelihood(token, place),
                    top: (0..top).map(|token| (token, -1.0)).collect(),
                });
                samples.push(Sample { slot: seq.slot, token, not_finite: 0, logprobs });
                if drafts.next() != Some(Some(token)) {
                    break;
                }
            }
        }
        Ok(StepResult { samples, ..Default::default() })
    }
}

/// The log-probability of a token at an index of an answer.
fn likelihood(token: u32, place: usize) -> f32 {
    -(token as f32) / 8.0 - place as f32 / 1024.0
}

/// A service over a [`Script`] for requests [`with`] the same messages.
fn service(answers: &[Vec<u32>]) -> (Service<Script>, Rc<RefCell<Shared>>) {
    service_of(chat(), &with(serde_json::json!({})).conversation, answers)
}

/// The same for requests with this conversation.
fn service_of(
    chat: Chat,
    conversation: &Conversation,
    answers: &[Vec<u32>],
) -> (Service<Script>, Rc<RefCell<Shared>>) {
    let prompt = chat.prompt(conversation, None).expect("a valid prompt").ids.len();
    let shared = Shared { prompt, answers: answers.to_vec(), sampled: Vec::new() };
    let shared = Rc::new(RefCell::new(shared));
    let script = Script { shared: shared.clone(), plans: VecDeque::new() };
    let clock = crate::engine::steady_clock();
    let options = Options { max_drafts: 0, ..Options::default() };
    (Service::new(script, chat, "m".into(), options, clock), shared)
}

/// The replies until the service is idle.
fn run(service: &mut Service<Script>) -> Vec<Reply> {
    let mut replies = Vec::new();
    for _ in 0..2000 {
        if service.is_idle() {
            return replies;
        }
        let step = pollster::block_on(service.step()).expect("it runs");
        replies.extend(step.into_iter().map(|(_, reply)| reply));
    }
    panic!("the service does not come to rest");
}

/// All replies to a request, which may be resumed.
fn replies(service: &mut Service<Script>, request: &ChatRequest, resume: &[Resumed]) -> Vec<Reply> {
    service.submit(request.clone(), NOW, resume).expect("it is accepted");
    run(service)
}

/// The chunks of one of the answers.
fn of_choice(replies: &[Reply], index: usize) -> Vec<Reply> {
    let is_of = |reply: &&Reply| match reply {
        Reply::Chunk { value, .. } => value.choices.iter().any(|c| c.index as usize == index),
        _ => false,
    };
    replies.iter().filter(is_of).cloned().collect()
}
