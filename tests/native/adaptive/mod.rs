//! Adaptive drafts on modelled devices: where drafts do not pay, they cost almost nothing, and where they
//! do, they bring almost what the best fixed number of them brings.

mod device;
mod load;

use device::{Acceptance, Device, Text};
use load::{Arrivals, Load, Runner};

/// Drafts per sequence that adaptive ones are compared with.
const FIXED: [usize; 4] = [1, 2, 4, 7];
/// Learning depends on luck: times are of this many runs.
const SEEDS: u64 = 3;
/// Answered tokens of a run, and of the one before it in which the engine learns.
const TOKENS: [usize; 2] = [2000, 8000];

/// The weights are read once for up to 16 rows.
const GPU: Device =
    device(|rows| 1.0 + 0.003 * rows.min(16) as f64 + 0.05 * rows.saturating_sub(16) as f64);
/// Rows are almost all that a step takes.
const SOFTWARE: Device = device(|rows| 0.2 + 0.8 * rows as f64);
const CPU: Device = device(|rows| 0.9 + 0.1 * rows as f64);
/// A step takes 80 ms, and each row half a millisecond.
const INTEGRATED: Device = device(|rows| 16.0 + 0.1 * rows as f64);
/// Others use the device as well.
const NOISY: Device = Device { noise: 0.3, stall: 10.0, ..GPU };

const fn device(rows: fn(usize) -> f64) -> Device {
    let acceptance = Acceptance::Always(0.0);
    Device { rows, host: 0.1, noise: 0.05, stall: 1.0, drafter: 0.0, acceptance }
}

const SHORT: (usize, usize) = (4, 30);
const CHAT: (usize, usize) = (4, 200);
const LONG: (usize, usize) = (300, 800);

fn load(text: Text, (least, most): (usize, usize), arrivals: Arrivals) -> Load {
    Load { text, prompts: 20..200, answers: least..most, arrivals }
}

/// The gain over no drafts: with adaptive ones, and with the best fixed number of them.
fn gains(device: Device, load: &Load) -> [f64; 2] {
    let time = |drafts: Option<usize>| {
        let run = |seed| {
            let mut runner = Runner::new(device, load.text, drafts, seed);
            TOKENS.map(|tokens| runner.run(load, tokens))[1]
        };
        (0..SEEDS).map(run).sum::<f64>()
    };
    let off = time(Some(0));
    let fixed = FIXED.map(|drafts| off / time(Some(drafts)));
    [off / time(None), fixed.into_iter().fold(1.0, f64::max)]
}

/// Asserts the gains on a device with drafters of several costs, and without one.
fn check(device: Device) {
    let always = Acceptance::Always;
    let switching = Acceptance::Switching(0.9, 0.2, 60);
    let closed = Arrivals::Closed;
    let open = Arrivals::Open(150.0 * (device.rows)(4));
    let cases = [
        (0.05, always(0.6), load(Text::Fresh, LONG, closed(1))),
        (0.05, always(0.85), load(Text::Phrases, CHAT, closed(4))),
        (0.25, switching, load(Text::Fresh, LONG, closed(1))),
        (0.25, always(0.85), load(Text::Phrases, CHAT, closed(2))),
        (0.25, always(0.3), load(Text::Fresh, CHAT, closed(8))),
        (0.25, always(0.85), load(Text::Copies, CHAT, open)),
        (0.6, always(0.85), load(Text::Phrases, CHAT, closed(1))),
        (0.6, always(0.3), load(Text::Fresh, SHORT, closed(16))),
        (0.0, always(0.0), load(Text::Phrases, CHAT, closed(4))),
        (0.0, always(0.0), load(Text::Copies, SHORT, closed(2))),
    ];
    for (drafter, acceptance, load) in cases {
        let [adaptive, best] = gains(Device { drafter, acceptance, ..device }, &load);
        let what = format!("drafter {drafter}, {acceptance:?}, {load:?}: {adaptive}, fixed {best}");
        println!("{what}");
        assert!(adaptive > 0.97, "slower than without drafts: {what}");
        assert!(adaptive > 0.95 * best, "slower than a fixed number of drafts: {what}");
    }
}

#[test]
fn on_a_gpu() {
    check(GPU);
}

#[test]
fn on_a_software_adapter() {
    check(SOFTWARE);
}

#[test]
fn on_a_cpu() {
    check(CPU);
}

#[test]
fn on_a_slow_integrated_gpu() {
    check(INTEGRATED);
}

#[test]
fn on_a_gpu_that_others_use_too() {
    check(NOISY);
}
