//! The first slow start of each connection that has sent something: [`HyStart`] by the connection's index.
//!
//! Pages of a few are allocated when the first of them is needed, so that connections which have never had anything
//! acknowledged cost nothing here. Too small and too common for the cold pool: an index to it would cost what this saves.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::congestion::hystart::HyStart;

/// Connections per page.
const PAGE: usize = 16;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct SlowStarts {
    pages: Vec<Option<Box<[HyStart; PAGE]>>>,
}

impl SlowStarts {
    /// Slow start of a connection, which begins now if it has none.
    #[inline]
    pub(crate) fn of(&mut self, index: u32) -> &mut HyStart {
        let (page, place) = (index as usize / PAGE, index as usize % PAGE);
        if !matches!(self.pages.get(page), Some(Some(_))) {
            self.take(page);
        }
        &mut self.pages[page].as_mut().expect("it was taken")[place]
    }

    #[cold]
    fn take(&mut self, page: usize) {
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page] = Some(Box::new([HyStart::default(); PAGE]));
    }

    /// Resets the entry of an index that another connection uses from now on.
    pub(crate) fn forget(&mut self, index: u32) {
        if let Some(Some(starts)) = self.pages.get_mut(index as usize / PAGE) {
            starts[index as usize % PAGE] = HyStart::default();
        }
    }

    /// Bytes of all pages.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let taken = self.pages.iter().flatten().count();
        self.pages.len() * size_of::<Option<Box<[HyStart; PAGE]>>>() + taken * size_of::<[HyStart; PAGE]>()
    }
}
