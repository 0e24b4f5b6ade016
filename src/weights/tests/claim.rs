//! Workers that load one model at once: they are frozen, end or fail at any moment, and each byte is
//! downloaded once.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use futures::future::{LocalBoxFuture, pending, poll_immediate};

use super::server::*;
use super::*;
use crate::weights::{Claim, Claimed, Stored, acquire, store::Record};

const CHUNK: u64 = 1000;
const SHARD: &str = "a.safetensors";
/// More turns than any load takes.
const MANY: usize = 200_000;

/// The lock that workers queue for, and the channel between them.
#[derive(Default)]
struct Office {
    holder: Option<usize>,
    queue: VecDeque<usize>,
    /// Claims so far.
    claims: usize,
    /// Whether the browser answers nobody who asks for the lock.
    silent: bool,
    lost: Vec<usize>,
    /// News that claims have not heard yet.
    news: BTreeMap<usize, VecDeque<String>>,
}

/// One try of a worker to get the lock.
struct Ticket {
    office: Rc<RefCell<Office>>,
    id: usize,
    before: Cell<Option<usize>>,
}

impl Ticket {
    fn new(office: &Rc<RefCell<Office>>) -> Ticket {
        let office = office.clone();
        let mut state = office.borrow_mut();
        let id = state.claims;
        state.claims += 1;
        state.queue.push_back(id);
        state.news.insert(id, VecDeque::new());
        let before = Cell::new(state.holder);
        drop(state);
        Ticket { office, id, before }
    }

    fn tell(&self, news: String) {
        let mut office = self.office.borrow_mut();
        if !office.lost.contains(&self.id) {
            let others = office.news.iter_mut().filter(|(id, _)| **id != self.id);
            others.for_each(|(_, heard)| heard.push_back(news.clone()));
        }
    }
}

/// A worker that ends leaves lock and queue.
impl Drop for Ticket {
    fn drop(&mut self) {
        let mut office = self.office.borrow_mut();
        office.queue.retain(|id| *id != self.id);
        office.holder = office.holder.filter(|id| *id != self.id);
        office.news.remove(&self.id);
    }
}

impl Claim for Rc<Ticket> {
    async fn granted(&self) -> bool {
        poll_fn(|_| {
            let mut office = self.office.borrow_mut();
            if office.holder.is_none() && office.queue.front() == Some(&self.id) {
                office.holder = office.queue.pop_front();
            }
            if office.holder == Some(self.id) { Poll::Ready(true) } else { Poll::Pending }
        })
        .await
    }

    async fn news(&self) -> String {
        poll_fn(|_| {
            let mut office = self.office.borrow_mut();
            match office.news.get_mut(&self.id).and_then(VecDeque::pop_front) {
                Some(news) => Poll::Ready(news),
                None => Poll::Pending,
            }
        })
        .await
    }

    async fn seize(&self) -> bool {
        if self.office.borrow().silent {
            return pending().await;
        }
        let mut office = self.office.borrow_mut();
        let holder = office.holder;
        let Some(holder) = holder.filter(|_| self.before.replace(holder) == holder) else {
            return false;
        };
        office.lost.push(holder);
        office.holder = Some(self.id);
        office.queue.retain(|id| *id != self.id);
        true
    }

    fn is_lost(&self) -> bool {
        self.office.borrow().lost.contains(&self.id)
    }
}

/// A store in which no file gets shorter.
#[derive(Clone, Default)]
struct Growing(MemoryStore);

impl Growing {
    /// Number of stored chunks of a file, by its record.
    fn chunks(&self, key: &str) -> usize {
        let record = block_on(async {
            let mut stream = self.0.get(key).await?;
            let mut bytes = Vec::new();
            while let Some(piece) = stream.next().await.unwrap() {
                bytes.extend_from_slice(piece.as_slice());
            }
            serde_json::from_slice::<Record>(&bytes).ok()
        });
        record.map_or(0, |record| record.chunks.len())
    }
}

impl Store for Growing {
    type Stream = Body;

    async fn get(&self, key: &str) -> Option<Body> {
        self.0.get(key).await
    }

    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool {
        let before = self.chunks(key);
        // What was begun is done even if the worker is frozen then; it learns of it later.
        let mut put = pin!(self.0.put(key, bytes));
        assert!(poll_immediate(&mut put).await.is_none());
        let is_kept = poll_immediate(&mut put).await.expect("it takes two turns");
        assert!(self.chunks(key) >= before, "{key} is shortened");
        pending_once().await;
        is_kept
    }

    async fn delete(&self, key: &str) {
        self.0.delete(key).await;
    }

    async fn room(&self) -> Option<u64> {
        self.0.room().await
    }
}

/// A site whose workers load the same model.
struct Site {
    script: Script,
    store: Growing,
    office: Rc<RefCell<Office>>,
    /// News that waiting workers have heard.
    heard: Rc<Cell<usize>>,
    workers: Vec<Worker>,
}

struct Worker {
    load: Option<LocalBoxFuture<'static, Result<HostWeights>>>,
    result: Option<Result<HostWeights>>,
    /// For how many more turns it is frozen.
    frozen: usize,
}

impl Site {
    fn new(seed: u64) -> Site {
        println!("seed {seed}");
        fastrand::seed(seed);
        let script = Script::new(sharded_source().files);
        script.cut(300);
        // Waits are long in turns.
        script.dawdle();
        let (store, office, heard) = Default::default();
        Site { script, store, office, heard, workers: Vec::new() }
    }

    /// A site with so many workers, of which the first has stored two chunks of a file and downloads the third.
    fn halfway(workers: usize) -> Site {
        loop {
            let mut site = Site::new(fastrand::u64(..));
            (0..workers).for_each(|_| site.begin());
            site.run(|site| site.stored_chunks() == 2);
            // Several chunks may be stored in one turn.
            if site.workers[0].load.is_some() {
                return site;
            }
        }
    }

    /// Has another worker load, as `web::load` does.
    fn begin(&mut self) {
        let (script, store, heard) = (self.script.clone(), self.store.clone(), self.heard.clone());
        let office = self.office.clone();
        let mut claim = Rc::new(Ticket::new(&office));
        let load = async move {
            let mut yields = true;
            loop {
                let on_news = |_: &str| heard.set(heard.get() + 1);
                let is_granted = acquire(&claim, &script, on_news).await;
                assert!(is_granted || claim.office.borrow().silent);
                let store = Claimed::new(store.clone(), Some(claim.clone()));
                let source = Stored::with_chunks(script.source(), Some(store), None, CHUNK);
                let on_progress = |progress: Progress| {
                    claim.tell(format!("{}", progress.loaded));
                    match yields && claim.is_lost() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                };
                let loaded = load_slowly(&source, &Quantise::KEEP, on_progress).await;
                let loaded = source.finish(loaded).await;
                if loaded.is_ok() || !yields || !claim.is_lost() {
                    return loaded;
                }
                yields = false;
                claim = Rc::new(Ticket::new(&office));
            }
        };
        self.workers.push(Worker { load: Some(Box::pin(load)), result: None, frozen: 0 });
    }

    /// Gives a worker a turn.
    fn turn(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        if worker.frozen > 0 {
            worker.frozen -= 1;
            return;
        }
        let Some(load) = &mut worker.load else { return };
        if let Poll::Ready(result) = load.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            worker.result = Some(result);
            worker.load = None;
        }
    }

    /// Gives turns in random order until the workers are done, or until `stop`.
    fn run(&mut self, mut stop: impl FnMut(&mut Site) -> bool) {
        for _ in 0..MANY {
            if self.workers.iter().all(|worker| worker.load.is_none()) || stop(self) {
                return;
            }
            self.turn(fastrand::usize(..self.workers.len()));
        }
        panic!("a worker waits for ever");
    }

    fn end(&mut self, index: usize) {
        self.workers[index].load = None;
    }

    fn stored_chunks(&self) -> usize {
        self.store.chunks(&format!("{FOLDER}{SHARD}?tabloom"))
    }

    fn loaded(&self, index: usize) -> bool {
        let expected = load(&sharded_source(), &Quantise::KEEP);
        self.workers[index].result.as_ref().is_some_and(|result| *result == expected)
    }

    /// Asserts that the model is stored once, as one load leaves it.
    fn assert_whole(&self) {
        let alone = MemoryStore::default();
        let source = Script::new(sharded_source().files).source();
        let source = Stored::with_chunks(source, Some(alone.clone()), None, CHUNK);
        block_on(source.finish(load(&source, &Quantise::KEEP))).unwrap();
        assert_eq!(self.store.0.keys(), alone.keys());
        self.script.take_requests();
        let source = self.script.source();
        let again = Stored::with_chunks(source, Some(self.store.0.clone()), None, CHUNK);
        assert!(load(&again, &Quantise::KEEP).is_ok());
        assert_eq!(self.script.take_requests(), 0);
    }
}

#[test]
fn the_second_waits_for_the_first_and_downloads_nothing() {
    let mut site = Site::new(fastrand::u64(..));
    (0..3).for_each(|_| site.begin());
    site.run(|_| false);
    assert!((0..3).all(|worker| site.loaded(worker)));
    assert_eq!(site.script.asked(SHARD), [0]);
    assert_eq!(site.script.asked("config.json"), [0]);
    assert!(site.heard.get() > 2, "the others hear of the download");
    site.assert_whole();
}

#[test]
fn the_second_goes_on_where_the_first_has_ended() {
    let mut site = Site::halfway(2);
    site.end(0);
    site.run(|_| false);
    assert!(site.loaded(1));
    assert_eq!(site.script.asked(SHARD), [0, 2000]);
    site.assert_whole();
}

#[test]
fn a_failure_of_the_first_is_none_of_the_second() {
    let mut site = Site::new(fastrand::u64(..));
    site.script.act(SHARD, [Act::Drop(2700)]);
    site.script.act(SHARD, vec![Act::Refuse; 5]);
    (0..2).for_each(|_| site.begin());
    site.run(|_| false);
    assert!(matches!(site.workers[0].result, Some(Err(Error::Fetch { .. }))));
    assert!(site.loaded(1));
    assert_eq!(site.script.asked(SHARD).last(), Some(&2000));
    site.assert_whole();
}

#[test]
fn what_a_frozen_worker_has_stored_is_taken_over_and_given_back() {
    let mut site = Site::halfway(3);
    site.workers[0].frozen = MANY;
    site.run(|site| site.workers[1..].iter().all(|worker| worker.load.is_none()));
    assert!(site.loaded(1) && site.loaded(2));
    assert_eq!(site.script.asked(SHARD), [0, 2000]);
    assert_eq!(site.office.borrow().lost, [0], "the third waits for the second");
    site.workers[0].frozen = 0;
    site.run(|_| false);
    assert!(site.loaded(0));
    assert_eq!(site.script.asked(SHARD), [0, 2000], "it reads what the others have stored");
    site.assert_whole();
}

#[test]
fn a_lock_that_answers_nobody_binds_nobody() {
    let mut site = Site::halfway(2);
    site.workers[0].frozen = MANY;
    site.office.borrow_mut().silent = true;
    site.run(|site| site.workers[1].load.is_none());
    assert!(site.loaded(1));
    assert_eq!(site.script.asked(SHARD), [0, 2000]);
}

/// What a network does to a body. A worker whose first request fails gives up: the address may be wrong.
fn fault() -> Act {
    let bytes = fastrand::usize(..2000);
    match fastrand::u8(..4) {
        0 => Act::Drop(bytes),
        1 => Act::End(bytes),
        2 => Act::Hang(bytes),
        _ => Act::IgnoreRange,
    }
}

#[test]
fn whatever_happens_to_the_others_and_to_the_network_the_last_one_loads() {
    let first = seed();
    for run in 0..150 {
        let mut site = Site::new(first.wrapping_add(run));
        (0..4).for_each(|_| site.begin());
        let store = site.store.clone();
        site.script.watch(move |file, start| {
            let stored = store.chunks(&format!("{FOLDER}{file}?tabloom")) as u64;
            assert!(start / CHUNK >= stored, "{file} from {start} on: {stored} chunks are stored");
        });
        let (mut ended, mut failed) = (0, 0);
        site.run(|site| {
            let worker = fastrand::usize(..4);
            match fastrand::usize(..1000) {
                0 if ended < 3 && site.workers[worker].load.is_some() => {
                    site.end(worker);
                    ended += 1;
                }
                1 => site.workers[worker].frozen = fastrand::usize(..5000),
                // Five failures without progress end a load.
                2 if failed < 4 => {
                    site.script.act(SHARD, [fault()]);
                    failed += 1;
                }
                _ => {}
            }
            false
        });
        let left = (0..4).filter(|worker| site.workers[*worker].result.is_some());
        assert!(left.clone().all(|worker| site.loaded(worker)) && left.count() >= 1);
        site.assert_whole();
    }
}
