//! What is simulated: devices and their loads, chosen by hand or drawn by a seed.

use super::{
    device::{Acceptance, Device, SLOTS, Text},
    load::{Arrivals, Load},
};

#[derive(Clone, Debug)]
pub struct Profile {
    pub device: Device,
    pub load: Load,
}

/// The weights are read once for up to 16 rows.
pub const GPU: Device = device(1.0, 0.003, 0.047);
/// Rows are almost all that a step takes.
pub const SOFTWARE: Device = device(0.2, 0.8, 0.0);
pub const CPU: Device = device(0.9, 0.1, 0.0);
/// A step takes 80 ms, and each row half a millisecond.
pub const INTEGRATED: Device = device(16.0, 0.1, 0.0);
/// Others use the device as well.
pub const NOISY: Device = Device { noise: 0.3, stall: 10.0, ..GPU };

const fn device(weights: f64, row: f64, further: f64) -> Device {
    let acceptance = Acceptance::Always(0.0);
    let (host, noise, stall) = (0.1, 0.05, 1.0);
    Device { weights, row, further, host, noise, stall, drafter: 0.0, acceptance }
}

pub const SHORT: (usize, usize) = (4, 30);
pub const CHAT: (usize, usize) = (4, 200);
pub const LONG: (usize, usize) = (300, 800);

pub fn load(text: Text, (least, most): (usize, usize), arrivals: Arrivals) -> Load {
    Load { text, prompts: 20..200, answers: least..most, arrivals }
}

impl Profile {
    /// The profile of a seed.
    pub fn drawn(seed: u64) -> Profile {
        let random = &mut fastrand::Rng::with_seed(seed);
        let device = [GPU, SOFTWARE, CPU, INTEGRATED, NOISY][random.usize(..5)];
        let drafter = [0.0, 0.05, 0.25, 0.6][random.usize(..4)];
        let mut rate = || 0.1 + 0.85 * random.f64();
        let (first, second) = (rate(), rate());
        let acceptance = match random.bool() {
            true => Acceptance::Always(first),
            false => Acceptance::Switching(first, second, random.usize(20..200)),
        };
        let text = [Text::Fresh, Text::Phrases, Text::Copies][random.usize(..3)];
        // From 8 to 800, the short ones as likely as the long ones.
        let most = (8.0 * 100f64.powf(random.f64())) as usize;
        let answers = (random.usize(4..most), most);
        let arrivals = match random.bool() {
            true => Arrivals::Closed(random.usize(1..=SLOTS)),
            // A third of what the device can do with so many at a time: close to its limit each step more
            // delays all that wait.
            false => {
                let sequences = random.usize(1..=SLOTS / 2);
                let decode = device.step(sequences);
                let answer = (answers.0 + answers.1) as f64 / 2.0 * decode / sequences as f64;
                Arrivals::Open(3.0 * (answer + device.step(110 + sequences) - decode))
            }
        };
        Profile {
            device: Device { drafter, acceptance, ..device },
            load: load(text, answers, arrivals),
        }
    }
}
