//! A misbehaving web server and a misbehaving store.

use super::*;
use futures::future::pending;
use percent_encoding::percent_decode_str;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// What a server does with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Sends what was asked for.
    Serve,
    /// Sends the whole file, with status 200.
    IgnoreRange,
    /// Breaks off after this many bytes of the body.
    Drop(usize),
    /// The same, and ignores the range.
    DropAll(usize),
    /// Sends nothing more after this many bytes of the body.
    Hang(usize),
    /// Ends the body regularly after this many bytes, though it announced all.
    End(usize),
    /// Changes the byte at this position of the file.
    Flip(usize),
    /// Answers with a status only.
    Status(u16),
    /// A page instead of the file.
    Page,
    /// Does not answer.
    Refuse,
    /// Never answers.
    Silent,
}

/// Files, and a list of acts for the requests of each; after these, it serves.
#[derive(Clone, Default)]
pub struct Script(Rc<State>);

#[derive(Default)]
struct State {
    files: RefCell<BTreeMap<String, Vec<u8>>>,
    acts: RefCell<BTreeMap<String, VecDeque<Act>>>,
    asked: RefCell<Vec<(String, u64, Option<u64>)>>,
    /// The addresses of all requests.
    addresses: RefCell<Vec<String>>,
    /// Without this query, requests are refused.
    query: RefCell<String>,
    /// Held by every body.
    transfers: Rc<()>,
    most_transfers: Cell<usize>,
    /// Whether bytes are slow.
    dawdles: Cell<bool>,
    waits: RefCell<Vec<Duration>>,
    chunk: Cell<usize>,
    hides_length: Cell<bool>,
    version: RefCell<Option<String>>,
    watch: RefCell<Option<Watch>>,
}

type Watch = Box<dyn Fn(&str, u64)>;

pub struct Body {
    pieces: VecDeque<Vec<u8>>,
    length: Option<u64>,
    ending: Ending,
    dawdles: bool,
    _transfer: Option<Rc<()>>,
}

enum Ending {
    Whole,
    Broken,
    Hanging,
}

/// A seed, printed; `TABLOOM_SEED` gives one again.
pub fn seed() -> u64 {
    let given = std::env::var("TABLOOM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    seed
}

pub const FOLDER: &str = "https://models.example/m/";

impl Script {
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Script {
        let script = Script::default();
        *script.0.files.borrow_mut() = files.into_iter().collect();
        script.0.chunk.set(1000);
        script
    }

    /// What to do with the next requests for a file.
    pub fn act(&self, file: &str, acts: impl IntoIterator<Item = Act>) {
        self.0.acts.borrow_mut().entry(file.into()).or_default().extend(acts);
    }

    pub fn cut(&self, chunk: usize) {
        self.0.chunk.set(chunk);
    }

    pub fn hide_length(&self) {
        self.0.hides_length.set(true);
    }

    pub fn set(&self, file: &str, bytes: Vec<u8>) {
        self.0.files.borrow_mut().insert(file.into(), bytes);
    }

    pub fn set_version(&self, version: &str) {
        *self.0.version.borrow_mut() = Some(version.into());
    }

    /// Refuses requests without this query.
    pub fn require(&self, query: &str) {
        *self.0.query.borrow_mut() = query.into();
    }

    /// The addresses of requests since the last call.
    pub fn take_addresses(&self) -> Vec<String> {
        self.0.addresses.take()
    }

    /// The first requested positions of a file since the last call.
    pub fn asked(&self, file: &str) -> Vec<u64> {
        let asked = self.0.asked.borrow_mut();
        asked.iter().filter(|(name, ..)| name == file).map(|(_, start, _)| *start).collect()
    }

    /// Calls `watch` with the file and position of each request.
    pub fn watch(&self, watch: impl Fn(&str, u64) + 'static) {
        *self.0.watch.borrow_mut() = Some(Box::new(watch));
    }

    /// The positions of a file, with the end of each transfer.
    pub fn asked_parts(&self, file: &str) -> Vec<(u64, Option<u64>)> {
        let asked = self.0.asked.borrow_mut();
        let of_file = asked.iter().filter(|(name, ..)| name == file);
        of_file.map(|(_, start, end)| (*start, *end)).collect()
    }

    /// Makes all bytes slow, by random waits.
    pub fn dawdle(&self) {
        self.0.dawdles.set(true);
    }

    /// Bodies held now, and the most so far.
    pub fn transfers(&self) -> (usize, usize) {
        (Rc::strong_count(&self.0.transfers) - 1, self.0.most_transfers.get())
    }

    /// Requests since the last call.
    pub fn take_requests(&self) -> usize {
        self.0.asked.take().len()
    }

    pub fn waits(&self) -> Vec<Duration> {
        self.0.waits.take()
    }

    pub fn source(&self) -> HttpSource<Script> {
        self.source_at(FOLDER)
    }

    pub fn source_at(&self, address: &str) -> HttpSource<Script> {
        HttpSource::new(self.clone(), address)
    }
}

fn refused() -> Error {
    Error::Fetch { what: "it".into(), reason: "network error".into() }
}

impl Server for Script {
    type Body = Body;

    async fn get(&self, address: &str, start: u64, end: Option<u64>) -> Result<Answer<Body>> {
        let State { files, acts, asked, chunk, hides_length, version, transfers, .. } = &*self.0;
        self.0.addresses.borrow_mut().push(address.into());
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        if query != *self.0.query.borrow() {
            return Ok(answer(403, Vec::new(), chunk.get()));
        }
        let file = path.strip_prefix(FOLDER).expect("an address in the folder");
        let file = &*percent_decode_str(file).decode_utf8().expect("a name in UTF-8");
        asked.borrow_mut().push((file.into(), start, end));
        if let Some(watch) = &*self.0.watch.borrow() {
            watch(file, start);
        }
        let act = acts.borrow_mut().get_mut(file).and_then(VecDeque::pop_front);
        let act = act.unwrap_or(Act::Serve);
        let Some(mut bytes) = files.borrow().get(file).cloned() else {
            return Ok(answer(404, Vec::new(), chunk.get()));
        };
        let start = start as usize;
        match act {
            Act::Refuse => return Err(refused()),
            Act::Silent => pending().await,
            Act::Status(status) => return Ok(answer(status, Vec::new(), chunk.get())),
            Act::Page => {
                let page = answer(200, b"<!doctype html>".to_vec(), chunk.get());
                return Ok(Answer { is_page: true, ..page });
            }
            Act::Flip(at) => bytes[at] ^= 0x10,
            _ => {}
        }
        if start > 0 && start >= bytes.len() {
            return Ok(answer(416, Vec::new(), chunk.get()));
        }
        let asks = start > 0 || end.is_some();
        let ignores = matches!(act, Act::IgnoreRange | Act::DropAll(_)) || !asks;
        let total = bytes.len();
        let end = end.map_or(total, |end| total.min(end as usize));
        let bytes = if ignores { bytes } else { bytes[start..end].to_vec() };
        let length = bytes.len() as u64;
        let (kept, ending) = match act {
            Act::Drop(kept) | Act::DropAll(kept) => (kept, Ending::Broken),
            Act::Hang(kept) => (kept, Ending::Hanging),
            Act::End(kept) => (kept, Ending::Whole),
            _ => (bytes.len(), Ending::Whole),
        };
        let kept = bytes[..kept.min(bytes.len())].to_vec();
        let mut answer = answer(if ignores { 200 } else { 206 }, kept, chunk.get());
        answer.content_range =
            (!ignores && !hides_length.get()).then(|| format!("bytes {start}-{}/{total}", end - 1));
        answer.version = version.borrow().clone();
        answer.body.length = (!hides_length.get()).then_some(length);
        answer.body.ending = ending;
        answer.body.dawdles = self.0.dawdles.get();
        answer.body._transfer = Some(transfers.clone());
        self.0.most_transfers.set(self.transfers().0.max(self.transfers().1));
        Ok(answer)
    }

    async fn wait(&self, time: Duration) {
        self.0.waits.borrow_mut().push(time);
        // Longer than any byte takes, and longer for longer times.
        let turns = 100 + 10 * time.as_secs();
        for _ in 0..if self.0.dawdles.get() { turns } else { 0 } {
            pending_once().await;
        }
    }
}

fn answer(status: u16, body: Vec<u8>, chunk: usize) -> Answer<Body> {
    let pieces = body.chunks(chunk).map(<[u8]>::to_vec).collect();
    let length = Some(body.len() as u64);
    let (reason, is_page, content_range, version) = Default::default();
    let (ending, dawdles, _transfer) = (Ending::Whole, false, None);
    let body = Body { pieces, length, ending, dawdles, _transfer };
    Answer { status, reason, is_page, content_range, version, body }
}

impl ByteStream for Body {
    fn length(&self) -> Option<u64> {
        self.length
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        while self.dawdles && fastrand::bool() {
            pending_once().await;
        }
        match (self.pieces.pop_front(), &self.ending) {
            (Some(piece), _) => Ok(Some(piece.into())),
            (None, Ending::Whole) => Ok(None),
            (None, Ending::Broken) => Err(refused()),
            (None, Ending::Hanging) => pending().await,
        }
    }
}

/// Pending on the first poll.
pub async fn pending_once() {
    let mut is_first = true;
    futures::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        match std::mem::take(&mut is_first) {
            true => std::task::Poll::Pending,
            false => std::task::Poll::Ready(()),
        }
    })
    .await;
}

/// A store in memory with limited room.
#[derive(Clone, Default)]
pub struct MemoryStore(Rc<Shelf>);

#[derive(Default)]
struct Shelf {
    entries: RefCell<BTreeMap<String, Vec<u8>>>,
    most: Cell<Option<usize>>,
    tells_room: Cell<bool>,
}

impl MemoryStore {
    /// Refuses writes beyond this size; reports its room if it `tells`.
    pub fn limit(&self, bytes: usize, tells: bool) {
        self.0.most.set(Some(bytes));
        self.0.tells_room.set(tells);
    }

    pub fn keys(&self) -> Vec<String> {
        self.0.entries.borrow().keys().cloned().collect()
    }

    pub fn bytes(&self) -> usize {
        self.0.entries.borrow().values().map(Vec::len).sum()
    }

    /// Changes an entry.
    pub fn edit(&self, key: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        edit(self.0.entries.borrow_mut().get_mut(key).expect("an entry"));
    }

    pub fn evict(&self, key: &str) {
        self.0.entries.borrow_mut().remove(key).expect("an entry");
    }
}

impl Store for MemoryStore {
    type Stream = Body;

    async fn get(&self, key: &str) -> Option<Body> {
        let bytes = self.0.entries.borrow().get(key).cloned()?;
        Some(answer(200, bytes, 777).body)
    }

    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool {
        // As if storing took time: the caller must not rely on it at once.
        pending_once().await;
        let bytes: Vec<u8> = bytes.iter().flat_map(|chunk| chunk.as_slice()).copied().collect();
        let fits = self.0.most.get().is_none_or(|most| self.bytes() + bytes.len() <= most);
        if fits {
            self.0.entries.borrow_mut().insert(key.into(), bytes);
        }
        fits
    }

    async fn delete(&self, key: &str) {
        self.0.entries.borrow_mut().remove(key);
    }

    async fn room(&self) -> Option<u64> {
        let most = self.0.most.get().filter(|_| self.0.tells_room.get())?;
        Some(most.saturating_sub(self.bytes()) as u64)
    }
}
