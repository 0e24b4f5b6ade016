//! The KV cache against a naive model: after any sequence of actions, tables have the same blocks, and
//! blocks hold what their sequences computed.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

use proptest::prelude::*;
use tabloom::{
    cache::{Admission, BlockTable, KvCache, Pin},
    step::{BLOCK_SIZE, BlockCopy, KvGroups, Window},
};

const NULL: u32 = 0;
const OWNERS: u64 = 3;

#[derive(Clone, Debug)]
enum Action {
    Admit {
        prompt: Prompt,
        owner: u64,
        room: usize,
        use_prefix: bool,
        spare: usize,
    },
    /// Computes rows of new tokens; the last ones are drafts that get rejected.
    Compute {
        seq: usize,
        rows: Vec<u32>,
        rejected: usize,
    },
    Publish {
        seq: usize,
    },
    Retire {
        seq: usize,
    },
    Fork {
        seq: usize,
        share: f64,
        room: usize,
        spare: usize,
    },
    Release {
        seq: usize,
    },
    Forget {
        owner: u64,
    },
    Pin {
        prompt: Prompt,
    },
    Unpin {
        pin: usize,
    },
    Reset,
}

#[derive(Clone, Debug)]
struct Prompt {
    tokens: Vec<u32>,
    salt: u64,
}

/// Prompts from a small choice of blocks, so that many share prefixes.
fn prompt() -> impl Strategy<Value = Prompt> {
    let blocks = prop::collection::vec(prop::bool::weighted(0.2), 0..8);
    (blocks, 1..=BLOCK_SIZE, prop::bool::weighted(0.2)).prop_map(|(blocks, own, salt)| {
        let whole = blocks.into_iter().flat_map(|block| [u32::from(block); BLOCK_SIZE]);
        Prompt { tokens: whole.chain(vec![0; own]).collect(), salt: u64::from(salt) }
    })
}

fn action() -> impl Strategy<Value = Action> {
    let few = || prop_oneof![3 => Just(0_usize), 1 => 0..4_usize];
    let admit = (prompt(), 0..OWNERS, 0..150_usize, prop::bool::weighted(0.9), few());
    let rows = prop::collection::vec(prop_oneof![9 => Just(0), 1 => 1..3_u32], 1..60);
    prop_oneof![
        4 => admit.prop_map(|(prompt, owner, room, use_prefix, spare)| {
            Action::Admit { prompt, owner, room, use_prefix, spare }
        }),
        6 => (any::<usize>(), rows, few())
            .prop_map(|(seq, rows, rejected)| Action::Compute { seq, rows, rejected }),
        6 => any::<usize>().prop_map(|seq| Action::Publish { seq }),
        2 => any::<usize>().prop_map(|seq| Action::Retire { seq }),
        2 => (any::<usize>(), 0.0..=1.0, 0..150_usize, few())
            .prop_map(|(seq, share, room, spare)| Action::Fork { seq, share, room, spare }),
        3 => any::<usize>().prop_map(|seq| Action::Release { seq }),
        1 => (0..OWNERS).prop_map(|owner| Action::Forget { owner }),
        1 => prompt().prop_map(|prompt| Action::Pin { prompt }),
        1 => any::<usize>().prop_map(|pin| Action::Unpin { pin }),
        1 => Just(Action::Reset),
    ]
}

fn window() -> impl Strategy<Value = Option<Window>> {
    prop_oneof![
        Just(None),
        (0..3_usize, 1..80_usize)
            .prop_map(|(sinks, tokens)| Some(Window { sinks: sinks * BLOCK_SIZE, tokens })),
    ]
}

/// One group of layers, or several, the widest first.
fn groups() -> impl Strategy<Value = KvGroups> {
    let width = |window: &Option<Window>| window.map_or(usize::MAX, |w| w.sinks + w.tokens);
    prop::collection::vec(window(), 1..4).prop_map(move |mut windows| {
        windows.sort_by_key(|window| std::cmp::Reverse(width(window)));
        KvGroups::new(windows)
    })
}

/// A sequence, and the blocks that the model expects it to hold, `[entries][groups]`.
#[derive(Debug)]
struct Seq {
    table: BlockTable,
    entries: Vec<u32>,
    /// The prompt, and later the verified tokens.
    tokens: Vec<u32>,
    salt: u64,
    owner: u64,
    computed: usize,
    /// Blocks that were passed to `publish`.
    offered: usize,
}

/// Content of a cached block: a sequence's tokens up to the end of the block and the lookahead.
#[derive(Debug)]
struct Published {
    block: u32,
    group: usize,
    salt: u64,
    prefix: Vec<u32>,
}

/// The cache, and its expected state, stored and searched in the simplest way.
struct Model {
    cache: KvCache,
    blocks: usize,
    groups: KvGroups,
    lookahead: usize,
    /// The next one to be taken first.
    free: VecDeque<u32>,
    /// An owner with this many blocks evicts its own first.
    most: usize,
    owners: Vec<Option<u64>>, // [blocks]
    /// In the order in which they were published.
    published: Vec<Published>,
    /// [blocks] what rows wrote: a digest of all tokens up to their own.
    keys: Vec<[u64; BLOCK_SIZE]>,
    seqs: Vec<Seq>,
    pins: Vec<(Pin, Vec<u32>)>,
    stored: u64,
    evicted: u64,
    resets: u64,
}

fn digest(salt: u64, tokens: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (salt, tokens).hash(&mut hasher);
    hasher.finish()
}

impl Model {
    fn new(blocks: usize, groups: KvGroups, lookahead: usize, share: f64, seed: u64) -> Model {
        let cache = KvCache::new(blocks, groups, true, seed);
        Model {
            cache: cache.with_lookahead(lookahead).with_share(share),
            blocks,
            groups,
            lookahead,
            free: (1..blocks as u32).collect(),
            most: ((blocks - 1) as f64 * share) as usize,
            owners: vec![None; blocks],
            published: Vec::new(),
            keys: vec![[0; BLOCK_SIZE]; blocks],
            seqs: Vec::new(),
            pins: Vec::new(),
            stored: 0,
            evicted: 0,
            resets: 0,
        }
    }

    /// Whether a row at `position` attends to the key at `key` in the layers of a group.
    fn attends(&self, group: usize, position: usize, key: usize) -> bool {
        let window = self.groups.windows().nth(group).expect("a group");
        window.is_none_or(|window| key < window.sinks || key + window.tokens > position)
    }

    /// Whether a row at `computed` or later attends to a key of a group's block in entry `at`.
    fn attends_to_block(&self, group: usize, computed: usize, at: usize) -> bool {
        (at * BLOCK_SIZE..(at + 1) * BLOCK_SIZE).any(|key| self.attends(group, computed, key))
    }

    /// The group of each block of entries, and the entry.
    fn places(&self, entries: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let count = self.groups.count();
        (0..entries * count).map(move |place| (place % count, place / count))
    }

    /// Blocks of the entries that `tokens` tokens need beyond those that are there.
    fn missing(&self, tokens: usize, blocks: usize) -> usize {
        (tokens.div_ceil(BLOCK_SIZE) * self.groups.count()).saturating_sub(blocks)
    }

    fn holders(&self, block: u32) -> usize {
        let tables = self.seqs.iter().map(|seq| &seq.entries);
        let all = tables.chain(self.pins.iter().map(|(_, entries)| entries));
        all.flatten().filter(|entry| **entry == block).count()
    }

    fn is_published(&self, block: u32) -> bool {
        self.published.iter().any(|published| published.block == block)
    }

    /// The blocks of the longest cached prefix of at most `most` entries.
    fn find(&self, prompt: &Prompt, most: usize) -> Vec<u32> {
        let block = |(group, at): (usize, usize)| {
            let prefix = prompt.tokens.get(..(at + 1) * BLOCK_SIZE + self.lookahead)?;
            let same =
                |p: &&Published| p.group == group && p.salt == prompt.salt && p.prefix == prefix;
            Some(self.published.iter().find(same)?.block)
        };
        let cached: Vec<Option<u32>> = self.places(most).map(block).collect();
        let prefix = |length| {
            let places = self.places(length).zip(&cached);
            let entry = |((group, at), cached): ((usize, usize), &Option<u32>)| match self
                .attends_to_block(group, length * BLOCK_SIZE, at)
            {
                true => *cached,
                false => Some(NULL),
            };
            places.map(entry).collect::<Option<Vec<u32>>>()
        };
        (0..=most).rev().find_map(prefix).expect("nothing is always cached")
    }

    fn owned(&self, owner: u64) -> usize {
        self.owners.iter().filter(|of| **of == Some(owner)).count()
    }

    /// Takes the next free block for an owner.
    fn take_one(&mut self, owner: u64) -> u32 {
        let useless = self.free.iter().position(|block| !self.is_published(*block));
        let own = self.free.iter().position(|block| self.owners[*block as usize] == Some(owner));
        let own = own.filter(|_| self.owned(owner) >= self.most);
        let block = self.free.remove(useless.or(own).unwrap_or(0)).expect("a block is free");
        let before = self.published.len();
        self.published.retain(|published| published.block != block);
        self.evicted += (before - self.published.len()) as u64;
        self.owners[block as usize] = Some(owner);
        block
    }

    fn take(&mut self, count: usize, owner: u64) -> Vec<u32> {
        (0..count).map(|_| self.take_one(owner)).collect()
    }

    /// Frees blocks without references, the last one of a sequence first.
    fn give_up(&mut self, entries: &[u32]) {
        for &block in entries.iter().rev().filter(|block| **block != NULL) {
            if self.holders(block) > 0 {
                continue;
            } else if self.is_published(block) {
                self.free.push_back(block);
            } else {
                self.free.push_front(block);
                self.owners[block as usize] = None;
            }
        }
    }

    fn pick(&self, nth: usize) -> Option<usize> {
        (!self.seqs.is_empty()).then(|| nth % self.seqs.len())
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Admit { prompt, owner, room, use_prefix, spare } => {
                self.admit(prompt, owner, room, use_prefix, spare)
            }
            Action::Compute { seq, rows, rejected } => {
                if let Some(at) = self.pick(seq) {
                    self.compute(at, rows, rejected);
                }
            }
            Action::Publish { seq } => {
                if let Some(at) = self.pick(seq) {
                    self.publish(at);
                }
            }
            Action::Retire { seq } => {
                if let Some(at) = self.pick(seq) {
                    self.retire(at);
                }
            }
            Action::Fork { seq, share, room, spare } => {
                if let Some(at) = self.pick(seq) {
                    self.fork(at, share, room, spare);
                }
            }
            Action::Release { seq } => {
                if let Some(at) = self.pick(seq) {
                    let mut seq = self.seqs.swap_remove(at);
                    self.cache.release(&mut seq.table);
                    self.give_up(&seq.entries);
                }
            }
            Action::Forget { owner } => {
                self.cache.forget(owner);
                let of_owner = self.owners.iter_mut().filter(|of| **of == Some(owner));
                of_owner.for_each(|of| *of = None);
            }
            Action::Pin { prompt } => self.pin(prompt),
            Action::Unpin { pin } => {
                if !self.pins.is_empty() {
                    let (pin, entries) = self.pins.swap_remove(pin % self.pins.len());
                    self.cache.unpin(pin);
                    self.give_up(&entries);
                }
            }
            Action::Reset => {
                let idle = self.free.len() == self.blocks - 1;
                assert_eq!(self.cache.reset(), idle);
                if idle {
                    self.published.clear();
                    self.owners.fill(None);
                    self.resets += 1;
                }
            }
        }
    }

    fn admit(&mut self, prompt: Prompt, owner: u64, room: usize, use_prefix: bool, spare: usize) {
        let Prompt { tokens, salt } = &prompt;
        let mut entries = self.find(&prompt, (tokens.len() - 1) / BLOCK_SIZE);
        let count = self.groups.count();
        let mut table = BlockTable::new(*salt, owner, count);
        self.cache.hash(&mut table, tokens);
        assert_eq!(self.cache.lookup(&table, tokens), entries.len() / count * BLOCK_SIZE);
        if !use_prefix {
            entries.clear();
        }
        let cached = entries.len() / count;
        let admitted = self.cache.admit(&mut table, tokens, room, use_prefix, spare);
        let admitted = admitted == Admission::Admitted;
        let unheld = entries.iter().filter(|block| self.free.contains(block)).count();
        let missing = self.missing(room, entries.len());
        assert_eq!(admitted, self.free.len() >= unheld + missing + spare);
        if !admitted {
            return;
        }
        self.free.retain(|block| !entries.contains(block));
        entries.extend(self.take(missing, owner));
        assert_eq!(table.cached(), cached * BLOCK_SIZE);
        let Prompt { tokens, salt } = prompt;
        let computed = table.cached();
        self.seqs.push(Seq { table, entries, tokens, salt, owner, computed, offered: cached });
    }

    fn compute(&mut self, at: usize, rows: Vec<u32>, rejected: usize) {
        let seq = &mut self.seqs[at];
        // The rest of the prompt comes first; only tokens after it can be drafts.
        let rest = seq.tokens.len().saturating_sub(seq.computed);
        let rejected = rejected.min(rows.len().saturating_sub(rest));
        let end = seq.computed + rows.len();
        let (groups, count) = (self.groups.count(), seq.entries.len());
        let missing = (end.div_ceil(BLOCK_SIZE) * groups).saturating_sub(count);
        assert_eq!(self.cache.reserve(&mut seq.table, end), missing <= self.free.len());
        if missing > self.free.len() {
            return;
        }
        let new = rows.get(rest..).unwrap_or_default();
        seq.tokens.extend(new);
        let owner = seq.owner;
        let more = self.take(missing, owner);
        let seq = &mut self.seqs[at];
        seq.entries.extend(more);
        let seq = &self.seqs[at];
        for position in seq.computed..end {
            for block in &seq.entries[position / BLOCK_SIZE * groups..][..groups] {
                assert_eq!(self.holders(*block), 1, "a row writes to a block of others");
                assert!(!self.is_published(*block), "a row writes to a published block");
                self.keys[*block as usize][position % BLOCK_SIZE] =
                    digest(seq.salt, &seq.tokens[..=position]);
            }
        }
        let seq = &mut self.seqs[at];
        seq.computed = end - rejected;
        if rejected > 0 {
            seq.tokens.truncate(seq.computed);
        }
    }

    fn publish(&mut self, at: usize) {
        let seq = &mut self.seqs[at];
        self.cache.publish(&mut seq.table, &seq.tokens[..seq.computed]);
        let full = seq.computed.saturating_sub(self.lookahead) / BLOCK_SIZE;
        let blocks = seq.offered..full;
        let seq = &mut self.seqs[at];
        seq.offered = seq.offered.max(blocks.end);
        for (group, entry) in self.places(blocks.end).filter(|(_, entry)| blocks.contains(entry)) {
            let seq = &self.seqs[at];
            let block = seq.entries[entry * self.groups.count() + group];
            if block != NULL && !self.is_published(block) {
                let prefix = seq.tokens[..(entry + 1) * BLOCK_SIZE + self.lookahead].to_vec();
                self.published.push(Published { block, group, salt: seq.salt, prefix });
                self.stored += 1;
            }
        }
    }

    fn retire(&mut self, at: usize) {
        let seq = &mut self.seqs[at];
        self.cache.retire(&mut seq.table, seq.computed);
        let computed = seq.computed;
        let count = self.groups.count();
        for group in 0..count {
            let mut given_up = Vec::new();
            for entry in 0..self.seqs[at].entries.len() / count {
                if !self.attends_to_block(group, computed, entry) {
                    let block = &mut self.seqs[at].entries[entry * count + group];
                    given_up.push(std::mem::replace(block, NULL));
                }
            }
            self.give_up(&given_up);
        }
    }

    fn fork(&mut self, at: usize, share: f64, room: usize, spare: usize) {
        let parent = &self.seqs[at];
        let shared = (share * parent.computed as f64) as usize;
        let full = shared / BLOCK_SIZE;
        let fork = self.cache.fork(&parent.table, shared, room, spare);
        let count = self.groups.count();
        let mut places = self.places(shared.div_ceil(BLOCK_SIZE)).zip(&parent.entries);
        let held = places.all(|((group, at), block)| {
            *block != NULL || !self.attends_to_block(group, shared, at)
        });
        let missing = self.missing(room.max(shared), full * count);
        assert_eq!(fork.is_some(), held && self.free.len() >= missing + spare);
        let Some((table, copies)) = fork else { return };

        let mut entries = parent.entries[..full * count].to_vec();
        let tokens = parent.tokens[..shared].to_vec();
        let (salt, owner, offered) = (parent.salt, parent.owner, parent.offered.min(full));
        let partial = if shared > full * BLOCK_SIZE { count } else { 0 };
        let tail = parent.entries[full * count..][..partial].to_vec();
        entries.extend(self.take(missing, owner));
        let pairs = tail.into_iter().zip(&entries[full * count..]);
        let expected: Vec<_> = pairs.map(|(from, to)| BlockCopy { from, to: *to }).collect();
        assert_eq!(copies, expected);
        for BlockCopy { from, to } in copies {
            self.keys[to as usize] = self.keys[from as usize];
        }
        self.seqs.push(Seq { table, entries, tokens, salt, owner, computed: shared, offered });
    }

    fn pin(&mut self, prompt: Prompt) {
        let full = prompt.tokens.len().saturating_sub(self.lookahead) / BLOCK_SIZE;
        let entries = self.find(&prompt, full);
        let pin = self.cache.pin(&prompt.tokens, prompt.salt);
        assert_eq!(pin.is_some(), !entries.is_empty());
        let Some(pin) = pin else { return };
        assert_eq!(pin.tokens(), entries.len() / self.groups.count() * BLOCK_SIZE);
        self.free.retain(|block| !entries.contains(block));
        self.pins.push((pin, entries));
    }

    fn check(&self) {
        let tables = self.seqs.iter().map(|seq| &seq.table);
        self.cache.check_integrity(tables, self.pins.iter().map(|(pin, _)| pin));
        assert_eq!(self.cache.free(), self.free.len());
        for owner in 0..OWNERS {
            assert_eq!(self.cache.owned(owner), self.owned(owner));
        }
        for seq in &self.seqs {
            assert_eq!(seq.table.entries(), seq.entries);
            for key in 0..seq.computed {
                let expected = digest(seq.salt, &seq.tokens[..=key]);
                let blocks = &seq.entries[key / BLOCK_SIZE * self.groups.count()..];
                let of_groups = blocks.iter().take(self.groups.count()).enumerate();
                for (_, block) in
                    of_groups.filter(|(group, _)| self.attends(*group, seq.computed, key))
                {
                    assert_eq!(self.keys[*block as usize][key % BLOCK_SIZE], expected);
                }
            }
        }
        let stats = self.cache.stats();
        let counts = (stats.stored, stats.evicted, stats.resets);
        assert_eq!(counts, (self.stored, self.evicted, self.resets));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_cache_behaves_like_its_model(
        blocks in 2..40_usize,
        groups in groups(),
        lookahead in 0..2_usize,
        share in 0.0..1.0,
        seed in any::<u64>(),
        actions in prop::collection::vec(action(), 1..100),
    ) {
        let mut model = Model::new(blocks, groups, lookahead, share, seed);
        for action in actions {
            model.act(action);
            model.check();
        }
        while let Some(mut seq) = model.seqs.pop() {
            model.cache.release(&mut seq.table);
        }
        model.pins.drain(..).for_each(|(pin, _)| model.cache.unpin(pin));
        assert_eq!(model.cache.usage(), 0.0, "a block leaks");
    }
}
