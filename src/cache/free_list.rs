//! The free blocks, in the order in which they are taken.

use super::links::Links;

/// A list of block ids, linked by index, so that every operation is O(1).
#[derive(Clone, Debug)]
pub struct FreeList {
    links: Links, // [blocks + 1]; after the last id comes the first free block, before it the last
    end: u32,
    len: usize,
}

impl FreeList {
    /// All of `blocks` blocks, in the order of their ids.
    pub fn new(blocks: usize) -> FreeList {
        let end = blocks as u32;
        let mut list = FreeList { links: Links::new(blocks + 1), end, len: 0 };
        (0..end).for_each(|block| list.push_back(block));
        list
    }

    /// Number of free blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The block to be taken first.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Adds a block that is not in the list, to be taken first.
    pub fn push_front(&mut self, block: u32) {
        self.links.insert(block, self.links.next(self.end));
        self.len += 1;
    }

    /// Adds a block that is not in the list, to be taken last.
    pub fn push_back(&mut self, block: u32) {
        self.links.insert(block, self.end);
        self.len += 1;
    }

    /// Takes out a block that is in the list.
    pub fn remove(&mut self, block: u32) {
        self.links.remove(block);
        self.len -= 1;
    }

    /// The free blocks, the next to be taken first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.links.others(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of these blocks out of `0..blocks`.
    fn list(blocks: usize, order: &[u32]) -> FreeList {
        let mut list = FreeList::new(blocks);
        take(&mut list, blocks);
        order.iter().for_each(|block| list.push_back(*block));
        list
    }

    fn take_first(list: &mut FreeList) -> Option<u32> {
        let first = list.first();
        first.into_iter().for_each(|block| list.remove(block));
        first
    }

    fn take(list: &mut FreeList, count: usize) -> Vec<u32> {
        std::iter::from_fn(|| take_first(list)).take(count).collect()
    }

    fn order(list: &FreeList) -> Vec<u32> {
        let order: Vec<u32> = list.iter().collect();
        assert_eq!(order.len(), list.len());
        order
    }

    #[test]
    fn blocks_are_taken_from_the_front_and_removed_anywhere() {
        let mut list = FreeList::new(5);
        assert_eq!(take_first(&mut list), Some(0));
        assert_eq!(order(&list), [1, 2, 3, 4]);
        list.remove(2);
        assert_eq!(order(&list), [1, 3, 4]);
        list.push_back(2);
        assert_eq!(order(&list), [1, 3, 4, 2]);
        assert_eq!(take(&mut list, 4), [1, 3, 4, 2]);
        assert_eq!(list.len(), 0);
        assert_eq!(take_first(&mut list), None, "no block is left");
        list.push_back(3);
        assert_eq!(order(&list), [3]);
    }

    #[test]
    fn blocks_join_at_the_back_in_the_order_in_which_they_come() {
        let mut list = list(6, &[]);
        for (more, expected) in [
            (&[][..], &[][..]),
            (&[0], &[0]),
            (&[4, 5], &[0, 4, 5]),
            (&[1, 2, 3], &[0, 4, 5, 1, 2, 3]),
        ] {
            more.iter().for_each(|block| list.push_back(*block));
            assert_eq!(order(&list), expected);
        }
    }

    #[test]
    fn blocks_that_join_at_the_front_are_taken_first() {
        let mut list = list(6, &[0]);
        for (more, expected) in
            [(&[][..], &[0][..]), (&[5, 4], &[4, 5, 0]), (&[2, 1], &[1, 2, 4, 5, 0])]
        {
            more.iter().for_each(|block| list.push_front(*block));
            assert_eq!(order(&list), expected);
        }
        assert_eq!(take(&mut list, 6), [1, 2, 4, 5, 0]);
        list.push_front(3);
        assert_eq!(order(&list), [3], "into an empty list");
    }

    #[test]
    fn any_number_of_blocks_can_be_taken() {
        let mut list = list(6, &[1, 3, 5, 4, 0, 2]);
        for expected in [&[][..], &[1], &[3, 5], &[4, 0, 2]] {
            assert_eq!(take(&mut list, expected.len()), expected);
        }
        assert_eq!(list.len(), 0);
    }

    #[test]
    fn a_drained_list_refills_in_the_same_order() {
        for blocks in [1, 2, 16] {
            let mut list = FreeList::new(blocks);
            for _ in 0..2 {
                let drained = take(&mut list, blocks);
                assert_eq!(drained, (0..blocks as u32).collect::<Vec<_>>());
                assert_eq!(list.len(), 0);
                drained.into_iter().for_each(|block| list.push_back(block));
            }
        }
    }
}
