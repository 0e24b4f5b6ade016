//! An executor without a model: its steps take modelled time, and its drafts are accepted at random.

use std::{cell::Cell, collections::VecDeque, rc::Rc};

use tabloom::{
    Result,
    step::{
        Capacity, Executor, Follow, HostMemory, KvGroups, MAX_DRAFTS, RowTokens, Sample, SeqPlan,
        StepPlan, StepResult,
    },
};

/// A device and its drafter. The unit of time is about that of a step with one row on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// The time of a step: to read the weights, for each row, and for each row more beyond 16, for which
    /// the weights are read again.
    pub weights: f64,
    pub row: f64,
    pub further: f64,
    /// The CPU side's work between two steps; the device idles meanwhile unless it has another step.
    pub host: f64,
    /// Steps last up to this share more or less.
    pub noise: f64,
    /// About once in the time of a hundred steps something else takes the device for this long.
    pub stall: f64,
    /// What a pass of the device's drafter takes of a step with the same rows; 0: it has none.
    pub drafter: f64,
    pub acceptance: Acceptance,
}

/// How likely a draft of the device's drafter is accepted if all before it are.
#[derive(Clone, Copy, Debug)]
pub enum Acceptance {
    Always(f64),
    /// The first and the second, in turns of this many tokens.
    Switching(f64, f64, usize),
}

/// What answers consist of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Text {
    /// Tokens that prompt lookup never finds.
    Fresh,
    /// Phrases of a small language: about half of what prompt lookup finds is right.
    Phrases,
    /// The prompt, over and over.
    Copies,
}

impl Text {
    /// The next tokens of a text whose `prompt` and `length` are these.
    pub fn next(self, random: &mut fastrand::Rng, prompt: &[u32], length: usize) -> VecDeque<u32> {
        const PHRASES: u32 = 40;
        match self {
            Text::Fresh => VecDeque::from([random.u32(1..VOCAB)]),
            Text::Copies if !prompt.is_empty() => VecDeque::from([prompt[length % prompt.len()]]),
            Text::Phrases | Text::Copies => {
                let first = random.u32(..PHRASES);
                (0..random.u32(1..6)).map(|place| 1 + first * 5 + place).collect()
            }
        }
    }
}

impl Device {
    /// The time of a step with so many rows.
    pub fn step(&self, rows: usize) -> f64 {
        let further = rows.saturating_sub(16) as f64;
        self.weights + self.row * rows as f64 + self.further * further
    }
}

pub const SLOTS: usize = 16;
const VOCAB: u32 = 50_000;

/// The text of a slot, which depends on its prompt alone: whatever is drafted, answers are the same.
#[derive(Default)]
struct Answer {
    prompt: Vec<u32>,
    random: fastrand::Rng,
    length: usize,
    phrase: VecDeque<u32>,
}

/// A [`Device`] at work.
pub struct Modelled {
    device: Device,
    text: Text,
    clock: Rc<Cell<f64>>,
    /// End of the last step in flight.
    free: f64,
    in_flight: VecDeque<(f64, StepResult)>,
    seed: u64,
    random: fastrand::Rng,
    /// When the next stall begins; the same times whatever the steps are.
    stall: f64,
    stalls: fastrand::Rng,
    answers: [Answer; SLOTS],
}

impl Modelled {
    pub fn new(device: Device, text: Text, clock: Rc<Cell<f64>>, seed: u64) -> Modelled {
        let [random, stalls] = [seed, seed + 1000].map(fastrand::Rng::with_seed);
        Modelled {
            device,
            text,
            clock,
            free: 0.0,
            in_flight: VecDeque::new(),
            seed,
            random,
            stall: 0.0,
            stalls,
            answers: Default::default(),
        }
    }

    /// The time of a step: the rows, those that the drafter reads, and its drafts, one pass a place.
    fn time(&self, plan: &StepPlan) -> f64 {
        let Device { drafter, .. } = self.device;
        let pass = |count| if count == 0 { 0.0 } else { drafter * self.device.step(count) };
        let follows = |seq: &&SeqPlan| seq.follow != Follow::No;
        let drafted = |place: usize| {
            let has = |seq: &&SeqPlan| seq.drafts.get(place).is_some_and(|it| it.token.is_none());
            plan.seqs.iter().filter(has).count()
        };
        let read = plan.seqs.iter().filter(follows).map(SeqPlan::rows).sum();
        let drafts: f64 = (0..MAX_DRAFTS).map(|place| pass(drafted(place))).sum();
        self.device.step(plan.rows()) + pass(read) + drafts
    }

    /// The next token of an answer, and whether the drafter knows it.
    fn next_token(&mut self, slot: u32) -> (u32, bool) {
        let answer = &mut self.answers[slot as usize];
        if answer.length == 0 {
            let mix =
                |seed: u64, token: &u32| seed.wrapping_mul(31).wrapping_add(u64::from(*token));
            answer.random = fastrand::Rng::with_seed(answer.prompt.iter().fold(self.seed, mix));
        }
        if answer.phrase.is_empty() {
            answer.phrase = self.text.next(&mut answer.random, &answer.prompt, answer.length);
        }
        let rate = match self.device.acceptance {
            Acceptance::Always(rate) => rate,
            Acceptance::Switching(first, _, turn) if (answer.length / turn).is_multiple_of(2) => {
                first
            }
            Acceptance::Switching(_, second, _) => second,
        };
        answer.length += 1;
        let token = answer.phrase.pop_front().expect("a phrase has a token");
        (token, answer.random.f64() < rate)
    }
}

impl Executor for Modelled {
    fn capacity(&self) -> Capacity {
        Capacity {
            rows: 256,
            seqs: SLOTS,
            logit_rows: 32,
            blocks: 4000,
            context: 4096,
            vocab: VOCAB as usize,
            groups: KvGroups::FULL,
            host: HostMemory::NONE,
        }
    }

    fn depth(&self) -> usize {
        2
    }

    fn drafts(&self) -> usize {
        if self.device.drafter > 0.0 { MAX_DRAFTS } else { 0 }
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        let Device { noise, stall, host, .. } = self.device;
        let usual = self.device.step(1);
        self.clock.set(self.clock.get() + host);
        let start = self.free.max(self.clock.get());
        self.free = start + (1.0 + noise * (2.0 * self.random.f64() - 1.0)) * self.time(plan);
        while self.stall < self.free {
            if self.stall >= start {
                self.free += stall * usual;
            }
            self.stall -= 100.0 * usual * (1.0 - self.stalls.f64()).ln();
        }
        let mut result = StepResult::default();
        for seq in &plan.seqs {
            let answer = &mut self.answers[seq.slot as usize];
            if seq.start == 0 {
                *answer = Answer::default();
            }
            if let (0, RowTokens::Known(tokens)) = (answer.length, &seq.tokens) {
                answer.prompt.extend(tokens);
            }
            let mut drafts = seq.drafts.iter();
            let mut is_accepted = seq.sample.is_some();
            while is_accepted {
                let (token, is_known) = self.next_token(seq.slot);
                result.samples.push(Sample { slot: seq.slot, token, ..Sample::default() });
                is_accepted = drafts.next().is_some_and(|draft| match draft.token {
                    Some(draft) => draft == token,
                    None => is_known,
                });
            }
        }
        self.in_flight.push_back((self.free, result));
        Ok(())
    }

    async fn result(&mut self, _turn: impl AsyncFn()) -> Result<StepResult> {
        let (end, result) = self.in_flight.pop_front().expect("a step is in flight");
        self.clock.set(self.clock.get().max(end));
        Ok(result)
    }
}
