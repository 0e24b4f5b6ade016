//! Errors on the GPU: objects that do not fit, and a lost device.

use crate::support::goldens;
use futures::future::join;
use tabloom::{
    engine::{Engine, Event, FinishReason, Options, Request, steady_clock},
    error::Error,
    executor::AnyExecutor,
    gpu::{Access, Gpu, Kernels, Power, Shader, SharedGpu},
    load::Device,
    step::Sampling,
    weights::FolderSource,
};

#[test]
fn a_buffer_beyond_the_limit_is_refused_with_its_size_and_the_limit() {
    pollster::block_on(async {
        let gpu = Gpu::open(Power::HighPerformance).await.expect("an adapter");
        let limit = gpu.largest_binding();
        let refused = gpu.storage("a matrix", limit + 16).await;
        let Err(Error::TooLarge { what, bytes, limit: named }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(
            (what.as_str(), bytes, named),
            ("a matrix", (limit + 16).next_multiple_of(16), limit)
        );
        gpu.storage("a small matrix", 1024).await.expect("the device stays usable");
    });
}

#[test]
fn a_shader_that_does_not_compile_is_an_error_and_not_a_panic() {
    pollster::block_on(async {
        let gpu = Gpu::open(Power::HighPerformance).await.expect("an adapter");
        let source = "@compute @workgroup_size(1) fn main() { nonsense(); }".into();
        let shader = Shader { name: "broken", source, bindings: vec![Access::Read] };
        let compiled = Kernels::default().pipeline(&gpu, &shader).await;
        let Err(Error::Pipeline { shader, reason }) = compiled.map(|_| ()) else {
            panic!("it compiled")
        };
        assert!(shader == "broken" && reason.contains("nonsense"), "{reason}");
        gpu.check().expect("the device stays usable");
    });
}

#[test]
fn a_command_that_is_refused_is_no_loss_of_the_device() {
    pollster::block_on(async {
        let shared = SharedGpu::default();
        let gpu = shared.get(Power::HighPerformance).await.expect("an adapter");
        drop(gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("larger than any"),
            size: u64::MAX / 2,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        }));
        let Err(Error::Gpu { reason }) = gpu.check() else { panic!("{:?}", gpu.check()) };
        assert!(reason.contains("larger than any"), "{reason}");
        let other = shared.get(Power::HighPerformance).await.expect("an adapter");
        other.check().expect("the next model gets a device that has refused nothing");
    });
}

#[test]
fn models_share_a_device_until_it_is_lost() {
    pollster::block_on(async {
        let shared = SharedGpu::default();
        let get = || async { shared.get(Power::HighPerformance).await.expect("an adapter") };
        let (one, two) = join(get(), get()).await;
        // Neither takes the other's error scopes for its own.
        let (first, second) = join(one.storage("one", 1024), two.storage("two", 1024)).await;
        first.and(second).expect("they fit");
        let poll = |device: &wgpu::Device| {
            device.poll(wgpu::PollType::Poll).expect("it may be polled");
        };
        let device = one.device.clone();
        drop(one);
        poll(&device);
        two.check().expect("another has it yet");
        device.destroy();
        poll(&device);
        assert!(matches!(two.check(), Err(Error::DeviceLost { .. })), "it is the same device");

        let three = get().await;
        three.check().expect("a new device");
        drop(three);
        get().await.idle().await.expect("another, after the last was let go");
    });
}

#[test]
fn losing_the_device_ends_every_request_and_closes_the_engine() {
    pollster::block_on(async {
        let source = FolderSource::new(goldens::folder("llama2_f32"));
        let executor = goldens::executor(&source, Device::Gpu).await.expect("it loads");
        let AnyExecutor::Gpu(executor) = executor else { panic!("not on the GPU") };
        let device = executor.gpu().device.clone();
        let mut engine =
            Engine::new(AnyExecutor::Gpu(executor), Options::default(), steady_clock());
        let request = |first| Request {
            prompt: vec![first, 2, 3],
            sampling: Sampling::GREEDY,
            end_tokens: Vec::new(),
            max_tokens: Some(20),
            ..Default::default()
        };
        for first in [1, 4] {
            engine.submit(request(first)).expect("it is accepted");
        }
        engine.step().await.expect("the device lives");
        device.destroy();
        let mut ended = 0;
        for _ in 0..10 {
            let Ok(events) = engine.step().await else { break };
            for event in events {
                if let Event::Finished { reason, .. } = event {
                    let lost = matches!(reason, FinishReason::Error(Error::DeviceLost { .. }));
                    assert!(lost, "{reason:?}");
                    ended += 1;
                }
            }
        }
        assert_eq!(ended, 2);
        assert_eq!(engine.submit(request(1)), Err(Error::Closed));
    });
}
