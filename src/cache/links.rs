//! Rings of ids, linked by index.

/// Linked rings of the ids 0, 1, 2, …; each is in one ring, perhaps alone. Every operation is O(1).
#[derive(Clone, Debug)]
pub struct Links(Vec<Link>); // [ids]

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

impl Links {
    /// The first `count` ids, each in a ring of its own.
    pub fn new(count: usize) -> Links {
        Links((0..count as u32).map(|id| Link { previous: id, next: id }).collect())
    }

    /// Adds the next id, in a ring of its own.
    pub fn add(&mut self) -> u32 {
        let id = self.0.len() as u32;
        self.0.push(Link { previous: id, next: id });
        id
    }

    /// The id after `id`; itself if it is alone.
    pub fn next(&self, id: u32) -> u32 {
        self.0[id as usize].next
    }

    /// Inserts an id that is alone into the ring of `place`, before it.
    pub fn insert(&mut self, id: u32, place: u32) {
        let previous = self.0[place as usize].previous;
        self.0[id as usize] = Link { previous, next: place };
        self.0[previous as usize].next = id;
        self.0[place as usize].previous = id;
    }

    /// Removes an id from its ring.
    pub fn remove(&mut self, id: u32) {
        let Link { previous, next } = self.0[id as usize];
        self.0[previous as usize].next = next;
        self.0[next as usize].previous = previous;
        self.0[id as usize] = Link { previous: id, next: id };
    }

    /// The other ids in the ring of `id`, starting after it.
    pub fn others(&self, id: u32) -> impl Iterator<Item = u32> {
        let follow = move |at: u32| Some(self.next(at)).filter(|next| *next != id);
        std::iter::successors(follow(id), move |at| follow(*at))
    }
}
