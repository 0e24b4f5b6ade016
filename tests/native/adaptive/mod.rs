//! Adaptive drafts on modelled devices: where drafts do not pay, they cost almost nothing, and where they
//! do, they bring almost what the best fixed number of them brings.

mod device;
mod load;
mod profile;

use rayon::prelude::*;

use device::{Acceptance, Device, Text};
use load::{Arrivals, Runner};
use profile::{CHAT, CPU, GPU, INTEGRATED, LONG, NOISY, Profile, SHORT, SOFTWARE, load};

/// Drafts per sequence that adaptive ones are compared with.
const FIXED: [usize; 4] = [1, 2, 4, 7];
/// Learning depends on luck: times are of several runs.
const RUNS: u64 = 3;
/// Profiles that are drawn, and the runs of each.
const DRAWN: (u64, u64) = (48, 2);
/// Answered tokens of a run, and of the one before it in which the engine learns.
const TOKENS: [usize; 2] = [2000, 8000];

/// The gain over no drafts: with adaptive ones, and with the best fixed number of them.
fn gains(Profile { device, load }: &Profile, runs: u64) -> [f64; 2] {
    let time = |drafts: Option<usize>| {
        let run = |seed| {
            let mut runner = Runner::new(*device, load.text, drafts, seed);
            TOKENS.map(|tokens| runner.run(load, tokens))[1]
        };
        (0..runs).map(run).sum::<f64>()
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
    let open = Arrivals::Open(150.0 * device.step(4));
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
        let profile = Profile { device: Device { drafter, acceptance, ..device }, load };
        let [adaptive, best] = gains(&profile, RUNS);
        let what = format!("{profile:?}: {adaptive}, fixed {best}");
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

/// A seed that fails is named, and draws the same profile in each run.
#[test]
fn on_devices_and_loads_that_seeds_draw() {
    let (profiles, runs) = DRAWN;
    let judge = |seed| (seed, gains(&Profile::drawn(seed), runs));
    let judged: Vec<(u64, [f64; 2])> = (0..profiles).into_par_iter().map(judge).collect();
    let mut behind = 0;
    for (seed, [adaptive, best]) in judged {
        let what = format!("seed {seed}, {:?}: {adaptive}, fixed {best}", Profile::drawn(seed));
        println!("{what}");
        assert!(adaptive > 0.97, "slower than without drafts: {what}");
        assert!(adaptive > 0.92 * best, "much slower than a fixed number of drafts: {what}");
        behind += usize::from(adaptive <= 0.95 * best);
    }
    assert!(20 * behind <= profiles as usize, "{behind} slower than a fixed number of drafts");
}
