//! Compiles constraints in a separate WebAssembly module, which is loaded on first use. A failure
//! there ends the constrained answers, not the engine.

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
    task::{Poll, ready},
    time::Duration,
};

use js_sys::{Array, Function, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};

use crate::{
    Error, Result,
    api::Spec,
    sampling::{Compiler, Constraint, Tokens},
    timer,
};

/// Longest wait of a request for the module; the next one waits anew.
const PATIENCE: Duration = Duration::from_secs(120);

#[wasm_bindgen]
extern "C" {
    /// The module, as `worker.js` wraps it.
    #[derive(Clone)]
    type Module;
    #[wasm_bindgen(method, structural, catch)]
    fn vocabulary(
        this: &Module,
        bytes: &[u8],
        lengths: &[u32],
        end_ids: &[u32],
        strip: Option<char>,
        strip_count: u32,
    ) -> Result<Grammars, JsValue>;
    /// Creates a new instance; objects of the old one become invalid.
    #[wasm_bindgen(method, structural, catch)]
    fn reset(this: &Module) -> Result<(), JsValue>;

    #[derive(Clone)]
    type Grammars;
    #[wasm_bindgen(method, structural, catch)]
    fn compile(this: &Grammars, form: &str) -> Result<Matcher, JsValue>;

    type Matcher;
    #[wasm_bindgen(method, structural, catch)]
    fn mask(this: &Matcher) -> Result<Vec<u32>, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn accept(this: &Matcher, token: u32) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn rollback(this: &Matcher, count: u32) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = isComplete)]
    fn is_complete(this: &Matcher) -> Result<bool, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn free(this: &Matcher) -> Result<(), JsValue>;
}

/// Compiles constraints in the package's second module.
pub struct ModuleCompiler {
    /// Returns a promise of the module.
    load: Function,
    /// Called once the promise is settled.
    wake: Rc<dyn Fn()>,
    module: Rc<RefCell<Loading>>,
    vocabulary: Option<(Grammars, u32)>,
}

/// The state of the module.
enum Loading {
    NotBegun,
    UnderWay,
    Over(Result<Rc<Instance>>),
}

/// The module, and how often it was reset.
struct Instance {
    module: Module,
    generation: Cell<u32>,
}

struct ModuleConstraint {
    matcher: Matcher,
    instance: Rc<Instance>,
    generation: u32,
    spec: Spec,
}

impl ModuleCompiler {
    /// A compiler that calls `load` when the module is first needed, and `wake` when it is ready.
    pub fn new(load: Function, wake: impl Fn() + 'static) -> ModuleCompiler {
        let module = Rc::new(RefCell::new(Loading::NotBegun));
        ModuleCompiler { load, wake: Rc::new(wake), module, vocabulary: None }
    }

    fn instance(&self) -> Poll<Result<Rc<Instance>>> {
        let mut loading = self.module.borrow_mut();
        match &*loading {
            Loading::UnderWay => return Poll::Pending,
            Loading::Over(Ok(instance)) => return Poll::Ready(Ok(instance.clone())),
            Loading::Over(Err(error)) => {
                let error = error.clone();
                // The next request tries again.
                *loading = Loading::NotBegun;
                return Poll::Ready(Err(error));
            }
            Loading::NotBegun => {}
        }
        let promise = self.load.call0(&JsValue::NULL).map_err(not_loaded)?;
        *loading = Loading::UnderWay;
        let (module, wake) = (self.module.clone(), self.wake.clone());
        spawn_local(async move {
            let loaded = timer::within(PATIENCE, JsFuture::from(Promise::resolve(&promise))).await;
            let late = || Err(not_loaded("its files have not come within two minutes".into()));
            let loaded = loaded.map_or_else(late, |loaded| loaded.map_err(not_loaded));
            let instance = loaded.map(|module| {
                Rc::new(Instance { module: module.unchecked_into(), generation: Cell::new(0) })
            });
            *module.borrow_mut() = Loading::Over(instance);
            wake();
        });
        Poll::Pending
    }

    /// Prepares the model's tokens in the present instance of the module.
    fn prepare(&mut self, instance: &Instance, spec: &Spec, tokens: Tokens) -> Result<()> {
        let Tokens { spellings, end_ids, strip } = tokens;
        let lengths: Vec<u32> = spellings.iter().map(|token| token.len() as u32).collect();
        let (content, count) = strip.unzip();
        let count = count.unwrap_or_default() as u32;
        let made =
            instance.module.vocabulary(&spellings.concat(), &lengths, &end_ids, content, count);
        let vocabulary = made.map_err(|thrown| instance.failed(thrown, spec))?;
        self.vocabulary = Some((vocabulary, instance.generation.get()));
        Ok(())
    }
}

impl Compiler for ModuleCompiler {
    fn compile(
        &mut self,
        spec: &Spec,
        tokens: &dyn Fn() -> Result<Tokens>,
    ) -> Poll<Result<Box<dyn Constraint>>> {
        let instance = ready!(self.instance())?;
        let generation = instance.generation.get();
        let present = self.vocabulary.as_ref().filter(|(_, of)| *of == generation);
        let Some((vocabulary, _)) = present else {
            self.prepare(&instance, spec, tokens()?)?;
            return Poll::Pending;
        };
        let form = serde_json::to_string(&spec.form).unwrap_or_default();
        let matcher = vocabulary.compile(&form).map_err(|thrown| instance.failed(thrown, spec))?;
        let constraint = ModuleConstraint { matcher, instance, generation, spec: spec.clone() };
        Poll::Ready(Ok(Box::new(constraint)))
    }

    fn is_ready(&self) -> bool {
        !matches!(*self.module.borrow(), Loading::UnderWay)
    }
}

impl Instance {
    /// Turns what the module threw into an error of the request. After a trap or exhaustion, unlike after
    /// a refusal, the module is reset: its memory may be in any state.
    fn failed(&self, thrown: JsValue, spec: &Spec) -> Error {
        if let Some(refusal) = thrown.dyn_ref::<Array>() {
            let part = |index| refusal.get(index).as_string().unwrap_or_default();
            return spec.refused(tabloom_grammar::Error { path: part(0), message: part(1) });
        }
        log::warn!("resetting the grammar module after {thrown:?}");
        self.generation.set(self.generation.get() + 1);
        if let Err(error) = self.module.reset() {
            log::error!("the grammar module could not be reset: {error:?}");
        }
        lost(spec)
    }
}

impl ModuleConstraint {
    fn is_stale(&self) -> bool {
        self.generation != self.instance.generation.get()
    }

    fn call<T>(&self, call: impl FnOnce(&Matcher) -> Result<T, JsValue>) -> Result<T> {
        if self.is_stale() {
            return Err(lost(&self.spec));
        }
        call(&self.matcher).map_err(|thrown| self.instance.failed(thrown, &self.spec))
    }
}

impl Constraint for ModuleConstraint {
    fn mask(&mut self) -> Result<Vec<u32>> {
        self.call(Matcher::mask)
    }

    fn accept(&mut self, token: u32) -> Result<()> {
        self.call(|matcher| matcher.accept(token))
    }

    fn rollback(&mut self, count: usize) -> Result<()> {
        self.call(|matcher| matcher.rollback(count as u32))
    }

    fn is_complete(&self) -> bool {
        self.call(Matcher::is_complete).unwrap_or(false)
    }
}

impl Drop for ModuleConstraint {
    fn drop(&mut self) {
        if !self.is_stale() {
            // On failure, the module frees it when the handle is garbage collected.
            let _ = self.matcher.free();
        }
    }
}

impl fmt::Debug for ModuleConstraint {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.debug_struct("ModuleConstraint").field("spec", &self.spec).finish_non_exhaustive()
    }
}

fn not_loaded(error: JsValue) -> Error {
    Error::Fetch { what: "the package's grammar module".into(), reason: format!("{error:?}") }
}

fn lost(spec: &Spec) -> Error {
    let message = "found a constraint that takes too much time or memory, or that was lost because another \
                   one does; expected a simpler one";
    Error::InvalidRequest { param: spec.param.clone(), message: message.into() }
}
