//! How likely draft tokens are accepted.

use crate::step::MAX_DRAFTS;

/// The acceptance rate of drafts by their place.
#[derive(Clone, Debug, PartialEq)]
pub struct Acceptance {
    /// The share of drafts that were accepted where all drafts before them were.
    rates: [f64; MAX_DRAFTS],
}

impl Default for Acceptance {
    /// Optimistic: drafting has to be tried at first.
    fn default() -> Acceptance {
        Acceptance { rates: [0.7; MAX_DRAFTS] }
    }
}

impl Acceptance {
    /// Weight of one round in the moving average of one sequence, and of all.
    pub const ONE: f64 = 0.1;
    pub const ALL: f64 = 0.02;

    /// Records that the first `accepted` of `drafted` drafts were accepted.
    pub fn observe(&mut self, drafted: usize, accepted: usize, weight: f64) {
        for (place, rate) in self.rates.iter_mut().enumerate().take(drafted.min(accepted + 1)) {
            let hit = if place < accepted { 1.0 } else { 0.0 };
            *rate += weight * (hit - *rate);
        }
    }

    /// Rates between those of one sequence, which are from few rounds, and those of all.
    pub fn blend(&self, all: &Acceptance) -> Acceptance {
        let mut rates = self.rates;
        rates.iter_mut().zip(&all.rates).for_each(|(rate, all)| *rate = (*rate + all) / 2.0);
        Acceptance { rates }
    }

    /// The probability of each place that its draft and all before it are accepted.
    pub fn chances(&self) -> impl Iterator<Item = f64> {
        self.rates.iter().scan(1.0, |chance, rate| {
            *chance *= rate;
            Some(*chance)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_behind_a_rejected_draft_learn_nothing() {
        let mut acceptance = Acceptance::default();
        (0..200).for_each(|_| acceptance.observe(3, 1, Acceptance::ONE));
        let [first, second, third, fourth, ..] = acceptance.rates;
        assert!(first > 0.99 && second < 0.01, "{acceptance:?}");
        assert_eq!([third, fourth], [0.7, 0.7]);
        let chances: Vec<f64> = acceptance.chances().collect();
        assert!((chances.iter().sum::<f64>() - 1.0).abs() < 0.02, "{chances:?}");
        assert!(chances.is_sorted_by(|first, second| first >= second));
    }
}
