//! How long the processor computes without a break.

use std::time::Duration;

use web_time::Instant;

/// The longest time between two breaks, but for an operation that takes longer.
const LONGEST: Duration = Duration::from_millis(50);

/// Leaves the thread to others now and then, so that a long step keeps nobody waiting who only asks whether
/// it goes on.
pub(super) struct Pace<T> {
    turn: T,
    since: Instant,
}

impl<T: AsyncFn()> Pace<T> {
    /// `turn` ends a turn of the event loop.
    pub(super) fn new(turn: T) -> Pace<T> {
        Pace { turn, since: Instant::now() }
    }

    /// Takes a break if it is time for one. Call it between operations.
    pub(super) async fn keep(&mut self) {
        if self.since.elapsed() >= LONGEST {
            (self.turn)().await;
            self.since = Instant::now();
        }
    }
}
