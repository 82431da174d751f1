/* echo PORT [OPTIONS OF F-STACK]: returns what it gets in the buffers in which it came (z_read, z_write), on epoll. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff_api.h"
#include "ff_epoll.h"

#define EVENTS_MAX 512
#define READ_MAX 65536
#define FDS_MAX 4096

static int epoll, listener;
static struct epoll_event events[EVENTS_MAX];

/* By descriptor: what is not sent yet. */
static struct {
    void *buffer;
    size_t left;
} unsent[FDS_MAX];

static void watch(int op, int fd, uint32_t bits)
{
    struct epoll_event event = {.events = bits, .data.fd = fd};
    if (ff_epoll_ctl(epoll, op, fd, &event) < 0)
        perror("ff_epoll_ctl");
}

static void forget(int fd)
{
    if (unsent[fd].left)
        ff_mbuf_free(unsent[fd].buffer);
    unsent[fd].left = 0;
    ff_close(fd);
}

/* Returns 0 when the socket takes no more. */
static int send_rest(int fd)
{
    while (unsent[fd].left) {
        ssize_t sent = z_write(fd, unsent[fd].buffer, unsent[fd].left);
        if (sent < 0 && errno == EAGAIN) {
            watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
            return 0;
        }
        if (sent < 0) {
            unsent[fd].left = 0;
            forget(fd);
            return 0;
        }
        unsent[fd].left -= sent;
        if (unsent[fd].left) {
            watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
            return 0;
        }
    }
    return 1;
}

static void serve(int fd)
{
    while (send_rest(fd)) {
        ssize_t got = z_read(fd, &unsent[fd].buffer, READ_MAX);
        if (got < 0 && errno == EAGAIN) {
            watch(EPOLL_CTL_MOD, fd, EPOLLIN);
            return;
        }
        if (got <= 0) {
            forget(fd);
            return;
        }
        unsent[fd].left = got;
    }
}

static int loop(void *arg)
{
    (void)arg;
    int count = ff_epoll_wait(epoll, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        int fd = events[i].data.fd, client;
        if (fd != listener) {
            serve(fd);
            continue;
        }
        while ((client = ff_accept(listener, NULL, NULL)) >= 0) {
            if (client >= FDS_MAX)
                ff_close(client);
            else
                watch(EPOLL_CTL_ADD, client, EPOLLIN);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: echo PORT [OPTIONS OF F-STACK]\n");
        return 2;
    }
    if (ff_init(argc, argv) < 0)
        return 1;
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    epoll = ff_epoll_create(EVENTS_MAX);
    listener = ff_socket(AF_INET, SOCK_STREAM, 0);
    if (ff_bind(listener, (struct linux_sockaddr *)&local, sizeof(local)) < 0 || ff_listen(listener, EVENTS_MAX) < 0) {
        perror("echo");
        return 1;
    }
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    printf("ready\n");
    fflush(stdout);
    ff_run(loop, NULL);
    return 0;
}
