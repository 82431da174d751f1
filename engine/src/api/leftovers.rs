//! What reads have left of frames: kept beside the table of sockets, of which few have any.
//!
//! Promises: no allocation once as many were kept at a time. Does not do: knowing whose they are; a socket keeps the [`Place`].

use ringway_shm::Frame;

/// Where a socket's leftover is, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// There is none.
    pub(crate) const NONE: Place = Place(u32::MAX);

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_taken(self) -> bool {
        self != Place::NONE
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    frames: Vec<Option<Frame>>,
    free: Vec<u32>,
}

impl Leftovers {
    /// Keeps a frame for a socket that has none.
    pub(crate) fn keep(&mut self, place: &mut Place, frame: Frame) {
        debug_assert!(!place.is_taken(), "it was taken before it is kept again");
        let index = self.free.pop().unwrap_or_else(|| {
            self.frames.push(None);
            u32::try_from(self.frames.len() - 1).expect("there are fewer sockets")
        });
        self.frames[index as usize] = Some(frame);
        *place = Place(index);
    }

    /// Takes a socket's frame, if it has one.
    #[inline]
    pub(crate) fn take(&mut self, place: &mut Place) -> Option<Frame> {
        if place.is_taken() { self.take_some(place) } else { None }
    }

    fn take_some(&mut self, place: &mut Place) -> Option<Frame> {
        let Place(index) = std::mem::replace(place, Place::NONE);
        self.free.push(index);
        self.frames[index as usize].take()
    }

    /// Bytes of a socket's frame.
    pub(crate) fn len(&self, place: Place) -> usize {
        self.frames.get(place.0 as usize).and_then(Option::as_ref).map_or(0, Frame::len)
    }
}

#[cfg(test)]
mod tests;
