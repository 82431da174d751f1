/* cancel ADDRESS PORT: in each blocking call on a connection to a peer that says nothing and reads nothing a thread is cancelled.
   Its cleanup handler runs, pthread_join tells of the cancellation, and the process goes on. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *calls[] = {"read", "recv", "recvmsg", "recvmmsg", "readv", "preadv2", "poll", "ppoll", "select", "epoll_wait",
                              "send", "sendmsg", "writev", "pwritev2"};
static char bytes[65536];
static int fd, epoll;

static void cleanup(void *name) { printf("%s: cleanup\n", (char *)name); }

static void *wait_in(void *argument) {
    const char *call = argument;
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    struct mmsghdr messages = {.msg_hdr = message};
    struct pollfd entry = {fd, POLLIN, 0};
    struct epoll_event event = {EPOLLIN, {0}};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    pthread_cleanup_push(cleanup, argument);
    for (int one = 1; one;) {
        if (!strcmp(call, "read")) read(fd, bytes, sizeof bytes), one = 0;
        if (!strcmp(call, "recv")) recv(fd, bytes, sizeof bytes, 0), one = 0;
        if (!strcmp(call, "recvmsg")) recvmsg(fd, &message, 0), one = 0;
        if (!strcmp(call, "recvmmsg")) recvmmsg(fd, &messages, 1, 0, 0), one = 0;
        if (!strcmp(call, "readv")) readv(fd, &piece, 1), one = 0;
        if (!strcmp(call, "preadv2")) preadv2(fd, &piece, 1, -1, 0), one = 0;
        if (!strcmp(call, "poll")) poll(&entry, 1, -1), one = 0;
        if (!strcmp(call, "ppoll")) ppoll(&entry, 1, 0, 0), one = 0;
        if (!strcmp(call, "select")) select(fd + 1, &set, 0, 0, 0), one = 0;
        if (!strcmp(call, "epoll_wait")) epoll_wait(epoll, &event, 1, -1), one = 0;
        if (!strcmp(call, "send")) send(fd, bytes, sizeof bytes, 0);
        if (!strcmp(call, "sendmsg")) sendmsg(fd, &message, 0);
        if (!strcmp(call, "writev")) writev(fd, &piece, 1);
        if (!strcmp(call, "pwritev2")) pwritev2(fd, &piece, 1, -1, 0);
    }
    pthread_cleanup_pop(0);
    return 0;
}

int main(int count, char **words) {
    struct sockaddr_in to = {AF_INET, htons(atoi(words[count - 1])), {inet_addr(words[1])}, {0}};
    for (size_t place = 0; place < sizeof calls / sizeof *calls; place++) {
        const char *call = calls[place];
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to)) return perror("connect"), 1;
        struct epoll_event event = {EPOLLIN, {0}};
        epoll = epoll_create1(0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        pthread_t thread;
        void *result;
        pthread_create(&thread, 0, wait_in, (void *)call);
        usleep(place % 2 ? 0 : 50000); /* In the wait, and on the way to it. */
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%s: %s\n", call, result == PTHREAD_CANCELED ? "cancelled" : "returned");
        /* What the peer does not read is not waited for. */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        close(epoll);
        close(fd);
    }
    return 0;
}
