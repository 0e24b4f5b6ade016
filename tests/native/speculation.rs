//! Speculative decoding changes how long an answer takes, and nothing else.

mod heads;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    ops::ControlFlow,
    rc::Rc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tabloom::{
    Error,
    api::{ChatCompletion, ChatCompletionRequest, Choice, FinishReason, TopLogprob},
    engine::{Options, RequestId, TabId, steady_clock},
    executor::AnyExecutor,
    load::{self, Device, DraftWith, LoadOptions},
    metrics::SpecDecode,
    sampling::LocalCompiler,
    service::{Moment, Reply, Service},
    speculate::{Ngram, Proposer},
    step::{BLOCK_SIZE, Draft, Executor, Follow, RowTokens, Sampling, SeqPlan, StepPlan},
    weights::{FolderSource, Within},
};

const MOMENT: Moment = Moment { now: 1_800_000_000, entropy: 7, tab: TabId(0), salt: 0 };
const VOCAB: u32 = 2048;

/// Records all sequences, and then proposes their tokens.
#[derive(Clone, Debug, Default)]
struct Memory {
    sequences: Rc<RefCell<Vec<Vec<u32>>>>,
    /// Added to proposed tokens: with 0 all are accepted, otherwise all are rejected. None: records,
    /// and proposes nothing.
    error: Rc<RefCell<Option<u32>>>,
}

impl Proposer for Memory {
    fn fresh(&self) -> Box<dyn Proposer> {
        Box::new(self.clone())
    }

    fn propose(&mut self, tokens: &[u32], most: usize) -> Vec<u32> {
        let mut sequences = self.sequences.borrow_mut();
        let Some(error) = *self.error.borrow() else {
            match sequences.iter_mut().find(|known| tokens.starts_with(known)) {
                Some(known) => *known = tokens.to_vec(),
                None => sequences.push(tokens.to_vec()),
            }
            return Vec::new();
        };
        let known = sequences.iter().find(|known| known.starts_with(tokens));
        let rest = known.map_or(&[][..], |known| &known[tokens.len()..]);
        rest.iter().take(most).map(|token| (token + error) % VOCAB).collect()
    }
}

/// The drafter on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DraftBy {
    Nothing,
    /// The built-in model's draft head.
    Head,
    /// The built-in model a second time, in the role of a smaller one.
    Model,
    EarlyExit,
}

/// The built-in model.
fn built_in() -> FolderSource {
    FolderSource::new(format!("{}/www/model", env!("CARGO_MANIFEST_DIR")))
}

/// The built-in model with a drafter.
fn loaded(device: Device, beside: DraftBy) -> load::Model {
    let source = built_in();
    let draft = match beside {
        DraftBy::Nothing => DraftWith::Nothing,
        DraftBy::Head | DraftBy::Model => DraftWith::Bundled,
        DraftBy::EarlyExit => DraftWith::EarlyExit(3),
    };
    let folder = if beside == DraftBy::Model { "" } else { "draft" };
    let folder = Within { folder, source: &source };
    let options = LoadOptions { device, draft, ..Default::default() };
    let model = pollster::block_on(async {
        let opened = load::Opened::open(&source).await?;
        let chat = opened.chat().await?;
        let draft = opened.draft(&folder, &options).await;
        let prepared = opened.prepare(&options)?.with_draft(draft)?;
        let loaded = prepared.load(|_| ControlFlow::Continue(())).await?;
        Ok::<_, Error>(load::Model { chat, loaded })
    })
    .expect("the built-in model loads");
    match &model.loaded.draft {
        None => assert_eq!(beside, DraftBy::Nothing),
        Some(outcome) => assert!(outcome.is_ok(), "{outcome:?}"),
    }
    model
}

/// Finds nothing, so that only the executor's drafter drafts.
fn no_lookup() -> Rc<dyn Proposer> {
    Rc::new(Ngram::new(usize::MAX..=usize::MAX))
}

/// A service that always drafts as much as possible, without prompt lookup.
fn service(device: Device, beside: DraftBy) -> Service<AnyExecutor> {
    let load::Model { chat, loaded } = loaded(device, beside);
    // Steps and drafts are counted: none is cut short because the device is slow.
    let step_seconds = f64::INFINITY;
    let options = Options { adaptive_drafts: false, step_seconds, ..Default::default() };
    Service::new(loaded.executor, chat, "built-in".into(), options, steady_clock())
        .with_compiler(Box::new(LocalCompiler::default()))
        .with_proposer(no_lookup())
}

const STOPPED: &str = "stop string";
const SCHEMA: &str = "schema";
/// Words of the greedy answer in the middle of a round, for every drafter.
const STOP: &str = "berries";

/// Requests of every kind, by name.
fn requests() -> Vec<(&'static str, Value)> {
    // The chat has an answer already, so that prompt lookup finds something.
    let ask = |text: &str, answer: &str, more: Value| {
        let mut fields = json!({
            "messages": [
                { "role": "user", "content": text },
                { "role": "assistant", "content": answer },
                { "role": "user", "content": text },
            ],
            "max_tokens": 30,
            "temperature": 0,
        });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    let schema = json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "sure": { "type": "boolean" } },
        "required": ["city", "sure"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema } });
    let story = |more: Value| {
        let story = "Once upon a time, a kind fox named Tom lived in a green forest. He loved to \
                    pick berries. One day, Tom found a basket of apples.";
        ask("Tell me a story about a fox.", story, more)
    };
    let penalties = json!({
        "temperature": 0.8, "seed": 6, "presence_penalty": 0.4, "frequency_penalty": 0.6,
        "repetition_penalty": 1.2,
    });
    let logprobs = json!({ "temperature": 0.8, "seed": 9, "logprobs": true, "top_logprobs": 3 });
    let capital = ask(
        "What is the capital of France?",
        "{ \"city\": \"Paris\", \"sure\": true }",
        json!({ "response_format": format }),
    );
    vec![
        ("greedy", story(json!({}))),
        ("seeded", story(json!({ "temperature": 0.8, "seed": 5 }))),
        ("penalties", story(penalties)),
        (STOPPED, story(json!({ "stop": [STOP], "logprobs": true }))),
        (SCHEMA, capital),
        ("log-probabilities", story(logprobs)),
        ("two answers", story(json!({ "temperature": 0.9, "seed": 7, "n": 2 }))),
    ]
}

fn submit(service: &mut Service<AnyExecutor>, fields: &Value) -> RequestId {
    let request = ChatCompletionRequest::read(fields).expect("a request");
    let request = request.validate().expect("a valid request");
    service.submit(request, MOMENT, &[]).expect("it is accepted")
}

/// The answers to requests that are served at once.
fn answers(service: &mut Service<AnyExecutor>, batch: &[&Value]) -> Vec<ChatCompletion> {
    let ids: Vec<RequestId> = batch.iter().map(|fields| submit(service, fields)).collect();
    let mut replies = Vec::new();
    for _ in 0..2000 {
        if service.is_idle() {
            break;
        }
        replies.extend(pollster::block_on(service.step()).expect("the engine runs"));
    }
    let answer = |id: &RequestId| {
        let reply = replies.iter().find(|(of, _)| of == id).map(|(_, reply)| reply.clone());
        let Some(Reply::Completion(completion)) = reply else { panic!("{reply:?}") };
        completion
    };
    ids.iter().map(answer).collect()
}

/// Asserts that two answers have equal tokens, texts and finish reasons, and nearly equal
/// log-probabilities.
fn assert_same(found: &ChatCompletion, expected: &ChatCompletion, what: &str) {
    assert_eq!(found.usage.completion_tokens, expected.usage.completion_tokens, "{what}");
    for (found, expected) in found.choices.iter().zip(&expected.choices) {
        assert_eq!(found.message, expected.message, "{what}");
        assert_eq!(found.finish_reason, expected.finish_reason, "{what}");
        let (found, expected) = (returned(found), returned(expected));
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.into_iter().zip(expected) {
            assert_eq!(found.bytes, expected.bytes, "{what}");
            let difference = found.logprob - expected.logprob;
            assert!(difference.abs() < 1e-3, "{what}: {found:?}, not {expected:?}");
        }
    }
}

/// The returned log-probabilities: of each token, followed by those of the most likely ones in its
/// place.
fn returned(choice: &Choice) -> Vec<&TopLogprob> {
    let tokens = choice.logprobs.iter().flat_map(|logprobs| &logprobs.content);
    tokens.flat_map(|token| [&token.chosen].into_iter().chain(&token.top_logprobs)).collect()
}

/// Answers to requests that were served together, and their counts of drafts.
struct Served {
    answers: Vec<ChatCompletion>,
    drafts: SpecDecode,
    steps: u64,
}

impl Served {
    fn of(service: &mut Service<AnyExecutor>, batch: &[&Value]) -> Served {
        let before = service.metrics();
        let answers = answers(service, batch);
        let after = service.metrics();
        let count = |of: fn(&SpecDecode) -> u64| of(&after.spec_decode) - of(&before.spec_decode);
        let drafts = SpecDecode {
            spec_decode_num_drafts: count(|drafts| drafts.spec_decode_num_drafts),
            spec_decode_num_draft_tokens: count(|drafts| drafts.spec_decode_num_draft_tokens),
            spec_decode_num_accepted_tokens: count(|drafts| drafts.spec_decode_num_accepted_tokens),
            ..Default::default()
        };
        Served { answers, drafts, steps: after.steps - before.steps }
    }
}

/// Draft tokens of an answer.
fn drafted_tokens(answer: &ChatCompletion) -> u32 {
    let details = answer.usage.completion_tokens_details;
    details.accepted_prediction_tokens + details.rejected_prediction_tokens
}

/// Each request is served alone, and twice together with another.
fn ask(service: &mut Service<AnyExecutor>, requests: &[(&str, Value)]) -> Vec<[Served; 2]> {
    let beside = &requests[0].1;
    let ask = |(_, fields): &(_, Value)| {
        let together = [fields, beside, fields, beside];
        [Served::of(service, &[fields]), Served::of(service, &together)]
    };
    requests.iter().map(ask).collect()
}

fn drafts_change_nothing_but_the_steps(device: Device) {
    let memory = Rc::new(Memory::default());
    let mut service = service(device, DraftBy::Nothing).with_proposer(memory.clone());
    let requests = requests();
    let expected = ask(&mut service, &requests);
    for ([alone, together], (name, _)) in expected.iter().zip(&requests) {
        assert_same(&together.answers[0], &alone.answers[0], name);
        if *name == STOPPED {
            assert_eq!(alone.answers[0].choices[0].finish_reason, FinishReason::Stop);
        }
    }
    let all = |served: &[[Served; 2]], count: fn(&Served) -> u64| -> u64 {
        served.iter().flatten().map(count).sum()
    };
    let drafted = |served: &Served| served.drafts.spec_decode_num_draft_tokens;
    assert_eq!(all(&expected, drafted), 0);

    let compare = |service: &mut Service<AnyExecutor>, name: &str, beside: DraftBy| {
        let found = ask(service, &requests);
        for ((request, _), (found, expected)) in requests.iter().zip(found.iter().zip(&expected)) {
            for (found, expected) in found.iter().zip(expected) {
                let what = format!("{name}, {request}, {} at once", found.answers.len());
                for (found, expected) in found.answers.iter().zip(&expected.answers) {
                    assert_same(found, expected, &what);
                }
                let drafted_tokens: u32 = found.answers.iter().step_by(2).map(drafted_tokens).sum();
                // With a constraint, the host has to know a draft to mask the next token, so the device
                // cannot draft.
                let may_draft = *request != SCHEMA || beside == DraftBy::Nothing;
                assert_eq!(drafted_tokens > 0, may_draft, "{what}: {drafted_tokens} drafts");
            }
            let alone = &found[0];
            if *request == STOPPED && ["right", "head"].contains(&name) {
                // The first token, and the tokens of the rounds.
                let SpecDecode { spec_decode_num_drafts: rounds, .. } = alone.drafts;
                let brought = 1 + rounds + alone.drafts.spec_decode_num_accepted_tokens;
                let returned = u64::from(alone.answers[0].usage.completion_tokens);
                assert!(
                    returned < brought,
                    "{name}: {returned} tokens up to the stop, {brought} came"
                );
            }
        }
        let (steps, alone) = (all(&found, |of| of.steps), all(&expected, |of| of.steps));
        let drafted = all(&found, drafted);
        let accepted = all(&found, |of| of.drafts.spec_decode_num_accepted_tokens);
        println!("{name}: {accepted} of {drafted} drafts, {steps} steps instead of {alone}");
        match name {
            "wrong" => assert!(accepted * 20 < drafted),
            "right" | "model" => assert!(steps * 2 < alone && accepted * 10 > drafted * 8),
            "head" => assert!(steps * 10 < alone * 8 && accepted * 4 > drafted),
            _ => assert!(accepted > 0),
        }
    };
    for (name, beside) in
        [("head", DraftBy::Head), ("model", DraftBy::Model), ("early exit", DraftBy::EarlyExit)]
    {
        compare(&mut self::service(device, beside), name, beside);
    }
    let ngram: Rc<dyn Proposer> = Rc::new(Ngram::new(1..=3));
    let (right, wrong) = (Some(0), Some(1));
    let drafters = [
        ("lookup", ngram, None),
        ("right", memory.clone(), right),
        ("wrong", memory.clone(), wrong),
    ];
    for (name, drafter, error) in drafters {
        *memory.error.borrow_mut() = error;
        service = service.with_proposer(drafter);
        compare(&mut service, name, DraftBy::Nothing);
    }
}

/// Adaptive drafts, from prompt lookup and the draft head.
fn drafts_that_pay_change_nothing(device: Device) {
    let requests = &requests()[..3];
    let expected = ask(&mut service(device, DraftBy::Nothing), requests);
    let load::Model { chat, loaded } = loaded(device, DraftBy::Head);
    // On this clock all steps take the same time, so drafts pay.
    let ticks = Cell::new(0);
    let clock = Box::new(move || Duration::from_millis(ticks.replace(ticks.get() + 1)));
    let options = Options { adaptive_drafts: true, ..Default::default() };
    let mut service = Service::new(loaded.executor, chat, "built-in".into(), options, clock);
    let found = ask(&mut service, requests);
    let mut drafts = 0;
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        for (found, expected) in found.answers.iter().zip(&expected.answers) {
            assert_same(found, expected, "as many as pay");
            drafts += drafted_tokens(found);
        }
    }
    println!("{drafts} drafts");
    assert!(drafts > 0);
}

#[test]
fn a_round_of_drafts_is_one_submission_and_one_small_read_back() {
    let AnyExecutor::Gpu(mut executor) = loaded(Device::Gpu, DraftBy::Head).loaded.executor else {
        panic!("not on the GPU");
    };
    let made = executor.work();
    let Golden { tokens, .. } = golden::<Vec<Golden>>("draft/built_in.json").swap_remove(1);
    let mut run = |tokens: RowTokens, start: usize, blocks: Vec<u32>, drafts: usize| {
        let seq = SeqPlan {
            tokens,
            start: start as u32,
            blocks,
            sample: Some(Sampling::GREEDY),
            drafts: vec![Draft::default(); drafts],
            follow: Follow::Sampled,
            ..Default::default()
        };
        let before = executor.work();
        executor.submit(&StepPlan { seqs: vec![seq], ..Default::default() }).expect("a valid step");
        let submitted = executor.work();
        let result = pollster::block_on(executor.result(async || {})).expect("the device lives");
        assert_eq!(executor.work(), submitted, "nothing is asked for once a step is submitted");
        assert_eq!(submitted.submissions - before.submissions, 1);
        assert_eq!(submitted.read_backs - before.read_backs, 1);
        // The step, and the passes of the drafter.
        let writes = submitted.buffer_writes - before.buffer_writes;
        assert_eq!(writes, 2 + u64::from(start == 0), "a block table comes with the prompt");
        let made = (made.bind_groups, made.pipelines);
        assert_eq!((submitted.bind_groups, submitted.pipelines), made);
        result.samples.len()
    };
    let mut known = tokens.len() + run(RowTokens::Known(tokens.clone()), 0, (1..=4).collect(), 0);
    for _ in 0..3 {
        let sampled = run(RowTokens::LastSample, known - 1, Vec::new(), 5);
        assert!(sampled > 1, "the head's drafts are accepted here");
        known += sampled;
    }
}

/// Runs rounds after two prompts until each has `most` tokens; returns these, the number of drafts, and
/// the number of accepted drafts. Step i drafts `drafts(i)` tokens for the first prompt and `drafts(i +
/// 1)` for the second, and is submitted while `ahead` earlier steps are not read.
fn rounds(
    executor: &mut AnyExecutor,
    prompts: &[Vec<u32>; 2],
    temperature: f32,
    most: usize,
    drafts: impl Fn(usize) -> usize,
    ahead: usize,
) -> ([Vec<u32>; 2], [usize; 2]) {
    const SLOTS: [u32; 2] = [3, 1];
    let groups = executor.capacity().groups;
    let mut returned = [const { Vec::new() }; 2];
    let [mut drafted, mut accepted] = [0; 2];
    let mut in_flight = VecDeque::new();
    for step in 0.. {
        let seq = |(i, prompt): (usize, &Vec<u32>)| {
            let drafts = |step: usize| if step == 0 { 0 } else { drafts(step + i) };
            let blocks = groups.blocks(prompt.len() + 2 * most + 2 * BLOCK_SIZE) as u32;
            let begin = SeqPlan {
                slot: SLOTS[i],
                tokens: RowTokens::Known(prompt.clone()),
                blocks: (0..blocks).map(|at| 1 + i as u32 + 2 * at).collect(),
                sample: Some(Sampling { temperature, seed: 5 + i as u64, ..Sampling::GREEDY }),
                follow: Follow::Sampled,
                ..SeqPlan::default()
            };
            if step == 0 {
                return begin;
            }
            SeqPlan {
                tokens: RowTokens::LastSample,
                // Each step in flight samples at least one token.
                start: (prompt.len() + returned[i].len() + in_flight.len() - 1) as u32,
                unverified: if in_flight.is_empty() { 0 } else { drafts(step - 1) as u32 },
                blocks: Vec::new(),
                drafts: vec![Draft::default(); drafts(step)],
                ..begin
            }
        };
        let plan =
            StepPlan { seqs: prompts.iter().enumerate().map(seq).collect(), ..StepPlan::default() };
        executor.submit(&plan).expect("a valid step");
        in_flight.push_back(plan);
        if in_flight.len() <= ahead {
            continue;
        }
        let read = in_flight.pop_front().expect("there is one");
        let result = pollster::block_on(executor.result(async || {})).expect("the device lives");
        drafted += read.seqs.iter().map(|seq| seq.drafts.len()).sum::<usize>();
        accepted += result.samples.len() - read.seqs.len();
        for (returned, slot) in returned.iter_mut().zip(SLOTS) {
            let sampled = result.samples.iter().filter(|sample| sample.slot == slot);
            returned.extend(sampled.map(|sample| sample.token));
        }
        if returned.iter().all(|returned| returned.len() >= most) {
            break;
        }
    }
    for _ in in_flight {
        pollster::block_on(executor.result(async || {})).expect("the device lives");
    }
    (returned, [drafted, accepted])
}

fn a_round_may_start_before_the_last_one_is_read(device: Device) {
    let [.., a, b] = &golden::<Vec<Golden>>("draft/built_in.json")[..] else { panic!("too few") };
    let (prompts, most) = ([a.tokens.clone(), b.tokens.clone()], 40);
    for beside in [DraftBy::Head, DraftBy::Model, DraftBy::EarlyExit] {
        let mut executor = loaded(device, beside).loaded.executor;
        for temperature in [0.0, 0.8] {
            let what = format!("{beside:?} at {temperature}");
            let mut rounds = |drafts: &[usize], ahead| {
                let drafts = |step: usize| drafts[step % drafts.len()];
                rounds(&mut executor, &prompts, temperature, most, drafts, ahead)
            };
            let (alone, _) = rounds(&[0], 0);
            let drafts = [5, 5, 2, 0, 7];
            let in_turn = rounds(&drafts, 0);
            let ahead = rounds(&drafts, 1);
            assert_eq!(in_turn, ahead, "{what}");
            let (found, [drafted, accepted]) = ahead;
            println!("{what}: {accepted} of {drafted} drafts");
            assert!(0 < accepted && accepted < drafted, "{what}");
            for (found, alone) in found.iter().zip(&alone) {
                assert_eq!(found[..most], alone[..most], "{what}");
            }
        }
    }
}

/// A round of drafts by a reference implementation.
#[derive(Deserialize)]
struct Round {
    /// Tokens of the answer before it.
    known: usize,
    drafts: Vec<u32>,
    accepted: usize,
}

#[derive(Deserialize)]
struct Golden {
    #[serde(default)]
    target: String,
    /// The draft head is in the checkpoint of its target.
    #[serde(default)]
    inside: bool,
    rounds: Vec<Round>,
    #[serde(default)]
    tokens: Vec<u32>,
    #[serde(default)]
    greedy: Vec<u32>,
}

fn golden<T: serde::de::DeserializeOwned>(file: &str) -> T {
    let json = std::fs::read(crate::support::goldens::folder(file)).expect("the golden is there");
    serde_json::from_slice(&json).expect("a valid golden")
}

#[test]
fn on_the_cpu() {
    drafts_change_nothing_but_the_steps(Device::Cpu);
}

#[test]
fn on_the_gpu() {
    drafts_change_nothing_but_the_steps(Device::Gpu);
}

#[test]
fn rounds_one_ahead_on_the_cpu() {
    a_round_may_start_before_the_last_one_is_read(Device::Cpu);
}

#[test]
fn rounds_one_ahead_on_the_gpu() {
    a_round_may_start_before_the_last_one_is_read(Device::Gpu);
}

#[test]
fn as_many_as_pay_on_the_cpu() {
    drafts_that_pay_change_nothing(Device::Cpu);
}

#[test]
fn as_many_as_pay_on_the_gpu() {
    drafts_that_pay_change_nothing(Device::Gpu);
}
