//! What steps with a certain number of decoding sequences cost, by where their drafts come from.

use super::{mean::Mean, times::Times};

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
}

impl Batch {
    /// What was not measured for this many steps is taken to be twice as good as it was. So it is tried
    /// the less often the worse it was, and trials lose the same small share of the time.
    const PATIENCE: f64 = 2000.0;
    /// Steps before a first trial without drafts: not the first words of an answer.
    const FIRST: usize = 4;
    /// Steps without drafts that have to be measured.
    const SOME: f64 = 3.0;
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

    /// Records a step. `seconds`: what it took, unless that shows nothing.
    pub fn observe(&mut self, source: Source, drafts: usize, seconds: Option<f64>) {
        self.steps += 1;
        let Some(seconds) = seconds else { return };
        let plain = self.plain();
        match source {
            Source::None => self.plain.add_capped(seconds),
            Source::Lookup => self.lookup.observe(drafts, seconds, plain, self.steps),
            Source::Device => self.device.observe(drafts, seconds, plain, self.steps),
        }
        if source == Source::None || drafts > 0 {
            self.used[source as usize] = self.steps;
        }
    }

    /// The source to use. `offers`: by source.
    pub fn choose(&mut self, offers: [Offer; 3]) -> Source {
        if self.steps >= Batch::FIRST && offers[Source::None as usize].rate == 0.0 {
            return Source::None;
        }
        let mut hopes = offers;
        for source in Source::ALL {
            let age = self.steps - self.used[source as usize];
            hopes[source as usize].rate = Batch::aged(offers[source as usize].rate, age);
        }
        let hoped = Batch::best(&hopes);
        if hoped != Batch::best(&offers) {
            // Tried now, even if no draft comes of it.
            self.used[hoped as usize] = self.steps;
        }
        hoped
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
            let source = batch.choose(offers(rates));
            batch.observe(source, usize::from(source != Source::None), Some(1.0));
            source
        };
        (0..steps).map(step).collect()
    }

    #[test]
    fn the_worse_a_source_was_the_later_it_is_tried_again() {
        for (rate, first) in [(0.9, 267), (0.5, 2081), (0.25, 6161)] {
            let steps = chosen(&mut Batch::default(), [1.0, rate, 0.0], 10_000);
            let trials = (0..10_000).filter(|at| steps[*at] == Source::Lookup);
            let trials: Vec<usize> = trials.collect();
            assert_eq!(trials[0], first, "a rate of {rate}");
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
            batch.observe(Source::None, 0, Some(seconds));
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
        assert_eq!(steps[..4], [Source::Device; 4]);
        assert_eq!(steps[4..], [Source::None; 6]);
    }
}
