//! `AsyncRead` and `AsyncWrite` of the crate `futures-io`, for code that takes any stream; tokio's traits by `tokio_util::compat`.
//!
//! What is written is the worker's at once, so flushing has nothing to do; closing is `shutdown` of the writing side.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use super::Stream;

macro_rules! streams {
    // A stream and a reference to one, so that one task may read while another writes.
    ($($name:ty),*) => {$(
        impl AsyncRead for $name {
            fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
                self.session.poll_until(context, self.slot, || self.try_read(&mut [IoSliceMut::new(buffer)]))
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.session.poll_until(context, self.slot, || self.try_read(buffers))
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.session.poll_until(context, self.slot, || self.try_write(&[IoSlice::new(bytes)]))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.session.poll_until(context, self.slot, || self.try_write(buffers))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown(Shutdown::Write))
            }
        }
    )*};
}

streams!(Stream, &Stream);
