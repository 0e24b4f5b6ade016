//! Constraints whose compiler takes its time.

use serde_json::json;

use super::*;
use crate::{
    api::Spec,
    sampling::{Compiler, Constraint, Tokens},
};

/// What a compiler gives once it is ready.
type Outcome = Rc<RefCell<Option<Result<()>>>>;

/// Gives constraints that allow all, or an error, once it is ready.
struct Slow(Outcome);

#[derive(Debug)]
struct Free;

impl Compiler for Slow {
    fn compile(
        &mut self,
        _: &Spec,
        _: &dyn Fn() -> Result<Tokens>,
    ) -> Poll<Result<Box<dyn Constraint>>> {
        match self.0.borrow().clone() {
            Some(outcome) => Poll::Ready(outcome.map(|()| Box::new(Free) as _)),
            None => Poll::Pending,
        }
    }

    fn is_ready(&self) -> bool {
        self.0.borrow().is_some()
    }
}

impl Constraint for Free {
    fn mask(&mut self) -> Result<Vec<u32>> {
        Ok(vec![u32::MAX; VOCAB.div_ceil(32)])
    }

    fn accept(&mut self, _: u32) -> Result<()> {
        Ok(())
    }

    fn rollback(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }
}

/// A service, the request that its compiler keeps waiting, and what makes that ready.
fn waiting() -> (Service<Script>, RequestId, Outcome) {
    let ready = Outcome::default();
    let (service, _) = service(&[vec![300, 301, END]]);
    let mut service = service.with_compiler(Box::new(Slow(ready.clone())));
    let ask = with(json!({ "response_format": { "type": "json_object" } }));
    let id = service.submit(ask, NOW, &[]).expect("it is accepted");
    (service, id, ready)
}

#[test]
fn nobody_waits_for_a_compiler_but_who_needs_it() {
    let (mut service, id, ready) = waiting();
    let free = service.submit(with(json!({})), NOW, &[]).expect("it is accepted");
    let told = steps(&mut service);
    assert!(matches!(&told[..], [(of, Reply::Completion(_))] if *of == free), "{told:?}");

    *ready.borrow_mut() = Some(Ok(()));
    assert!(!service.is_idle(), "there is something to compile");
    let later = steps(&mut service);
    let [(of, Reply::Completion(constrained))] = &later[..] else { panic!("{later:?}") };
    let [(_, Reply::Completion(free))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*of, &constrained.choices), (id, &free.choices));
}

#[test]
fn a_request_whose_compiler_fails_is_told() {
    let (mut service, id, ready) = waiting();
    assert_eq!(steps(&mut service), []);
    *ready.borrow_mut() = Some(Err(Error::Closed));
    assert_eq!(steps(&mut service), [(id, Reply::Error(Error::Closed))]);
    assert!(service.is_idle());
}

#[test]
fn a_request_can_be_cancelled_while_its_compiler_is_made_ready() {
    let (mut service, id, ready) = waiting();
    assert_eq!(steps(&mut service), []);
    service.cancel(id);
    assert_eq!(steps(&mut service), []);
    *ready.borrow_mut() = Some(Ok(()));
    assert!(service.is_idle());
    assert_eq!(service.metrics().num_requests_running, 0);
}

/// What is told until the service is idle, and whom.
fn steps(service: &mut Service<Script>) -> Vec<(RequestId, Reply)> {
    let mut replies = Vec::new();
    while !service.is_idle() {
        replies.extend(pollster::block_on(service.step()).expect("it runs"));
    }
    replies
}
