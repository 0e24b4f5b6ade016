//! The owner of each block, and which of its free blocks an owner evicts first.

use std::collections::HashMap;

use super::links::Links;

/// The owners of blocks, named by callers. A block belongs to the owner that took it until it is taken
/// again, or is free and not cached.
#[derive(Clone, Debug)]
pub struct Owners {
    /// An owner with this many blocks evicts its own first.
    pub most: usize,
    places: HashMap<u64, u32>,     // by name
    pub(super) owners: Vec<Owner>, // [places]
    vacant: Vec<u32>,              // places without a name and blocks
    of: Vec<u32>,                  // [blocks] the owner's place
    /// [blocks + places] A ring per owner: its own entry, then its free blocks, the longest free first.
    links: Links,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Owner {
    blocks: usize,
    /// Its name was forgotten: its blocks count for no share.
    forgotten: bool,
}

/// The owner of blocks without cached content.
const NO_OWNER: u32 = 0;

impl Owners {
    /// All of `blocks` blocks without an owner.
    pub fn new(blocks: usize, most: usize) -> Owners {
        Owners {
            most,
            places: HashMap::new(),
            owners: vec![Owner { blocks, forgotten: true }],
            vacant: Vec::new(),
            of: vec![NO_OWNER; blocks],
            links: Links::new(blocks + 1),
        }
    }

    /// Number of blocks of an owner.
    pub fn blocks(&self, name: u64) -> usize {
        self.places.get(&name).map_or(0, |place| self.owners[*place as usize].blocks)
    }

    /// The block that an owner must take before those of others: its own block that has been free for
    /// longest, if it has its share.
    pub fn due(&self, name: u64) -> Option<u32> {
        let place = *self.places.get(&name)?;
        let full = self.owners[place as usize].blocks >= self.most;
        self.links.others(self.end(place)).next().filter(|_| full)
    }

    /// Assigns a held block to an owner.
    pub fn assign(&mut self, block: u32, name: u64) {
        let place = match self.places.get(&name) {
            Some(place) => *place,
            None => self.enter(name),
        };
        self.set_owner(block, place);
    }

    /// Records that a block has no cached content.
    pub fn unassign(&mut self, block: u32) {
        self.set_owner(block, NO_OWNER);
    }

    /// Records that a cached block is free.
    pub fn free(&mut self, block: u32) {
        self.links.insert(block, self.end(self.of[block as usize]));
    }

    /// Records that a block is held.
    pub fn hold(&mut self, block: u32) {
        self.links.remove(block);
    }

    /// Forgets an owner's name. If the name is used again, it is a new owner.
    pub fn forget(&mut self, name: u64) {
        if let Some(place) = self.places.remove(&name) {
            self.owners[place as usize].forgotten = true;
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

    fn set_owner(&mut self, block: u32, place: u32) {
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
        let Owner { blocks, forgotten } = self.owners[place as usize];
        if forgotten && blocks == 0 && place != NO_OWNER {
            self.vacant.push(place);
        }
    }

    fn end(&self, place: u32) -> u32 {
        self.of.len() as u32 + place
    }
}
