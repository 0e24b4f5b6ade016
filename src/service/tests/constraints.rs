//! Constraints whose compiler is not ready at once.

use serde_json::json;

use super::*;
use crate::{
    api::Spec,
    sampling::{Compiler, Constraint, Tokens},
};

/// The compiler's result once it is ready.
type Outcome = Rc<RefCell<Option<Result<()>>>>;

/// Once ready, returns constraints that allow all tokens, or an error.
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

/// A service, a request that waits for its compiler, and the cell that makes the compiler ready.
fn waiting() -> (Service<Script>, RequestId, Outcome) {
    let ready = Outcome::default();
    let (service, _) = service(&[vec![300, 301, END]]);
    let mut service = service.with_compiler(Box::new(Slow(ready.clone())));
    let ask = with(json!({ "response_format": { "type": "json_object" } }));
    let id = service.submit(ask, NOW, &[]).expect("it is accepted");
    (service, id, ready)
}

#[test]
fn only_constrained_requests_wait_for_a_compiler() {
    let (mut service, id, ready) = waiting();
    let free = service.submit(with(json!({})), NOW, &[]).expect("it is accepted");
    let replies = steps(&mut service);
    assert!(matches!(&replies[..], [(of, Reply::Completion(_))] if *of == free), "{replies:?}");

    *ready.borrow_mut() = Some(Ok(()));
    assert!(!service.is_idle(), "there is something to compile");
    let later = steps(&mut service);
    let [(of, Reply::Completion(constrained))] = &later[..] else { panic!("{later:?}") };
    let [(_, Reply::Completion(free))] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((*of, &constrained.choices), (id, &free.choices));
}

#[test]
fn a_request_whose_compiler_fails_gets_the_error() {
    let (mut service, id, ready) = waiting();
    assert_eq!(steps(&mut service), []);
    *ready.borrow_mut() = Some(Err(Error::Closed));
    assert_eq!(steps(&mut service), [(id, Reply::Error(Error::Closed))]);
    assert!(service.is_idle());
}

#[test]
fn a_request_can_be_cancelled_while_it_waits_for_its_compiler() {
    let (mut service, id, ready) = waiting();
    assert_eq!(steps(&mut service), []);
    service.cancel(id);
    assert_eq!(steps(&mut service), []);
    *ready.borrow_mut() = Some(Ok(()));
    assert!(service.is_idle());
    assert_eq!(service.metrics().num_requests_running, 0);
}

/// The replies until the service is idle, with their requests.
fn steps(service: &mut Service<Script>) -> Vec<(RequestId, Reply)> {
    let mut replies = Vec::new();
    while !service.is_idle() {
        replies.extend(pollster::block_on(service.step()).expect("it runs"));
    }
    replies
}

#[test]
fn a_compiler_does_one_piece_between_two_steps() {
    /// Prepares the tokens when it is first called.
    struct Counting(Rc<RefCell<usize>>);

    impl Compiler for Counting {
        fn compile(
            &mut self,
            _: &Spec,
            _: &dyn Fn() -> Result<Tokens>,
        ) -> Poll<Result<Box<dyn Constraint>>> {
            *self.0.borrow_mut() += 1;
            let is_first = *self.0.borrow() == 1;
            if is_first { Poll::Pending } else { Poll::Ready(Ok(Box::new(Free))) }
        }

        fn is_ready(&self) -> bool {
            true
        }
    }

    let pieces = Rc::new(RefCell::new(0));
    let (service, _) = service(&[vec![300, 301, END], vec![300, 301, END], vec![300, 301, END]]);
    let mut service = service.with_compiler(Box::new(Counting(pieces.clone())));
    for _ in 0..3 {
        let ask = with(json!({ "response_format": { "type": "json_object" } }));
        service.submit(ask, NOW, &[]).expect("it is accepted");
    }
    for count in 1..=4 {
        assert!(!service.is_idle());
        pollster::block_on(service.step()).expect("it runs");
        assert_eq!(*pieces.borrow(), count);
    }
    assert_eq!(steps(&mut service).len(), 3);
}
