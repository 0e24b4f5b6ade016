//! The clock of an engine and its visitors.

use std::{
    cell::Cell,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

/// A clock that never goes backwards.
pub trait Clock: Clone + 'static {
    /// Time since the clock was created.
    fn now(&self) -> Duration;

    /// Waits until `time`; returns at once if it has passed.
    fn wait_until(&self, time: Duration);
}

/// Real time.
#[derive(Clone, Debug)]
pub struct WallClock(Instant);

impl WallClock {
    /// A clock that starts now.
    pub fn start() -> WallClock {
        WallClock(Instant::now())
    }
}

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wait_until(&self, time: Duration) {
        thread::sleep(time.saturating_sub(self.now()));
    }
}

/// Simulated time: it advances only by `wait_until`.
#[derive(Clone, Debug, Default)]
pub struct SimulatedClock(Rc<Cell<Duration>>);

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.0.get()
    }

    fn wait_until(&self, time: Duration) {
        self.0.set(self.now().max(time));
    }
}
