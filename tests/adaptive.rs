//! Adaptive drafts on devices that only keep time: they cost next to nothing where they do not pay.

use std::{cell::Cell, collections::VecDeque, rc::Rc, time::Duration};

use pollster::block_on;
use tabloom::{
    Result,
    engine::{Engine, Event, Options, Request},
    step::{Capacity, Executor, Follow, MAX_DRAFTS, Sample, StepPlan, StepResult},
};

/// What steps take on a device, in units of a step with one row.
#[derive(Clone, Copy, Debug)]
struct Costs {
    name: &'static str,
    /// Steps of 1 … 8 rows; each further one takes as much more as those took on average.
    rows: [f64; 8],
    /// A draft for each of some sequences, one after another: of the first sequence and of others.
    draft: [f64; 2],
    /// What the drafter takes to read rows: the first and others.
    follow: [f64; 2],
    /// The host's work between two steps, in which the device rests unless it has another.
    host: f64,
    /// How often a draft is right where those before it are.
    right: f64,
}

/// Runs no model: its tokens are random, and so is how many drafts are right.
struct Device {
    costs: Costs,
    clock: Rc<Cell<f64>>,
    /// When the last step in flight is over.
    free: f64,
    in_flight: VecDeque<(f64, StepResult)>,
    random: fastrand::Rng,
    drafts: usize,
}

impl Costs {
    fn of(&self, rows: usize) -> f64 {
        let [first, .., last] = self.rows;
        match rows.checked_sub(1).and_then(|at| self.rows.get(at)) {
            Some(cost) => *cost,
            None => last + (last - first) / 7.0 * (rows as f64 - 8.0),
        }
    }

    fn step(&self, plan: &StepPlan) -> f64 {
        let some = |[first, more]: [f64; 2], count: usize| match count {
            0 => 0.0,
            _ => first + more * (count - 1) as f64,
        };
        let on_device = |at: usize| {
            let has = |seq: &&tabloom::step::SeqPlan| {
                seq.drafts.get(at).is_some_and(|draft| draft.token.is_none())
            };
            plan.seqs.iter().filter(has).count()
        };
        let read = plan.seqs.iter().filter(|seq| seq.follow != Follow::No).map(|seq| seq.rows());
        self.of(plan.rows())
            + some(self.follow, read.sum())
            + (0..MAX_DRAFTS).map(|at| some(self.draft, on_device(at))).sum::<f64>()
    }
}

impl Executor for Device {
    fn capacity(&self) -> Capacity {
        Capacity {
            rows: 256,
            seqs: 16,
            logit_rows: 32,
            blocks: 2000,
            context: 4096,
            vocab: 50_000,
            window: None,
        }
    }

    fn depth(&self) -> usize {
        2
    }

    fn drafts(&self) -> usize {
        self.drafts
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        let noise = 0.95 + 0.1 * self.random.f64() + if self.random.u8(..) < 4 { 1.0 } else { 0.0 };
        self.free = self.free.max(self.clock.get()) + noise * self.costs.step(plan);
        let mut result = StepResult::default();
        for seq in plan.seqs.iter().filter(|seq| seq.sample.is_some()) {
            let is_right = |_: &&_| self.random.f64() < self.costs.right;
            let draws = 1 + seq.drafts.iter().take_while(is_right).count();
            for _ in 0..draws {
                let token = self.random.u32(1..50_000);
                result.samples.push(Sample { slot: seq.slot, token, ..Sample::default() });
            }
        }
        self.in_flight.push_back((self.free, result));
        Ok(())
    }

    async fn result(&mut self) -> Result<StepResult> {
        let (end, result) = self.in_flight.pop_front().expect("a step is in flight");
        self.clock.set(self.clock.get().max(end) + self.costs.host);
        Ok(result)
    }
}

/// An engine on such a device, which answers so many at a time.
struct Runner {
    engine: Engine<Device>,
    clock: Rc<Cell<f64>>,
    random: fastrand::Rng,
}

impl Runner {
    fn new(costs: Costs, drafts: usize, adaptive: bool) -> Runner {
        let clock = Rc::new(Cell::new(0.0));
        let (free, in_flight, random) = (0.0, VecDeque::new(), fastrand::Rng::with_seed(1));
        let device = Device { costs, clock: clock.clone(), free, in_flight, random, drafts };
        let options =
            Options { max_drafts: drafts, adaptive_drafts: adaptive, ..Options::default() };
        let now = clock.clone();
        let engine = Engine::new(device, options, Box::new(move || step_time(now.get())));
        Runner { engine, clock, random: fastrand::Rng::with_seed(2) }
    }

    /// Tokens in the time of a step of one row, of at least so many.
    fn run(&mut self, batch: usize, tokens: usize) -> f64 {
        let (start, mut answered, mut running) = (self.clock.get(), 0, 0);
        while answered < tokens || running > 0 {
            while running < batch && answered < tokens {
                let request = Request {
                    prompt: (0..self.random.usize(20..60))
                        .map(|_| self.random.u32(1..50_000))
                        .collect(),
                    max_tokens: Some(self.random.usize(4..40)),
                    ..Request::default()
                };
                self.engine.submit(request).unwrap();
                running += 1;
            }
            for event in block_on(self.engine.step()).unwrap() {
                if let Event::Finished { usage, .. } = event {
                    answered += usage.completion_tokens;
                    running -= 1;
                }
            }
        }
        answered as f64 / (self.clock.get() - start)
    }
}

/// A step of one row takes five milliseconds.
fn step_time(steps: f64) -> Duration {
    Duration::from_secs_f64(5e-3 * steps)
}

const DEVICES: [Costs; 5] = [
    Costs {
        name: "a processor",
        rows: [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
        draft: [0.2, 0.04],
        follow: [0.15, 0.015],
        host: 0.02,
        right: 0.85,
    },
    Costs {
        name: "rows for nothing",
        rows: [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07],
        draft: [0.1, 0.01],
        follow: [0.1, 0.01],
        host: 0.1,
        right: 0.85,
    },
    Costs {
        name: "dear rows",
        rows: [1.0, 1.19, 1.63, 1.63, 2.62, 2.66, 2.75, 2.78],
        draft: [0.31, 0.05],
        follow: [0.29, 0.05],
        host: 0.1,
        right: 0.85,
    },
    Costs {
        name: "a slow drafter",
        rows: [1.0, 1.14, 1.27, 1.48, 1.54, 1.6, 1.6, 1.6],
        draft: [0.32, 0.05],
        follow: [0.31, 0.05],
        host: 0.15,
        right: 0.75,
    },
    Costs {
        name: "a drafter that is seldom right",
        rows: [1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35],
        draft: [0.2, 0.02],
        follow: [0.2, 0.02],
        host: 0.05,
        right: 0.3,
    },
];

#[test]
fn adaptive_drafts_are_never_much_slower_than_none() {
    for costs in DEVICES {
        let kinds = [(0, false), (5, false), (MAX_DRAFTS, true)];
        let [mut off, mut fixed, mut adaptive] =
            kinds.map(|(drafts, adaptive)| Runner::new(costs, drafts, adaptive));
        for batch in [1, 2, 4, 8] {
            // What drafts are worth has to be found out first.
            adaptive.run(batch, 2000);
            let runners = [&mut off, &mut fixed, &mut adaptive];
            let [off, fixed, adaptive] = runners.map(|runner| runner.run(batch, 8000));
            let [fixed, adaptive] = [fixed / off, adaptive / off];
            let name = costs.name;
            assert!(adaptive > 0.97, "{name}, {batch} at a time: {adaptive}, fixed {fixed}");
            assert!(adaptive > 0.9 * fixed, "{name}, {batch} at a time: {adaptive}, fixed {fixed}");
        }
    }
}
