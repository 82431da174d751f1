//! `AsyncRead` and `AsyncWrite` of the crate `futures-io`, for code that takes any stream; tokio's traits by `tokio_util::compat`.
//!
//! What is written leaves with the next iteration, so flushing has nothing to do; closing is `shutdown_write`.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use super::{Direction, TcpStream};
use crate::{Net, ReadError, WriteError};

impl TcpStream {
    fn poll_reading(
        &self,
        context: &Context<'_>,
        mut read: impl FnMut(&mut Net) -> Result<usize, ReadError>,
    ) -> Poll<io::Result<usize>> {
        self.runtime.poll_ready(context, self.stream.index(), Direction::Read, |net| match read(net) {
            Err(ReadError::WouldBlock) => None,
            answer => Some(answer.map_err(io::Error::from)),
        })
    }

    fn poll_writing(
        &self,
        context: &Context<'_>,
        mut write: impl FnMut(&mut Net) -> Result<usize, WriteError>,
    ) -> Poll<io::Result<usize>> {
        self.runtime.poll_ready(context, self.stream.index(), Direction::Write, |net| match write(net) {
            Err(WriteError::WouldBlock) => None,
            answer => Some(answer.map_err(io::Error::from)),
        })
    }
}

macro_rules! streams {
    // A stream and a reference to one, so that one task may read while another writes.
    ($($name:ty),*) => {$(
        impl AsyncRead for $name {
            fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
                self.poll_reading(context, |net| self.stream.read(net, buffer))
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_reading(context, |net| self.stream.read_vectored(net, buffers))
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.poll_writing(context, |net| self.stream.write(net, bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_writing(context, |net| self.stream.write_vectored(net, buffers))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.shutdown_write();
                Poll::Ready(Ok(()))
            }
        }
    )*};
}

streams!(TcpStream, &TcpStream);
