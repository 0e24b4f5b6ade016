//! Lets visitors use an engine, and writes down how they are served.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use anyhow::{Result, ensure};
use tabloom::{
    engine::{Engine, Event, FinishReason, RequestId, Usage},
    metrics::Metrics,
    step::{Capacity, Executor},
};

use super::{
    clock::Clock,
    workload::{Kind, Load, Question, Visitor},
};

/// How one request went.
#[derive(Clone, Debug)]
pub struct Record {
    pub tab: usize,
    pub kind: Kind,
    /// When the visitor asked, which may be before the engine could be told.
    pub asked: Duration,
    /// When each token came.
    pub tokens: Vec<Duration>,
    pub usage: Usage,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests in the order of their ends; those of background tabs only if they ended.
    pub records: Vec<Record>,
    /// When the visitors came.
    pub start: Duration,
    /// Until the last token for a tab that is not in the background.
    pub duration: Duration,
    /// Time from each step's beginning to its result.
    pub steps: Vec<Duration>,
    /// Mean share of the held blocks' places that hold a token, over all steps.
    pub kv_utilisation: f64,
    /// The engine's own, at the end.
    pub metrics: Metrics,
}

struct Live {
    question: Question,
    record: Record,
    answer: Vec<u32>,
}

/// Runs a load to its end.
///
/// # Errors
/// If the engine refuses or fails a request.
pub async fn drive<E: Executor>(
    engine: &mut Engine<E>,
    capacity: Capacity,
    clock: &impl Clock,
    load: &Load,
) -> Result<Outcome> {
    let mut visitors = load.visitors(capacity.vocab, capacity.context);
    let mut due = BinaryHeap::new();
    let start = clock.now();
    for (tab, visitor) in visitors.iter_mut().enumerate() {
        due.extend(visitor.pause().map(|pause| Reverse((start + seconds(pause), tab))));
    }
    let mut live: HashMap<RequestId, Live> = HashMap::new();
    let mut outcome = Outcome {
        records: Vec::new(),
        start,
        duration: Duration::ZERO,
        steps: Vec::new(),
        kv_utilisation: 0.0,
        metrics: Metrics::default(),
    };
    loop {
        while let Some(&Reverse((asked, tab))) = due.peek()
            && asked <= clock.now()
        {
            due.pop();
            let visitor = &mut visitors[tab];
            let question = visitor.ask();
            let id = engine.submit(question.request.clone())?;
            let (kind, usage) = (question.kind, Usage::default());
            let record = Record { tab, kind, asked, tokens: Vec::new(), usage };
            live.insert(id, Live { question, record, answer: Vec::new() });
            if visitor.is_open_loop() {
                due.extend(visitor.pause().map(|pause| Reverse((asked + seconds(pause), tab))));
            }
        }
        let to_come = due.iter().map(|Reverse((_, tab))| *tab);
        let mut tabs = to_come.chain(live.values().map(|live| live.record.tab));
        if tabs.all(|tab| visitors[tab].is_background()) {
            break;
        }
        if engine.is_idle() {
            clock.wait_until(due.peek().map_or(Duration::ZERO, |Reverse((next, _))| *next));
            continue;
        }
        let before = clock.now();
        let events = engine.step().await?;
        let now = clock.now();
        outcome.steps.push(now - before);
        outcome.kv_utilisation += engine.metrics().kv_block_utilisation;
        for event in events {
            match event {
                Event::Token { id, token, .. } => {
                    let Some(live) = live.get_mut(&id) else { continue };
                    live.record.tokens.push(now);
                    live.answer.push(token);
                }
                Event::Finished { id, reason, usage } => {
                    let Some(mut ended) = live.remove(&id) else { continue };
                    ensure!(reason == FinishReason::Length, "a request ended with {reason:?}");
                    ended.record.usage = usage;
                    let tab = ended.record.tab;
                    let visitor: &mut Visitor = &mut visitors[tab];
                    visitor.hear(&ended.question, &ended.answer);
                    if !visitor.is_open_loop() {
                        let pause = visitor.pause();
                        due.extend(pause.map(|pause| Reverse((now + seconds(pause), tab))));
                    }
                    outcome.records.push(ended.record);
                }
                _ => {}
            }
        }
    }
    outcome.duration = clock.now() - start;
    outcome.kv_utilisation /= outcome.steps.len().max(1) as f64;
    outcome.metrics = engine.metrics();
    Ok(outcome)
}

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}
