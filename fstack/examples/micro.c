/* micro ADDRESS TCPPORT UDPPORT: makes every call of ff_mt.h against servers that return what they get, and says how many did something else. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ff_mt.h"

#define BULK (1 << 20)

static int failures;
static struct sockaddr_in tcp, udp;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (%m)\n", __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

/* What the threads of `take_turns` have written. */
static char turns[16];
static size_t written;

static void take_turns(void *name)
{
    for (int turn = 0; turn < 3; turn++) {
        turns[written++] = *(char *)name;
        ff_mt_yield();
    }
}

static void check_turns(void)
{
    static char names[] = "ab";
    CHECK(ff_mt_start(take_turns, &names[0]) && ff_mt_start(take_turns, &names[1]));
    CHECK(written == 0); /* they run when this one waits */
    while (written < 6)
        ff_mt_yield();
    CHECK(strcmp(turns, "ababab") == 0);
}

static void *first;
static int woken;

static void wake_first(void *argument)
{
    CHECK(argument == &woken && ff_mt_self() != first);
    CHECK(ff_mt_get_private() == &failures);
    woken++;
    CHECK(ff_mt_wake(first) == 0);
}

static void has_own(void *argument)
{
    (void)argument;
    CHECK(ff_mt_get_private() == NULL);
    ff_mt_set_private(&woken);
    CHECK(ff_mt_get_private() == &woken);
}

static void check_wakeups(void)
{
    first = ff_mt_self();
    CHECK(ff_mt_wait(1) == -1 && errno == ETIME);
    ff_mt_set_private(&failures);
    void *below = ff_mt_start_below(wake_first, &woken);
    CHECK(ff_mt_wait(-1) == 0 && woken == 1);
    CHECK(ff_mt_wake(below) == -1 && errno == ESRCH);
    CHECK(ff_mt_wake(NULL) == -1 && errno == ESRCH);
    CHECK(ff_mt_wake(first) == 0 && ff_mt_wait(-1) == 0); /* one that comes before is not lost */
    CHECK(ff_mt_start(NULL, NULL) == NULL && errno == EINVAL);
    CHECK(ff_mt_start(has_own, NULL) != NULL);
    ff_mt_yield();
    CHECK(ff_mt_get_private() == &failures);
    uint64_t before = ff_mt_time_ms();
    ff_mt_sleep(20);
    CHECK(ff_mt_time_ms() >= before + 20 - 1);
}

static int ends[2];

static void write_late(void *argument)
{
    (void)argument;
    CHECK(ff_mt_write(ends[1], "late", 4, -1) == 4);
}

static void write_much(void *bytes)
{
    CHECK(ff_mt_write(ends[1], bytes, BULK, 10000) == BULK);
}

static void check_pipe(void)
{
    char got[8];
    static char sent[BULK], back[BULK];
    CHECK(pipe(ends) == 0);
    CHECK(ff_mt_wait_events(ends[0], KQ_EVENT_READ, 1) == 0);
    CHECK(ff_mt_wait_events(ends[1], KQ_EVENT_READ | KQ_EVENT_WRITE, -1) == KQ_EVENT_WRITE);
    CHECK(ff_mt_wait_events(ends[0], 0, -1) == -1 && errno == EINVAL);
    CHECK(ff_mt_wait_events(-1, KQ_EVENT_READ, -1) == -1 && errno == EBADF);
    CHECK(ff_mt_read(ends[0], got, sizeof got, 1) == -1 && errno == ETIME);
    CHECK(ff_mt_start(write_late, NULL) != NULL);
    CHECK(ff_mt_read(ends[0], got, sizeof got, -1) == 4 && memcmp(got, "late", 4) == 0);
    for (size_t i = 0; i < BULK; i++)
        sent[i] = (char)(i * 7 + i / 251);
    CHECK(ff_mt_start(write_much, sent) != NULL);
    for (size_t have = 0; have < BULK;) {
        ssize_t more = ff_mt_read(ends[0], back + have, BULK - have, 10000);
        CHECK(more > 0);
        if (more <= 0)
            break;
        have += more;
    }
    CHECK(memcmp(sent, back, BULK) == 0);
    close(ends[0]);
    close(ends[1]);
}

static void echo_one(void *listener)
{
    char got[16];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    int fd = ff_mt_accept(*(int *)listener, (struct sockaddr *)&from, &len, 10000);
    CHECK(fd >= 0 && len == sizeof from && from.sin_family == AF_INET);
    ssize_t count = ff_mt_recv(fd, got, sizeof got, 0, 10000);
    CHECK(count == 5 && ff_mt_send(fd, got, count, 0, 10000) == count);
    close(fd);
}

static void check_sockets(void)
{
    char got[16];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&here, &len) == 0);
    CHECK(ff_mt_accept(listener, NULL, NULL, 1) == -1 && errno == ETIME);
    CHECK(ff_mt_start(echo_one, &listener) != NULL);
    CHECK(ff_mt_connect(fd, (struct sockaddr *)&here, sizeof here, 10000) == 0);
    CHECK(ff_mt_connect(fd, (struct sockaddr *)&here, sizeof here, 10000) == 0);
    CHECK(ff_mt_send(fd, "hello", 5, 0, -1) == 5 && ff_mt_recv(fd, got, sizeof got, MSG_WAITALL, -1) == 5);
    CHECK(ff_mt_recv(fd, got, sizeof got, 0, -1) == 0); /* the other has closed */
    close(fd);
    close(listener);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(ff_mt_connect(fd, (struct sockaddr *)&here, sizeof here, 10000) == -1 && errno == ECONNREFUSED);
    close(fd);
    CHECK(ff_mt_send(-1, "x", 1, 0, -1) == -1 && errno == EBADF);
    CHECK(ff_mt_send(-1, "", 0, 0, -1) == -1 && errno == EINVAL);
}

static void check_datagrams(void)
{
    char got[16];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(ff_mt_sendto(fd, "datagram", 8, 0, (struct sockaddr *)&udp, sizeof udp, -1) == 8);
    CHECK(ff_mt_recvfrom(fd, got, sizeof got, 0, (struct sockaddr *)&from, &len, 10000) == 8);
    CHECK(memcmp(got, "datagram", 8) == 0 && from.sin_port == udp.sin_port);
    CHECK(ff_mt_recvfrom(fd, got, sizeof got, 0, NULL, NULL, 1) == -1 && errno == ETIME);
    close(fd);
    int size = sizeof got;
    CHECK(ff_mt_udp_exchange(&udp, "asked", 5, got, &size, 10000) == 0 && size == 5 && memcmp(got, "asked", 5) == 0);
    CHECK(ff_mt_udp_exchange(&udp, "asked", 0, got, &size, 10000) == -10);
}

/* A reply ends with a newline. */
static int ends_with_newline(void *buffer, int len, bool closed, void *context, bool *detected)
{
    int *asked = context;
    ++*asked;
    char *end = memchr(buffer, '\n', len);
    *detected = end != NULL;
    if (end)
        return (int)(end - (char *)buffer) + 1;
    return closed ? -1 : 0;
}

static void check_exchanges(void)
{
    char small[64];
    int asked = 0;
    struct ff_mt_reply reply = {small, sizeof small, false, ends_with_newline, &asked};
    for (int kind = 1; kind <= 2; kind++) {
        reply.size = sizeof small;
        CHECK(ff_mt_tcp_exchange(&tcp, "request\n", 8, &reply, 10000, kind) == 0 && reply.size == 8);
        CHECK(memcmp(small, "request\n", 8) == 0 && asked > 0);
    }
    CHECK(ff_mt_tcp_exchange(&tcp, "no reply\n", 9, NULL, 10000, 3) == 0);
    reply.size = 4;
    CHECK(ff_mt_tcp_exchange(&tcp, "too long\n", 9, &reply, 10000, 1) == -6);
    /* A request is sent whole before its reply is read, so the buffers on the way must hold what the server returns meanwhile. */
    static char request[48 * 1024];
    memset(request, 'x', sizeof request - 1);
    request[sizeof request - 1] = '\n';
    reply = (struct ff_mt_reply){NULL, 10, true, ends_with_newline, &asked};
    CHECK(ff_mt_tcp_exchange(&tcp, request, sizeof request, &reply, 30000, 1) == 0 && reply.size == sizeof request);
    CHECK(reply.buffer && memcmp(reply.buffer, request, sizeof request) == 0);
    free(reply.buffer);
    CHECK(ff_mt_tcp_exchange(&tcp, "x", 1, NULL, 10000, 1) == -10 && ff_mt_tcp_exchange(&tcp, "x", 1, NULL, 10000, 9) == -10);
    struct sockaddr_in nowhere = tcp;
    nowhere.sin_port = htons(1);
    CHECK(ff_mt_tcp_exchange(&nowhere, "x\n", 2, NULL, 10000, 4) == -4 && errno == ECONNREFUSED);
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: micro ADDRESS TCPPORT UDPPORT\n");
        return 2;
    }
    tcp = udp = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(arguments[1])};
    tcp.sin_port = htons(atoi(arguments[2]));
    udp.sin_port = htons(atoi(arguments[3]));
    CHECK(ff_mt_init() == 0 && ff_mt_set_stack_size(64 * 1024) == 0);
    check_turns();
    check_wakeups();
    check_pipe();
    check_sockets();
    check_datagrams();
    check_exchanges();
    printf("%d failures\n", failures);
    return failures != 0;
}
