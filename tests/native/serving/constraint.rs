//! A constraint simple enough to check: even and odd tokens alternate.

use tabloom::{Result, sampling::Constraint};

use super::scripted::VOCAB;

/// Even tokens first; complete after six tokens.
#[derive(Debug, Default)]
pub struct Alternate {
    accepted: usize,
}

impl Alternate {
    pub fn permits(accepted: usize, token: u32) -> bool {
        token as usize % 2 == accepted % 2
    }

    pub fn is_complete(accepted: usize) -> bool {
        accepted == 6
    }
}

impl Constraint for Alternate {
    fn mask(&mut self) -> Result<Vec<u32>> {
        let permitted = (0..VOCAB).filter(|token| Alternate::permits(self.accepted, *token));
        Ok(vec![permitted.fold(0, |bits, token| bits | 1 << token)])
    }

    fn accept(&mut self, _: u32) -> Result<()> {
        self.accepted += 1;
        Ok(())
    }

    fn rollback(&mut self, count: usize) -> Result<()> {
        self.accepted -= count;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        Alternate::is_complete(self.accepted)
    }
}
