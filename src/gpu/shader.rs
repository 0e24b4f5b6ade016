//! WGSL shaders, rendered from the templates in `shaders/`. The build script removes their comments.

use std::sync::OnceLock;

use minijinja::{Environment, UndefinedBehavior, Value};

/// A shader to compile, with the access of each binding (group 0, in order).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shader {
    pub name: &'static str,
    pub source: String,
    pub bindings: Vec<Access>,
}

/// How a shader uses a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    Read,
    ReadWrite,
}

macro_rules! templates {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("OUT_DIR"), "/shaders/", $path)))),*]
    };
}

/// Every template by its path below `shaders/`.
const TEMPLATES: &[(&str, &str)] = templates![
    "accept.wgsl",
    "attention.wgsl",
    "attention_lane.wgsl",
    "attention_merge.wgsl",
    "blocks.wgsl",
    "codes.wgsl",
    "columns.wgsl",
    "combine.wgsl",
    "copy.wgsl",
    "draft_sample.wgsl",
    "embed.wgsl",
    "finish.wgsl",
    "gather.wgsl",
    "group.wgsl",
    "include/blocks.wgsl",
    "include/cap.wgsl",
    "include/kv.wgsl",
    "include/logits.wgsl",
    "include/noise.wgsl",
    "include/output.wgsl",
    "include/packing.wgsl",
    "include/record_sample.wgsl",
    "include/reduce.wgsl",
    "include/softmax.wgsl",
    "include/staged.wgsl",
    "include/step.wgsl",
    "include/weights.wgsl",
    "include/window.wgsl",
    "logprobs.wgsl",
    "matmul.wgsl",
    "matvec.wgsl",
    "matvec_lane.wgsl",
    "norm.wgsl",
    "pool.wgsl",
    "quantise.wgsl",
    "reorder.wgsl",
    "repack.wgsl",
    "rescale.wgsl",
    "rope_kv.wgsl",
    "route.wgsl",
    "sample.wgsl",
    "shift.wgsl",
    "state.wgsl",
];

impl Shader {
    /// Renders the template `name` + `.wgsl` with these values.
    ///
    /// # Panics
    /// If the template does not render. That is a defect: tests render every variant.
    pub fn render(name: &'static str, values: Value, bindings: Vec<Access>) -> Shader {
        let source = environment()
            .get_template(&format!("{name}.wgsl"))
            .and_then(|template| template.render(values))
            .unwrap_or_else(|error| panic!("shader {name}: {error:#}"));
        Shader { name, source, bindings }
    }
}

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        for (path, source) in TEMPLATES {
            if let Err(error) = environment.add_template(path, source) {
                panic!("shader template {path}: {error:#}");
            }
        }
        environment
    })
}
