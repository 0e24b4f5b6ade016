//! Choosing and opening a device.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock, Weak},
};

use futures::{future::join, lock::Mutex};
use serde::Serialize;
use wgpu::{BufferUsages, ErrorFilter};

#[cfg(target_arch = "wasm32")]
use wasm_bindgen::JsCast;

use super::patience::answered;
use crate::{Error, Result};

/// A handle to an open device. The device is closed with its last handle.
#[derive(Clone)]
pub struct Gpu {
    pub adapter: AdapterReport,
    open: Arc<Open>,
}

/// An open device and its properties.
pub struct Open {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub limits: wgpu::Limits,
    adapter: AdapterReport,
    faults: Arc<Faults>,
}

/// What has made a device useless.
#[derive(Default)]
struct Faults {
    lost: OnceLock<String>,
    /// A command that was refused outside of any error scope: results are not what they should be.
    refused: OnceLock<String>,
}

impl Faults {
    /// Notes an error that no scope has caught.
    fn uncaptured(&self, error: &wgpu::Error) {
        log::error!("uncaptured GPU error: {error}");
        // Browsers that are short of memory mostly lose the device.
        let first = match error {
            wgpu::Error::OutOfMemory { .. } => &self.lost,
            wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => &self.refused,
        };
        let _ = first.set(error.to_string());
    }
}

/// The device that all models of a page share. It is opened for the first model, with all limits of the
/// adapter, so that it suits every other, and closed with the last.
#[derive(Default)]
pub struct SharedGpu(Mutex<Weak<Open>>);

/// Which adapter to prefer if there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    #[default]
    HighPerformance,
    LowPower,
}

/// Which subgroup operations shaders may have. Of whatever size, a subgroup has 4 to 128 threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Subgroups {
    No,
    /// Of the size that the driver chooses for each shader.
    AnySize,
    /// Of this size, with no thread missing: WGSL's `subgroup_size_control`, which naga lacks.
    OfSize(u32),
}

/// The adapter, and which of its optional features are used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdapterReport {
    /// For display: device, driver and back end.
    pub name: String,
    /// A CPU emulates the GPU: barriers are expensive, so kernels without them are chosen.
    pub software: bool,
    pub subgroups: Subgroups,
    pub timestamps: bool,
}

impl Gpu {
    /// Opens the preferred adapter with all its limits.
    ///
    /// # Errors
    /// [`Error::NoGpu`] without WebGPU, without an adapter, or if the browser gives no answer.
    pub async fn open(power: Power) -> Result<Gpu> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let options = wgpu::RequestAdapterOptions {
            power_preference: match power {
                Power::HighPerformance => wgpu::PowerPreference::HighPerformance,
                Power::LowPower => wgpu::PowerPreference::LowPower,
            },
            ..Default::default()
        };
        let adapter = answered(instance.request_adapter(&options))
            .await?
            .map_err(|e| Error::NoGpu { reason: e.to_string() })?;

        let info = adapter.get_info();
        let wanted = wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY;
        let features = adapter.features() & wanted;
        let limits = adapter.limits();
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("tabloom"),
            required_features: features,
            required_limits: limits.clone(),
            ..Default::default()
        };
        let (device, queue) = answered(adapter.request_device(&descriptor))
            .await?
            .map_err(|e| Error::NoGpu { reason: e.to_string() })?;

        let faults = Arc::<Faults>::default();
        let on_lost = faults.clone();
        device.set_device_lost_callback(move |_, message| {
            // Only the first loss matters.
            let _ = on_lost.lost.set(message);
        });
        let on_error = faults.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| on_error.uncaptured(&error)));

        let name = describe(&device, &info);
        let adapter = AdapterReport {
            software: is_software(&info, &name),
            name,
            subgroups: subgroups(&device, features),
            timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        };
        // In the browser, which has one thread, devices are neither.
        #[cfg_attr(target_arch = "wasm32", expect(clippy::arc_with_non_send_sync))]
        let open = Arc::new(Open { device, queue, limits, adapter, faults });
        Ok(open.into())
    }

    /// Whether the device can still be used.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] once it is lost, [`Error::Gpu`] once it has refused a command of a step.
    pub fn check(&self) -> Result<()> {
        if let Some(reason) = self.faults.lost.get() {
            return Err(Error::DeviceLost { reason: reason.clone() });
        }
        match self.faults.refused.get() {
            Some(reason) => Err(Error::Gpu { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Allocates a zeroed storage buffer that can be copied from and written to.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond the device's limits, [`Error::OutOfMemory`] if memory is short.
    pub async fn storage(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer> {
        self.buffer(what, bytes, BufferUsages::STORAGE).await
    }

    /// Allocates a zeroed buffer of the given usage, in error scopes.
    pub async fn buffer(
        &self,
        what: &str,
        bytes: u64,
        usage: BufferUsages,
    ) -> Result<wgpu::Buffer> {
        self.check()?;
        let size = bytes.max(16).next_multiple_of(16);
        let limit = match usage.contains(BufferUsages::STORAGE) {
            true => self.largest_binding(),
            false => self.limits.max_buffer_size,
        };
        if size > limit {
            return Err(Error::TooLarge { what: what.into(), bytes: size, limit });
        }
        // A buffer that the host maps can only be copied to.
        let copies = match usage.contains(BufferUsages::MAP_READ) {
            true => BufferUsages::COPY_DST,
            false => BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
        };
        let memory = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(ErrorFilter::Validation);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(what),
            size,
            usage: usage | copies,
            mapped_at_creation: false,
        });
        // Both scopes end before the first wait: other models use the device meanwhile.
        let (invalid, short) = answered(join(validation.pop(), memory.pop())).await?;
        if short.is_some() {
            buffer.destroy();
            return Err(Error::OutOfMemory { what: what.into(), bytes: size, advised: None });
        }
        if let Some(error) = invalid {
            return Err(Error::Gpu { reason: error.to_string() });
        }
        Ok(buffer)
    }

    /// The largest storage binding, in bytes.
    pub fn largest_binding(&self) -> u64 {
        self.limits.max_storage_buffer_binding_size.min(self.limits.max_buffer_size)
    }

    /// Allocates a storage buffer that holds `words`.
    pub async fn upload(&self, what: &str, words: &[u32]) -> Result<wgpu::Buffer> {
        let buffer = self.storage(what, words.len() as u64 * 4).await?;
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        Ok(buffer)
    }
}

impl From<Arc<Open>> for Gpu {
    fn from(open: Arc<Open>) -> Gpu {
        Gpu { adapter: open.adapter.clone(), open }
    }
}

impl Deref for Gpu {
    type Target = Open;

    fn deref(&self) -> &Open {
        &self.open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.device.destroy();
    }
}

impl SharedGpu {
    /// A handle to the device, which is opened if it is not open or of no use any more.
    ///
    /// # Errors
    /// As for [`Gpu::open`].
    pub async fn get(&self, power: Power) -> Result<Gpu> {
        // Whoever comes while it is being opened waits for it.
        let mut shared = self.0.lock().await;
        if let Some(gpu) = shared.upgrade().map(Gpu::from).filter(|gpu| gpu.check().is_ok()) {
            return Ok(gpu);
        }
        let gpu = Gpu::open(power).await?;
        *shared = Arc::downgrade(&gpu.open);
        Ok(gpu)
    }
}

/// The adapter's name. On the web wgpu leaves most of it out, so the device is asked.
#[cfg(target_arch = "wasm32")]
fn describe(device: &wgpu::Device, _: &wgpu::AdapterInfo) -> String {
    let info = device.as_webgpu().map(|device| property(device.as_ref(), "adapterInfo"));
    let read = |name| info.as_ref().and_then(|info| property(info, name).as_string());
    let parts = ["vendor", "architecture", "device", "description"].map(read);
    let known: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    match known.is_empty() {
        true => "an adapter without a name, WebGPU".into(),
        false => format!("{}, WebGPU", known.join(" ")),
    }
}

#[cfg(target_arch = "wasm32")]
pub(super) fn property(of: &wasm_bindgen::JsValue, name: &str) -> wasm_bindgen::JsValue {
    js_sys::Reflect::get(of, &name.into()).unwrap_or(wasm_bindgen::JsValue::UNDEFINED)
}

#[cfg(not(target_arch = "wasm32"))]
fn describe(_: &wgpu::Device, info: &wgpu::AdapterInfo) -> String {
    let parts = [&info.name, &info.driver, &info.driver_info];
    let known: Vec<&str> = parts.iter().map(|p| p.trim()).filter(|p| !p.is_empty()).collect();
    match known.is_empty() {
        true => format!("unnamed adapter, {:?}", info.backend),
        false => format!("{}, {:?}", known.join(", "), info.backend),
    }
}

fn is_software(info: &wgpu::AdapterInfo, name: &str) -> bool {
    let name = name.to_lowercase();
    info.device_type == wgpu::DeviceType::Cpu
        || ["swiftshader", "llvmpipe", "lavapipe", "basic render"].iter().any(|s| name.contains(s))
}

/// On the web wgpu hides subgroups, so the device itself is asked. Of the sizes that shaders can ask for, the smallest
/// leaves a thread the most registers.
#[cfg(target_arch = "wasm32")]
fn subgroups(device: &wgpu::Device, _: wgpu::Features) -> Subgroups {
    let Some(device) = device.as_webgpu() else { return Subgroups::No };
    let device = device.as_ref();
    let features = property(device, "features");
    let has = property(&features, "has").dyn_into::<js_sys::Function>();
    let offers = |name: &str| {
        let offered = has.as_ref().ok().and_then(|has| has.call1(&features, &name.into()).ok());
        offered.is_some_and(|offered| offered.is_truthy())
    };
    let smallest = property(&property(device, "adapterInfo"), "subgroupMinSize").as_f64();
    match smallest.filter(|_| offers("subgroup-size-control")) {
        _ if !offers("subgroups") => Subgroups::No,
        Some(size) => Subgroups::OfSize(size as u32),
        None => Subgroups::AnySize,
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn subgroups(_: &wgpu::Device, features: wgpu::Features) -> Subgroups {
    match features.contains(wgpu::Features::SUBGROUP) {
        true => Subgroups::AnySize,
        false => Subgroups::No,
    }
}
