/* The interface of mTCP, for programs that were written for it; link with -lmtcp and start the program with `ringway run`.
 *
 * The names, types and numbers are those of mTCP. A socket id belongs to its context and is less than max_concurrency; one that was
 * closed is not given again at once. Each call does what the Linux call of the same name does and sets errno as it does; a context that
 * is NULL gives EACCES, an id that is not in use EBADF. docs/mtcp.md has the differences from mTCP.
 */
#ifndef MTCP_API_H
#define MTCP_API_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifndef UNUSED
#define UNUSED(x) (void)x
#endif
#ifndef INPORT_ANY
#define INPORT_ANY (uint16_t)0
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum socket_type {
    MTCP_SOCK_UNUSED,
    MTCP_SOCK_STREAM,
    MTCP_SOCK_PROXY,
    MTCP_SOCK_LISTENER,
    MTCP_SOCK_EPOLL,
    MTCP_SOCK_PIPE,
};

struct mtcp_conf {
    int num_cores;       /* contexts are for cores below this */
    int max_concurrency; /* ids of a context */
    int num_ip;          /* what the file says; for mtcp_init_rss */
    int max_num_buffers; /* from here on kept and without effect: the service sizes buffers by need */
    int rcvbuf_size;
    int sndbuf_size;
    int tcp_timewait;
    int tcp_timeout;
};

typedef struct mtcp_context *mctx_t;

/* Reads a configuration file of mTCP's; NULL: none. -1, with a message, where it cannot be read or has a mistake. */
int mtcp_init(const char *config_file);
void mtcp_destroy(void);
int mtcp_getconf(struct mtcp_conf *conf);
/* Values above zero count. num_cores that the program sets before mtcp_init is stronger than the file's. */
int mtcp_setconf(const struct mtcp_conf *conf);
int mtcp_core_affinitize(int cpu);

/* NULL: EINVAL (no such core), EPERM (before mtcp_init). */
mctx_t mtcp_create_context(int cpu);
/* Closes what is open in the context. No thread may use it during the call or after. */
void mtcp_destroy_context(mctx_t mctx);

typedef void (*mtcp_sighandler_t)(int);
/* A waiting call of the thread that takes the signal ends with EINTR. Returns the handler that was there, or SIG_ERR. */
mtcp_sighandler_t mtcp_register_signal(int signum, mtcp_sighandler_t handler);

int mtcp_pipe(mctx_t mctx, int pipeid[2]);
int mtcp_getsockopt(mctx_t mctx, int sockid, int level, int optname, void *optval, socklen_t *optlen);
int mtcp_setsockopt(mctx_t mctx, int sockid, int level, int optname, const void *optval, socklen_t optlen);
int mtcp_setsock_nonblock(mctx_t mctx, int sockid);
int mtcp_socket_ioctl(mctx_t mctx, int sockid, int request, void *argp); /* ioctl(2): FIONREAD, FIONBIO, SIOCOUTQ, ... */

int mtcp_socket(mctx_t mctx, int domain, int type, int protocol);
/* Each context may bind the same port: it then gets a share of the connections. */
int mtcp_bind(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen);
int mtcp_listen(mctx_t mctx, int sockid, int backlog);
int mtcp_accept(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);
/* Connections of the context to daddr and dport begin at num_addr addresses in turn, from saddr_base on; INADDR_ANY: from the
 * address that the route to daddr has. A daddr or dport of 0 stands for all. All values are in network byte order. */
int mtcp_init_rss(mctx_t mctx, in_addr_t saddr_base, int num_addr, in_addr_t daddr, in_addr_t dport);
int mtcp_connect(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen);
int mtcp_close(mctx_t mctx, int sockid);
int mtcp_abort(mctx_t mctx, int sockid); /* reset and close */
int mtcp_getsockname(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);
int mtcp_getpeername(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);

ssize_t mtcp_read(mctx_t mctx, int sockid, char *buf, size_t len);
ssize_t mtcp_recv(mctx_t mctx, int sockid, char *buf, size_t len, int flags);
int mtcp_readv(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV);
ssize_t mtcp_write(mctx_t mctx, int sockid, const char *buf, size_t len);
int mtcp_writev(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV);

#ifdef __cplusplus
}
#endif
#endif
