/* calls HOST PORT: makes every call of the interface, with a server at HOST that returns what it gets. Says each that does not do what it should. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "cpu.h"
#include "debug.h"
#include "rss.h"

static int failures;

#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno);         \
            failures++;                                                                   \
        }                                                                                 \
    } while (0)
#define FAILS(call, number)      \
    do {                         \
        errno = 0;               \
        CHECK((call) == -1);     \
        CHECK(errno == (number)); \
    } while (0)

static struct sockaddr_in server;
static volatile sig_atomic_t rang;

static void ring(int signal)
{
    rang = signal;
}

static void contexts(void)
{
    struct mtcp_conf conf;
    CHECK(mtcp_getconf(&conf) == 0 && conf.num_cores == GetNumCPUs() && conf.max_concurrency == 100000);
    CHECK(mtcp_getconf(NULL) == -1 && mtcp_setconf(NULL) == -1);
    CHECK(mtcp_create_context(0) == NULL && errno == EPERM);
    CHECK(mtcp_init("/nowhere/at/all") == -1);
    CHECK(mtcp_init(NULL) == 0);
    CHECK(mtcp_create_context(-1) == NULL && errno == EINVAL);
    CHECK(mtcp_create_context(conf.num_cores) == NULL && errno == EINVAL);
    FAILS(mtcp_socket(NULL, AF_INET, SOCK_STREAM, 0), EACCES);
    FAILS(mtcp_read(NULL, 0, NULL, 0), EACCES);
    conf.max_concurrency = 2;
    CHECK(mtcp_setconf(&conf) == 0);
    mctx_t small = mtcp_create_context(0);
    CHECK(mtcp_socket(small, AF_INET, SOCK_STREAM, 0) == 0 && mtcp_socket(small, AF_INET, SOCK_DGRAM, 0) == 1);
    FAILS(mtcp_socket(small, AF_INET, SOCK_STREAM, 0), EMFILE);
    CHECK(mtcp_close(small, 0) == 0);
    FAILS(mtcp_close(small, 0), EBADF);
    FAILS(mtcp_socket(small, 99, SOCK_STREAM, 0), EAFNOSUPPORT);
    CHECK(mtcp_epoll_create1(small, 0) == 0);
    mtcp_destroy_context(small);
    mtcp_destroy_context(NULL);
    conf.max_concurrency = 1000;
    CHECK(mtcp_setconf(&conf) == 0);
}

static void pipes(mctx_t mctx)
{
    int ends[2];
    char data[8] = "", more[8] = "";
    struct iovec out[2] = {{"ab", 2}, {"cd", 2}}, in[2] = {{data, 3}, {more, 5}};
    FAILS(mtcp_pipe(mctx, NULL), EFAULT);
    CHECK(mtcp_pipe(mctx, ends) == 0 && ends[0] == 0 && ends[1] == 1);
    CHECK(mtcp_writev(mctx, ends[1], out, 2) == 4);
    CHECK(mtcp_readv(mctx, ends[0], in, 2) == 4 && strcmp(data, "abc") == 0 && strcmp(more, "d") == 0);
    CHECK(mtcp_setsock_nonblock(mctx, ends[0]) == 0);
    FAILS(mtcp_read(mctx, ends[0], data, 1), EAGAIN);
    CHECK(mtcp_abort(mctx, ends[1]) == 0);
    CHECK(mtcp_read(mctx, ends[0], data, 1) == 0);
    CHECK(mtcp_close(mctx, ends[0]) == 0);
    /* Without a reader; and no signal comes. */
    CHECK(mtcp_pipe(mctx, ends) == 0 && mtcp_close(mctx, ends[0]) == 0);
    FAILS(mtcp_write(mctx, ends[1], "a", 1), EPIPE);
    FAILS(mtcp_writev(mctx, ends[1], out, 2), EPIPE);
    FAILS(mtcp_writev(mctx, ends[1], out, -1), EINVAL);
    CHECK(mtcp_close(mctx, ends[1]) == 0);
}

static void listeners(mctx_t mctx)
{
    struct sockaddr_in local = {.sin_family = AF_INET}, other;
    socklen_t len = sizeof(other);
    int one = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0), two = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
    CHECK(mtcp_bind(mctx, one, (struct sockaddr *)&local, sizeof(local)) == 0);
    CHECK(mtcp_getsockname(mctx, one, (struct sockaddr *)&other, &len) == 0 && other.sin_port != 0);
    CHECK(mtcp_listen(mctx, one, 16) == 0);
    CHECK(mtcp_bind(mctx, two, (struct sockaddr *)&other, sizeof(other)) == 0 && mtcp_listen(mctx, two, 16) == 0);
    CHECK(mtcp_setsock_nonblock(mctx, one) == 0);
    FAILS(mtcp_accept(mctx, one, NULL, NULL), EAGAIN);
    FAILS(mtcp_getpeername(mctx, one, (struct sockaddr *)&other, &len), ENOTCONN);
    CHECK(mtcp_close(mctx, one) == 0 && mtcp_close(mctx, two) == 0);
}

static void connections(mctx_t mctx)
{
    struct mtcp_epoll_event events[4], event = {.events = MTCP_EPOLLOUT, .data.u64 = 0x123456789abcdef0};
    struct sockaddr_in peer;
    socklen_t len = sizeof(peer);
    int epoll = mtcp_epoll_create(mctx, 8), id = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0), on = 1, error = -1, unread = 0;
    char data[16] = "";
    FAILS(mtcp_epoll_create(mctx, 0), EINVAL);
    FAILS(mtcp_epoll_ctl(mctx, epoll, MTCP_EPOLL_CTL_ADD, id, NULL), EFAULT);
    FAILS(mtcp_epoll_wait(mctx, epoll, events, 0, 0), EINVAL);
    CHECK(mtcp_init_rss(mctx, INADDR_ANY, 1, server.sin_addr.s_addr, server.sin_port) == 0);
    FAILS(mtcp_init_rss(mctx, INADDR_ANY, 0, 0, 0), EINVAL);
    /* An address that the machine does not have shows that it is used, and for which server. */
    int source = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
    CHECK(mtcp_init_rss(mctx, inet_addr("203.0.113.1"), 2, server.sin_addr.s_addr, server.sin_port) == 0);
    FAILS(mtcp_connect(mctx, source, (struct sockaddr *)&server, sizeof(server)), EADDRNOTAVAIL);
    CHECK(mtcp_init_rss(mctx, inet_addr("203.0.113.1"), 2, server.sin_addr.s_addr, htons(1)) == 0);
    CHECK(mtcp_connect(mctx, source, (struct sockaddr *)&server, sizeof(server)) == 0 && mtcp_close(mctx, source) == 0);
    /* The route's own, in turn; the second one is not the machine's. */
    CHECK(mtcp_init_rss(mctx, INADDR_ANY, 2, server.sin_addr.s_addr, 0) == 0);
    source = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
    CHECK(mtcp_connect(mctx, source, (struct sockaddr *)&server, sizeof(server)) == 0 && mtcp_close(mctx, source) == 0);
    CHECK(mtcp_init_rss(mctx, INADDR_ANY, 1, 0, 0) == 0);
    CHECK(mtcp_setsockopt(mctx, id, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    CHECK(mtcp_setsock_nonblock(mctx, id) == 0);
    FAILS(mtcp_connect(mctx, id, (struct sockaddr *)&server, sizeof(server)), EINPROGRESS);
    CHECK(mtcp_epoll_ctl(mctx, epoll, MTCP_EPOLL_CTL_ADD, id, &event) == 0);
    CHECK(mtcp_epoll_wait(mctx, epoll, events, 4, 5000) == 1);
    CHECK(events[0].events == MTCP_EPOLLOUT && events[0].data.u64 == event.data.u64);
    len = sizeof(error);
    CHECK(mtcp_getsockopt(mctx, id, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    len = sizeof(peer);
    CHECK(mtcp_getpeername(mctx, id, (struct sockaddr *)&peer, &len) == 0 && peer.sin_port == server.sin_port);
    CHECK(mtcp_write(mctx, id, "hello", 5) == 5);
    event.events = MTCP_EPOLLIN | MTCP_EPOLLRDHUP;
    CHECK(mtcp_epoll_ctl(mctx, epoll, MTCP_EPOLL_CTL_MOD, id, &event) == 0);
    CHECK(mtcp_epoll_wait(mctx, epoll, events, 4, 5000) == 1 && events[0].events == MTCP_EPOLLIN);
    CHECK(mtcp_socket_ioctl(mctx, id, FIONREAD, &unread) == 0 && unread == 5);
    CHECK(mtcp_recv(mctx, id, data, sizeof(data), MSG_PEEK) == 5 && mtcp_read(mctx, id, data, sizeof(data)) == 5);
    CHECK(memcmp(data, "hello", 5) == 0);
    CHECK(mtcp_epoll_ctl(mctx, epoll, MTCP_EPOLL_CTL_DEL, id, NULL) == 0);
    CHECK(mtcp_epoll_wait(mctx, epoll, events, 4, 0) == 0);
    CHECK(mtcp_register_signal(SIGALRM, ring) == SIG_DFL);
    alarm(1);
    FAILS(mtcp_epoll_wait(mctx, epoll, events, 4, -1), EINTR);
    CHECK(rang == SIGALRM && mtcp_register_signal(SIGALRM, SIG_DFL) == ring);
    CHECK(mtcp_register_signal(SIGKILL, ring) == SIG_ERR);
    CHECK(mtcp_abort(mctx, id) == 0 && mtcp_close(mctx, epoll) == 0);
    FAILS(mtcp_epoll_wait(mctx, epoll, events, 4, 0), EBADF);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: calls HOST PORT\n");
        return 2;
    }
    server.sin_family = AF_INET;
    server.sin_addr.s_addr = inet_addr(argv[1]);
    server.sin_port = htons(atoi(argv[2]));
    contexts();
    mctx_t mctx = mtcp_create_context(0);
    CHECK(mctx != NULL && mtcp_core_affinitize(whichCoreID(0)) == 0 && mtcp_core_affinitize(-1) == -1);
    CHECK(GetRSSCPUCore(1, 2, 3, 4, 1, 0) == 0);
    CHECK(strcmp(EventToString(MTCP_EPOLLIN | MTCP_EPOLLRDHUP), "MTCP_EPOLLIN|MTCP_EPOLLRDHUP") == 0);
    CHECK(strcmp(EventToString(MTCP_EPOLLNONE), "MTCP_EPOLLNONE") == 0);
    pipes(mctx);
    listeners(mctx);
    connections(mctx);
    mtcp_destroy_context(mctx);
    mtcp_destroy();
    printf("%d failures\n", failures);
    return failures != 0;
}
