//! The built-in model on the CPU.

use std::ops::ControlFlow;

use tabloom::{
    engine::{Options, RequestId, steady_clock},
    executor::AnyExecutor,
    load::{self, Device, LoadOptions},
    sampling::LocalCompiler,
    service::{Reply, Service},
    weights::FolderSource,
};

/// A separate service that also compiles constraints.
pub fn service() -> Service<AnyExecutor> {
    service_with(LoadOptions::default(), Options::default())
}

pub fn service_with(options: LoadOptions, scheduling: Options) -> Service<AnyExecutor> {
    let source = FolderSource::new(format!("{}/www/model", env!("CARGO_MANIFEST_DIR")));
    let options = LoadOptions { device: Device::Cpu, ..options };
    let load = load::model(&source, &options, |_| ControlFlow::Continue(()));
    let model = pollster::block_on(load).expect("the built-in model loads");
    let (executor, name) = (model.loaded.executor, "built-in".into());
    Service::new(executor, model.chat, name, scheduling, steady_clock())
        .with_compiler(Box::new(LocalCompiler::default()))
}

/// Steps until nothing is left to do.
pub fn run(service: &mut Service<AnyExecutor>) -> Vec<(RequestId, Reply)> {
    let mut replies = Vec::new();
    for _ in 0..2000 {
        if service.is_idle() {
            return replies;
        }
        replies.extend(pollster::block_on(service.step()).expect("the engine runs"));
    }
    panic!("the service does not become idle");
}
