//! Who took each block, and which of its free blocks an owner is to give up first.

use std::collections::HashMap;

use super::links::Links;

/// The owners of blocks, by the names that callers give them. A block is its owner's from when it is
/// taken until somebody takes it again or it holds nothing of use.
#[derive(Clone, Debug)]
pub struct Owners {
    /// So many blocks may an owner have before it takes from its own.
    pub most: usize,
    places: HashMap<u64, u32>,     // by name
    pub(super) owners: Vec<Owner>, // [places]
    vacant: Vec<u32>,              // places without a name and blocks
    of: Vec<u32>,                  // [blocks] the owner's place
    /// [blocks + places] The free blocks of an owner follow its own entry, the longest free first.
    links: Links,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Owner {
    blocks: usize,
    /// Forgotten: its blocks are nobody's.
    nameless: bool,
}

/// The place of whoever has the blocks that hold nothing of use.
const NOBODY: u32 = 0;

impl Owners {
    /// Nobody has any of `blocks` blocks.
    pub fn new(blocks: usize, most: usize) -> Owners {
        Owners {
            most,
            places: HashMap::new(),
            owners: vec![Owner { blocks, nameless: true }],
            vacant: Vec::new(),
            of: vec![NOBODY; blocks],
            links: Links::new(blocks + 1),
        }
    }

    /// How many blocks an owner has.
    pub fn blocks(&self, name: u64) -> usize {
        self.places.get(&name).map_or(0, |place| self.owners[*place as usize].blocks)
    }

    /// The block that an owner has to take before those of others: the longest free of its own, once
    /// it has as many as it may.
    pub fn due(&self, name: u64) -> Option<u32> {
        let place = *self.places.get(&name)?;
        let full = self.owners[place as usize].blocks >= self.most;
        self.links.others(self.end(place)).next().filter(|_| full)
    }

    /// Gives a block that is held to an owner.
    pub fn give(&mut self, block: u32, name: u64) {
        let place = match self.places.get(&name) {
            Some(place) => *place,
            None => self.enter(name),
        };
        self.hand_over(block, place);
    }

    /// Notes that a block holds nothing of use.
    pub fn shed(&mut self, block: u32) {
        self.hand_over(block, NOBODY);
    }

    /// Notes that a block with something of use is free.
    pub fn free(&mut self, block: u32) {
        self.links.insert(block, self.end(self.of[block as usize]));
    }

    /// Notes that a block is held.
    pub fn hold(&mut self, block: u32) {
        self.links.remove(block);
    }

    /// Makes the blocks of an owner nobody's. Should the name come again, it is another's.
    pub fn forget(&mut self, name: u64) {
        if let Some(place) = self.places.remove(&name) {
            self.owners[place as usize].nameless = true;
            self.vacate(place);
        }
    }

    /// Checks that all blocks are counted, and that rings hold the free ones in the order of `free`.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity(&self, free: impl Iterator<Item = u32>) {
        let mut owned = vec![0; self.owners.len()];
        self.of.iter().for_each(|place| owned[*place as usize] += 1);
        assert!(
            owned.into_iter().eq(self.owners.iter().map(|owner| owner.blocks)),
            "an owner's blocks are miscounted"
        );
        let mut rings = vec![Vec::new(); self.owners.len()];
        free.for_each(|block| rings[self.of[block as usize] as usize].push(block));
        for (place, blocks) in (0..).zip(rings).skip(1) {
            let ring = self.links.others(self.end(place));
            assert!(ring.eq(blocks), "the free blocks of owner {place} are not in its ring");
        }
    }

    fn hand_over(&mut self, block: u32, place: u32) {
        self.links.remove(block);
        let before = std::mem::replace(&mut self.of[block as usize], place);
        self.owners[place as usize].blocks += 1;
        self.owners[before as usize].blocks -= 1;
        self.vacate(before);
    }

    /// A place for a new owner.
    fn enter(&mut self, name: u64) -> u32 {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.owners.push(Owner::default());
            self.links.add() - self.of.len() as u32
        });
        self.owners[place as usize] = Owner::default();
        self.places.insert(name, place);
        place
    }

    fn vacate(&mut self, place: u32) {
        let Owner { blocks, nameless } = self.owners[place as usize];
        if nameless && blocks == 0 && place != NOBODY {
            self.vacant.push(place);
        }
    }

    fn end(&self, place: u32) -> u32 {
        self.of.len() as u32 + place
    }
}
