//! How many draft tokens each sequence gets.

use std::{rc::Rc, time::Duration};

use super::{
    Ngram, Proposer,
    acceptance::Acceptance,
    batch::{Batch, Offer, Source},
    costs::{Costs, Observed, Spent},
    drafts::{Choice, Decoding, Drafts, Sampled},
};

/// Chooses draft tokens as far as they pay: from the acceptance rates of each sequence, and what steps cost.
#[derive(Debug)]
pub struct Speculation {
    /// Most drafts of a sequence, and of the executor's drafter; 0 if it has none.
    most: usize,
    device: usize,
    adaptive: bool,
    lookup: Rc<dyn Proposer>,
    /// Acceptance rates over all requests, the start values of a new one: of prompt lookup, and of the
    /// executor's drafter.
    looked_up: Acceptance,
    on_device: Acceptance,
    costs: Costs,
}

/// What a sequence meets that begins.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Sequences that will decode, this one included.
    pub sequences: usize,
    /// Rows of its prompt to compute.
    pub prompt: usize,
    /// Tokens that its answer will probably have.
    pub answer: f64,
    /// Whether the executor's drafter can draft for it.
    pub may_read: bool,
}

/// What the next step has room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Rows that drafts may take.
    pub rows: usize,
    /// Whether the step has rows of prompts as well.
    pub has_prompts: bool,
}

/// The drafts that a sequence could have.
struct Proposal {
    /// By prompt lookup, the ones for the tokens in flight included.
    tokens: Vec<u32>,
    /// Chances of the drafts behind the tokens in flight: from lookup, and by the executor's drafter.
    lookup: Vec<f64>,
    device: Vec<f64>,
    /// Whether the executor's drafter is better.
    is_device: bool,
}

impl Proposal {
    fn chances(&self, source: Source) -> &[f64] {
        match source {
            Source::None => &[],
            Source::Device if self.is_device => &self.device,
            Source::Device | Source::Lookup => &self.lookup,
        }
    }
}

impl Speculation {
    /// Reading a prompt, or drafting beside one, is sure to cost a drafter's time. What it saves is not sure,
    /// beside a prompt often a row and no step: it has to be more by this factor.
    const READING: f64 = 1.5;

    /// Speculation with up to `most` drafts per sequence: always, or with `adaptive` as far as they pay.
    pub fn new(most: usize, adaptive: bool) -> Speculation {
        Speculation {
            most,
            device: 0,
            adaptive,
            lookup: Rc::new(Ngram::default()),
            looked_up: Acceptance::default(),
            on_device: Acceptance::default(),
            costs: Costs::default(),
        }
    }

    /// The same for an executor whose own drafter proposes up to `drafts` tokens.
    pub fn with_device(self, drafts: usize) -> Speculation {
        Speculation { device: drafts, ..self }
    }

    /// The same with another proposer in place of prompt lookup.
    pub fn with_proposer(self, lookup: Rc<dyn Proposer>) -> Speculation {
        Speculation { lookup, ..self }
    }

    /// The same without measurements.
    pub fn fresh(&self) -> Speculation {
        let fresh = Speculation::new(self.most, self.adaptive).with_device(self.device);
        fresh.with_proposer(self.lookup.clone())
    }

    /// Most drafts of the executor's own drafter; 0 if it has none.
    pub fn device(&self) -> usize {
        self.device
    }

    /// The state of a sequence that waits.
    pub fn drafts(&self) -> Drafts {
        Drafts::new(self.lookup.fresh())
    }

    /// Decides whether the executor's drafter reads the prompt of a sequence that begins.
    pub fn begin(&self, drafts: &mut Drafts, load: Load) {
        drafts.looked_up = self.looked_up.clone();
        let may_read = load.may_read && self.device > 0 && self.most > 0;
        drafts.reads = may_read && (!self.adaptive || self.reading_pays(load));
        drafts.on_device = self.on_device.clone();
        drafts.expected = load.answer;
    }

    /// Chooses the drafts of the sequences that decode in the next step.
    pub fn decide(&mut self, room: Room, decoding: &mut [Decoding<'_>]) {
        let sequences = decoding.len();
        let most = Costs::ROWS.saturating_sub(sequences);
        if sequences == 0 || self.most == 0 || most == 0 {
            for seq in decoding {
                seq.drafts.reads = false;
                seq.drafts.choose(Choice::default(), self.adaptive);
            }
            return;
        }
        let rows = room.rows.min(most);
        let proposals: Vec<Proposal> = decoding.iter_mut().map(|seq| self.proposal(seq)).collect();
        // (chance, sequence) of each possible draft, the likeliest first
        let drafts = Source::ALL.map(|source| {
            let of = |(at, proposal): (usize, &Proposal)| {
                proposal.chances(source).iter().map(|chance| (*chance, at)).collect::<Vec<_>>()
            };
            let mut all: Vec<(f64, usize)> = proposals.iter().enumerate().flat_map(of).collect();
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            all
        });
        let (source, count, limit) = if self.adaptive {
            let (source, count) = self.choose(room, rows, sequences, &drafts);
            (source, count, self.most)
        } else {
            let source = if self.device > 0 { Source::Device } else { Source::Lookup };
            (source, rows, self.most.min(most / sequences))
        };
        let mut counts = vec![0; sequences];
        let mut left = count;
        for (_, at) in &drafts[source as usize] {
            if left > 0 && counts[*at] < limit {
                (counts[*at], left) = (counts[*at] + 1, left - 1);
            }
        }
        for ((seq, proposal), count) in decoding.iter_mut().zip(proposals).zip(counts) {
            seq.drafts.reads = source == Source::Device && seq.may_read && self.device > 0;
            let choice = if seq.drafts.reads && proposal.is_device {
                Choice::Device(count)
            } else if count > 0 {
                let mut tokens = proposal.tokens;
                tokens.truncate(seq.pending + count);
                Choice::Tokens(tokens)
            } else {
                Choice::None
            };
            seq.drafts.choose(choice, self.adaptive);
        }
    }

    /// Records a step that is over, which `took` the time from its submission, or from the end of the step
    /// before it if that came later. `sampled`: the sequences that still live.
    pub fn observe(
        &mut self,
        step: Observed,
        sampled: &mut [Sampled<'_>],
        took: Duration,
    ) -> Spent {
        let accepted = sampled.iter().map(|seq| seq.came.len().saturating_sub(1)).sum();
        for Sampled { drafts, tokens, came, made } in sampled {
            let accepted = came.len().saturating_sub(1);
            if self.most > 0 && !came.is_empty() {
                // The acceptance rate of prompt lookup is measured on all sampled tokens, whoever drafted
                // them.
                let proposed = drafts.lookup.propose(tokens, came.len());
                let matched = proposed.iter().zip(&*came).take_while(|(draft, came)| draft == came);
                let matched = matched.count();
                drafts.looked_up.observe(proposed.len(), matched, Acceptance::ONE);
                self.looked_up.observe(proposed.len(), matched, Acceptance::ALL);
            }
            if made.first().is_some_and(|draft| draft.token.is_none()) {
                drafts.on_device.observe(made.len(), accepted, Acceptance::ONE);
                self.on_device.observe(made.len(), accepted, Acceptance::ALL);
            }
            drafts.verified(made.len());
        }
        self.costs.observe(step, accepted, took)
    }

    /// Whether what the executor's drafter saves in an answer is worth reading its prompt.
    fn reading_pays(&self, load: Load) -> bool {
        let sequences = load.sequences.max(1);
        if sequences >= Costs::ROWS
            || !self.costs.is_known(Source::Device) && load.prompt as f64 > load.answer
        {
            return false;
        }
        let rows = Costs::ROWS - sequences;
        let of_one = self.on_device.chances().take(self.device.min(self.most));
        let chances = of_one.flat_map(|chance| vec![chance; sequences]);
        let plain = self.offer(Source::None, sequences, [], 0).rate;
        let drafted = self.offer(Source::Device, sequences, chances, rows).rate / Batch::MARGIN;
        let saved = load.answer * (1.0 / plain - 1.0 / drafted);
        saved > Speculation::READING * self.costs.reading() * load.prompt as f64
    }

    /// The drafts that a sequence could have.
    fn proposal(&self, seq: &mut Decoding<'_>) -> Proposal {
        let limit = seq.room.min(self.most);
        let tokens = match limit {
            0 => Vec::new(),
            _ => seq.drafts.lookup.propose(seq.tokens, seq.pending + limit),
        };
        let found = tokens.len().saturating_sub(seq.pending);
        let looked_up = seq.drafts.looked_up.blend(&self.looked_up);
        let lookup: Vec<f64> = looked_up.chances().skip(seq.pending).take(found).collect();
        let on_device = seq.drafts.on_device.blend(&self.on_device);
        let drafted = if seq.may_read { limit.min(self.device) } else { 0 };
        let device: Vec<f64> = on_device.chances().take(drafted).collect();
        let sum = |chances: &[f64]| chances.iter().take(found).sum::<f64>();
        let is_device = lookup.is_empty() || sum(&device) > sum(&lookup);
        Proposal { tokens, lookup, device, is_device }
    }

    /// The source of the next step's drafts, and their number, at most `rows`. `drafts`: by source, the
    /// (chance, sequence) of each, the likeliest first.
    fn choose(
        &mut self,
        room: Room,
        rows: usize,
        sequences: usize,
        drafts: &[Vec<(f64, usize)>; 3],
    ) -> (Source, usize) {
        let offers = Source::ALL.map(|source| {
            // Steps with prompts cannot be measured: they have only drafts of which enough is known.
            let may_try =
                source == Source::None || !room.has_prompts || self.costs.is_known(source);
            if !may_try || source == Source::Device && self.device == 0 {
                return Offer::default();
            }
            let chances = drafts[source as usize].iter().map(|(chance, _)| *chance);
            let mut offer = self.offer(source, sequences, chances, rows);
            if room.has_prompts && source == Source::Device {
                offer.rate /= Speculation::READING;
            }
            offer
        });
        let batch = self.costs.batch_mut(sequences).filter(|_| !room.has_prompts);
        let source = batch.map_or_else(|| Batch::best(&offers), |batch| batch.choose(offers));
        (source, offers[source as usize].drafts)
    }

    /// What a source promises. `chances`: of each possible draft, the likeliest first.
    /// Without any measurement the rate of steps without drafts is 0.
    fn offer(
        &self,
        source: Source,
        sequences: usize,
        chances: impl IntoIterator<Item = f64>,
        rows: usize,
    ) -> Offer {
        let tokens = sequences as f64;
        if source == Source::None {
            let rate = self.costs.plain(sequences).map_or(0.0, |seconds| tokens / seconds);
            return Offer { rate, drafts: 0 };
        }
        let times = self.costs.times(source, sequences);
        let batch = self.costs.batch(sequences);
        let (mut offer, mut hope, mut expected) = (Offer::default(), 0.0, 0.0);
        for (chance, drafts) in chances.into_iter().take(rows).zip(1..) {
            expected += chance;
            // In an arbitrary unit while nothing is known.
            let seconds = times.as_ref().map_or(1.0, |times| times.seconds(drafts));
            let rate = (tokens + expected) / seconds;
            offer.rate = offer.rate.max(rate);
            let hoped = batch.map_or(rate, |batch| batch.hope_of(source, drafts, rate));
            if hoped > hope {
                (hope, offer.drafts) = (hoped, drafts);
            }
        }
        offer
    }
}
