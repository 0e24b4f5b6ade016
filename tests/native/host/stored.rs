//! Prefixes that are stored between visits: what tabs share of their conversations, and nothing else.

use std::collections::BTreeMap;

use pollster::block_on;
use serde_json::{Value, json};
use tabloom::{
    host::{Info, ModelId, Options, Task, prefix_root},
    manifest::Digest,
    prefixes::{Prefixes, Shape, Written},
    service::SamplingDefaults,
    step::HostMemory,
};

use super::page::{Page, World, chat_call, tokens};

const MODEL: ModelId = ModelId(0);

/// The storage of a site.
#[derive(Default)]
struct Disk {
    files: BTreeMap<u32, Vec<u8>>,
    record: Vec<u8>,
    refuses: bool,
    /// Whether a page has just deleted all.
    is_deleted: bool,
}

/// A host whose model stores prefixes, in its next visit.
fn visit(disk: &Disk) -> World {
    visit_with(disk, 64)
}

/// The same, with so many blocks of host memory.
fn visit_with(disk: &Disk, blocks: usize) -> World {
    let mut world = World::new();
    world.host_memory = HostMemory { blocks, saves: 8, reads: 4 };
    world.pages(["a"]);
    let shape = Shape { run: 4, groups: 1, lookahead: 0 };
    world.host.store_prefixes(MODEL, Prefixes::new(Digest([1; 32]), shape, 10_000, &disk.record));
    world
}

/// A page of this isolation that has loaded the model.
fn page(world: &mut World, isolation: Value) -> Page {
    let page = Page::greet_with(world, isolation);
    page.load(world, 0, "a");
    world.take(page.tab);
    page
}

impl Disk {
    /// Does what the host asks for, until it asks for nothing. Returns how many runs were read.
    fn serve(&mut self, world: &mut World) -> usize {
        let mut count = 0;
        loop {
            world.run();
            if world.tasks.is_empty() {
                return count;
            }
            for task in std::mem::take(&mut world.tasks) {
                count += self.run(world, task);
                world.collect();
            }
        }
    }

    fn run(&mut self, world: &mut World, task: Task) -> usize {
        let mut count = 0;
        match task {
            Task::Write { model } => {
                let Some((run, read)) = world.host.next_run(model) else { return 0 };
                let file = run.encode(&block_on(read).expect("the device lives"));
                let written = match (self.refuses, std::mem::take(&mut self.is_deleted)) {
                    (true, _) => Written::Refused,
                    (_, true) => Written::Deleted,
                    _ => Written::Bytes(file.len() as u64),
                };
                let slot = run.slot;
                let Some((dropped, record)) = world.host.written(model, run, written) else {
                    return 0;
                };
                self.files.insert(slot, file);
                self.files.retain(|slot, _| !dropped.contains(slot));
                self.record = record;
                world.host.recorded(model, false);
            }
            Task::Read { model, tab, id, runs, groups, .. } => {
                for run in runs {
                    let file = self.files.get(&run.slot);
                    let blocks = file.and_then(|file| run.decode(file, groups));
                    world.host.read(model, (tab, id), &run, blocks.as_ref());
                    count += 1;
                    if blocks.is_none() {
                        break;
                    }
                }
                world.host.begin_read(tab, id);
            }
            other => panic!("{other:?}"),
        }
        count
    }
}

/// A conversation of some three hundred tokens.
fn long(id: u32) -> Value {
    let mut call = chat_call(id, json!({"stream": true, "max_tokens": 5}));
    call["request"]["messages"][0]["content"] =
        "Once upon a time there was a cat. ".repeat(30).into();
    call
}

/// Asks, and returns tokens of the prompt that were read, found in host memory, and found at all.
fn ask(world: &mut World, page: &Page, disk: &mut Disk) -> [u64; 3] {
    let names = ["stored_tokens", "restored_tokens", "prefix_cache_hits"];
    let before = world.metrics(page);
    world.post(page.tab, long(1));
    disk.serve(world);
    assert_eq!(tokens(&world.take(page.tab), 0).len(), 5);
    let after = world.metrics(page);
    names.map(|name| after[name].as_u64().unwrap() - before[name].as_u64().unwrap())
}

#[test]
fn a_conversation_finds_its_prefix_in_the_next_visit() {
    let mut disk = Disk::default();
    let mut world = visit(&disk);
    let first = page(&mut world, json!("shared"));
    assert_eq!(ask(&mut world, &first, &mut disk), [0, 0, 0]);
    assert!(disk.files.len() >= 4, "{} runs", disk.files.len());
    // In the same visit nothing is read.
    let [read, _, found] = ask(&mut world, &first, &mut disk);
    assert_eq!(read, 0);

    let mut world = visit(&disk);
    let again = page(&mut world, json!("shared"));
    assert_eq!(ask(&mut world, &again, &mut disk), [found, found, found]);
    let other = page(&mut world, json!("shared"));
    assert_eq!(ask(&mut world, &other, &mut disk), [0, 0, found], "it is on the device now");
}

#[test]
fn of_a_prefix_longer_than_host_memory_its_beginning_is_read() {
    let mut disk = Disk::default();
    let mut world = visit(&disk);
    let first = page(&mut world, json!("shared"));
    ask(&mut world, &first, &mut disk);
    let mut world = visit_with(&disk, 9);
    let again = page(&mut world, json!("shared"));
    assert_eq!(ask(&mut world, &again, &mut disk), [128, 128, 128]);
}

#[test]
fn what_keys_and_values_depend_on_tells_stored_prefixes_apart() {
    let info = || Info {
        model: "https://example.org/model/".into(),
        architecture: "llama".into(),
        device: "gpu",
        adapter: "a GPU".into(),
        software: false,
        context: 4096,
        weight_bytes: 1.0,
        stored: true,
        draft: None,
        sampling: SamplingDefaults {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
        },
    };
    let files = [Digest([1; 32]), Digest([2; 32])];
    let options = |given: Value| serde_json::from_value::<Options>(given).unwrap();
    let root = |options: &Options, info: &Info, files| prefix_root("1.0.0", options, info, files);
    let own = root(&options(json!({})), &info(), files);
    let given = [
        json!({"quantize": "w4"}),
        json!({"kv": "int8"}),
        json!({"slidingWindow": {"sinks": 4, "tokens": 512}}),
        json!({"draft": false}),
        json!({"gpu": {"subgroups": false}}),
    ];
    let mut roots: Vec<Digest> =
        given.into_iter().map(|given| root(&options(given), &info(), files)).collect();
    for other in [
        Info { model: "https://example.org/other/".into(), ..info() },
        Info { device: "cpu", ..info() },
        Info { adapter: "another".into(), ..info() },
        Info { context: 8192, ..info() },
    ] {
        roots.push(root(&options(json!({})), &other, files));
    }
    roots.push(prefix_root("1.0.1", &options(json!({})), &info(), files));
    roots.push(root(&options(json!({})), &info(), [files[0]; 2]));
    roots.push(root(&options(json!({})), &info(), [files[1]; 2]));
    for (at, root) in roots.iter().enumerate() {
        assert!(*root != own && !roots[..at].contains(root), "{at}");
    }
    // What they do not depend on.
    let budget = options(json!({"prefixCache": {"hostBytes": 1}}));
    assert_eq!(root(&budget, &Info { stored: false, ..info() }, files), own);
}

#[test]
fn what_is_not_shared_is_neither_stored_nor_read() {
    for isolation in [json!("tab"), json!({"session": "mine"})] {
        let mut disk = Disk::default();
        let mut world = visit(&disk);
        let own = page(&mut world, isolation.clone());
        ask(&mut world, &own, &mut disk);
        assert_eq!(disk.files.len(), 0, "{isolation}");
        let shared = page(&mut world, json!("shared"));
        assert_eq!(ask(&mut world, &shared, &mut disk), [0, 0, 0]);
        assert!(disk.files.len() >= 4);
        let mut world = visit(&disk);
        let own = page(&mut world, isolation.clone());
        assert_eq!(ask(&mut world, &own, &mut disk), [0, 0, 0], "{isolation}");
    }
}

#[test]
fn files_that_are_gone_or_damaged_are_computed_and_forgotten() {
    for spoil in [
        |disk: &mut Disk| disk.files.clear(),
        |disk: &mut Disk| disk.files.values_mut().for_each(|file| file.truncate(20)),
        |disk: &mut Disk| disk.files.values_mut().for_each(|file| file[40] ^= 1),
    ] {
        let mut disk = Disk::default();
        let mut world = visit(&disk);
        let first = page(&mut world, json!("shared"));
        ask(&mut world, &first, &mut disk);
        let record = disk.record.clone();
        spoil(&mut disk);
        let mut world = visit(&disk);
        let again = page(&mut world, json!("shared"));
        assert_eq!(ask(&mut world, &again, &mut disk), [0, 0, 0]);
        // It was stored anew.
        let mut world = visit(&disk);
        let again = page(&mut world, json!("shared"));
        assert!(ask(&mut world, &again, &mut disk)[0] > 200);
        assert_eq!(disk.record.len(), record.len());
    }
}

#[test]
fn storage_that_refuses_is_not_asked_again() {
    let mut disk = Disk { refuses: true, ..Disk::default() };
    let mut world = visit(&disk);
    let page = page(&mut world, json!("shared"));
    ask(&mut world, &page, &mut disk);
    disk.refuses = false;
    ask(&mut world, &page, &mut disk);
    assert_eq!(disk.files.len(), 0);
}

#[test]
fn what_a_page_has_deleted_is_not_missed_and_the_next_conversation_stored() {
    let mut disk = Disk::default();
    let mut world = visit(&disk);
    let page = page(&mut world, json!("shared"));
    ask(&mut world, &page, &mut disk);
    let all = disk.files.len();
    (disk.files, disk.record, disk.is_deleted) = (BTreeMap::new(), Vec::new(), true);
    let mut longer = long(1);
    longer["request"]["messages"][0]["content"] =
        "Once upon a time there was a dog. ".repeat(30).into();
    // The first write notices that, and what has ended by then counts as deleted.
    for expected in [0, all] {
        world.post(page.tab, longer.clone());
        disk.serve(&mut world);
        assert_eq!(disk.files.len(), expected);
    }
}

#[test]
fn a_call_whose_prefix_is_being_read_can_be_cancelled_and_its_tab_closed() {
    let mut disk = Disk::default();
    let mut world = visit(&disk);
    let first = page(&mut world, json!("shared"));
    ask(&mut world, &first, &mut disk);
    for leaves in [false, true] {
        let mut world = visit(&disk);
        let [leaver, other] = [0; 2].map(|_| page(&mut world, json!("shared")));
        world.post(leaver.tab, long(1));
        assert!(matches!(world.tasks[..], [Task::Read { .. }]), "{:?}", world.tasks);
        assert!(world.host.is_idle(), "nothing turns while it is read");
        world.post(leaver.tab, long(1));
        assert_eq!(world.codes(leaver.tab), ["invalid_request"], "an id in use");
        match leaves {
            true => world.host.close(leaver.tab),
            false => world.post(leaver.tab, json!({"type": "cancel", "id": 1})),
        }
        world.collect();
        world.tasks.retain(|task| matches!(task, Task::Read { .. }));
        disk.serve(&mut world);
        assert_eq!(world.take(leaver.tab), [json!(null); 0]);
        assert!(ask(&mut world, &other, &mut disk)[0] > 200);
    }
}
