//! What steps with a certain number of decoding sequences cost, by where their drafts come from.

use super::{
    mean::{Mean, Rate},
    times::Times,
};

/// Where the drafts of a step come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The step has none.
    None,
    /// Prompt lookup alone.
    Lookup,
    /// The executor's drafter, which drafts or at least reads rows; lookup where that is better.
    Device,
}

impl Source {
    pub const ALL: [Source; 3] = [Source::None, Source::Lookup, Source::Device];
}

/// What a source promises for the next step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// Tokens per second, with the number of drafts that brings the most.
    pub rate: f64,
    /// Drafts in the step: that number, or one that was not measured for long.
    pub drafts: usize,
}

/// Measurements of the steps in which a certain number of sequences decode.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Steps so far, and the last one with each source.
    steps: usize,
    used: [usize; 3],
    plain: Mean,
    lookup: Times,
    device: Times,
    /// Seconds per token in steps with the executor's drafter, those included in which it only reads.
    on_device: Rate,
    /// A source that is used for so many more steps, to measure it.
    trial: Option<(Source, usize)>,
}

impl Batch {
    /// What was not measured for this many steps is taken to be twice as good as it was. So it is tried
    /// the less often the worse it was, and trials lose the same small share of the time.
    const PATIENCE: f64 = 2000.0;
    /// Steps of a trial. The first two without drafts are slower than the others, which are submitted
    /// while the step before runs.
    const TRIAL: usize = 6;
    /// Steps without drafts that have to be measured, as many as a trial measures at least.
    const SOME: f64 = 3.0;
    /// Steps before a first trial without drafts: not the first words of an answer.
    const FIRST: usize = 4;
    /// Drafts have to be better than none by this factor.
    pub const MARGIN: f64 = 1.02;

    /// Seconds of a step without drafts, if measured often enough: one alone may have waited for something else.
    pub fn plain(&self) -> Option<f64> {
        self.plain.get().filter(|_| self.plain.count() >= Batch::SOME)
    }

    /// The times of steps with drafts.
    pub fn times(&self, source: Source) -> &Times {
        if source == Source::Device { &self.device } else { &self.lookup }
    }

    /// Tokens per second that the executor's drafter brought, if measured.
    pub fn on_device(&self) -> Option<f64> {
        self.on_device.get().map(|seconds| 1.0 / seconds)
    }

    /// Records a step with `tokens` for sequences that still live. `seconds`: what such steps take, unless
    /// this one waited for something else.
    pub fn observe(&mut self, source: Source, drafts: usize, tokens: usize, seconds: Option<f64>) {
        self.steps += 1;
        self.trial = self.trial.and_then(|(source, left)| Some((source, left.checked_sub(1)?)));
        let Some(seconds) = seconds else { return };
        let plain = self.plain();
        match source {
            Source::None => self.plain.add_capped(seconds),
            Source::Lookup => self.lookup.observe(drafts, seconds, plain, self.steps),
            Source::Device => {
                self.device.observe(drafts, seconds, plain, self.steps);
                let usual = self.device.curve(plain).map_or(seconds, |curve| curve.seconds(drafts));
                self.on_device.add(tokens as f64, seconds.min(2.0 * usual));
            }
        }
        if source == Source::None || drafts > 0 {
            self.used[source as usize] = self.steps;
        }
    }

    /// The source to use, and whether that is a trial. `offers`: by source.
    pub fn choose(&mut self, offers: [Offer; 3]) -> (Source, bool) {
        if let Some((source, _)) = self.trial {
            return (source, true);
        }
        let now = Batch::best(&offers);
        let mut hopes = offers;
        for source in Source::ALL {
            hopes[source as usize].rate = self.hope(source, hopes[source as usize].rate);
        }
        let hoped = match self.steps >= Batch::FIRST && offers[Source::None as usize].rate == 0.0 {
            true => Source::None,
            false => Batch::best(&hopes),
        };
        if hoped == now {
            return (now, false);
        }
        self.used[hoped as usize] = self.steps;
        self.trial = Some((hoped, Batch::TRIAL - 1));
        (hoped, true)
    }

    /// The source that promises the most tokens per second.
    pub fn best(offers: &[Offer; 3]) -> Source {
        let better = |best: Source, source: Source| {
            let margin = if best == Source::None { Batch::MARGIN } else { 1.0 };
            let is_better = offers[source as usize].rate > margin * offers[best as usize].rate;
            if is_better { source } else { best }
        };
        Source::ALL.into_iter().reduce(better).unwrap_or(Source::None)
    }

    /// The rate of a source, the better the longer it was not used.
    pub fn hope(&self, source: Source, rate: f64) -> f64 {
        Batch::aged(rate, self.steps - self.used[source as usize])
    }

    /// The rate of a source with so many drafts, the better the longer that was not measured.
    pub fn hope_of(&self, source: Source, drafts: usize, rate: f64) -> f64 {
        Batch::aged(rate, self.steps - self.times(source).measured(drafts))
    }

    fn aged(rate: f64, steps: usize) -> f64 {
        rate * (1.0 + steps as f64 / Batch::PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(rates: [f64; 3]) -> [Offer; 3] {
        rates.map(|rate| Offer { rate, drafts: 1 })
    }

    /// The sources of this many steps, if each brings its rate.
    fn chosen(batch: &mut Batch, rates: [f64; 3], steps: usize) -> Vec<Source> {
        let step = |_| {
            let (source, _) = batch.choose(offers(rates));
            batch.observe(source, usize::from(source != Source::None), 1, Some(1.0));
            source
        };
        (0..steps).map(step).collect()
    }

    #[test]
    fn the_worse_a_source_was_the_later_it_is_tried_again_for_a_few_steps() {
        for (rate, first) in [(0.9, 267), (0.5, 2081), (0.25, 6161)] {
            let steps = chosen(&mut Batch::default(), [1.0, rate, 0.0], 10_000);
            let trials = (0..10_000).filter(|at| steps[*at] == Source::Lookup);
            let trials: Vec<usize> = trials.collect();
            assert_eq!(trials[..6], Vec::from_iter(first..first + 6), "a rate of {rate}");
            // Each lost step costs the difference.
            let lost = trials.len() as f64 * (1.0 / rate - 1.0);
            assert!(lost < 0.005 * 10_000.0, "{lost} steps lost at a rate of {rate}");
        }
    }

    #[test]
    fn a_single_slow_step_without_drafts_is_not_believed() {
        let mut batch = Batch::default();
        for seconds in [2.0, 1.0, 1.0] {
            assert_eq!(batch.plain(), None);
            batch.observe(Source::None, 0, 1, Some(seconds));
        }
        assert!(batch.plain().is_some_and(|seconds| seconds < 1.5));
    }

    #[test]
    fn drafts_that_bring_hardly_more_are_not_used() {
        assert_eq!(Batch::best(&offers([1.0, 1.01, 0.0])), Source::None);
        assert_eq!(Batch::best(&offers([1.0, 1.03, 1.0])), Source::Lookup);
        assert_eq!(Batch::best(&offers([1.0, 1.03, 1.04])), Source::Device);
    }

    #[test]
    fn while_nothing_is_known_of_steps_without_drafts_these_are_tried_soon() {
        let steps = chosen(&mut Batch::default(), [0.0, 0.0, 1.0], 10);
        let expected = [vec![Source::Device; 4], vec![Source::None; 6]].concat();
        assert_eq!(steps, expected);
    }
}
