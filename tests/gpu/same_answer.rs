//! An answer does not depend on the batch, on cached prefixes, on prefill chunks, or on preemption.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use pollster::block_on;
use serde::Deserialize;
use tabloom::{
    engine::{Ended, Engine, Event, Options, Request, RequestId, ThinkingBudget},
    executor::{AnyExecutor, CpuExecutor, Drafter, GpuExecutor, KvKind},
    gpu::{Gpu, Power},
    load::{self, LoadOptions},
    metrics::Metrics,
    model::{ModelConfig, Quantization},
    step::Sampling,
    weights::{Checkpoint, FolderSource, GpuSink, HostSink, Quantise, Source, Within, open_draft},
};

/// Where the model runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    Cpu,
    /// The GPU, with its own kernel variants.
    Gpu,
    /// The GPU, with the variants for graphics hardware.
    GpuWithBarriers,
}

/// The built-in model, with this much memory for the KV cache and in the host; on a GPU with or without its
/// draft head.
async fn built_in(on: On, kv_bytes: Option<u64>, host_bytes: u64, has_head: bool) -> AnyExecutor {
    let source = FolderSource::new(format!("{}/www/model", env!("CARGO_MANIFEST_DIR")));
    let json = source.read("config.json").await.expect("a configuration");
    let config = ModelConfig::from_json(&json).expect("a valid one");
    let quantization = Quantization::from_json(&json).expect("a valid one");
    let checkpoint = Checkpoint::open(&source).await.expect("a checkpoint");
    let plan = checkpoint.plan(&config, quantization, &Quantise::KEEP).expect("a valid one");
    let kinds = vec![KvKind::F16; config.layers];
    let stores = host_bytes > 0;
    let options = LoadOptions { kv_bytes, host_bytes, stores, ..Default::default() };
    let capacity = load::capacity(&config, &options, &kinds, u64::MAX).expect("it fits");
    if on == On::Cpu {
        let mut sink = HostSink::new();
        checkpoint.load(&plan, &mut sink, |_| ControlFlow::Continue(())).await.expect("it loads");
        let executor = CpuExecutor::new(config, sink.into_weights(), capacity, kinds);
        return AnyExecutor::Cpu(Box::new(executor.expect("it fits")));
    }
    let mut gpu = Gpu::open(Power::HighPerformance).await.expect("a GPU");
    if on == On::GpuWithBarriers {
        gpu.adapter.software = false;
    }
    let mut sink = GpuSink::new(&gpu, gpu.largest_binding()).await.expect("a device");
    checkpoint.load(&plan, &mut sink, |_| ControlFlow::Continue(())).await.expect("it loads");
    let weights = sink.into_weights();
    let mut draft = None;
    if has_head {
        let folder = Within { folder: "draft", source: &source };
        let head = open_draft(&folder, &config, &Quantise::KEEP).await.expect("a head");
        let mut sink = GpuSink::new(&gpu, gpu.largest_binding()).await.expect("a device");
        let head = head.load(&mut sink, |_| ControlFlow::Continue(())).await.expect("it loads");
        draft = Some(Drafter::Head(Box::new(head), sink.into_weights()));
    }
    let proceed = |_, _| ControlFlow::Continue(());
    let made =
        GpuExecutor::with_draft(gpu, &config, weights, draft, capacity, &kinds, proceed).await;
    let (executor, refused) = made.expect("it fits");
    assert_eq!(refused, None);
    AnyExecutor::Gpu(Box::new(executor))
}

#[derive(Deserialize)]
struct Question {
    prompt_ids: Vec<u32>,
}

const END_OF_THOUGHT: u32 = 20;

/// Questions to the built-in model, answered greedily and with seeded sampling.
fn requests() -> Vec<Request> {
    let json = include_bytes!("../goldens/embedded.json");
    let questions: Vec<Question> = serde_json::from_slice(json).expect("valid goldens");
    let request = |(i, question): (usize, &Question)| Request {
        prompt: question.prompt_ids.clone(),
        sampling: match i % 2 {
            0 => Sampling::GREEDY,
            _ => Sampling {
                temperature: 1.2,
                top_p: 0.95,
                repetition_penalty: 1.1,
                seed: i as u64,
                ..Sampling::GREEDY
            },
        },
        end_tokens: vec![2],
        max_tokens: Some(24),
        ..Default::default()
    };
    let mut requests: Vec<Request> =
        questions.iter().cycle().take(8).enumerate().map(request).collect();
    // As if the prompt ended with the start of the thinking.
    let last = requests.last_mut().expect("there are some");
    let begin = *last.prompt.last().expect("a prompt");
    last.thinking = Some(ThinkingBudget { begin, end: END_OF_THOUGHT, tokens: 5 });
    assert!(requests.iter().any(|request| request.prompt.len() > 32), "some prompt is long");
    requests
}

/// The answers to `rounds` of requests, each round submitted at once.
fn answers(
    executor: AnyExecutor,
    options: Options,
    rounds: &[&[Request]],
) -> (Vec<Vec<u32>>, Metrics) {
    let mut engine = Engine::new(executor, options, Box::new(|| Duration::ZERO));
    (run(&mut engine, rounds), engine.metrics())
}

fn run(engine: &mut Engine<AnyExecutor>, rounds: &[&[Request]]) -> Vec<Vec<u32>> {
    let mut answers = BTreeMap::<RequestId, Vec<u32>>::new();
    for round in rounds {
        for request in *round {
            let id = engine.submit(request.clone()).expect("it is accepted");
            answers.insert(id, Vec::new());
        }
        while !engine.is_idle() {
            for event in block_on(engine.step()).expect("the device lives") {
                match event {
                    Event::Token { id, token, .. } => {
                        answers.get_mut(&id).expect("it was asked").push(token);
                    }
                    Event::Finished { reason, .. } => println!("{reason:?}"),
                    other => panic!("nobody asked for {other:?}"),
                }
            }
        }
    }
    answers.into_values().collect()
}

/// The answers of an engine that finds what another has stored of the same requests.
fn answers_from_storage(
    executor: impl Fn() -> AnyExecutor,
    options: &Options,
    requests: &[Request],
) -> (Vec<Vec<u32>>, Metrics) {
    let engine = || Engine::new(executor(), options.clone(), Box::new(|| Duration::ZERO));
    let (mut before, mut after) = (engine(), engine());
    before.note_ended_of(0);
    for request in requests {
        run(&mut before, &[std::slice::from_ref(request)]);
        for Ended { tokens, .. } in before.take_ended() {
            for (entry, block) in before.on_device(&tokens, 0).into_iter().enumerate() {
                let read = before.read_entries(entry, &[block]).expect("no other read");
                let blocks = block_on(read).expect("the device lives");
                after.adopt(request.tab, &tokens, 0, &blocks);
            }
        }
    }
    (run(&mut after, &[requests]), after.metrics())
}

/// Prompts are computed whole, and not from the cache.
fn whole_steps() -> Options {
    Options {
        step_seconds: f64::INFINITY,
        long_prefill_threshold: usize::MAX,
        prefix_caching: false,
        watermark: 0.0,
        ..Default::default()
    }
}

fn the_answer_is_the_same_in_every_setting(on: On, count: usize) {
    let executor = |kv_bytes| block_on(built_in(on, kv_bytes, 0, false));
    let whole = whole_steps();
    let requests = &requests()[8 - count..];
    let mut rounds: Vec<&[Request]> = requests.chunks(1).collect();
    rounds.push(requests);
    let (mut alone, _) = answers(executor(None), whole.clone(), &rounds);
    let together = alone.split_off(count);
    assert!(alone.iter().any(|answer| answer.len() > 10), "{alone:?}");
    assert_eq!(alone, together, "in a batch");
    let thought = alone.last().expect("there is a last one");
    assert_eq!(thought.iter().position(|token| *token == END_OF_THOUGHT), Some(5), "{thought:?}");

    // Steps that take no time at all, and yet too long.
    let options = Options { step_seconds: 0.0, prefix_caching: true, ..whole.clone() };
    let (chunked, metrics) = answers(executor(None), options, &[requests, requests]);
    assert_eq!(alone, chunked[..count], "in chunks");
    assert_eq!(alone, chunked[count..], "from the prefix cache");
    assert!(metrics.iteration_tokens_total.quantile(1.0) <= Some(64.0));
    assert!(metrics.prefix_cache_hits > 0);

    // Room for two requests, which are admitted before the length of any answer is known, but not for
    // both answers.
    let block = 16 * 1024;
    let (preempted, metrics) = answers(executor(Some(10 * block)), whole.clone(), &[requests]);
    assert_eq!(alone, preempted, "after a preemption");
    assert!(metrics.num_preemptions > 0);

    // The same, with room in the host for what is evicted, and a second time.
    let options = Options { prefix_caching: true, ..whole };
    let small = block_on(built_in(on, Some(10 * block), 1 << 20, false));
    let (restored, metrics) = answers(small, options.clone(), &[requests, requests]);
    assert_eq!(alone, restored[..count], "with host memory");
    assert_eq!(alone, restored[count..], "from host memory");
    assert!(metrics.restored_tokens > 40, "{}", metrics.restored_tokens);

    let large = || block_on(built_in(on, None, 1 << 20, false));
    let (stored, metrics) = answers_from_storage(large, &options, requests);
    assert_eq!(alone, stored, "from storage");
    assert!(metrics.restored_tokens > 40, "{}", metrics.restored_tokens);
    assert!(metrics.stored_tokens > 40, "{}", metrics.stored_tokens);
}

#[test]
fn a_prefix_that_comes_back_over_several_steps() {
    let ask = |first: u32| {
        let prompt = (first..first + 560).map(|token| token % 251).collect();
        Request { prompt, max_tokens: Some(8), ..Request::default() }
    };
    let [first, second] = [ask(1), ask(100)];
    let rounds = [&first, &second, &first].map(std::slice::from_ref);
    for on in [On::Cpu, On::Gpu] {
        // Room for one of them; a step restores 16 blocks.
        let small = block_on(built_in(on, Some(45 * 16 * 1024), 2 << 20, false));
        let options = Options { prefix_caching: true, ..whole_steps() };
        let (answers, metrics) = answers(small, options, &rounds);
        assert_eq!((answers[0].len(), &answers[0]), (8, &answers[2]));
        assert!(metrics.restored_tokens > 400, "{}", metrics.restored_tokens);
    }
}

#[test]
fn on_the_cpu() {
    the_answer_is_the_same_in_every_setting(On::Cpu, 8);
}

#[test]
fn on_the_gpu() {
    the_answer_is_the_same_in_every_setting(On::Gpu, 8);
}

#[test]
fn on_the_gpu_with_the_kernels_of_graphics_hardware() {
    // Few, because they are slow where barriers are emulated.
    the_answer_is_the_same_in_every_setting(On::GpuWithBarriers, 4);
}

#[test]
fn with_drafts_and_the_kernels_of_graphics_hardware() {
    let requests = &requests()[..3];
    let rounds: Vec<&[Request]> = requests.chunks(1).collect();
    let with = |max_drafts| {
        let executor = block_on(built_in(On::GpuWithBarriers, None, 0, true));
        let options = Options { max_drafts, adaptive_drafts: false, ..whole_steps() };
        answers(executor, options, &rounds)
    };
    let (alone, metrics) = with(0);
    assert_eq!(metrics.spec_decode.spec_decode_num_drafts, 0);
    let (drafted, metrics) = with(5);
    assert_eq!(alone, drafted);
    assert!(metrics.spec_decode.spec_decode_num_accepted_tokens > 0);

    // The head's keys and values come back from host memory with the model's.
    let prefix_caching = true;
    let options =
        Options { max_drafts: 5, adaptive_drafts: false, prefix_caching, ..whole_steps() };
    let small = block_on(built_in(On::GpuWithBarriers, Some(6 * 16 * 1024), 1 << 20, true));
    let twice = [&rounds[..], &rounds[..]].concat();
    let (restored, with_host) = answers(small, options.clone(), &twice);
    let large = |host| block_on(built_in(On::GpuWithBarriers, None, host, true));
    let (stored, _) = answers_from_storage(|| large(1 << 20), &options, requests);
    let (cached, without) = answers(large(0), options, &twice);
    assert_eq!(stored, alone, "from storage");
    assert_eq!((&restored[..3], &restored[3..]), (&alone[..], &alone[..]));
    assert_eq!(restored, cached);
    assert!(with_host.restored_tokens > 0);
    let accepted = |metrics: &Metrics| metrics.spec_decode.spec_decode_num_accepted_tokens;
    assert_eq!(accepted(&with_host), accepted(&without), "drafts are as good");
}
