/* The C API of Ringway: sockets of a running service without the kernel's socket calls; link with -lringway.
 *
 * On failure, functions set errno and return -1, or NULL where they return a pointer; on success, functions that return an
 * int return 0. errno is that of the Linux call of the same name (accept(2), connect(2), read(2), ...): ECONNRESET also when
 * the service has died, ENETUNREACH when no interface of Ringway leads to the address. Calls block unless the handle was
 * made non-blocking (EAGAIN). Several threads may use a handle at once; no thread may use it during or after the call that
 * closes it. Handles do not survive fork(2).
 */
#ifndef RINGWAY_H
#define RINGWAY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rw_session rw_session;
typedef struct rw_listener rw_listener;
typedef struct rw_stream rw_stream;
typedef struct rw_datagrams rw_datagrams;
typedef struct rw_poller rw_poller;

/* Received bytes in place. `data` is valid until rw_release. */
typedef struct rw_chunk {
    const uint8_t *data;
    size_t len;
    void *owner;
} rw_chunk;

/* Space for bytes to send in place. `data` is valid until rw_commit or rw_cancel. */
typedef struct rw_room {
    uint8_t *data;
    size_t len;
    void *owner;
} rw_room;

enum { RW_READABLE = 1, RW_WRITABLE = 2, RW_ERROR = 4, RW_HUNG_UP = 8, RW_PEER_CLOSED = 16 };

typedef struct rw_event {
    uint64_t token;
    uint32_t ready; /* RW_READABLE | ... */
    uint32_t unused;
} rw_event;

/* Options; values are in the unit beside each. */
enum rw_option {
    RW_NODELAY = 1,          /* 0 or 1 */
    RW_CORK = 2,             /* 0 or 1 */
    RW_KEEPALIVE = 3,        /* 0 or 1 */
    RW_KEEPIDLE = 4,         /* seconds */
    RW_KEEPINTVL = 5,        /* seconds */
    RW_KEEPCNT = 6,          /* probes */
    RW_USER_TIMEOUT = 7,     /* milliseconds */
    RW_RCVBUF = 8,           /* bytes */
    RW_SNDBUF = 9,           /* bytes */
    RW_MAXSEG = 10,          /* bytes */
    RW_QUICKACK = 11,        /* 0 or 1 */
    RW_CONGESTION = 12,      /* 0 NewReno, 1 CUBIC, 2 BBR, 3 DCTCP */
    RW_TOS = 13,             /* the IPv4 byte */
    RW_TTL = 14,             /* hops */
    RW_MAX_PACING_RATE = 23, /* bytes per second */
};

/* A session: one attachment to a service. `path` is the service's socket; NULL: the path in RINGWAY_SOCKET. */
rw_session *rw_attach(const char *path);
/* The caller must close the session's sockets before. */
void rw_detach(rw_session *session);

/* TCP. Addresses are sockaddr_in or sockaddr_in6; `address_len` is the buffer's size on entry, the address's on return. */
rw_listener *rw_listen(rw_session *session, const struct sockaddr *local, socklen_t len, int backlog);
int rw_listener_address(rw_listener *listener, struct sockaddr *address, socklen_t *address_len);
int rw_listener_set_nonblocking(rw_listener *listener, int on);
rw_stream *rw_accept(rw_listener *listener, struct sockaddr *peer, socklen_t *peer_len); /* peer may be NULL */
void rw_listener_close(rw_listener *listener);

rw_stream *rw_connect(rw_session *session, const struct sockaddr *remote, socklen_t len);
int rw_local_address(rw_stream *stream, struct sockaddr *address, socklen_t *address_len);
int rw_peer_address(rw_stream *stream, struct sockaddr *address, socklen_t *address_len);
int rw_set_nonblocking(rw_stream *stream, int on);
int rw_set_option(rw_stream *stream, int option, uint32_t value);
ssize_t rw_read(rw_stream *stream, void *buffer, size_t len); /* 0: end of the stream */
ssize_t rw_readv(rw_stream *stream, const struct iovec *parts, int count);
ssize_t rw_write(rw_stream *stream, const void *buffer, size_t len);
ssize_t rw_writev(rw_stream *stream, const struct iovec *parts, int count);
int rw_shutdown(rw_stream *stream);  /* no more bytes will be written */
void rw_close(rw_stream *stream);    /* release chunks and rooms before */
void rw_abort(rw_stream *stream);    /* reset and close */

/* Without a copy. rw_read_chunk returns 1 and a chunk, or 0 at the end of the stream. The receive window opens when chunks
 * are released, not when they are read. */
int rw_read_chunk(rw_stream *stream, rw_chunk *chunk);
void rw_release(rw_stream *stream, rw_chunk *chunk);
int rw_reserve(rw_stream *stream, size_t len, rw_room *room); /* room->len: at most len, and 32 KiB; 2048 when no large one is left */
int rw_commit(rw_stream *stream, rw_room *room, size_t len);  /* EINVAL when len > room->len; the room is gone either way */
void rw_cancel(rw_stream *stream, rw_room *room);

/* UDP. rw_recv_from returns the number of bytes copied; the part of a datagram that does not fit is lost. */
rw_datagrams *rw_bind_datagrams(rw_session *session, const struct sockaddr *local, socklen_t len);
int rw_datagrams_address(rw_datagrams *socket, struct sockaddr *address, socklen_t *address_len);
int rw_datagrams_set_nonblocking(rw_datagrams *socket, int on);
int rw_datagrams_connect(rw_datagrams *socket, const struct sockaddr *remote, socklen_t len);
ssize_t rw_send_to(rw_datagrams *socket, const void *buffer, size_t len, const struct sockaddr *peer, socklen_t peer_len);
ssize_t rw_recv_from(rw_datagrams *socket, void *buffer, size_t len, struct sockaddr *peer, socklen_t *peer_len);
void rw_datagrams_close(rw_datagrams *socket);

/* Waits for events of several sockets, level-triggered; `interest` is RW_READABLE | RW_WRITABLE. Adding a socket again
 * changes its interest. Remove a socket before closing it. */
rw_poller *rw_poller_new(rw_session *session);
int rw_poller_add_stream(rw_poller *poller, rw_stream *stream, uint32_t interest, uint64_t token);
int rw_poller_add_listener(rw_poller *poller, rw_listener *listener, uint32_t interest, uint64_t token);
int rw_poller_add_datagrams(rw_poller *poller, rw_datagrams *socket, uint32_t interest, uint64_t token);
void rw_poller_remove_stream(rw_poller *poller, rw_stream *stream);
void rw_poller_remove_listener(rw_poller *poller, rw_listener *listener);
void rw_poller_remove_datagrams(rw_poller *poller, rw_datagrams *socket);
/* Returns the number of events written; 0 after `timeout_ms` (-1: no timeout) or rw_poller_notify. */
int rw_poller_wait(rw_poller *poller, rw_event *events, int max, int timeout_ms);
void rw_poller_notify(rw_poller *poller);
/* For an event loop of the program's own (epoll, libuv): the descriptor is readable until rw_poller_try_wait, which never
 * blocks, has returned 0. It stays the poller's: do not read, write or close it. */
int rw_poller_fd(rw_poller *poller);
int rw_poller_try_wait(rw_poller *poller, rw_event *events, int max);
void rw_poller_free(rw_poller *poller);

#ifdef __cplusplus
}
#endif
#endif
