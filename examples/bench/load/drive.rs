//! Lets visitors use an engine, and writes down how they are served.

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
    /// Requests for which the queue was full.
    pub refused: usize,
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

/// Runs a load to its end.
///
/// # Errors
/// If the engine fails, or ends a request before its last token.
pub async fn drive<E: Executor>(
    engine: &mut Engine<E>,
    capacity: Capacity,
    clock: &impl Clock,
    load: &Load,
) -> Result<Outcome> {
    let mut crowd = Crowd::new(load.visitors(capacity.vocab, capacity.context), clock.now());
    let start = clock.now();
    let (mut steps, mut utilisation, mut stuck) = (Vec::new(), 0.0, 0);
    loop {
        while let Some((asked, tab)) = crowd.next_before(clock.now()) {
            crowd.ask(engine, asked, tab)?;
        }
        if !crowd.is_busy() {
            break;
        }
        if engine.is_idle() {
            clock.wait_until(crowd.next().unwrap_or_default());
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
            crowd.hear(event, now)?;
        }
    }
    Ok(Outcome {
        records: crowd.records,
        refused: crowd.refused,
        start,
        duration: clock.now() - start,
        kv_utilisation: utilisation / steps.len().max(1) as f64,
        steps,
        metrics: engine.metrics(),
    })
}

/// Everybody who comes, and what they wait for.
struct Crowd {
    visitors: Vec<Visitor>,
    /// When each tab asks next, the soonest first.
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

impl Crowd {
    fn new(visitors: Vec<Visitor>, now: Duration) -> Crowd {
        let tabs = 0..visitors.len();
        let mut crowd = Crowd {
            visitors,
            due: BinaryHeap::new(),
            live: HashMap::new(),
            records: Vec::new(),
            refused: 0,
        };
        tabs.for_each(|tab| crowd.pause(tab, now));
        crowd
    }

    /// Whether somebody asks or waits who is not in the background.
    fn is_busy(&self) -> bool {
        let due = self.due.iter().map(|Reverse((_, tab))| *tab);
        let mut tabs = due.chain(self.live.values().map(|live| live.record.tab));
        tabs.any(|tab| !self.visitors[tab].is_background())
    }

    /// When somebody asks next.
    fn next(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((asked, _))| *asked)
    }

    /// Who asks next, if it is by `now`.
    fn next_before(&mut self, now: Duration) -> Option<(Duration, usize)> {
        self.next().filter(|asked| *asked <= now)?;
        self.due.pop().map(|Reverse(next)| next)
    }

    fn pause(&mut self, tab: usize, from: Duration) {
        let pause = self.visitors[tab].pause().map(Duration::from_secs_f64);
        self.due.extend(pause.map(|pause| Reverse((from + pause, tab))));
    }

    fn ask<E: Executor>(
        &mut self,
        engine: &mut Engine<E>,
        asked: Duration,
        tab: usize,
    ) -> Result<()> {
        let visitor = &mut self.visitors[tab];
        let question = visitor.ask();
        match engine.submit(question.request.clone()) {
            Ok(id) => {
                let (kind, usage) = (question.kind, Usage::default());
                let record = Record { tab, kind, asked, tokens: Vec::new(), usage };
                self.live.insert(id, Live { question, record, answer: Vec::new() });
            }
            Err(Error::QueueFull { .. }) => {
                visitor.hear(&question, &[]);
                self.refused += 1;
            }
            Err(error) => return Err(error.into()),
        }
        if self.visitors[tab].is_open_loop() {
            self.pause(tab, asked);
        }
        Ok(())
    }

    fn hear(&mut self, event: Event, now: Duration) -> Result<()> {
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
