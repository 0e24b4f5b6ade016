//! The thread that owns the model: handlers send it work, it steps and tells.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use futures::channel::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    oneshot,
};
use tabloom::{
    Error, Result,
    engine::{Options, RequestId, TabId, steady_clock},
    executor::AnyExecutor,
    load::{self, Device, LoadOptions},
    sampling::LocalCompiler,
    service::{Moment, Reply, Service},
    weights::FolderSource,
};

use crate::Arguments;

/// A handle on the thread; it ends when all handles are gone.
pub struct Engine {
    jobs: Sender<Job>,
}

type Job = Box<dyn FnOnce(&mut Serving) + Send>;

/// What the thread has.
struct Serving {
    service: Service<AnyExecutor>,
    /// Whom the answers to requests go to.
    callers: HashMap<RequestId, UnboundedSender<Reply>>,
}

impl Engine {
    /// Starts the thread, which loads the model.
    pub async fn start(arguments: Arguments) -> Result<Engine> {
        let (jobs, queue) = channel();
        let (told, loaded) = oneshot::channel();
        thread::spawn(move || match load(&arguments) {
            Ok(service) => {
                if told.send(Ok(())).is_ok() {
                    Serving { service, callers: HashMap::new() }.run(&queue);
                }
            }
            // Whoever started it may have given up.
            Err(error) => drop(told.send(Err(error))),
        });
        loaded.await.unwrap_or(Err(Error::Closed))?;
        Ok(Engine { jobs })
    }

    /// Does something with the service between two of its steps.
    ///
    /// # Errors
    /// [`Error::Closed`] once the device has failed.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Service<AnyExecutor>) -> T + Send + 'static,
    ) -> Result<T> {
        self.work(move |serving| work(&mut serving.service)).await
    }

    /// Queues a request, which `submit` hands to the service. Its replies end with the last one, or
    /// early if the device fails. It is cancelled when they are dropped.
    ///
    /// # Errors
    /// What `submit` gives, and [`Error::Closed`].
    pub async fn ask(
        &self,
        submit: impl FnOnce(&mut Service<AnyExecutor>, Moment) -> Result<RequestId> + Send + 'static,
    ) -> Result<UnboundedReceiver<Reply>> {
        let (tell, replies) = unbounded();
        let queued = self.work(move |serving| {
            let moment = Moment { now: now(), entropy: fastrand::u64(..), tab: TabId(0), salt: 0 };
            let id = submit(&mut serving.service, moment)?;
            serving.callers.insert(id, tell);
            Ok(())
        });
        queued.await??;
        Ok(replies)
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Serving) -> T + Send + 'static,
    ) -> Result<T> {
        let (tell, result) = oneshot::channel();
        let job: Job = Box::new(move |serving| {
            // Who asked may have gone.
            let _ = tell.send(work(serving));
        });
        self.jobs.send(job).map_err(|_| Error::Closed)?;
        result.await.map_err(|_| Error::Closed)
    }
}

impl Serving {
    /// Works and steps until nobody can ask any more, or the device fails.
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            if self.service.is_idle() {
                let Ok(job) = jobs.recv() else { return };
                job(&mut self);
            }
            jobs.try_iter().for_each(|job| job(&mut self));
            self.drop_the_gone();
            if self.service.is_idle() {
                continue;
            }
            let Ok(replies) = pollster::block_on(self.service.step()) else { return };
            for (id, reply) in replies {
                let Some(caller) = self.callers.get(&id) else { continue };
                let over = !matches!(reply, Reply::Chunk { .. } | Reply::TextChunk { .. });
                // Whoever is gone is dropped before the next step.
                let _ = caller.unbounded_send(reply);
                if over {
                    self.callers.remove(&id);
                }
            }
        }
    }

    /// Cancels the requests of those who do not listen any more.
    fn drop_the_gone(&mut self) {
        let Serving { service, callers } = self;
        callers.retain(|id, caller| {
            let gone = caller.is_closed();
            if gone {
                service.cancel(*id);
            }
            !gone
        });
    }
}

fn load(arguments: &Arguments) -> Result<Service<AnyExecutor>> {
    let device = if arguments.device == "cpu" { Device::Cpu } else { Device::Gpu };
    let options = LoadOptions { device, context: arguments.context, ..Default::default() };
    let source = FolderSource::new(&arguments.model);
    let load = load::model(&source, &options, |_| ControlFlow::Continue(()));
    let model = pollster::block_on(load)?;
    let max_queue = arguments.max_queue;
    let options = Options {
        seed: fastrand::u64(..),
        max_queue,
        // All requests are those of one tab.
        max_queue_per_tab: max_queue,
        ..Default::default()
    };
    let (executor, name) = (model.loaded.executor, arguments.name());
    let service = Service::new(executor, model.chat, name, options, steady_clock());
    Ok(service.with_compiler(Box::new(LocalCompiler::default())))
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
