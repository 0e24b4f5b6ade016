//! Load tests: visitors of a site share an engine.

pub mod clock;
pub mod drive;
pub mod host;
pub mod modelled;
pub mod report;
pub mod scenarios;
pub mod workload;
