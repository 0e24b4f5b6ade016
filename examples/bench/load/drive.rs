//! Drives engines with visitors' requests, and records latencies.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use anyhow::{Result, ensure};
use tabloom::{
    Error,
    engine::{Engine, Event, FinishReason, RequestId, Usage},
    host::{ModelId, Turns},
    metrics::Metrics,
    step::{Capacity, Executor},
};

use super::{
    clock::Clock,
    workload::{Kind, Load, Question, Visitor},
};

/// The record of one request.
#[derive(Clone, Debug)]
pub struct Record {
    pub tab: usize,
    pub kind: Kind,
    /// When the visitor sent the request; the engine may have got it later.
    pub arrival: Duration,
    /// The time of each token.
    pub tokens: Vec<Duration>,
    pub usage: Usage,
}

/// The outcome of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests in the order in which they ended; those of background tabs only if they ended.
    pub records: Vec<Record>,
    /// Requests that were refused because the queue was full.
    pub refused: usize,
    /// When the load started.
    pub start: Duration,
    /// Time until the last token of a foreground tab.
    pub duration: Duration,
    /// Duration of each step, from its start to its result.
    pub steps: Vec<Duration>,
    /// Fraction of the slots in used KV blocks that hold a token, mean over all steps.
    pub kv_utilisation: f64,
    /// The engine's metrics at the end.
    pub metrics: Metrics,
}

/// A load on an engine, while it runs.
pub struct Running<E> {
    engine: Engine<E>,
    clients: Clients,
    steps: Vec<Duration>,
    /// Sum over the steps.
    kv_utilisation: f64,
}

impl<E: Executor> Running<E> {
    pub fn new(engine: Engine<E>, capacity: Capacity, load: &Load, now: Duration) -> Running<E> {
        let clients = Clients::new(load.visitors(capacity.vocab, capacity.context), now);
        Running { engine, clients, steps: Vec::new(), kv_utilisation: 0.0 }
    }
}

/// Runs loads to their end, each on its engine, all on one device, which they share as the models of a host.
///
/// # Errors
/// An engine failed, or ended a request before its last token.
pub async fn drive<E: Executor, const N: usize>(
    mut models: [Running<E>; N],
    clock: &impl Clock,
) -> Result<[Outcome; N]> {
    let (start, mut stuck, mut turns) = (clock.now(), 0, Turns::default());
    loop {
        for Running { engine, clients, .. } in &mut models {
            while let Some((arrival, tab)) = clients.next_before(clock.now()) {
                clients.send(engine, arrival, tab)?;
            }
        }
        if !models.iter().any(|model| model.clients.is_busy()) {
            break;
        }
        let before = clock.now();
        while begin_step(&mut turns, &mut models) {}
        let Some(ModelId(oldest)) = turns.oldest() else {
            let next = models.iter().filter_map(|model| model.clients.next()).min();
            clock.wait_until(next.unwrap_or_default());
            stuck = if clock.now() == before { stuck + 1 } else { 0 };
            ensure!(stuck < 1000, "an engine has requests but computes nothing");
            continue;
        };
        let Running { engine, clients, steps, kv_utilisation } = &mut models[oldest as usize];
        turns.end(engine.end_step(async || {}).await);
        ensure!(!engine.is_closed(), "the engine failed");
        let now = clock.now();
        steps.push(now - before);
        *kv_utilisation += engine.metrics().kv_block_utilisation;
        for event in engine.take_events() {
            clients.on_event(event, now)?;
        }
        for (at, model) in models.iter_mut().enumerate() {
            if at as u64 != oldest {
                model.engine.device_was_busy();
            }
        }
    }
    Ok(models.map(|Running { engine, clients, steps, kv_utilisation }| Outcome {
        records: clients.records,
        refused: clients.refused,
        start,
        duration: clock.now() - start,
        kv_utilisation: kv_utilisation / steps.len().max(1) as f64,
        steps,
        metrics: engine.metrics(),
    }))
}

fn begin_step<E: Executor>(turns: &mut Turns, models: &mut [Running<E>]) -> bool {
    let ids = (0..).map(ModelId).zip(models.iter());
    let busy = ids.filter(|(_, model)| !model.engine.is_idle()).map(|(id, _)| id).collect();
    turns.begin_step(busy, |ModelId(at), in_flight| {
        let engine = &mut models[at as usize].engine;
        (in_flight < engine.depth()).then(|| engine.begin_step())
    })
}

/// All visitors and their running requests.
struct Clients {
    visitors: Vec<Visitor>,
    /// When each tab sends its next request, earliest first.
    due: BinaryHeap<Reverse<(Duration, usize)>>,
    live: HashMap<RequestId, Live>,
    records: Vec<Record>,
    refused: usize,
}

struct Live {
    question: Question,
    record: Record,
    answer: Vec<u32>,
}

impl Clients {
    fn new(visitors: Vec<Visitor>, now: Duration) -> Clients {
        let tabs = 0..visitors.len();
        let mut clients = Clients {
            visitors,
            due: BinaryHeap::new(),
            live: HashMap::new(),
            records: Vec::new(),
            refused: 0,
        };
        tabs.for_each(|tab| clients.pause(tab, now));
        clients
    }

    /// Whether a foreground tab has requests to send or to wait for.
    fn is_busy(&self) -> bool {
        let due = self.due.iter().map(|Reverse((_, tab))| *tab);
        let mut tabs = due.chain(self.live.values().map(|live| live.record.tab));
        tabs.any(|tab| !self.visitors[tab].is_background())
    }

    /// Time of the next request.
    fn next(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((arrival, _))| *arrival)
    }

    /// The tab that sends the next request, if that is due by `now`.
    fn next_before(&mut self, now: Duration) -> Option<(Duration, usize)> {
        self.next().filter(|arrival| *arrival <= now)?;
        self.due.pop().map(|Reverse(next)| next)
    }

    fn pause(&mut self, tab: usize, from: Duration) {
        let pause = self.visitors[tab].pause().map(Duration::from_secs_f64);
        self.due.extend(pause.map(|pause| Reverse((from + pause, tab))));
    }

    fn send<E: Executor>(
        &mut self,
        engine: &mut Engine<E>,
        arrival: Duration,
        tab: usize,
    ) -> Result<()> {
        let visitor = &mut self.visitors[tab];
        let question = visitor.ask();
        match engine.submit(question.request.clone()) {
            Ok(id) => {
                let (kind, usage) = (question.kind, Usage::default());
                let record = Record { tab, kind, arrival, tokens: Vec::new(), usage };
                self.live.insert(id, Live { question, record, answer: Vec::new() });
            }
            Err(Error::QueueFull { .. }) => {
                visitor.hear(&question, &[]);
                self.refused += 1;
            }
            Err(error) => return Err(error.into()),
        }
        if self.visitors[tab].is_open_loop() {
            self.pause(tab, arrival);
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event, now: Duration) -> Result<()> {
        match event {
            Event::Token { id, token, .. } => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.record.tokens.push(now);
                    live.answer.push(token);
                }
            }
            Event::Finished { id, reason, usage } => {
                ensure!(reason == FinishReason::Length, "a request ended with {reason:?}");
                let Some(Live { question, mut record, answer }) = self.live.remove(&id) else {
                    return Ok(());
                };
                record.usage = usage;
                let tab = record.tab;
                self.records.push(record);
                self.visitors[tab].hear(&question, &answer);
                if !self.visitors[tab].is_open_loop() {
                    self.pause(tab, now);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
