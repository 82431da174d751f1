//! The files of `-w`: one, or with `-C` and `-W` several in turn, named as tcpdump(8) names them.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

/// An output that counts what is written to it.
pub(super) struct Counted {
    to: BufWriter<Box<dyn Write>>,
    bytes: Rc<Cell<u64>>,
}

impl Counted {
    pub(super) fn new(to: Box<dyn Write>) -> Counted {
        Counted { to: BufWriter::new(to), bytes: Rc::default() }
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Files that follow each other.
pub(super) struct Files {
    base: String,
    /// A file that is larger than this is followed by the next one.
    size: u64,
    /// After so many files the first one is written anew; `None`: there is no end.
    most: Option<u64>,
    number: u64,
    written: Rc<Cell<u64>>,
}

impl Files {
    pub(super) fn new(base: String, size: u64, most: Option<u64>) -> Files {
        Files { base, size, most, number: 0, written: Rc::default() }
    }

    /// The present file's name: without `-W` the first one has no number; with it all have as many digits as the last one needs.
    pub(super) fn name(&self) -> String {
        match (self.number, self.most) {
            (0, None) => self.base.clone(),
            (number, None) => format!("{}{number}", self.base),
            (number, Some(most)) => format!("{}{number:0width$}", self.base, width = most.to_string().len()),
        }
    }

    /// Makes the present file, or writes it anew.
    ///
    /// # Errors
    /// As open(2).
    pub(super) fn create(&mut self) -> io::Result<Counted> {
        let counted = Counted::new(Box::new(File::create(self.name())?));
        self.written = counted.bytes.clone();
        Ok(counted)
    }

    pub(super) fn is_full(&self) -> bool {
        self.written.get() > self.size
    }

    /// Each file is full after a packet: it has what it begins with now.
    #[cfg(test)]
    pub(super) fn shrink(&mut self) {
        self.size = self.written.get();
    }

    /// The next file is the present one.
    pub(super) fn advance(&mut self) {
        self.number += 1;
        if self.most.is_some_and(|most| self.number >= most) {
            self.number = 0;
        }
    }
}
