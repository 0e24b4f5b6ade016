//! The free blocks, in the order in which they are taken: a ring of links with one entry per block.

/// A doubly linked list of block ids, linked by index, so that every operation is O(1).
///
/// One more link than there are blocks closes the ring: after it comes the
/// first free block, before it the last.
#[derive(Clone, Debug)]
pub struct FreeList {
    links: Vec<Link>, // [blocks + 1]
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

impl FreeList {
    /// All of `blocks` blocks, in the order of their ids.
    pub fn new(blocks: usize) -> FreeList {
        let ring = blocks as u32 + 1;
        let link = |i| Link { previous: (i + ring - 1) % ring, next: (i + 1) % ring };
        FreeList { links: (0..ring).map(link).collect(), len: blocks }
    }

    /// Number of free blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes the first block.
    pub fn pop_front(&mut self) -> Option<u32> {
        let block = self.iter().next()?;
        self.remove(block);
        Some(block)
    }

    /// Adds a block that is not in the list, to be taken first.
    pub fn push_front(&mut self, block: u32) {
        let end = self.end();
        self.insert(block, Link { previous: end, next: self.links[end as usize].next });
    }

    /// Adds a block that is not in the list, to be taken last.
    pub fn push_back(&mut self, block: u32) {
        let end = self.end();
        self.insert(block, Link { previous: self.links[end as usize].previous, next: end });
    }

    /// Takes out a block that is in the list.
    pub fn remove(&mut self, block: u32) {
        let Link { previous, next } = self.links[block as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.len -= 1;
    }

    /// The free blocks, the next to be taken first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let follow = |i: u32| Some(self.links[i as usize].next).filter(|next| *next != self.end());
        std::iter::successors(follow(self.end()), move |block| follow(*block))
    }

    fn insert(&mut self, block: u32, link: Link) {
        self.links[link.previous as usize].next = block;
        self.links[link.next as usize].previous = block;
        self.links[block as usize] = link;
        self.len += 1;
    }

    fn end(&self) -> u32 {
        self.links.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(list: &FreeList) -> Vec<u32> {
        let order: Vec<u32> = list.iter().collect();
        assert_eq!(order.len(), list.len());
        order
    }

    #[test]
    fn blocks_leave_in_the_order_in_which_they_came() {
        let mut list = FreeList::new(5);
        assert_eq!(list.pop_front(), Some(0));
        assert_eq!(order(&list), [1, 2, 3, 4]);
        list.remove(2);
        assert_eq!(order(&list), [1, 3, 4]);
        list.push_back(2);
        assert_eq!(order(&list), [1, 3, 4, 2]);
        list.push_back(0);
        assert_eq!([(); 5].map(|()| list.pop_front()), [1, 3, 4, 2, 0].map(Some));
        assert_eq!(list.pop_front(), None);
        list.push_back(3);
        assert_eq!(order(&list), [3]);
    }

    #[test]
    fn a_drained_list_refills_in_the_same_order() {
        for blocks in [1, 2, 16] {
            let mut list = FreeList::new(blocks);
            for _ in 0..2 {
                let drained: Vec<u32> = std::iter::from_fn(|| list.pop_front()).collect();
                assert_eq!(drained, (0..blocks as u32).collect::<Vec<_>>());
                assert_eq!(list.len(), 0);
                drained.into_iter().for_each(|block| list.push_back(block));
            }
        }
    }
}
