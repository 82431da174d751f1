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

/* The version of this header. While the major number is 0, a new minor number may change the interface; the library's soname
 * changes with it. RINGWAY_VERSION is a number to compare: 1.2.3 is 10203. */
#define RINGWAY_VERSION_MAJOR 0
#define RINGWAY_VERSION_MINOR 1
#define RINGWAY_VERSION_PATCH 0
#define RINGWAY_VERSION (RINGWAY_VERSION_MAJOR * 10000 + RINGWAY_VERSION_MINOR * 100 + RINGWAY_VERSION_PATCH)

/* The version of the library that the program runs with, as RINGWAY_VERSION. */
unsigned ringway_version(void);
/* The text of an errno number, or of its negative. It is constant: several threads may call this, and nothing is to be freed. */
const char *ringway_strerror(int error);

typedef struct ringway_session ringway_session;
typedef struct ringway_listener ringway_listener;
typedef struct ringway_stream ringway_stream;
typedef struct ringway_udp ringway_udp;
typedef struct ringway_poller ringway_poller;

/* Received bytes in place. `data` is valid until ringway_release. */
typedef struct ringway_chunk {
    const uint8_t *data;
    size_t len;
    void *owner;
} ringway_chunk;

/* Space for bytes to send in place. `data` is valid until ringway_commit or ringway_cancel. */
typedef struct ringway_room {
    uint8_t *data;
    size_t len;
    void *owner;
} ringway_room;

enum { RINGWAY_READABLE = 1, RINGWAY_WRITABLE = 2, RINGWAY_ERROR = 4, RINGWAY_HUNG_UP = 8, RINGWAY_PEER_CLOSED = 16 };

typedef struct ringway_event {
    uint64_t token;
    uint32_t ready; /* RINGWAY_READABLE | ... */
    uint32_t unused;
} ringway_event;

/* Options; values are in the unit beside each. */
enum ringway_option {
    RINGWAY_NODELAY = 1,          /* 0 or 1 */
    RINGWAY_CORK = 2,             /* 0 or 1 */
    RINGWAY_KEEPALIVE = 3,        /* 0 or 1 */
    RINGWAY_KEEPIDLE = 4,         /* seconds */
    RINGWAY_KEEPINTVL = 5,        /* seconds */
    RINGWAY_KEEPCNT = 6,          /* probes */
    RINGWAY_USER_TIMEOUT = 7,     /* milliseconds */
    RINGWAY_RCVBUF = 8,           /* bytes */
    RINGWAY_SNDBUF = 9,           /* bytes */
    RINGWAY_MAXSEG = 10,          /* bytes */
    RINGWAY_QUICKACK = 11,        /* 0 or 1 */
    RINGWAY_CONGESTION = 12,      /* 0 NewReno, 1 CUBIC, 2 BBR, 3 DCTCP */
    RINGWAY_TOS = 13,             /* the IPv4 byte */
    RINGWAY_TTL = 14,             /* hops */
    RINGWAY_MAX_PACING_RATE = 15, /* bytes per second; UINT32_MAX: no limit */
};

/* A session: one attachment to a service. `path` is the service's socket, or without `/` in it the name of a service of this network
   namespace; NULL: what RINGWAY_SOCKET has. */
ringway_session *ringway_attach(const char *path);
/* The caller must close the session's sockets before. */
void ringway_detach(ringway_session *session);

/* TCP. Addresses are sockaddr_in or sockaddr_in6; `address_len` is the buffer's size on entry, the address's on return. */
ringway_listener *ringway_listen(ringway_session *session, const struct sockaddr *local, socklen_t len, int backlog);
int ringway_listener_address(ringway_listener *listener, struct sockaddr *address, socklen_t *address_len);
int ringway_listener_set_nonblocking(ringway_listener *listener, int on);
ringway_stream *ringway_accept(ringway_listener *listener, struct sockaddr *peer, socklen_t *peer_len); /* peer may be NULL */
void ringway_listener_close(ringway_listener *listener);

ringway_stream *ringway_connect(ringway_session *session, const struct sockaddr *remote, socklen_t len);
int ringway_local_address(ringway_stream *stream, struct sockaddr *address, socklen_t *address_len);
int ringway_peer_address(ringway_stream *stream, struct sockaddr *address, socklen_t *address_len);
int ringway_set_nonblocking(ringway_stream *stream, int on);
int ringway_set_option(ringway_stream *stream, int option, uint32_t value);
int ringway_get_option(ringway_stream *stream, int option, uint32_t *value); /* 0 where none was set and a default holds */
ssize_t ringway_read(ringway_stream *stream, void *buffer, size_t len); /* 0: end of the stream */
ssize_t ringway_readv(ringway_stream *stream, const struct iovec *parts, int count);
ssize_t ringway_write(ringway_stream *stream, const void *buffer, size_t len);
ssize_t ringway_writev(ringway_stream *stream, const struct iovec *parts, int count);
int ringway_shutdown(ringway_stream *stream);  /* no more bytes will be written */
void ringway_close(ringway_stream *stream);    /* release chunks and rooms before */
void ringway_abort(ringway_stream *stream);    /* reset and close */

/* Without a copy. ringway_read_chunk returns 1 and a chunk, or 0 at the end of the stream. The receive window opens when chunks
 * are released, not when they are read. */
int ringway_read_chunk(ringway_stream *stream, ringway_chunk *chunk);
void ringway_release(ringway_stream *stream, ringway_chunk *chunk);
int ringway_reserve(ringway_stream *stream, size_t len, ringway_room *room); /* room->len: at most len, and 32 KiB; 2048 when no large one is left */
int ringway_commit(ringway_stream *stream, ringway_room *room, size_t len);  /* EINVAL when len > room->len; the room is gone either way */
void ringway_cancel(ringway_stream *stream, ringway_room *room);

/* UDP. ringway_recv_from returns the number of bytes copied; the part of a datagram that does not fit is lost. */
ringway_udp *ringway_bind_udp(ringway_session *session, const struct sockaddr *local, socklen_t len);
int ringway_udp_address(ringway_udp *socket, struct sockaddr *address, socklen_t *address_len);
int ringway_udp_set_nonblocking(ringway_udp *socket, int on);
int ringway_udp_connect(ringway_udp *socket, const struct sockaddr *remote, socklen_t len);
ssize_t ringway_send_to(ringway_udp *socket, const void *buffer, size_t len, const struct sockaddr *peer, socklen_t peer_len);
ssize_t ringway_recv_from(ringway_udp *socket, void *buffer, size_t len, struct sockaddr *peer, socklen_t *peer_len);
void ringway_udp_close(ringway_udp *socket);

/* Waits for events of several sockets, level-triggered; `interest` is RINGWAY_READABLE | RINGWAY_WRITABLE. Adding a socket again
 * changes its interest. Remove a socket before closing it. */
ringway_poller *ringway_poller_new(ringway_session *session);
int ringway_poller_add_stream(ringway_poller *poller, ringway_stream *stream, uint32_t interest, uint64_t token);
int ringway_poller_add_listener(ringway_poller *poller, ringway_listener *listener, uint32_t interest, uint64_t token);
int ringway_poller_add_udp(ringway_poller *poller, ringway_udp *socket, uint32_t interest, uint64_t token);
void ringway_poller_remove_stream(ringway_poller *poller, ringway_stream *stream);
void ringway_poller_remove_listener(ringway_poller *poller, ringway_listener *listener);
void ringway_poller_remove_udp(ringway_poller *poller, ringway_udp *socket);
/* Returns the number of events written; 0 after `timeout_ms` (-1: no timeout) or ringway_poller_notify. */
int ringway_poller_wait(ringway_poller *poller, ringway_event *events, int max, int timeout_ms);
void ringway_poller_notify(ringway_poller *poller);
/* For an event loop of the program's own (epoll, libuv): the descriptor is readable until ringway_poller_try_wait, which never
 * blocks, has returned 0. It stays the poller's: do not read, write or close it. */
int ringway_poller_fd(ringway_poller *poller);
int ringway_poller_try_wait(ringway_poller *poller, ringway_event *events, int max);
void ringway_poller_free(ringway_poller *poller);

#ifdef __cplusplus
}
#endif
#endif
