//! An executor without a model: the next token is a hash of all tokens before it, read back from
//! where the plans put them. A token in the wrong place changes every token after it.

use std::collections::VecDeque;

use tabloom::{
    Error, Result,
    step::{BLOCK_SIZE, Capacity, Executor, RowTokens, Sample, SeqPlan, StepPlan, StepResult},
};

pub const VOCAB: u32 = 24;
pub const END: u32 = 0;
/// A prompt with this token makes logits that are not finite. It is never drawn.
pub const POISON: u32 = VOCAB - 1;

/// The token that follows `tokens`.
pub fn next_token(tokens: &[u32], seed: u64) -> u32 {
    let mix = |hash: u64, token: &u32| (hash ^ u64::from(*token)).wrapping_mul(0x100_0000_01b3);
    let hash = tokens.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix);
    (hash >> 32) as u32 % POISON
}

/// When an executor loses its device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    Submit(usize),
    Result(usize),
}

/// Checks every plan it is given and computes it.
pub struct Scripted<const DEPTH: usize> {
    pub capacity: Capacity,
    pub failure: Option<Failure>,
    kv: Vec<u32>,                     // [blocks][BLOCK_SIZE] tokens
    samples: Vec<Option<(u32, u32)>>, // [seqs] position and token of the last sample
    computed: Vec<u32>,               // [seqs] tokens of the sequence last seen in the slot
    in_flight: VecDeque<(StepPlan, StepResult)>,
    submitted: usize,
    returned: usize,
}

impl<const DEPTH: usize> Scripted<DEPTH> {
    pub fn new(rows: usize, seqs: usize, blocks: usize, context: usize) -> Self {
        let capacity = Capacity {
            rows,
            seqs,
            logit_rows: seqs,
            blocks: blocks + 1, // the null block
            context,
            vocab: VOCAB as usize,
            window: None,
        };
        Scripted {
            capacity,
            failure: None,
            kv: vec![END; capacity.blocks * BLOCK_SIZE],
            samples: vec![None; seqs],
            computed: vec![0; seqs],
            in_flight: VecDeque::new(),
            submitted: 0,
            returned: 0,
        }
    }

    fn check(&self, plan: &StepPlan) {
        assert!(self.in_flight.len() < DEPTH, "too many steps in flight");
        assert!((1..=self.capacity.rows).contains(&plan.rows()), "{} rows", plan.rows());
        assert!(!plan.read_logits);
        for (at, seq) in plan.seqs.iter().enumerate() {
            self.check_sequence(seq);
            let earlier = self.in_flight.iter().flat_map(|(plan, _)| &plan.seqs);
            for other in earlier.chain(&plan.seqs[..at]) {
                self.check_pair(other, seq);
            }
            assert!(plan.seqs[..at].iter().all(|other| other.slot != seq.slot), "slot twice");
        }
    }

    fn check_sequence(&self, seq: &SeqPlan) {
        let (slot, end) = (seq.slot as usize, seq.start as usize + seq.tokens.count());
        assert!(end > seq.start as usize && end <= self.capacity.context, "{seq:?}");
        assert_eq!(seq.blocks.len(), end.div_ceil(BLOCK_SIZE), "{seq:?}");
        assert!(seq.blocks.iter().all(|block| (*block as usize) < self.capacity.blocks));
        assert!(seq.start == 0 || seq.start == self.computed[slot], "a gap before {seq:?}");
        match &seq.tokens {
            RowTokens::Known(ids) => assert!(ids.iter().all(|id| *id < VOCAB)),
            RowTokens::LastSample => {
                let position = self.samples[slot].map(|(position, _)| position);
                assert_eq!(position, Some(seq.start), "no sample for {seq:?}");
            }
        }
    }

    /// Two sequences share no block; one sequence only appends to its own.
    fn check_pair(&self, earlier: &SeqPlan, seq: &SeqPlan) {
        if earlier.slot == seq.slot {
            assert!(seq.start > earlier.start, "slot reused in flight: {seq:?}");
            assert!(seq.blocks.starts_with(&earlier.blocks), "table rewritten: {seq:?}");
        } else {
            let shared = seq.blocks.iter().find(|block| earlier.blocks.contains(block));
            assert_eq!(shared, None, "{earlier:?} and {seq:?}");
        }
    }

    fn compute(&mut self, seq: &SeqPlan) -> Option<Sample> {
        let slot = seq.slot as usize;
        let ids = match &seq.tokens {
            RowTokens::Known(ids) => ids.clone(),
            RowTokens::LastSample => {
                self.samples[slot].map(|(_, token)| token).into_iter().collect()
            }
        };
        let place = |at: usize| seq.blocks[at / BLOCK_SIZE] as usize * BLOCK_SIZE + at % BLOCK_SIZE;
        let end = seq.start as usize + ids.len();
        for (at, id) in (seq.start as usize..end).zip(ids) {
            self.kv[place(at)] = id;
        }
        self.computed[slot] = end as u32;
        let sampling = seq.sample?;
        let tokens: Vec<u32> = (0..end).map(|at| self.kv[place(at)]).collect();
        let token = next_token(&tokens, sampling.seed);
        self.samples[slot] = Some((end as u32, token));
        let not_finite = tokens.iter().filter(|token| **token == POISON).count() as u32;
        Some(Sample { slot: seq.slot, token, not_finite, logprobs: None })
    }

    fn lost(&self, now: Failure) -> Result<()> {
        match self.failure == Some(now) {
            true => Err(Error::DeviceLost { reason: "unplugged".into() }),
            false => Ok(()),
        }
    }
}

impl<const DEPTH: usize> Executor for Scripted<DEPTH> {
    const DEPTH: usize = DEPTH;

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        self.lost(Failure::Submit(self.submitted))?;
        self.submitted += 1;
        self.check(plan);
        let samples = plan.seqs.iter().filter_map(|seq| self.compute(seq)).collect();
        let result = StepResult { samples, ..Default::default() };
        self.in_flight.push_back((plan.clone(), result));
        Ok(())
    }

    async fn result(&mut self) -> Result<StepResult> {
        self.lost(Failure::Result(self.returned))?;
        self.returned += 1;
        let (_, result) = self.in_flight.pop_front().expect("a step is in flight");
        Ok(result)
    }
}
