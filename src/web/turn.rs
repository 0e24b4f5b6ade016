//! Yields to the event loop without a timer.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use futures::channel::oneshot;
use wasm_bindgen::prelude::*;
use web_sys::{MessageChannel, MessagePort};

/// Ends the current turn of the event loop and starts another.
///
/// It uses a message channel: timers are throttled in hidden tabs, messages are not.
pub struct Turn {
    port: Option<MessagePort>,
    waiting: Rc<RefCell<VecDeque<oneshot::Sender<()>>>>,
    _on_message: Closure<dyn FnMut()>,
}

impl Turn {
    /// Opens the channel.
    pub fn new() -> Turn {
        let waiting = Rc::new(RefCell::new(VecDeque::<oneshot::Sender<()>>::new()));
        let waiter = waiting.clone();
        let on_message = Closure::<dyn FnMut()>::new(move || {
            if let Some(sender) = waiter.borrow_mut().pop_front() {
                // The receiver is gone only if the wait was dropped.
                let _ = sender.send(());
            }
        });
        let port = MessageChannel::new().ok().map(|channel| {
            channel.port2().set_onmessage(Some(on_message.as_ref().unchecked_ref()));
            channel.port1()
        });
        Turn { port, waiting, _on_message: on_message }
    }

    /// Resolves once everything that was queued before has been delivered.
    pub async fn end(&self) {
        let Some(port) = &self.port else { return };
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        if port.post_message(&JsValue::NULL).is_ok() {
            // The handler outlives the wait.
            let _ = receiver.await;
        } else {
            self.waiting.borrow_mut().pop_back();
        }
    }
}
