//! How many tabs are served at once, in simulated time: the same on every machine.

#[path = "../../examples/bench/load/mod.rs"]
#[allow(dead_code)] // the bench uses the rest
mod load;

use std::time::Duration;

use anyhow::Result;
use pollster::block_on;
use tabloom::{
    engine::{Engine, Options, Request, TabId},
    step::{BLOCK_SIZE, EntryBlocks},
};

use load::{
    clock::{Clock, SimulatedClock},
    drive::Outcome,
    modelled::{Cost, Device, HOST_TOKENS, Modelled},
    report::{Percentiles, Summary},
    scenarios::{Setup, chats, mixed, stories, two_models, with_a_long_prompt, without_a_pause},
    workload::{Kind, Load, Pace, Tab},
};

/// A laptop that has just loaded its model.
async fn laptop(options: Options, keeps: bool) -> Result<Setup<Modelled, SimulatedClock>> {
    let (device, host) = (Device::default(), if keeps { HOST_TOKENS } else { 0 });
    let clock = device.clock.clone();
    Ok(Setup::new(Modelled::new(Cost::LAPTOP, device, host), options, clock))
}

fn run(load: &Load) -> Outcome {
    run_with(Options::default(), load)
}

fn run_with(options: Options, load: &Load) -> Outcome {
    run_on(options, true, load)
}

/// `keeps`: whether there is host memory.
fn run_on(options: Options, keeps: bool, load: &Load) -> Outcome {
    block_on(async { laptop(options, keeps).await?.drive(load).await }).unwrap()
}

#[test]
fn eight_tabs_get_six_times_the_tokens_of_one_request_at_a_time() {
    let [together, alone] = block_on(without_a_pause(laptop, 25)).unwrap();
    let ratio = together.busy_throughput() / alone.busy_throughput();
    println!("{ratio:.2} times the tokens");
    assert!(ratio >= 6.0, "{ratio:.2}");
}

#[test]
fn a_short_request_waits_little_for_a_long_prompt() {
    let (alone, beside, step) = block_on(with_a_long_prompt(laptop, 200)).unwrap();
    println!("alone {alone:?}, beside {beside:?}, a step {step}");
    assert!(beside.p99 <= 1.3 * alone.p99 + step, "{} s alone, {} s beside", alone.p99, beside.p99);
    // The longest step, plus a little for what is not predictable.
    assert!(step <= 1.2 * Options::default().step_seconds, "a step of {step} s");
}

#[test]
fn held_blocks_are_full_but_for_the_last() {
    let outcome = run(&mixed(8, 200, 0.05));
    println!("{:.4} of the places are used", outcome.kv_utilisation);
    assert!(outcome.kv_utilisation > 0.98, "{}", outcome.kv_utilisation);
}

#[test]
fn hardly_a_row_is_computed_twice() {
    for load in [mixed(8, 200, 0.05), mixed(16, 200, 0.05), chats(16, 20.0), chats(64, 60.0)] {
        for keeps in [true, false] {
            let summary = run_on(Options::default(), keeps, &load).summary("");
            println!("{} rows for each that was needed", summary.rows);
            assert!(summary.rows < 1.1, "{}", summary.rows);
        }
    }
}

#[test]
fn preempted_chats_compute_hardly_a_row_twice() {
    let load = stories(20, 5.0);
    let [with, without] =
        [true, false].map(|keeps| run_on(Options::default(), keeps, &load).summary(""));
    for summary in [&with, &without] {
        let (rows, preemptions) = (summary.rows, summary.preemptions);
        println!("{preemptions} preemptions, {rows} rows for each that was needed");
        assert!(preemptions > 0);
    }
    assert!(with.rows < 1.1 && with.rows < without.rows, "{} and {}", with.rows, without.rows);
}

#[test]
fn chats_come_back_from_host_memory() {
    let load = chats(16, 20.0);
    let [with, without] =
        [true, false].map(|keeps| run_on(Options::default(), keeps, &load).summary(""));
    println!("{with:?}\n{without:?}");
    assert!(with.cache_hit_rate > without.cache_hit_rate + 0.05);
    assert!(with.time_to_first_token.p99 < without.time_to_first_token.p99 / 2.0);
}

/// Time to the first token of an attacker's guess, after a victim asked `asked`; both in an engine that is
/// idle, or busy with an answer of the victim.
fn guessed(asked: u32, salts: [u64; 2], busy: bool) -> f64 {
    let device = Device::default();
    let (clock, time) = (device.clock.clone(), device.clock.clone());
    let executor = Modelled::new(Cost::LAPTOP, device, HOST_TOKENS);
    let mut engine = Engine::new(executor, Options::default(), Box::new(move || time.now()));
    let ask = |token: u32, tab: u64, salt: u64, tokens: usize| Request {
        prompt: vec![token; 2000],
        max_tokens: Some(tokens),
        tab: TabId(tab),
        salt,
        ..Request::default()
    };
    engine.submit(ask(asked, 1, salts[0], if busy { 500 } else { 1 })).unwrap();
    while engine.metrics().time_to_first_token_seconds.count == 0 {
        block_on(engine.step()).unwrap();
    }
    engine.submit(ask(1, 2, salts[1], 1)).unwrap();
    let (before, at) = (engine.metrics().time_to_first_token_seconds.count, clock.now());
    while engine.metrics().time_to_first_token_seconds.count == before {
        block_on(engine.step()).unwrap();
    }
    (clock.now() - at).as_secs_f64()
}

#[test]
fn nobody_learns_by_time_what_another_isolation_group_has_asked() {
    for busy in [false, true] {
        let [hit, miss] = [1, 2].map(|asked| guessed(asked, [7, 8], busy));
        assert_eq!(hit, miss, "of a group of its own; busy: {busy}");
        let [hit, miss] = [1, 2].map(|asked| guessed(asked, [7, 7], busy));
        assert!(hit < 0.5 * miss, "of the same group, {hit} s and {miss} s; busy: {busy}");
    }
}

/// Bytes per second that a SharedWorker reads from the origin's private file system (411e6 measured), checks
/// (854e6) and copies, one after the other.
const STORAGE: f64 = 240e6;

#[test]
fn a_long_prefix_comes_back_from_host_memory_in_a_tenth_of_its_time_and_from_storage_in_a_fifth() {
    let device = Device::default();
    let clock = device.clock.clone();
    let engine = || {
        let time = clock.clone();
        let executor = Modelled::new(Cost::LAPTOP, device.clone(), 2 * 8192);
        Engine::new(executor, Options::default(), Box::new(move || time.now()))
    };
    let time_of = |engine: &mut Engine<Modelled>, token: u32| {
        let prompt = vec![token; 8000];
        engine.submit(Request { prompt, max_tokens: Some(1), ..Request::default() }).unwrap();
        let before = engine.metrics().time_to_first_token_seconds.sum;
        while !engine.is_idle() {
            block_on(engine.step()).unwrap();
        }
        engine.metrics().time_to_first_token_seconds.sum - before
    };
    let mut first = engine();
    let [computed, _, restored, other] = [1, 2, 1, 2].map(|token| time_of(&mut first, token));
    // Eleven blocks of each were never evicted.
    let metrics = first.metrics();
    let hits = [7984, 7984 - 11 * 16].map(|tokens| 2 * tokens);
    assert_eq!([metrics.prefix_cache_hits, metrics.restored_tokens], hits);

    let mut next = engine();
    let (prompt, salt, before) = (vec![1; 8000], 0, clock.now());
    for first_entry in (0..500).step_by(16) {
        let entries = 16.min(500 - first_entry);
        let blocks =
            EntryBlocks { first_entry, present: vec![true; entries], words: vec![0; entries] };
        let bytes = (entries * BLOCK_SIZE) as f64 * Cost::LAPTOP.kv_bytes;
        clock.wait_until(clock.now() + Duration::from_secs_f64(bytes / STORAGE));
        next.adopt(TabId(0), &prompt, salt, &blocks);
    }
    let stored = (clock.now() - before).as_secs_f64() + time_of(&mut next, 1);
    let metrics = next.metrics();
    assert_eq!((metrics.stored_tokens, metrics.restored_tokens), (8000, 7984));

    println!("{computed:.2} s computed, {restored:.2} from host memory, {stored:.2} from storage");
    assert!(restored.max(other) <= computed / 10.0, "{restored} s and {other} s of {computed} s");
    assert!(stored <= computed / 5.0, "{stored} s of {computed} s");
}

#[test]
fn a_flooding_tab_gets_no_more_than_its_share() {
    let chat = Tab { mix: &[Kind::Chat], pace: Pace::Poisson(0.1), requests: Some(12) };
    let flood = Tab { mix: &[Kind::Summary], pace: Pace::Poisson(1e6), requests: Some(60) };
    let quiet = Load::alike(3, chat, 5);
    let flooded = Load { tabs: [&quiet.tabs[..], &[flood]].concat(), ..quiet.clone() };
    // The flood may evict the chats' prefixes from the cache.
    let uncached = Options { prefix_caching: false, ..Options::default() };
    let longest = |outcome: &Outcome| {
        assert_eq!(outcome.of(Kind::Chat).count(), 36);
        outcome.of(Kind::Chat).map(|record| record.first_token()).fold(0.0, f64::max)
    };
    let alone = longest(&run_with(uncached, &quiet));
    let outcome = run(&flooded);
    let beside = longest(&outcome);
    assert_eq!(outcome.of(Kind::Summary).count(), 60, "some of the flood was never served");
    println!("chats waited up to {alone:.3} s, beside the flood up to {beside:.3} s");
    let tabs = flooded.tabs.len() as f64;
    assert!(beside <= tabs * alone, "{alone} s alone, {beside} s with a part in {tabs}");
}

#[test]
fn a_small_model_keeps_its_pace_beside_a_large_one() {
    let outcomes = block_on(two_models()).unwrap();
    let [small, small_alone, large, large_alone] =
        outcomes.each_ref().map(|outcome| outcome.summary(""));
    for run in [&small, &small_alone, &large, &large_alone] {
        println!("{:?} {:?}", run.time_to_first_token, run.time_per_output_token);
    }
    // Each has half of the device. In lock-step the small one would take as long for a token as the large one.
    let slower = |beside: &Summary, alone: &Summary| {
        beside.time_per_output_token.p50 / alone.time_per_output_token.p50
    };
    let (small, large) = (slower(&small, &small_alone), slower(&large, &large_alone));
    assert!(small < 2.2 && large < 2.2, "{small:.2} and {large:.2} times as long");
}

#[test]
fn the_simulation_depends_on_the_load_alone() {
    let times = |seed| {
        let outcome = run(&Load { seed, ..mixed(4, 40, 0.2) });
        let times: Vec<_> = outcome.records.into_iter().map(|record| record.tokens).collect();
        times
    };
    assert_eq!(times(7), times(7));
    assert_ne!(times(7), times(8));
}

#[test]
fn percentiles_lie_between_neighbours() {
    let Percentiles { p50, p90, p99 } = Percentiles::of((0..=200).rev().map(f64::from));
    assert_eq!((p50, p90, p99), (100.0, 180.0, 198.0));
    let Percentiles { p50, p90, .. } = Percentiles::of([4.0, 2.0].into_iter());
    assert_eq!((p50, p90), (3.0, 3.8));
}
