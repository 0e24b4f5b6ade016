//! Adaptive drafts on simulated devices: where drafts do not pay, they cost almost nothing.

use std::{cell::Cell, collections::VecDeque, rc::Rc, time::Duration};

use pollster::block_on;
use tabloom::{
    Result,
    engine::{Engine, Event, Options, Request},
    step::{Capacity, Executor, Follow, MAX_DRAFTS, Sample, StepPlan, StepResult},
};

/// Costs of a device, in units of a step with one row.
#[derive(Clone, Copy, Debug)]
struct Costs {
    name: &'static str,
    /// Steps of 1 … 8 rows; further rows cost the average of these.
    rows: [f64; 8],
    /// A drafting pass: for the first sequence and for each further one.
    draft: [f64; 2],
    /// A pass in which the drafter reads rows: the first row and each further one.
    follow: [f64; 2],
    /// The host's work between two steps; the device idles meanwhile unless it has another step.
    host: f64,
    /// Probability that a draft is accepted if all before it are.
    acceptance: f64,
}

/// An executor without a model: answers consist of phrases, and drafts are accepted at random.
struct Device {
    costs: Costs,
    clock: Rc<Cell<f64>>,
    /// End of the last step in flight.
    free: f64,
    in_flight: VecDeque<(f64, StepResult)>,
    random: fastrand::Rng,
    /// The rest of the current phrase of each slot.
    phrases: [VecDeque<u32>; SLOTS],
    drafts: usize,
}

const SLOTS: usize = 16;

/// Tokens of a phrase; all phrases are equally likely.
fn phrase(random: &mut fastrand::Rng) -> VecDeque<u32> {
    const PHRASES: u32 = 40;
    let first = random.u32(..PHRASES);
    (0..random.u32(1..6)).map(|place| 1 + first * 5 + place).collect()
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

impl Device {
    /// The next token of a slot.
    fn next_token(&mut self, slot: u32) -> u32 {
        let left = &mut self.phrases[slot as usize];
        if left.is_empty() {
            *left = phrase(&mut self.random);
        }
        left.pop_front().expect("a phrase has a token")
    }
}

impl Executor for Device {
    fn capacity(&self) -> Capacity {
        Capacity {
            rows: 64,
            seqs: SLOTS,
            logit_rows: 32,
            blocks: 500,
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
        self.clock.set(self.clock.get() + self.costs.host);
        self.free = self.free.max(self.clock.get()) + noise * self.costs.step(plan);
        let mut result = StepResult::default();
        for seq in plan.seqs.iter().filter(|seq| seq.sample.is_some()) {
            let mut drafts = seq.drafts.iter();
            let mut is_accepted = true;
            while is_accepted {
                let token = self.next_token(seq.slot);
                result.samples.push(Sample { slot: seq.slot, token, ..Sample::default() });
                is_accepted = drafts.next().is_some_and(|draft| match draft.token {
                    Some(draft) => draft == token,
                    None => self.random.f64() < self.costs.acceptance,
                });
            }
        }
        self.in_flight.push_back((self.free, result));
        Ok(())
    }

    async fn result(&mut self) -> Result<StepResult> {
        let (end, result) = self.in_flight.pop_front().expect("a step is in flight");
        self.clock.set(self.clock.get().max(end));
        Ok(result)
    }
}

/// An engine on such a device, with a number of requests at a time.
struct Runner {
    engine: Engine<Device>,
    clock: Rc<Cell<f64>>,
    random: fastrand::Rng,
}

impl Runner {
    fn new(costs: Costs, drafts: usize, adaptive: bool, seed: u64) -> Runner {
        let clock = Rc::new(Cell::new(0.0));
        let device = Device {
            costs,
            clock: clock.clone(),
            free: 0.0,
            in_flight: VecDeque::new(),
            random: fastrand::Rng::with_seed(seed),
            phrases: Default::default(),
            drafts,
        };
        let options =
            Options { max_drafts: drafts, adaptive_drafts: adaptive, ..Options::default() };
        let now = clock.clone();
        let engine = Engine::new(device, options, Box::new(move || step_time(now.get())));
        Runner { engine, clock, random: fastrand::Rng::with_seed(SEEDS + seed) }
    }

    /// The time to answer requests for at least this many tokens, the same requests for each runner.
    fn run(&mut self, batch: usize, tokens: usize) -> f64 {
        let (start, mut asked, mut running) = (self.clock.get(), 0, 0);
        while asked < tokens || running > 0 {
            while running < batch && asked < tokens {
                let mut prompt = Vec::new();
                let length = self.random.usize(20..200);
                while prompt.len() < length {
                    prompt.extend(phrase(&mut self.random));
                }
                let max_tokens = self.random.usize(4..200);
                let request =
                    Request { prompt, max_tokens: Some(max_tokens), ..Request::default() };
                self.engine.submit(request).unwrap();
                asked += max_tokens;
                running += 1;
            }
            for event in block_on(self.engine.step()).unwrap() {
                running -= usize::from(matches!(event, Event::Finished { .. }));
            }
        }
        self.clock.get() - start
    }
}

/// A step of one row takes five milliseconds.
fn step_time(steps: f64) -> Duration {
    Duration::from_secs_f64(5e-3 * steps)
}

const DEVICES: [Costs; 6] = [
    Costs {
        name: "a processor",
        rows: [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
        draft: [0.2, 0.04],
        follow: [0.15, 0.015],
        host: 0.02,
        acceptance: 0.85,
    },
    Costs {
        name: "cheap rows",
        rows: [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07],
        draft: [0.1, 0.01],
        follow: [0.1, 0.01],
        host: 0.1,
        acceptance: 0.85,
    },
    Costs {
        name: "expensive rows",
        rows: [1.0, 1.19, 1.63, 1.63, 2.62, 2.66, 2.75, 2.78],
        draft: [0.31, 0.05],
        follow: [0.29, 0.05],
        host: 0.1,
        acceptance: 0.85,
    },
    Costs {
        name: "rows in fours",
        rows: [1.0, 1.1, 1.25, 1.3, 1.82, 1.85, 1.87, 1.9],
        draft: [0.37, 0.06],
        follow: [0.31, 0.05],
        host: 0.05,
        acceptance: 0.85,
    },
    Costs {
        name: "a slow drafter",
        rows: [1.0, 1.14, 1.27, 1.48, 1.54, 1.6, 1.6, 1.6],
        draft: [0.32, 0.05],
        follow: [0.31, 0.05],
        host: 0.15,
        acceptance: 0.75,
    },
    Costs {
        name: "a drafter with a low acceptance rate",
        rows: [1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35],
        draft: [0.2, 0.02],
        follow: [0.2, 0.02],
        host: 0.05,
        acceptance: 0.3,
    },
];

/// Asserts the gain of adaptive drafts with these batch sizes, one after another.
fn check(costs: Costs, batches: &[usize]) {
    let kinds = [(0, false), (5, false), (MAX_DRAFTS, true)];
    let mut runners: Vec<[Runner; 3]> = (0..SEEDS)
        .map(|seed| kinds.map(|(drafts, adaptive)| Runner::new(costs, drafts, adaptive, seed)))
        .collect();
    for &batch in batches {
        let mut times = [0.0; 3];
        for (runner, kind) in runners.iter_mut().flat_map(|kinds| kinds.iter_mut().zip(0..)) {
            // At first the engine has to learn the costs.
            runner.run(batch, 2000);
            times[kind] += runner.run(batch, 8000);
        }
        let [off, fixed, adaptive] = times;
        let [fixed, adaptive] = [off / fixed, off / adaptive];
        let what = format!("{}, {batch} of {batches:?}: {adaptive}, fixed {fixed}", costs.name);

        assert!(adaptive > 0.97, "{what}");
        assert!(adaptive > 0.9 * fixed, "{what}");
    }
}

/// Learning depends on luck: averages over this many seeds.
const SEEDS: u64 = 4;

#[test]
fn adaptive_drafts_are_never_much_slower_than_none() {
    for costs in DEVICES {
        check(costs, &[1, 2, 4, 8]);
    }
}

#[test]
fn the_history_of_an_engine_does_not_matter() {
    for costs in DEVICES {
        check(costs, &[8]);
    }
}
