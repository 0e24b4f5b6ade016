//! The load tests and what each measures.

use anyhow::Result;
use tabloom::{
    engine::{Engine, Options},
    step::{Capacity, Executor},
};

use super::{
    clock::Clock,
    drive::{Outcome, Running, drive},
    host,
    modelled::{Cost, Device, HOST_TOKENS, Modelled},
    report::{Percentiles, Report},
    workload::{Kind, Load, Pace, Tab},
};

/// A fresh engine, its executor's capacity, and their clock.
pub struct Setup<E, C> {
    engine: Engine<E>,
    capacity: Capacity,
    clock: C,
}

/// The amount of requests.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Requests in the mixed load, over all tabs.
    pub requests: usize,
    /// Requests per second and tab.
    pub rate: f64,
}

impl<E: Executor, C: Clock> Setup<E, C> {
    pub fn new(executor: E, options: Options, clock: C) -> Setup<E, C> {
        let capacity = executor.capacity();
        let time = clock.clone();
        Setup {
            engine: Engine::new(executor, options, Box::new(move || time.now())),
            capacity,
            clock,
        }
    }

    /// Runs a load on the engine.
    pub async fn drive(self, load: &Load) -> Result<Outcome> {
        let clock = self.clock.clone();
        let [outcome] = drive([self.run(load)], &clock).await?;
        Ok(outcome)
    }

    fn run(self, load: &Load) -> Running<E> {
        let now = self.clock.now();
        Running::new(self.engine, self.capacity, load, now)
    }
}

/// An open loop: each tab sends requests at this rate, independent of the answers.
pub fn mixed(tabs: usize, requests: usize, rate: f64) -> Load {
    let tab = Tab {
        mix: Kind::MIXED,
        pace: Pace::Poisson(rate),
        requests: Some(requests.div_ceil(tabs)),
    };
    Load::alike(tabs, tab, 1)
}

/// Eight tabs in conversations without pauses, `requests` each: first all at once, then one at a
/// time.
pub async fn without_a_pause<E: Executor, C: Clock>(
    mut setup: impl AsyncFnMut(Options, bool) -> Result<Setup<E, C>>,
    requests: usize,
) -> Result<[Outcome; 2]> {
    let pace = Pace::Closed { think: 0.0 };
    let tab = Tab { mix: &[Kind::Chat], pace, requests: Some(requests) };
    let load = Load::alike(8, tab, 2);
    let together = setup(Options::default(), true).await?.drive(&load).await?;
    let one = Options { max_running: 1, ..Options::default() };
    Ok([together, setup(one, true).await?.drive(&load).await?])
}

/// Chats of ten turns, more than the KV cache has room for: `tabs` of them, each with pauses to think.
pub fn chats(tabs: usize, think: f64) -> Load {
    let tab = Tab { mix: &[Kind::Chat], pace: Pace::Closed { think }, requests: Some(10) };
    Load::alike(tabs, tab, 4)
}

/// The same with answers of unlike length: where several long ones meet, some are preempted.
pub fn stories(tabs: usize, think: f64) -> Load {
    let tab = Tab { mix: &[Kind::Story], pace: Pace::Closed { think }, requests: Some(10) };
    Load::alike(tabs, tab, 5)
}

/// Short requests, without and with another tab that always has a long prompt in prefill: their times
/// to first token, and the longest step in the second case, all in seconds.
pub async fn with_a_long_prompt<E: Executor, C: Clock>(
    mut setup: impl AsyncFnMut(Options, bool) -> Result<Setup<E, C>>,
    requests: usize,
) -> Result<(Percentiles, Percentiles, f64)> {
    let short =
        Tab { mix: &[Kind::Short], pace: Pace::Closed { think: 0.5 }, requests: Some(requests) };
    let long = Tab { mix: &[Kind::Long], pace: Pace::Closed { think: 0.0 }, requests: None };
    let alone = Load::alike(1, short.clone(), 3);
    let with_long = Load { tabs: vec![short, long], ..alone.clone() };
    let alone = setup(Options::default(), true).await?.drive(&alone).await?;
    let with_long = setup(Options::default(), true).await?.drive(&with_long).await?;
    let first_token = |outcome: &Outcome| {
        Percentiles::of(outcome.of(Kind::Short).map(|record| record.first_token()))
    };
    Ok((first_token(&alone), first_token(&with_long), with_long.longest_step()))
}

/// Two chats with a small model and two with a large one, on one device, without pauses; then each alone.
pub async fn two_models() -> Result<[Outcome; 4]> {
    let chats = |requests| {
        let pace = Pace::Closed { think: 0.0 };
        Load::alike(2, Tab { mix: &[Kind::Chat], pace, requests: Some(requests) }, 6)
    };
    // Together they end at about the same time.
    let loads = [(Cost::LAPTOP, chats(60)), (Cost::LAPTOP_8B, chats(10))];
    let device = Device::default();
    let run = |device: &Device, (cost, load): &(Cost, Load)| {
        let executor = Modelled::new(*cost, device.clone(), HOST_TOKENS);
        Setup::new(executor, Options::default(), device.clock.clone()).run(load)
    };
    let [small, large] =
        drive(loads.each_ref().map(|load| run(&device, load)), &device.clock).await?;
    let alone = async |load| {
        let device = Device::default();
        drive([run(&device, load)], &device.clock).await
    };
    let ([small_alone], [large_alone]) = (alone(&loads[0]).await?, alone(&loads[1]).await?);
    Ok([small, small_alone, large, large_alone])
}

/// Runs all loads, each on a new engine. `setup`: whether the host keeps what the KV cache has no room for.
pub async fn measure<E: Executor, C: Clock>(
    on: String,
    mut setup: impl AsyncFnMut(Options, bool) -> Result<Setup<E, C>>,
    traffic: Traffic,
) -> Result<Report> {
    let Traffic { requests, rate } = traffic;
    let mut runs = Vec::new();
    let pace = Pace::Closed { think: 0.0 };
    let tab = Tab { mix: Kind::MIXED, pace, requests: Some(requests.div_ceil(4)) };
    let closed = setup(Options::default(), true).await?.drive(&Load::alike(1, tab, 1)).await?;
    runs.push(closed.summary("1 tab, closed loop"));
    for tabs in [1, 2, 4, 8, 16] {
        let outcome =
            setup(Options::default(), true).await?.drive(&mixed(tabs, requests, rate)).await?;
        let plural = if tabs == 1 { "" } else { "s" };
        runs.push(outcome.summary(&format!("{tabs} tab{plural}")));
    }
    let eight = runs[4].clone();
    for tabs in [8, 16] {
        let outcome = setup(Options::default(), false).await?;
        let outcome = outcome.drive(&mixed(tabs, requests, rate)).await?;
        runs.push(outcome.summary(&format!("{tabs} tabs, no host")));
    }
    for (name, keeps) in [("16 chats", true), ("16 chats, no host", false)] {
        runs.push(
            setup(Options::default(), keeps).await?.drive(&chats(16, 20.0)).await?.summary(name),
        );
    }
    for (name, keeps) in [("20 uneven chats", true), ("20 uneven chats, no host", false)] {
        runs.push(
            setup(Options::default(), keeps).await?.drive(&stories(20, 5.0)).await?.summary(name),
        );
    }
    for (name, think) in [("64 chats", 60.0), ("64 busy chats", 5.0)] {
        let outcome = setup(Options::default(), true).await?.drive(&chats(64, think)).await?;
        runs.push(outcome.summary(name));
    }
    let [together, in_turn] = without_a_pause(&mut setup, requests.div_ceil(16)).await?;
    runs.push(together.summary("8 chats without pause"));
    runs.push(in_turn.summary("one at a time"));
    let (alone, with_long, step) = with_a_long_prompt(&mut setup, requests.div_ceil(2)).await?;
    Ok(Report {
        on,
        throughput_ratio_8_tabs: together.busy_throughput() / in_turn.busy_throughput(),
        ttft_p99_ratio: (with_long.p99 - step) / alone.p99,
        kv_utilisation: eight.kv_utilisation,
        cache_hit_rate: eight.cache_hit_rate,
        goodput_relaxed: eight.goodput_relaxed,
        goodput_strict: eight.goodput_strict,
        preemptions: eight.preemptions,
        host_steps: host::steps()?,
        runs,
    })
}
