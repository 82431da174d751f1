/* The interface of F-Stack, with the additions of Z-stack; link with -lfstack and start the program with `ringway run`.
 *
 * The names, types and numbers are those of F-Stack. Descriptors are the process's own; each call does what the Linux call of the same name does
 * and sets errno as it does. Sockets are non-blocking from the start: in F-Stack no call can wait. docs/fstack.md has the differences.
 */
#ifndef FF_API_H
#define FF_API_H

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "ff_errno.h"
#include "ff_event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct linux_sockaddr {
    short sa_family;
    char sa_data[14];
};

#define AF_INET6_LINUX 10
#define PF_INET6_LINUX AF_INET6_LINUX
#define AF_INET6_FREEBSD 28
#define PF_INET6_FREEBSD AF_INET6_FREEBSD

typedef int (*loop_func_t)(void *arg);

/* Reads the file that -c or --conf names; the options of F-Stack may stand among the program's. -1, with a message: it cannot be read or is wrong. */
int ff_init(int argc, char *const argv[]);
/* Calls `loop` again and again, until ff_stop_run. A round in which nothing happens sleeps, a millisecond at most. */
void ff_run(loop_func_t loop, void *arg);
void ff_stop_run(void);

int ff_socket(int domain, int type, int protocol);
int ff_bind(int s, const struct linux_sockaddr *addr, socklen_t addrlen); /* with SO_REUSEADDR and SO_REUSEPORT */
int ff_listen(int s, int backlog);
int ff_accept(int s, struct linux_sockaddr *addr, socklen_t *addrlen);
int ff_accept4(int s, struct linux_sockaddr *addr, socklen_t *addrlen, int flags);
int ff_connect(int s, const struct linux_sockaddr *name, socklen_t namelen);
int ff_close(int fd);
int ff_shutdown(int s, int how);
int ff_getpeername(int s, struct linux_sockaddr *name, socklen_t *namelen);
int ff_getsockname(int s, struct linux_sockaddr *name, socklen_t *namelen);
int ff_setsockopt(int s, int level, int optname, const void *optval, socklen_t optlen);
int ff_getsockopt(int s, int level, int optname, void *optval, socklen_t *optlen);
int ff_fcntl(int fd, int cmd, ...);
int ff_ioctl(int fd, unsigned long request, ...);
int ff_dup(int oldfd);
int ff_dup2(int oldfd, int newfd);

ssize_t ff_read(int d, void *buf, size_t nbytes);
ssize_t ff_readv(int fd, const struct iovec *iov, int iovcnt);
/* `buf` may be a buffer of ff_zc_mbuf_get, ff_mbuf_get or z_read; see there. */
ssize_t ff_write(int fd, const void *buf, size_t nbytes);
ssize_t ff_writev(int fd, const struct iovec *iov, int iovcnt);
ssize_t ff_send(int s, const void *buf, size_t len, int flags);
ssize_t ff_sendto(int s, const void *buf, size_t len, int flags, const struct linux_sockaddr *to, socklen_t tolen);
ssize_t ff_sendmsg(int s, const struct msghdr *msg, int flags);
ssize_t ff_recv(int s, void *buf, size_t len, int flags);
ssize_t ff_recvfrom(int s, void *buf, size_t len, int flags, struct linux_sockaddr *from, socklen_t *fromlen);
ssize_t ff_recvmsg(int s, struct msghdr *msg, int flags);

int ff_select(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout);
int ff_poll(struct pollfd fds[], nfds_t nfds, int timeout);
/* In the function of ff_run no timeout (NULL) means that the call does not wait; elsewhere that it waits without an end. */
int ff_kqueue(void);
int ff_kevent(int kq, const struct kevent *changelist, int nchanges, struct kevent *eventlist, int nevents,
              const struct timespec *timeout);
/* Gives each event to do_each, with a pointer to eventlist, which it may move on. */
int ff_kevent_do_each(int kq, const struct kevent *changelist, int nchanges, void *eventlist, int nevents,
                      const struct timespec *timeout, void (*do_each)(void **, struct kevent *));

int ff_gettimeofday(struct timeval *tv, void *tz);
int ff_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start_routine)(void *), void *arg);
int ff_pthread_join(pthread_t thread, void **retval);

int ff_fdisused(int fd);
int ff_getmaxfd(void);

/* FreeBSD's names that have a meaning here, among them net.inet.tcp.sendspace, .keepidle and .cc.algorithm: {0, 3} with a name as the new value answers
 * with its numbers. ENOENT: another one. Setting one changes the machine. */
int ff_sysctl(const int *name, u_int namelen, void *oldp, size_t *oldlenp, const void *newp, size_t newlen);

/* Of all interfaces of the machine but lo. */
struct ff_traffic_args {
    uint64_t rx_packets;
    uint64_t rx_bytes;
    uint64_t tx_packets;
    uint64_t tx_bytes;
};
void ff_get_traffic(void *buffer);

enum FF_ROUTE_CTL { FF_ROUTE_ADD, FF_ROUTE_DEL, FF_ROUTE_CHANGE };
enum FF_ROUTE_FLAG { FF_RTF_HOST, FF_RTF_GATEWAY };
/* Changes the machine's routes (IPv4); needs CAP_NET_ADMIN. */
int ff_route_ctl(enum FF_ROUTE_CTL req, enum FF_ROUTE_FLAG flag, struct linux_sockaddr *dst, struct linux_sockaddr *gw,
                 struct linux_sockaddr *netmask);

/* Packets are the service's: the functions are never called, and a message says so. */
#define FF_DISPATCH_ERROR (-1)
#define FF_DISPATCH_RESPONSE (-2)
typedef int (*dispatch_func_t)(void *data, uint16_t *len, uint16_t queue_id, uint16_t nb_queues);
void ff_regist_packet_dispatcher(dispatch_func_t func);
struct ff_dispatcher_context;
typedef int (*dispatch_func_context_t)(void *data, uint16_t *len, uint16_t queue_id, uint16_t nb_queues,
                                       struct ff_dispatcher_context *ctx);
void ff_regist_packet_dispatcher_context(dispatch_func_context_t func);

/* Sends a frame from the interface that has the address of [portN] in the configuration file; needs CAP_NET_RAW. */
int ff_dpdk_raw_packet_send(void *data, int total, uint16_t port_id);

/* Chooses the address that a connection begins at; one of zeros leaves it to the route. */
typedef int (*pcblddr_func_t)(uint16_t family, void *dst_addr, uint16_t dst_port, void *src_addr);
void ff_regist_pcblddr_fun(pcblddr_func_t func);

/* EOPNOTSUPP: FreeBSD's own numbers are not translated. */
int ff_ioctl_freebsd(int fd, unsigned long request, ...);
int ff_setsockopt_freebsd(int s, int level, int optname, const void *optval, socklen_t optlen);
int ff_getsockopt_freebsd(int s, int level, int optname, void *optval, socklen_t *optlen);
int ff_rtioctl(int fib, void *data, unsigned *plen, unsigned maxlen);
enum FF_NGCTL_CMD { NGCTL_SOCKET, NGCTL_BIND, NGCTL_CONNECT, NGCTL_SEND, NGCTL_RECV, NGCTL_CLOSE };
int ff_ngctl(int cmd, void *data);

/* Buffers. ff_write and z_write take one as what is to be sent, and it is gone then, also where they fail. One of which a part was sent stays the program's, and a
 * further call sends the rest; so does one of which z_write has sent nothing (EAGAIN). After EAGAIN of ff_write it is gone, as in F-Stack. */
struct ff_zc_mbuf {
    void *bsd_mbuf; /* the buffer */
    void *bsd_mbuf_off;
    int off; /* bytes that are in it */
    int len; /* that there is room for */
};
int ff_zc_mbuf_get(struct ff_zc_mbuf *m, int len);                     /* EMSGSIZE above 16 MiB */
int ff_zc_mbuf_write(struct ff_zc_mbuf *m, const char *data, int len); /* behind what is in it; returns len */
int ff_zc_mbuf_read(struct ff_zc_mbuf *m, const char *data, int len);  /* copies out, into data */

/* Z-stack: reads into a new buffer, *(void **)buf, or NULL there; sends a buffer. */
ssize_t z_read(int fd, void *buf, size_t max);
ssize_t z_write(int fd, const void *mbuf, size_t n);

void *ff_mbuf_get(void *prev, void *rte_mb, const void *data, uint16_t len); /* a copy of data, behind prev in its chain */
void ff_mbuf_free(void *mbuf);                                                /* the chain */
void *ff_mbuf_mtod(void *mbuf);                                               /* the bytes of one buffer */
int ff_mbuf_copydata(void *mbuf, void *data, int off, int len);
int ff_next_mbuf(void **mbuf, void **data, unsigned *len);                    /* -1: the chain has ended */
void *ff_mbuf_detach_rte(void *mbuf);                                         /* NULL: no card's buffer is under it */
void *ff_rte_frm_extcl(void *mbuf);                                           /* the same */

#ifdef __cplusplus
}
#endif
#endif
