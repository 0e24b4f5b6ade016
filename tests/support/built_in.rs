//! The built-in model on the CPU.

use std::ops::ControlFlow;

use tabloom::{
    engine::{Options, steady_clock},
    executor::AnyExecutor,
    load::{self, Device, LoadOptions},
    sampling::LocalCompiler,
    service::Service,
    weights::FolderSource,
};

/// A separate service that also compiles constraints.
pub fn service() -> Service<AnyExecutor> {
    let source = FolderSource::new(format!("{}/www/model", env!("CARGO_MANIFEST_DIR")));
    let options = LoadOptions { device: Device::Cpu, ..Default::default() };
    let load = load::model(&source, &options, |_| ControlFlow::Continue(()));
    let model = pollster::block_on(load).expect("the built-in model loads");
    let (executor, options) = (model.loaded.executor, Options::default());
    Service::new(executor, model.chat, "built-in".into(), options, steady_clock())
        .with_compiler(Box::new(LocalCompiler::default()))
}
