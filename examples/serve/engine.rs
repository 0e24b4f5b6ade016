//! The thread that owns the model: it runs the handlers' jobs, steps the service and sends replies.

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

use crate::arguments::Arguments;

/// A handle to the thread; the thread ends when all handles are dropped.
pub struct Engine {
    jobs: Sender<Job>,
}

type Job = Box<dyn FnOnce(&mut Serving) + Send>;

/// The state of the thread.
struct Serving {
    service: Service<AnyExecutor>,
    /// The channels for the replies to requests.
    callers: HashMap<RequestId, UnboundedSender<Reply>>,
}

impl Engine {
    /// Starts the thread, which loads the model.
    pub async fn start(arguments: Arguments) -> Result<Engine> {
        let (jobs, queue) = channel();
        let (report, loaded) = oneshot::channel();
        thread::spawn(move || match load(&arguments) {
            Ok(service) => {
                if report.send(Ok(())).is_ok() {
                    Serving { service, callers: HashMap::new() }.run(&queue);
                }
            }
            // The receiver may be gone.
            Err(error) => drop(report.send(Err(error))),
        });
        loaded.await.unwrap_or(Err(Error::Closed))?;
        Ok(Engine { jobs })
    }

    /// Runs a job on the service between two steps.
    ///
    /// # Errors
    /// [`Error::Closed`] once the device has failed.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Service<AnyExecutor>) -> T + Send + 'static,
    ) -> Result<T> {
        self.work(move |serving| work(&mut serving.service)).await
    }

    /// Queues a request with `submit`. The stream of its replies ends with the last one, or early if the
    /// device fails. Dropping the stream cancels the request.
    ///
    /// # Errors
    /// Those of `submit`, and [`Error::Closed`].
    pub async fn submit(
        &self,
        submit: impl FnOnce(&mut Service<AnyExecutor>, Moment) -> Result<RequestId> + Send + 'static,
    ) -> Result<UnboundedReceiver<Reply>> {
        let (sender, replies) = unbounded();
        let queued = self.work(move |serving| {
            let moment = Moment { now: now(), entropy: fastrand::u64(..), tab: TabId(0), salt: 0 };
            let id = submit(&mut serving.service, moment)?;
            serving.callers.insert(id, sender);
            Ok(())
        });
        queued.await??;
        Ok(replies)
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Serving) -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, result) = oneshot::channel();
        let job: Job = Box::new(move |serving| {
            // The receiver may be gone.
            let _ = sender.send(work(serving));
        });
        self.jobs.send(job).map_err(|_| Error::Closed)?;
        result.await.map_err(|_| Error::Closed)
    }
}

impl Serving {
    /// Runs jobs and steps until all handles are dropped, or the device fails.
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            if self.service.is_idle() {
                let Ok(job) = jobs.recv() else { return };
                job(&mut self);
            }
            jobs.try_iter().for_each(|job| job(&mut self));
            self.drop_disconnected();
            if self.service.is_idle() {
                continue;
            }
            let Ok(replies) = pollster::block_on(self.service.step()) else { return };
            for (id, reply) in replies {
                let Some(caller) = self.callers.get(&id) else { continue };
                let over = !matches!(reply, Reply::Chunk { .. } | Reply::TextChunk { .. });
                // Disconnected callers are removed before the next step.
                let _ = caller.unbounded_send(reply);
                if over {
                    self.callers.remove(&id);
                }
            }
        }
    }

    /// Cancels the requests whose callers have disconnected.
    fn drop_disconnected(&mut self) {
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
        // All requests belong to one tab.
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
