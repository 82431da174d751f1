/* calls HOST PORT CONFIG: makes every call of the interface, with a server at HOST that returns what it gets. Says each that does not do what it should. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "ff_api.h"
#include "ff_config.h"
#include "ff_epoll.h"
#include "ff_log.h"

static int failures;

#define CHECK(what)                                                               \
    do {                                                                          \
        if (!(what)) {                                                            \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            failures++;                                                           \
        }                                                                         \
    } while (0)
#define FAILS(call, number)       \
    do {                          \
        errno = 0;                \
        CHECK((call) == -1);      \
        CHECK(errno == (number)); \
    } while (0)

static struct sockaddr_in server;
static const struct timespec soon = {5, 0}, now = {0, 0};

static struct linux_sockaddr *address(struct sockaddr_in *in)
{
    return (struct linux_sockaddr *)in;
}

static int readable(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return ff_poll(&entry, 1, 5000) == 1 && (entry.revents & POLLIN);
}

/* A connection to the server. */
static int dial(void)
{
    int fd = ff_socket(AF_INET, SOCK_STREAM, 0);
    fd_set writes;
    struct timeval timeout = {5, 0};
    FAILS(ff_connect(fd, address(&server), sizeof(server)), EINPROGRESS);
    FD_ZERO(&writes);
    FD_SET(fd, &writes);
    CHECK(ff_select(fd + 1, NULL, &writes, NULL, &timeout) == 1);
    int error = -1;
    socklen_t len = sizeof(error);
    CHECK(ff_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    return fd;
}

static void listeners(void)
{
    struct sockaddr_in local = {.sin_family = AF_INET};
    socklen_t len = sizeof(local);
    int fd = ff_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(ff_bind(fd, address(&local), sizeof(local)) == 0 && ff_listen(fd, 8) == 0);
    CHECK(ff_getsockname(fd, address(&local), &len) == 0 && local.sin_port != 0);
    FAILS(ff_accept(fd, NULL, NULL), EAGAIN);
    FAILS(ff_accept4(fd, NULL, NULL, SOCK_CLOEXEC), EAGAIN);
    CHECK((ff_fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && ff_fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    int other = ff_dup(fd), third = ff_dup2(fd, other + 100);
    CHECK(other >= 0 && third == other + 100 && ff_fdisused(third) && ff_getmaxfd() > third);
    CHECK(ff_close(third) == 0 && ff_close(other) == 0 && ff_close(fd) == 0 && !ff_fdisused(third));
    FAILS(ff_close(third), EBADF);
}

static void bytes(void)
{
    int fd = dial(), on = 1, unread = 0;
    char data[16] = "", more[16] = "";
    struct sockaddr_in peer;
    socklen_t len = sizeof(peer);
    struct iovec out = {"six", 3}, in = {data, sizeof(data)};
    struct msghdr message = {.msg_iov = &out, .msg_iovlen = 1}, answer = {.msg_iov = &in, .msg_iovlen = 1};
    CHECK(ff_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    CHECK(ff_getpeername(fd, address(&peer), &len) == 0 && peer.sin_port == server.sin_port);
    FAILS(ff_read(fd, data, 1), EAGAIN);
    CHECK(ff_write(fd, "one", 3) == 3 && readable(fd));
    CHECK(ff_ioctl(fd, FIONREAD, &unread) == 0 && unread == 3);
    CHECK(ff_recv(fd, data, sizeof(data), MSG_PEEK) == 3 && ff_read(fd, more, sizeof(more)) == 3 && strcmp(data, more) == 0);
    CHECK(ff_send(fd, "two", 3, 0) == 3 && readable(fd) && ff_readv(fd, &in, 1) == 3 && strcmp(data, "two") == 0);
    CHECK(ff_writev(fd, &out, 1) == 3 && readable(fd) && ff_recvmsg(fd, &answer, 0) == 3 && strcmp(data, "six") == 0);
    CHECK(ff_sendmsg(fd, &message, 0) == 3 && readable(fd));
    CHECK(ff_recvfrom(fd, data, sizeof(data), 0, NULL, NULL) == 3);
    CHECK(ff_sendto(fd, "end", 3, 0, NULL, 0) == 3 && ff_shutdown(fd, SHUT_WR) == 0);
    CHECK(readable(fd) && ff_read(fd, data, sizeof(data)) == 3 && memcmp(data, "end", 3) == 0);
    /* And no signal comes. */
    FAILS(ff_write(fd, "a", 1), EPIPE);
    FAILS(ff_writev(fd, &out, 1), EPIPE);
    FAILS(ff_send(fd, "a", 1, 0), EPIPE);
    FAILS(ff_sendmsg(fd, &message, 0), EPIPE);
    CHECK(readable(fd) && ff_read(fd, data, sizeof(data)) == 0 && ff_close(fd) == 0);
}

static void count(void **cursor, struct kevent *event)
{
    *(*(int **)cursor)++ = (int)event->data;
}

static void events(void)
{
    int kq = ff_kqueue(), epoll = ff_epoll_create(1), fd = dial(), amounts[4] = {0};
    struct kevent change[2], seen[4];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    char data[8];
    EV_SET(&change[0], fd, EVFILT_READ, EV_ADD, 0, 0, &server);
    EV_SET(&change[1], 7, EVFILT_TIMER, EV_ADD | EV_ONESHOT, NOTE_MSECONDS, 1, NULL);
    CHECK(ff_kevent(kq, change, 2, NULL, 0, NULL) == 0);
    CHECK(ff_kevent(kq, NULL, 0, seen, 4, &soon) == 1 && seen[0].filter == EVFILT_TIMER && seen[0].ident == 7);
    int least = 0;
    socklen_t len = sizeof(least);
    EV_SET(&change[1], fd, EVFILT_READ, EV_ADD, NOTE_LOWAT, 4, &server);
    CHECK(ff_kevent(kq, &change[1], 1, NULL, 0, NULL) == 0);
    CHECK(ff_getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, &len) == 0 && least == 4);
    CHECK(ff_kevent(kq, NULL, 0, seen, 4, &now) == 0);
    CHECK(ff_write(fd, "abcd", 4) == 4);
    CHECK(ff_kevent(kq, NULL, 0, seen, 4, &soon) == 1 && seen[0].udata == &server && seen[0].data == 4);
    CHECK(ff_kevent_do_each(kq, NULL, 0, amounts, 4, &soon, count) == 1 && amounts[0] == 4);
    CHECK(ff_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(ff_epoll_wait(epoll, &event, 1, 5000) == 1 && event.data.fd == fd && event.events == EPOLLIN);
    CHECK(ff_read(fd, data, sizeof(data)) == 4 && ff_shutdown(fd, SHUT_WR) == 0);
    CHECK(ff_kevent(kq, NULL, 0, seen, 4, &soon) == 1 && (seen[0].flags & EV_EOF));
    change[0].flags = EV_DELETE;
    CHECK(ff_kevent(kq, change, 1, NULL, 0, NULL) == 0);
    FAILS(ff_kevent(kq, change, 1, NULL, 0, NULL), ENOENT);
    CHECK(ff_close(fd) == 0 && ff_close(epoll) == 0 && ff_close(kq) == 0);
    FAILS(ff_kevent(kq, NULL, 0, seen, 4, &now), EBADF);
}

static void buffers(void)
{
    int fd = dial();
    struct ff_zc_mbuf zc;
    char data[8] = "";
    void *got = NULL, *at, *bytes;
    unsigned len;
    CHECK(ff_zc_mbuf_get(&zc, 6) == 0 && ff_zc_mbuf_write(&zc, "abc", 3) == 3 && ff_zc_mbuf_write(&zc, "def", 3) == 3);
    FAILS(ff_zc_mbuf_write(&zc, "g", 1), EINVAL);
    CHECK(ff_write(fd, zc.bsd_mbuf, 6) == 6 && readable(fd));
    CHECK(z_read(fd, &got, 100) == 6 && memcmp(ff_mbuf_mtod(got), "abcdef", 6) == 0);
    CHECK(ff_mbuf_copydata(got, data, 2, 3) == 0 && strcmp(data, "cde") == 0);
    CHECK(ff_mbuf_detach_rte(got) == NULL && ff_rte_frm_extcl(got) == NULL);
    CHECK(ff_mbuf_get(got, NULL, "gh", 2) != NULL);
    at = got;
    CHECK(ff_next_mbuf(&at, &bytes, &len) == 0 && len == 6 && ff_next_mbuf(&at, &bytes, &len) == 0 && len == 2);
    CHECK(z_write(fd, got, 8) == 8 && readable(fd));
    zc.bsd_mbuf = NULL;
    CHECK(z_read(fd, &zc.bsd_mbuf, 100) == 8);
    zc.off = 0;
    CHECK(ff_zc_mbuf_read(&zc, data, 8) == 8 && memcmp(data, "abcdefgh", 8) == 0);
    ff_mbuf_free(zc.bsd_mbuf);
    FAILS(z_read(fd, &got, 100), EAGAIN);
    FAILS(z_write(fd, data, 1), EINVAL);
    CHECK(ff_close(fd) == 0);
}

static int asked;
/* What the selector answers: nothing, or an address that the machine does not have. */
static const char *chosen;

static int choose(uint16_t family, void *dst_addr, uint16_t dst_port, void *src_addr)
{
    if (chosen)
        inet_pton(family, chosen, src_addr);
    asked += family == AF_INET && memcmp(dst_addr, &server.sin_addr, 4) == 0 && dst_port == server.sin_port;
    return 0;
}

static int dispatch(void *data, uint16_t *len, uint16_t queue_id, uint16_t nb_queues)
{
    (void)data, (void)len, (void)nb_queues;
    return queue_id;
}

static void *start(void *arg)
{
    return arg;
}

static void machine(void)
{
    struct ff_traffic_args traffic = {0};
    struct timeval tv = {0, 0};
    int numbers[4], name[2] = {0, 3}, space = 0;
    size_t len = sizeof(numbers), size = sizeof(space);
    char byte[64] = "";
    pthread_t thread;
    void *value = NULL;
    struct sockaddr_in to = {.sin_family = AF_INET}, mask = {.sin_family = AF_INET};
    CHECK(ff_sysctl(name, 2, numbers, &len, "net.inet.tcp.sendspace", 22) == 0 && len == 2 * sizeof(int));
    CHECK(ff_sysctl(numbers, 2, &space, &size, NULL, 0) == 0 && space > 0);
    FAILS(ff_sysctl(name, 2, numbers, &len, "net.no.such", 11), ENOENT);
    ff_get_traffic(&traffic);
    CHECK(traffic.rx_packets > 0 && traffic.tx_bytes > 0);
    CHECK(ff_gettimeofday(&tv, NULL) == 0 && tv.tv_sec > 0);
    CHECK(ff_pthread_create(&thread, NULL, start, &tv) == 0 && ff_pthread_join(thread, &value) == 0 && value == &tv);
    to.sin_addr.s_addr = inet_addr("198.18.7.0");
    mask.sin_addr.s_addr = inet_addr("255.255.255.0");
    CHECK(ff_route_ctl(FF_ROUTE_ADD, FF_RTF_GATEWAY, address(&to), address(&server), address(&mask)) == 0);
    CHECK(ff_route_ctl(FF_ROUTE_CHANGE, FF_RTF_GATEWAY, address(&to), address(&server), address(&mask)) == 0);
    CHECK(ff_route_ctl(FF_ROUTE_DEL, FF_RTF_GATEWAY, address(&to), NULL, address(&mask)) == 0);
    FAILS(ff_route_ctl(FF_ROUTE_DEL, FF_RTF_GATEWAY, address(&to), NULL, address(&mask)), ESRCH);
    ff_regist_pcblddr_fun(choose);
    ff_close(dial());
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int four = ff_socket(AF_INET, SOCK_STREAM, 0), other = ff_socket(AF_INET6, SOCK_STREAM, 0);
    chosen = "203.0.113.1";
    FAILS(ff_connect(four, address(&server), sizeof(server)), EADDRNOTAVAIL);
    FAILS(ff_connect(four, NULL, 0), EINVAL);
    chosen = "2001:db8::9";
    FAILS(ff_connect(other, (struct linux_sockaddr *)&six, sizeof(six)), EADDRNOTAVAIL);
    CHECK(ff_close(four) == 0 && ff_close(other) == 0);
    ff_regist_pcblddr_fun(NULL);
    CHECK(asked == 2);
    ff_regist_packet_dispatcher(dispatch);
    ff_regist_packet_dispatcher_context(NULL);
    memset(byte, 0xff, 6);
    byte[12] = byte[13] = 0x08;
    CHECK(ff_dpdk_raw_packet_send(byte, sizeof(byte), 0) == 0);
    FAILS(ff_dpdk_raw_packet_send(byte, sizeof(byte), 9), ENODEV);
    FAILS(ff_ioctl_freebsd(0, 0, NULL), EOPNOTSUPP);
    FAILS(ff_setsockopt_freebsd(0, 0, 0, NULL, 0), EOPNOTSUPP);
    FAILS(ff_getsockopt_freebsd(0, 0, 0, NULL, NULL), EOPNOTSUPP);
    FAILS(ff_rtioctl(0, NULL, NULL, 0), EOPNOTSUPP);
    FAILS(ff_ngctl(NGCTL_SOCKET, NULL), EOPNOTSUPP);
}

static void logs(const char *path)
{
    char line[64] = "";
    remove(path);
    CHECK(ff_log_open_set(path) == 0 && ff_log_open_set("/nowhere/at/all") == -1);
    ff_log_set_global_level(FF_LOG_WARNING);
    CHECK(ff_log_set_level(FF_LOGTYPE_FSTACK_APP, FF_LOG_ERR) == 0 && ff_log_set_level(99, FF_LOG_ERR) == -1);
    CHECK(!ff_log_is_printed(FF_LOG_WARNING, FF_LOGTYPE_FSTACK_APP) && ff_log_stream() != NULL);
    ff_log(FF_LOG_WARNING, FF_LOGTYPE_FSTACK_APP, "not %s\n", "this");
    ff_log(FF_LOG_ERR, FF_LOGTYPE_FSTACK_APP, "but %s\n", "that");
    ff_log_close();
    CHECK(ff_log_stream() == NULL && ff_log_reset_stream(stderr) == 0 && ff_log_stream() == stderr);
    FILE *file = fopen(path, "r");
    CHECK(file && fgets(line, sizeof(line), file) && strcmp(line, "but that\n") == 0 && !fgets(line, sizeof(line), file));
}

static int rounds;

static int loop(void *arg)
{
    struct kevent seen;
    rounds += ff_kevent(*(int *)arg, NULL, 0, &seen, 1, NULL) == 1;
    if (rounds == 3)
        ff_stop_run();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: calls HOST PORT CONFIG\n");
        return 2;
    }
    server.sin_family = AF_INET;
    server.sin_addr.s_addr = inet_addr(argv[1]);
    server.sin_port = htons(atoi(argv[2]));
    char *wrong[] = {argv[0], "--conf", "/nowhere/at/all"}, *right[] = {argv[0], "--proc-id=0", "--conf", argv[3]};
    CHECK(ff_init(3, wrong) == -1 && ff_init(4, right) == 0);
    listeners();
    bytes();
    events();
    buffers();
    machine();
    char path[4096];
    snprintf(path, sizeof(path), "%s.log", argv[3]);
    logs(path);
    int kq = ff_kqueue();
    struct kevent timer;
    EV_SET(&timer, 1, EVFILT_TIMER, EV_ADD, 0, 2, NULL);
    CHECK(ff_kevent(kq, &timer, 1, NULL, 0, NULL) == 0);
    ff_run(loop, &kq);
    CHECK(rounds == 3 && ff_close(kq) == 0);
    printf("%d failures\n", failures);
    return failures != 0;
}
