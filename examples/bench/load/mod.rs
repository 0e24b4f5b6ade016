//! Visitors of a site and the engine they share: who asks what and when, and how they are served.

pub mod clock;
pub mod drive;
pub mod host;
pub mod modelled;
pub mod report;
pub mod scenarios;
pub mod workload;
