//! Drives an engine with visitors' requests, and records latencies.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use anyhow::{Result, ensure};
use tabloom::{
    Error,
    engine::{Engine, Event, FinishReason, RequestId, Usage},
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

/// Runs a load to its end.
///
/// # Errors
/// The engine failed, or ended a request before its last token.
pub async fn drive<E: Executor>(
    engine: &mut Engine<E>,
    capacity: Capacity,
    clock: &impl Clock,
    load: &Load,
) -> Result<Outcome> {
    let mut clients = Clients::new(load.visitors(capacity.vocab, capacity.context), clock.now());
    let start = clock.now();
    let (mut steps, mut utilisation, mut stuck) = (Vec::new(), 0.0, 0);
    loop {
        while let Some((arrival, tab)) = clients.next_before(clock.now()) {
            clients.send(engine, arrival, tab)?;
        }
        if !clients.is_busy() {
            break;
        }
        if engine.is_idle() {
            clock.wait_until(clients.next().unwrap_or_default());
            continue;
        }
        let before = clock.now();
        let events = engine.step().await?;
        let now = clock.now();
        steps.push(now - before);
        utilisation += engine.metrics().kv_block_utilisation;
        stuck = if events.is_empty() && now == before { stuck + 1 } else { 0 };
        ensure!(stuck < 1000, "the engine has requests but computes nothing");
        for event in events {
            clients.on_event(event, now)?;
        }
    }
    Ok(Outcome {
        records: clients.records,
        refused: clients.refused,
        start,
        duration: clock.now() - start,
        kv_utilisation: utilisation / steps.len().max(1) as f64,
        steps,
        metrics: engine.metrics(),
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
