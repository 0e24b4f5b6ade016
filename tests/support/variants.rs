//! Every shader variant, for the tests that compile them all.

mod layouts;

use layouts::{KEPT, LAYOUTS};
use tabloom::{
    gpu::{Shader, Subgroups},
    kernels::{
        Accept, Attention, AttentionMerge, Columns, Combine, Copy, DraftSample, Embed, ExpertRows,
        Gather, Group, Kernel, KvGroup, KvKind, LoadStates, Logprobs, Matmul, Norm, Place, Pool,
        Regime, Repack, RopeKv, Route, RowsOf, Sample, Shift, StoreStates, Tuning, repack::Codes,
    },
    layout::{BlockType, Codebook, FloatType, Grid, Layout, Mins, Number, Packing},
    model::{MatmulOutput, QkNorm},
    step::Window,
};

/// What kernels are tuned to on any adapter.
pub const TUNINGS: [Tuning; 3] = [
    Tuning { subgroups: Subgroups::No, barriers: false },
    Tuning { subgroups: Subgroups::No, barriers: true },
    Tuning { subgroups: Subgroups::AnySize, barriers: true },
];

const OUTPUTS: [MatmulOutput; 9] = [
    MatmulOutput::Store,
    MatmulOutput::Add,
    MatmulOutput::AddSilu,
    MatmulOutput::Silu,
    MatmulOutput::Times,
    MatmulOutput::SiluGate,
    MatmulOutput::GeluGate,
    MatmulOutput::Gelu,
    MatmulOutput::ClampedGate,
];

/// Renders every variant of every kernel for these tunings, each once.
pub fn shaders(tunings: &[Tuning]) -> Vec<Shader> {
    let mut shaders: Vec<_> = repacking().into_iter().map(Repack::shader).collect();
    shaders.push(Shift { stride: 1000 }.shader());
    for &tuning in tunings {
        for kernel in products(tuning).iter().chain(&experts(tuning)).chain(&rows()).chain(&heads())
        {
            let shader = kernel.shader(tuning);
            if !shaders.contains(&shader) {
                shaders.push(shader);
            }
        }
    }
    shaders
}

fn products(tuning: Tuning) -> Vec<Box<dyn Kernel>> {
    let mut kernels: Vec<Box<dyn Kernel>> = Vec::new();
    for regime in Regime::ALL {
        for layout in LAYOUTS {
            for output in OUTPUTS {
                for (norm, bias) in [(None, false), (Some(1e-6), false), (Some(1e-5), true)] {
                    let impossible = norm.is_some() && !regime.fuses_norm(tuning)
                        || bias
                            && !matches!(
                                output,
                                MatmulOutput::Store | MatmulOutput::Gelu | MatmulOutput::AddSilu
                            )
                        || layout != Layout::F32
                            && !matches!(
                                output,
                                MatmulOutput::Store | MatmulOutput::Add | MatmulOutput::SiluGate
                            );
                    if !impossible {
                        let kernel = Matmul {
                            layout,
                            n: 130,
                            k: 172,
                            first: 0,
                            width: 200,
                            norm,
                            bias,
                            scale: 1.0,
                            cap: None,
                            output,
                            rows: RowsOf::Rows,
                            regime,
                            experts: None,
                        };
                        if layout == Layout::F16 && !output.gates() {
                            let (scale, cap) = (0.5, Some(30.0));
                            kernels.push(Box::new(Matmul { scale, cap, ..kernel.clone() }));
                        }
                        kernels.push(Box::new(kernel));
                    }
                }
            }
        }
        // How weights are read does not depend on the output of the product.
        for layout in KEPT {
            kernels.push(Box::new(Matmul {
                layout,
                n: 130,
                k: 256,
                first: 0,
                width: 200,
                norm: None,
                bias: false,
                scale: 1.0,
                cap: None,
                output: MatmulOutput::Add,
                rows: RowsOf::Rows,
                regime,
                experts: None,
            }));
        }
    }
    kernels
}

/// Routing and expert products; layout and choice of rows are independent.
fn experts(tuning: Tuning) -> Vec<Box<dyn Kernel>> {
    let mut kernels: Vec<Box<dyn Kernel>> = vec![
        Box::new(Route { experts: 32, active: 4 }),
        Box::new(Group { experts: 32, active: 4 }),
    ];
    for (normalise, scale) in [(true, 1.0), (false, 0.25)] {
        kernels.push(Box::new(Combine { active: 4, width: 172, normalise, scale }));
    }
    let codebook = Layout::Codebook { codebook: Codebook::E2m1, group: 32 };
    for regime in Regime::ALL {
        for (layout, output, each) in [
            (Layout::Bf16, MatmulOutput::SiluGate, false),
            (codebook, MatmulOutput::ClampedGate, false),
            (codebook, MatmulOutput::Store, true),
            (Layout::W6, MatmulOutput::Store, true),
        ] {
            let kernel = Matmul {
                layout,
                n: 130,
                k: 256,
                first: 0,
                width: output.width(130),
                norm: (!each && regime.fuses_norm(tuning)).then_some(1e-5),
                bias: layout == codebook,
                scale: 1.0,
                cap: None,
                output,
                rows: RowsOf::Rows,
                regime,
                experts: Some(ExpertRows { count: 32, active: 4, first: 8, held: 16, each }),
            };
            kernels.push(Box::new(kernel));
        }
    }
    kernels
}

fn rows() -> Vec<Box<dyn Kernel>> {
    let mut kernels: Vec<Box<dyn Kernel>> =
        vec![Box::new(Gather { width: 172 }), Box::new(Pool { width: 172 })];
    for rows in [RowsOf::Rows, RowsOf::LogitRows] {
        let add = rows == RowsOf::Rows;
        kernels.push(Box::new(Columns { width: 172, rows }));
        for centred in [false, true] {
            let place = Place::whole(172);
            let norm = Norm { width: 172, parts: 1, eps: 1e-6, centred, add: false, place, rows };
            let place = Place { width: 384, column: 192 };
            kernels.extend([
                Box::new(norm.clone()) as Box<dyn Kernel>,
                Box::new(Norm { add, ..norm.clone() }),
                Box::new(Norm { width: 192, place, ..norm.clone() }),
                Box::new(Norm { width: 192, ..norm }.in_parts(3)),
            ]);
        }
    }
    for layout in LAYOUTS.into_iter().chain(KEPT) {
        let scale = if layout == Layout::Bf16 { 45.25 } else { 1.0 };
        for positions in [false, true] {
            let kernel = Embed { layout, positions, first: 0, rows: 100, width: 256, scale };
            kernels.push(Box::new(kernel));
        }
    }
    kernels
}

/// One of several groups of layers.
const GROUP: KvGroup = KvGroup { index: 1, count: 3 };

/// Rope, attention and sampling, with even and odd head sizes and groups of up to 20.
fn heads() -> Vec<Box<dyn Kernel>> {
    let mut kernels: Vec<Box<dyn Kernel>> = Vec::new();
    let shapes = [(20, 1, 8), (2, 2, 24), (32, 8, 64), (7, 1, 80), (8, 2, 128), (2, 1, 256)];
    for (heads, kv_heads, head_dim) in shapes {
        for qk_norm in [None, Some((QkNorm::Head, 1e-6))] {
            for (kind, window) in kinds_and_windows() {
                let kernel = RopeKv {
                    heads,
                    kv_heads,
                    head_dim,
                    rotary: head_dim,
                    qk_norm,
                    kind,
                    group: GROUP,
                    window,
                };
                kernels.push(Box::new(kernel));
                if head_dim == 80 {
                    let qk_norm = Some((QkNorm::Row, 1e-6));
                    kernels.push(Box::new(RopeKv { rotary: 44, ..kernel }));
                    kernels.push(Box::new(RopeKv { qk_norm, ..kernel }));
                }
            }
        }
        for (kind, window) in kinds_and_windows() {
            for split in [false, true] {
                let (scale, cap) = (0.125, (head_dim == 80).then_some(50.0));
                for sink_logits in [false, true] {
                    kernels.push(Box::new(Attention {
                        heads,
                        kv_heads,
                        head_dim,
                        scale,
                        cap,
                        kind,
                        group: if split { KvGroup::ALL } else { GROUP },
                        window,
                        sink_logits,
                        split,
                    }));
                }
            }
            for sink_logits in [false, true] {
                kernels.push(Box::new(AttentionMerge { heads, head_dim, window, sink_logits }));
            }
        }
    }
    for vocab in [1, 300, 128_256] {
        kernels.push(Box::new(Sample { vocab }));
        kernels.push(Box::new(Accept { vocab }));
        kernels.push(Box::new(DraftSample { vocab, mapped: false }));
        kernels.push(Box::new(DraftSample { vocab, mapped: true }));
        kernels.push(Box::new(Logprobs { vocab }));
    }
    kernels.push(Box::new(StoreStates { width: 172 }));
    kernels.push(Box::new(LoadStates { width: 172 }));
    kernels.push(Box::new(Copy { width: 192, place: Place { width: 576, column: 384 } }));
    kernels
}

fn kinds_and_windows() -> impl Iterator<Item = (KvKind, Option<Window>)> {
    let windows = [None, Some(0), Some(48)];
    let windows = windows.map(|sinks| sinks.map(|sinks| Window { sinks, tokens: 100 }));
    [KvKind::F16, KvKind::Int8]
        .into_iter()
        .flat_map(move |kind| windows.map(|window| (kind, window)))
}

fn repacking() -> Vec<Repack> {
    let mut kernels =
        vec![Repack::Reorder, Repack::Finish(Mins::ZeroPoints), Repack::Finish(Mins::Shifted(-8))];
    for from in [FloatType::F32, FloatType::F16, FloatType::Bf16] {
        kernels.extend(LAYOUTS.map(|to| Repack::Numbers { from: from.layout(), to }));
        kernels.extend(LAYOUTS.map(|to| Repack::Columns { from: from.layout(), to }));
        kernels.push(Repack::LessOne { from: from.layout() });
        let (grid, to) = (Grid::EACH, Layout::W4 { group: 32 });
        kernels.push(Repack::Mins { from, grid, to });
        for zero in [None, Some(0), Some(8)] {
            for transposed in [false, true] {
                let grid = Grid { transposed, rows: 128, groups: 2 };
                let number = Number::Float(from);
                kernels.push(Repack::Scales { number, grid, zero, to });
            }
        }
    }
    for codebook in Codebook::ALL {
        let (grid, to) = (Grid::EACH, Layout::Codebook { codebook, group: 32 });
        kernels.push(Repack::Scales { number: Number::Exponent, grid, zero: None, to });
    }
    for packing in [
        Packing::Rows,
        Packing::Signed,
        Packing::HighFirst,
        Packing::Halves { high: false },
        Packing::Halves { high: true },
        Packing::Transposed,
        Packing::RowsOfEight,
        Packing::Columns,
        Packing::AwqColumns,
    ] {
        kernels.push(Repack::Codes(Codes::Nibbles(packing)));
        let (grid, to) = (Grid::EACH, Layout::W4 { group: 32 });
        let zeros = |wraps| Repack::ZeroPoints { packing, grid, wraps, to };
        kernels.extend([false, true].map(zeros));
    }
    for transposed in [false, true] {
        let bytes = |unsigned| Repack::Codes(Codes::Bytes { unsigned, transposed });
        kernels.extend([false, true].map(bytes));
    }
    for from in BlockType::READABLE {
        let kept = from.layout().into_iter();
        let layouts = kept.chain([Layout::F16, Layout::W8 { group: 32 }, Layout::W4 { group: 32 }]);
        kernels.extend(layouts.map(|to| Repack::Blocks { from, to }));
    }
    kernels
}
