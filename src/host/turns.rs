//! Whose step is next on the device that all models share.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Identifies a model of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelId(pub u64);

/// Shares the device by the time of steps: the model that was served least is next, so a small model
/// computes many steps in the time that a large one takes for one.
#[derive(Default)]
pub struct Turns {
    shares: BTreeMap<ModelId, Share>,
    /// The models of the steps in flight, in the device's order.
    in_flight: VecDeque<ModelId>,
    /// How much the least served of the busy models had got, when it was last asked. A model that was idle
    /// starts here: it is owed nothing for the time in which it had nothing to compute.
    least: Duration,
}

/// What a model has got of the device.
#[derive(Default)]
struct Share {
    served: Duration,
    /// The time of its last step, which its steps in flight are expected to take.
    step: Duration,
    in_flight: u32,
    was_busy: bool,
}

impl Share {
    fn expected(&self) -> Duration {
        self.served + self.step * self.in_flight
    }
}

impl Turns {
    /// The busy models, the least served first.
    fn order(&mut self, busy: Vec<ModelId>) -> Vec<ModelId> {
        for model in &busy {
            let share = self.shares.entry(*model).or_default();
            if !share.was_busy {
                share.served = share.served.max(self.least);
            }
        }
        for (model, share) in &mut self.shares {
            share.was_busy = busy.contains(model);
        }
        let mut order = busy;
        order.sort_by_key(|model| self.shares[model].expected());
        if let Some(first) = order.first() {
            self.least = self.least.max(self.shares[first].expected());
        }
        order
    }

    /// Begins a step of the busy model that was served least, or of the next where it has none to compute.
    /// `begin` gets a model and the number of steps in flight, and returns whether it began one, or `None` if
    /// as many in flight are enough. Returns whether one was begun.
    pub fn begin_step(
        &mut self,
        busy: Vec<ModelId>,
        mut begin: impl FnMut(ModelId, usize) -> Option<bool>,
    ) -> bool {
        for model in self.order(busy) {
            match begin(model, self.in_flight.len()) {
                None => return false,
                Some(true) => {
                    self.begin(model);
                    return true;
                }
                // Behind another's step it would wait for longer than for its own.
                Some(false) if self.in_flight.contains(&model) => return false,
                Some(false) => {}
            }
        }
        false
    }

    /// The model whose step ends next.
    pub fn oldest(&self) -> Option<ModelId> {
        self.in_flight.front().copied()
    }

    /// Adds a step to those in flight.
    fn begin(&mut self, model: ModelId) {
        self.shares.entry(model).or_default().in_flight += 1;
        self.in_flight.push_back(model);
    }

    /// Removes the oldest step in flight, which took this long.
    pub fn end(&mut self, took: Duration) {
        let Some(model) = self.in_flight.pop_front() else { return };
        let share = self.shares.entry(model).or_default();
        share.in_flight -= 1;
        share.served += took;
        share.step = took;
    }

    /// Forgets a model and its steps.
    pub fn remove(&mut self, model: ModelId) {
        self.shares.remove(&model);
        self.in_flight.retain(|other| *other != model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ModelId = ModelId(1);
    const LARGE: ModelId = ModelId(2);

    fn took(model: ModelId) -> Duration {
        Duration::from_millis(if model == LARGE { 100 } else { 10 })
    }

    /// Runs as many steps, at most `depth` in flight; returns whose they were.
    fn run(turns: &mut Turns, busy: &[ModelId], depth: usize, steps: usize) -> Vec<ModelId> {
        let mut ended = Vec::new();
        while ended.len() < steps {
            let begin = |_, in_flight| (in_flight < depth).then_some(true);
            while turns.begin_step(busy.to_vec(), begin) {}
            let model = turns.oldest().expect("a step is in flight");
            turns.end(took(model));
            ended.push(model);
        }
        ended
    }

    fn count(steps: &[ModelId], model: ModelId) -> usize {
        steps.iter().filter(|other| **other == model).count()
    }

    #[test]
    fn each_model_gets_the_same_time() {
        for depth in [1, 2, 3] {
            let steps = run(&mut Turns::default(), &[SMALL, LARGE], depth, 1100);
            let [small, large] = [SMALL, LARGE].map(|model| count(&steps, model));
            assert!((995..=1005).contains(&small), "{small} and {large} at depth {depth}");
            let longest = steps.split(|model| *model == SMALL).map(<[_]>::len).max();
            assert!(longest <= Some(depth), "large steps in a row at depth {depth}");
        }
    }

    #[test]
    fn who_was_idle_is_owed_nothing() {
        let mut turns = Turns::default();
        run(&mut turns, &[SMALL], 2, 1000);
        let steps = run(&mut turns, &[SMALL, LARGE], 2, 110);
        assert!((95..110).contains(&count(&steps, SMALL)), "{steps:?}");
        // Who comes back while the others were idle is owed nothing, either.
        run(&mut turns, &[LARGE], 2, 1000);
        let steps = run(&mut turns, &[SMALL, LARGE], 2, 110);
        assert!((95..110).contains(&count(&steps, SMALL)), "{steps:?}");
    }

    #[test]
    fn a_model_that_is_gone_leaves_no_step() {
        let mut turns = Turns::default();
        [SMALL, LARGE].into_iter().for_each(|model| turns.begin(model));
        turns.remove(SMALL);
        assert_eq!(turns.in_flight, [LARGE]);
    }
}
