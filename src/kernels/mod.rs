//! The kernels, each with its parameters, its grid and a CPU reference, and the data that they share.
//!
//! The CPU references are the oracle of the kernel tests and, put together, the CPU executor.

pub mod accept;
pub mod adjust;
pub mod attention;
pub mod batch;
pub mod columns;
pub mod combine;
pub mod copy;
pub mod draft_sample;
pub mod embed;
pub mod gather;
pub mod group;
pub mod kv;
pub mod logprobs;
pub mod matmul;
pub mod noise;
pub mod norm;
pub mod pool;
pub mod repack;
pub mod rope_kv;
pub mod route;
pub mod sample;
pub mod shift;
pub mod state;
pub mod tables;

use std::collections::BTreeMap;

use minijinja::{Value, context};

pub use accept::Accept;
pub use adjust::{HostTables, Table, Upload};
pub use attention::{Attention, AttentionMerge};
pub use batch::Batch;
pub use columns::Columns;
pub use combine::Combine;
pub use copy::{Copy, Place};
pub use draft_sample::DraftSample;
pub use embed::Embed;
pub use gather::Gather;
pub use group::Group;
pub use kv::{KvKind, KvLayout};
pub use logprobs::Logprobs;
pub use matmul::{ExpertRows, Matmul, Regime};
pub use norm::Norm;
pub use pool::Pool;
pub use repack::Repack;
pub use rope_kv::{RopeKv, query_heads, rope_table};
pub use route::Route;
pub use sample::Sample;
pub use shift::Shift;
pub use state::{LoadStates, StoreStates};
pub use tables::{BlockTables, KvGroup};

use crate::{
    gpu::{Access, AdapterReport, Shader, Subgroups},
    layout::{Codebook, Layout},
};

/// Device properties that choose between shader variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuning {
    pub subgroups: Subgroups,
    /// Barriers are cheap. On software adapters they are not; one thread per result is faster there.
    pub barriers: bool,
}

impl Tuning {
    /// The variants for an adapter.
    pub fn of(adapter: &AdapterReport) -> Tuning {
        match adapter.software {
            true => Tuning { subgroups: Subgroups::No, barriers: false },
            false => Tuning { subgroups: adapter.subgroups, barriers: true },
        }
    }

    /// The variants that ask less of a driver which cannot compile these.
    pub fn simpler(self) -> Option<Tuning> {
        let subgroups = match self.subgroups {
            Subgroups::OfSize(_) => Subgroups::AnySize,
            Subgroups::AnySize => Subgroups::No,
            Subgroups::No if self.barriers => return Some(Tuning { barriers: false, ..self }),
            Subgroups::No => return None,
        };
        Some(Tuning { subgroups, ..self })
    }

    /// What templates are told of subgroups: false, or the line that enables them and the attribute of the entry point.
    fn subgroups(self) -> Value {
        let (enable, attribute) = match self.subgroups {
            Subgroups::No => return false.into(),
            // naga refuses the line, browsers require it.
            Subgroups::AnySize if cfg!(not(target_arch = "wasm32")) => ("", String::new()),
            Subgroups::AnySize => ("enable subgroups;", String::new()),
            Subgroups::OfSize(size) => {
                ("enable subgroup_size_control;", format!(" @subgroup_size({size})"))
            }
        };
        context! { enable, attribute }
    }
}

/// A computation on the GPU.
pub trait Kernel {
    /// Renders the shader. Binding 0 is the step's [`Batch`] unless the kernel says otherwise.
    fn shader(&self, tuning: Tuning) -> Shader;

    /// Workgroups for a step.
    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3];
}

/// Which rows a kernel runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowsOf {
    /// All rows of the step.
    Rows,
    /// The rows whose logits are computed.
    LogitRows,
}

impl RowsOf {
    /// Their number in a step.
    pub fn count(self, batch: &Batch) -> u32 {
        match self {
            RowsOf::Rows => batch.rows,
            RowsOf::LogitRows => batch.logit_rows,
        }
    }

    /// The function of `include/step.wgsl` that returns their number.
    fn function(self) -> &'static str {
        match self {
            RowsOf::Rows => "row_count",
            RowsOf::LogitRows => "logit_row_count",
        }
    }
}

/// The most workgroups along one side of a grid, WebGPU's default limit.
const GRID_SIDE: u32 = 65_535;

/// A grid of `count` workgroups, folded to two dimensions; `deep` is the third.
///
/// The shader's index is x + y · (workgroups along x); it may exceed `count`.
fn fold(count: u32, deep: u32) -> [u32; 3] {
    let y = count.div_ceil(GRID_SIDE).max(1);
    [count.div_ceil(y), y, deep]
}

/// The bindings of a shader by name; some are present in some variants only.
#[derive(Default)]
struct Bindings(Vec<(&'static str, Access)>);

impl Bindings {
    /// Read-only bindings.
    fn read(names: &[&'static str]) -> Bindings {
        Bindings(names.iter().map(|name| (*name, Access::Read)).collect())
    }

    /// Adds a read-only binding, if present.
    fn and(mut self, name: &'static str, present: bool) -> Bindings {
        self.0.extend(present.then_some((name, Access::Read)));
        self
    }

    /// Adds a binding that the shader writes.
    fn write(mut self, name: &'static str) -> Bindings {
        self.0.push((name, Access::ReadWrite));
        self
    }

    /// Binding numbers by name, for templates.
    fn numbers(&self) -> Value {
        let numbers = self.0.iter().zip(0..).map(|((name, _), number)| (*name, number));
        Value::from(numbers.collect::<BTreeMap<&str, usize>>())
    }

    fn access(&self) -> Vec<Access> {
        self.0.iter().map(|(_, access)| *access).collect()
    }
}

/// A number as a WGSL literal.
fn literal(number: f32) -> String {
    format!("{number:e}")
}

/// x, or cap · tanh(x / cap) if there is a cap.
fn capped(x: f32, cap: Option<f32>) -> f32 {
    cap.map_or(x, |cap| cap * (x / cap).tanh())
}

/// The name of a layout in templates.
fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::F32 => "f32",
        Layout::F16 => "f16",
        Layout::Bf16 => "bf16",
        Layout::F8 { .. } => "f8",
        Layout::W8 { .. } => "w8",
        Layout::W6 => "w6",
        Layout::W5 => "w5",
        Layout::W4 { .. } => "w4",
        Layout::Codebook { .. } => "codebook",
        Layout::W3 => "w3",
        Layout::W2 => "w2",
    }
}

/// Template values of `include/weights.wgsl` for a matrix with `k` columns.
fn weights(layout: Layout, k: usize) -> Value {
    let unit = 4 * layout.columns_per_word();
    let codebook = layout.codebook();
    context! {
        layout => layout_name(layout),
        scaled => layout.record().is_some(),
        units => layout.row_words(k) / 4,
        pieces => layout.columns_per_word(),
        row_scales => layout.row_scales(k),
        record => layout.record().map(|(_, words)| words),
        group_units => layout.group().map(|group| group / unit),
        codebook => codebook.map(|codebook| format!("{codebook:?}")),
        values => codebook.map(codebook_values),
    }
}

/// The values of a codebook as WGSL literals.
fn codebook_values(codebook: Codebook) -> Vec<String> {
    codebook.values().map(|value| format!("{value:?}")).to_vec()
}
