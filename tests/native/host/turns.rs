//! Models of unlike size on one device.

use std::{rc::Rc, time::Duration};

use serde_json::json;

use super::{
    page::{Page, World, tokens},
    toy::Device,
};

/// The large model's steps take ten times as long.
const SMALL: Duration = Duration::from_millis(10);
const LARGE: Duration = Duration::from_millis(100);

/// A page with the small model and one with the large one, on one device.
fn small_and_large(world: &mut World) -> (Rc<Device>, Page, Page) {
    let device = Rc::new(Device::default());
    let mut load = |url, step| {
        world.device = Some((device.clone(), step));
        world.pages([url])[0]
    };
    let (small, large) = (load("small", SMALL), load("large", LARGE));
    (device, small, large)
}

/// The tokens that came until now since the last call.
fn came(world: &mut World, page: Page) -> usize {
    tokens(&world.take(page.tab), 0).len()
}

fn stream(world: &mut World, page: Page, id: u32) {
    page.chat(world, id, json!({"stream": true, "max_tokens": 400}));
}

#[test]
fn a_small_model_does_not_run_at_the_pace_of_a_large_one() {
    let mut world = World::new();
    let (device, small, large) = small_and_large(&mut world);
    stream(&mut world, large, 1);
    stream(&mut world, small, 1);
    let mut counts = Vec::new();
    for second in 1..=4 {
        while device.now() < Duration::from_secs(second) {
            world.step();
        }
        counts.push((came(&mut world, small), came(&mut world, large)));
    }
    // Each has half of the device: of a second, 50 steps of the small model and 5 of the large one.
    for (small, large) in &counts[1..] {
        assert!((40..=60).contains(small) && (4..=6).contains(large), "{counts:?}");
    }
}

#[test]
fn the_first_token_of_a_small_model_waits_for_the_steps_in_flight() {
    let mut world = World::new();
    let (device, small, large) = small_and_large(&mut world);
    stream(&mut world, large, 1);
    (0..50).for_each(|_| world.step());
    let asked = device.now();
    stream(&mut world, small, 1);
    while came(&mut world, small) == 0 {
        world.step();
    }
    let waited = device.now() - asked;
    assert!(waited <= LARGE + 2 * SMALL, "{waited:?}");
    // And what the large model has got alone is not held against it.
    came(&mut world, large);
    let since = device.now();
    let mut count = 0;
    while count < 2 {
        world.step();
        count += came(&mut world, large);
    }
    let waited = device.now() - since;
    assert!(waited <= 5 * LARGE, "{waited:?}");
}

#[test]
fn a_model_that_fails_takes_no_other_along() {
    let mut world = World::new();
    world.fails_after = Some(5);
    let (_, small, _) = small_and_large(&mut world);
    let [other] = world.pages(["large"]);
    world.fails_after = None;
    let device = world.device.clone();
    world.device = device.map(|(device, _)| (device, LARGE));
    let [lasting] = world.pages(["another"]);
    for page in [small, other, lasting] {
        page.chat(&mut world, 1, json!({"stream": true, "max_tokens": 20}));
    }
    world.run();
    for page in [small, other] {
        assert_eq!(world.take(page.tab).last().unwrap()["error"]["code"], "device_lost");
    }
    assert_eq!(came(&mut world, lasting), 20);
}
