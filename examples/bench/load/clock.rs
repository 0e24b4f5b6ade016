//! The time that an engine and its visitors live by.

use std::{
    cell::Cell,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

/// A time that never goes back.
pub trait Clock: Clone + 'static {
    /// Since the clock was made.
    fn now(&self) -> Duration;

    /// Lets time pass until `time`, or not at all if that is over.
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

/// Time that passes only where a model of the world says so.
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
