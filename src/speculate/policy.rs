//! How many draft tokens each sequence gets.

use std::{rc::Rc, time::Duration};

use super::{
    Drafter, Ngram,
    acceptance::Acceptance,
    batch::{Batch, Offer, Source},
    drafts::{Choice, Decoding, Drafts},
    mean::{Mean, Rate},
};
use crate::step::Draft;

/// Chooses draft tokens as far as they pay: from the acceptance rates of each sequence, and the time of
/// steps by the number of sequences, the source of drafts and the number of these.
#[derive(Debug)]
pub struct Speculation {
    /// Most drafts of a sequence, and of the executor's drafter; 0 if it has none.
    most: usize,
    device: usize,
    adaptive: bool,
    lookup: Rc<dyn Drafter>,
    /// Acceptance rates over all requests, the start values of a new one: of prompt lookup, and of the
    /// executor's drafter where it has read the prompt and where it has not.
    looked_up: Acceptance,
    on_device: Acceptance,
    late: Option<Acceptance>,
    /// By the number of decoding sequences, less one.
    batches: [Batch; Speculation::ROWS],
    /// Seconds per row of a prompt that the executor's drafter does not read, and of one that it reads.
    prompts: [Rate; 2],
    /// Steps with prompts since the former were measured.
    unread_since: usize,
    /// Extra seconds of the step after one with drafts: nothing was queued behind that.
    wait: Mean,
    /// The last step, unless no sequence was left running after it.
    last: Option<Last>,
}

/// The last step.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Duration,
    has_drafts: bool,
    /// Steps in a row without drafts and without the executor's drafter.
    plain: usize,
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

/// A step that is over.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Sequences that decode: one row, and drafts.
    pub decoding: usize,
    pub drafts: usize,
    pub source: Source,
    /// Tokens of sequences that still live, and the accepted drafts among them.
    pub tokens: usize,
    pub accepted: usize,
    /// Rows of prompts, and whether the executor's drafter read all or none of them.
    pub prompts: usize,
    pub read: Option<bool>,
    /// Whether it did nothing else, such as scores.
    pub is_usual: bool,
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
    /// Most rows of a step with drafts: further ones read the weights once more.
    const ROWS: usize = 16;
    /// Least drafts per sequence in a trial.
    const TRIAL: usize = 2;
    /// Reading a prompt is sure to cost, what it saves is not: it has to be more by this factor.
    const READING: f64 = 1.5;
    /// Steps with prompts after which a row that is not read is taken to cost half of what it did.
    const PATIENCE: f64 = 50.0;

    /// Speculation with up to `most` drafts per sequence: always, or with `adaptive` as far as they pay.
    pub fn new(most: usize, adaptive: bool) -> Speculation {
        Speculation {
            most,
            device: 0,
            adaptive,
            lookup: Rc::new(Ngram::default()),
            looked_up: Acceptance::default(),
            on_device: Acceptance::default(),
            late: None,
            batches: Default::default(),
            prompts: Default::default(),
            unread_since: 0,
            wait: Mean::default(),
            last: None,
        }
    }

    /// The same for an executor whose own drafter proposes up to `drafts` tokens.
    pub fn with_device(self, drafts: usize) -> Speculation {
        Speculation { device: drafts, ..self }
    }

    /// The same with a drafter in place of prompt lookup.
    pub fn with_drafter(self, lookup: Rc<dyn Drafter>) -> Speculation {
        Speculation { lookup, ..self }
    }

    /// The same without measurements.
    pub fn fresh(&self) -> Speculation {
        let fresh = Speculation::new(self.most, self.adaptive).with_device(self.device);
        fresh.with_drafter(self.lookup.clone())
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
        (drafts.is_late, drafts.expected) = (!drafts.reads, load.answer);
        drafts.on_device = self.all_on_device(drafts.is_late).clone();
    }

    /// Chooses the drafts of the sequences that decode in the next step.
    pub fn decide(&mut self, room: Room, decoding: &mut [Decoding<'_>]) {
        let sequences = decoding.len();
        let most = Speculation::ROWS.saturating_sub(sequences);
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

    /// Records the samples of a step for one sequence. `tokens`: what the host knew before; `came`: the
    /// tokens that were sampled; `made`: the drafts.
    pub fn sampled(&mut self, drafts: &mut Drafts, tokens: &[u32], came: &[u32], made: &[Draft]) {
        if self.most > 0 && !came.is_empty() {
            // The acceptance rate of prompt lookup is measured on all sampled tokens, whoever drafted
            // them.
            let proposed = drafts.lookup.propose(tokens, came.len());
            let matched = proposed.iter().zip(came).take_while(|(draft, came)| draft == came);
            let matched = matched.count();
            drafts.looked_up.observe(proposed.len(), matched, Acceptance::ONE);
            self.looked_up.observe(proposed.len(), matched, Acceptance::ALL);
        }
        if made.first().is_some_and(|draft| draft.token.is_none()) {
            let accepted = came.len().saturating_sub(1);
            drafts.on_device.observe(made.len(), accepted, Acceptance::ONE);
            let all = match drafts.is_late {
                true => self.late.get_or_insert_with(|| self.on_device.clone()),
                false => &mut self.on_device,
            };
            all.observe(made.len(), accepted, Acceptance::ALL);
        }
        drafts.verified(made.len());
    }

    /// Records a step that is over. `took`: the time from its submission, or from the end of the step before
    /// it if that came later. Returns the seconds that its drafts saved, if known.
    pub fn observe(&mut self, step: Observed, took: Duration, now: Duration) -> Option<f64> {
        let last = self.last;
        // Steps without drafts are submitted while others run; after drafts the host acts in between.
        let since = last.map_or(took, |last| now.saturating_sub(last.at));
        let took = since.clamp(took, 2 * took).as_secs_f64();
        let plain = match step.source {
            Source::None => 1 + last.map_or(0, |last| last.plain),
            Source::Lookup | Source::Device => 0,
        };
        self.last = Some(Last { at: now, has_drafts: step.drafts > 0, plain });
        if !step.is_usual {
            return None;
        }
        if step.prompts > 0 {
            let rest = match step.decoding {
                0 => Some(0.0),
                sequences => self.seconds(step.source, sequences, step.drafts),
            };
            if let Some((read, rest)) = step.read.zip(rest) {
                let rest = rest + self.row() * step.drafts as f64;
                let prompts = &mut self.prompts[usize::from(read)];
                prompts.add_capped(step.prompts as f64, (took - rest).max(0.0));
                self.unread_since = if read { self.unread_since + 1 } else { 0 };
            }
            return None;
        }
        let usual = self.plain(step.decoding);
        if let (true, Some(usual)) = (last.is_some_and(|last| last.has_drafts), usual) {
            let more = if step.drafts > 0 { 0.0 } else { (took - usual).clamp(-usual, usual) };
            self.wait.add(more);
        }
        let batch = self.batches.get_mut(step.decoding.checked_sub(1)?)?;
        // The first two steps without drafts wait for the host, as those with drafts do. Those with drafts
        // tell nothing before there is something to compare with: the very first steps of a device are slow.
        let is_settled = match step.source {
            Source::None => plain > 2,
            Source::Lookup | Source::Device => usual.is_some(),
        };
        batch.observe(step.source, step.drafts, step.tokens, is_settled.then_some(took));
        let usual = batch.plain().filter(|_| step.drafts > 0)?;
        let steps = (step.decoding + step.accepted) as f64 / step.decoding as f64;
        Some(steps * usual - took)
    }

    /// Records that no sequence is left running: the next step begins later.
    pub fn rest(&mut self) {
        self.last = None;
    }

    /// Whether what the executor's drafter saves in an answer is worth reading its prompt.
    fn reading_pays(&self, load: Load) -> bool {
        let sequences = load.sequences.max(1);
        let Some(batch) = self.batches.get(sequences - 1) else { return false };
        if !self.is_known(Source::Device) && load.prompt as f64 > load.answer {
            return false;
        }
        let [unread, read] = self.prompts.each_ref().map(Rate::get);
        // What was not measured for long is taken to be better.
        let age = self.unread_since as f64 / Speculation::PATIENCE;
        let unread = unread.map(|row| row / (1.0 + age));
        if read.is_some() && unread.is_none() {
            return false;
        }
        let rows = Speculation::ROWS - sequences;
        let of_one = self.on_device.chances().take(self.device.min(self.most));
        let chances = of_one.flat_map(|chance| vec![chance; sequences]);
        let plain = self.offer(Source::None, sequences, [], 0, 0.0).rate;
        let promised = self.offer(Source::Device, sequences, chances, rows, 0.0).rate;
        let drafted = batch.on_device().unwrap_or(promised);
        let drafted = batch.hope(Source::Device, drafted) / Batch::MARGIN;
        let more = read.zip(unread).map_or(0.0, |(read, unread)| (read - unread).max(0.0));
        let saved = load.answer * (1.0 / plain - 1.0 / drafted);
        saved > Speculation::READING * more * load.prompt as f64
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
        let on_device = seq.drafts.on_device.blend(self.all_on_device(seq.drafts.is_late));
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
        // Draft rows beside those of prompts cost as much as these.
        let row = if room.has_prompts { self.row() } else { 0.0 };
        let offers = Source::ALL.map(|source| {
            // Steps with prompts cannot be measured: they have only drafts of which enough is known.
            let may_try = source == Source::None || !room.has_prompts || self.is_known(source);
            if !may_try || source == Source::Device && self.device == 0 {
                return Offer::default();
            }
            let chances = drafts[source as usize].iter().map(|(chance, _)| *chance);
            self.offer(source, sequences, chances, rows, row)
        });
        let (source, is_trial) = match room.has_prompts {
            true => (Batch::best(&offers), false),
            false => self.batches[sequences - 1].choose(offers),
        };
        let least = if is_trial { Speculation::TRIAL * sequences } else { 0 };
        (source, offers[source as usize].drafts.max(least).min(rows))
    }

    /// Seconds of a row of a prompt, if known.
    fn row(&self) -> f64 {
        self.prompts.iter().find_map(Rate::get).unwrap_or(0.0)
    }

    /// What a source promises. `chances`: of each possible draft, the likeliest first; `row`: extra seconds
    /// of each draft. Without any measurement the rate of steps without drafts is 0.
    fn offer(
        &self,
        source: Source,
        sequences: usize,
        chances: impl IntoIterator<Item = f64>,
        rows: usize,
        row: f64,
    ) -> Offer {
        let tokens = sequences as f64;
        if source == Source::None {
            let rate = self.plain(sequences).map_or(0.0, |seconds| tokens / seconds);
            return Offer { rate, drafts: 0 };
        }
        let wait = self.wait.get().unwrap_or(0.0).max(0.0);
        let (mut offer, mut hope, mut expected) = (Offer::default(), 0.0, 0.0);
        for (chance, drafts) in chances.into_iter().take(rows).zip(1..) {
            expected += chance;
            // In an arbitrary unit while nothing is known.
            let seconds = self.seconds(source, sequences, drafts).unwrap_or(1.0);
            let rate = (tokens + expected) / (seconds + wait + row * drafts as f64);
            offer.rate = offer.rate.max(rate);
            let hoped = self.batches[sequences - 1].hope_of(source, drafts, rate);
            if hoped > hope {
                (hope, offer.drafts) = (hoped, drafts);
            }
        }
        offer
    }

    /// Seconds of a step without drafts. Where none was measured with so many sequences, it is estimated on
    /// the low side, so that one soon is.
    fn plain(&self, sequences: usize) -> Option<f64> {
        let (fewer, more) = self.batches.split_at(sequences.min(self.batches.len()));
        let below = fewer.iter().rev().find_map(Batch::plain);
        let above = || {
            let known = |(at, batch): (usize, &Batch)| Some((at, batch.plain()?));
            let (at, seconds) = (1..).zip(more).find_map(known)?;
            Some(seconds * sequences as f64 / (sequences + at) as f64)
        };
        below.or_else(above)
    }

    /// Seconds of a step with so many drafts. Where little was measured with so many sequences, it takes
    /// longer than one without drafts by the same factor as with the nearest other number of them.
    fn seconds(&self, source: Source, sequences: usize, drafts: usize) -> Option<f64> {
        let plain = self.plain(sequences);
        if source == Source::None {
            return plain;
        }
        let times = |sequences: usize| Some(self.batches.get(sequences - 1)?.times(source));
        let is_known = |other: &usize| times(*other).is_some_and(|times| times.is_known());
        let nearest = (1..=self.batches.len()).filter(is_known);
        let nearest = nearest.min_by_key(|other| other.abs_diff(sequences));
        match nearest.filter(|other| *other != sequences).zip(plain) {
            Some((other, plain)) => {
                let usual = self.plain(other)?;
                let drafts = (drafts * other).div_ceil(sequences);
                Some(times(other)?.seconds(drafts, Some(usual))? / usual * plain)
            }
            None => times(sequences)?.seconds(drafts, plain),
        }
    }

    /// Whether enough steps with drafts from this source were measured to rely on their times.
    fn is_known(&self, source: Source) -> bool {
        self.batches.iter().any(|batch| batch.times(source).is_known())
    }

    /// Acceptance rates of the executor's drafter over all requests.
    fn all_on_device(&self, is_late: bool) -> &Acceptance {
        self.late.as_ref().filter(|_| is_late).unwrap_or(&self.on_device)
    }
}
