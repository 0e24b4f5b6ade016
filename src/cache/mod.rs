//! The KV cache as the scheduler sees it: the blocks of [`BLOCK_SIZE`](crate::step::BLOCK_SIZE) tokens that each sequence holds,
//! and the cached prefixes that a new sequence can share.
//!
//! The layers of a model are in groups: those of a group see the same positions and share blocks, so that
//! layers with a window keep a window's blocks. All groups take their blocks from one pool.
//!
//! Where a cached block is evicted, the host keeps its content, as far as it has room. A prefix is found on
//! the device and in host memory alike; what is in host memory is written to free blocks before the
//! next step, so that it need not be computed again.
//!
//! The executor stores the keys and values; here are only block ids. A freed block stays cached, that
//! is, can be found by its content, until it is taken again. Blocks without cached content are taken
//! first, then the cached blocks freed longest ago (LRU), the end of a sequence before its beginning.
//!
//! A block belongs to the owner that took it last, until it is free and not cached. An owner that has
//! its share of the blocks evicts its own cached blocks before those of others.

mod block_table;
mod free_list;
mod host;
mod links;
mod owners;
mod pool;
mod prefix_index;
mod prefixes;
#[cfg(test)]
mod tests;
mod view;

#[cfg(test)]
pub use self::prefix_index::HASHED;
pub use self::{
    block_table::{BlockTable, Pin},
    pool::{CacheStats, KvCache},
    prefixes::Admission,
};
