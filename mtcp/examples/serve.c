/* serve PORT CORES [CONFIG]: answers "GET /N ..." with N bytes, on one context for each core, as programs for mTCP do it. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "cpu.h"
#include "debug.h"

#define CORES_MAX 16
#define EVENTS_MAX 1024
#define REQUEST_MAX 1024
#define PIECE 8192

struct connection {
    char request[REQUEST_MAX];
    int received;
    long left; /* bytes of the answer's body that are not written */
    long sent;
};

struct server {
    mctx_t mctx;
    int epoll;
    int listener;
    struct connection *connections; /* by id */
    int max;
};

static int port;
static volatile sig_atomic_t done;
static pthread_t threads[CORES_MAX];
static char pattern[PIECE + 256];

static void stop(int signal)
{
    (void)signal;
    done = 1;
}

static void watch(struct server *server, int op, int id, uint32_t events)
{
    struct mtcp_epoll_event event = {.events = events, .data.sockid = id};
    if (mtcp_epoll_ctl(server->mctx, server->epoll, op, id, &event) < 0)
        perror("mtcp_epoll_ctl");
}

static void forget(struct server *server, int id)
{
    mtcp_epoll_ctl(server->mctx, server->epoll, MTCP_EPOLL_CTL_DEL, id, NULL);
    mtcp_close(server->mctx, id);
}

/* Writes what the connection takes. */
static void answer(struct server *server, int id)
{
    struct connection *c = &server->connections[id];
    while (c->left > 0) {
        ssize_t sent = mtcp_write(server->mctx, id, pattern + c->sent % 256, MIN(c->left, PIECE));
        if (sent < 0) {
            if (errno == EAGAIN)
                watch(server, MTCP_EPOLL_CTL_MOD, id, MTCP_EPOLLIN | MTCP_EPOLLOUT);
            else
                forget(server, id);
            return;
        }
        c->sent += sent;
        c->left -= sent;
    }
    watch(server, MTCP_EPOLL_CTL_MOD, id, MTCP_EPOLLIN);
}

static void hear(struct server *server, int id)
{
    struct connection *c = &server->connections[id];
    ssize_t got = mtcp_read(server->mctx, id, c->request + c->received, REQUEST_MAX - 1 - c->received);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        forget(server, id);
        return;
    }
    c->received += got;
    c->request[c->received] = '\0';
    if (!strstr(c->request, "\r\n\r\n"))
        return;
    char head[128];
    c->received = 0;
    c->sent = 0;
    c->left = strncmp(c->request, "GET /", 5) == 0 ? atol(c->request + 5) : 0;
    int len = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", c->left);
    struct iovec part = {head, len};
    if (mtcp_writev(server->mctx, id, &part, 1) != len) {
        forget(server, id);
        return;
    }
    answer(server, id);
}

static void take(struct server *server)
{
    int id;
    while ((id = mtcp_accept(server->mctx, server->listener, NULL, NULL)) >= 0) {
        assert(id < server->max);
        memset(&server->connections[id], 0, sizeof(struct connection));
        mtcp_setsock_nonblock(server->mctx, id);
        watch(server, MTCP_EPOLL_CTL_ADD, id, MTCP_EPOLLIN);
    }
    if (errno != EAGAIN)
        perror("mtcp_accept");
}

static void *run(void *argument)
{
    int core = (int)(intptr_t)argument;
    struct mtcp_conf conf;
    struct server server = {0};
    static struct mtcp_epoll_event events[CORES_MAX][EVENTS_MAX];

    mtcp_core_affinitize(whichCoreID(core));
    mtcp_getconf(&conf);
    server.max = conf.max_concurrency;
    server.connections = calloc(server.max, sizeof(struct connection));
    server.mctx = mtcp_create_context(core);
    if (!server.mctx) {
        perror("mtcp_create_context");
        exit(1);
    }
    server.epoll = mtcp_epoll_create(server.mctx, EVENTS_MAX);
    server.listener = mtcp_socket(server.mctx, AF_INET, SOCK_STREAM, 0);
    mtcp_setsock_nonblock(server.mctx, server.listener);
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (mtcp_bind(server.mctx, server.listener, (struct sockaddr *)&local, sizeof(local)) < 0 ||
        mtcp_listen(server.mctx, server.listener, 4096) < 0) {
        perror("mtcp_listen");
        exit(1);
    }
    watch(&server, MTCP_EPOLL_CTL_ADD, server.listener, MTCP_EPOLLIN);
    printf("ready\n");
    fflush(stdout);
    while (!done) {
        int count = mtcp_epoll_wait(server.mctx, server.epoll, events[core], EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            int id = events[core][i].data.sockid;
            if (id == server.listener)
                take(&server);
            else if (events[core][i].events & (MTCP_EPOLLERR | MTCP_EPOLLHUP))
                forget(&server, id);
            else if (events[core][i].events & MTCP_EPOLLIN)
                hear(&server, id);
            else if (events[core][i].events & MTCP_EPOLLOUT)
                answer(&server, id);
        }
    }
    mtcp_destroy_context(server.mctx);
    free(server.connections);
    return NULL;
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    if (argc < 3) {
        fprintf(stderr, "usage: serve PORT CORES [CONFIG]\n");
        return 2;
    }
    port = atoi(argv[1]);
    int cores = MIN(atoi(argv[2]), CORES_MAX);
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (char)i;
    mtcp_getconf(&conf);
    conf.num_cores = cores;
    if (mtcp_setconf(&conf) < 0 || mtcp_init(argc > 3 ? argv[3] : NULL) < 0)
        return 1;
    mtcp_register_signal(SIGTERM, stop);
    for (int core = 0; core < cores; core++)
        pthread_create(&threads[core], NULL, run, (void *)(intptr_t)core);
    while (!done)
        pause();
    for (int core = 0; core < cores; core++) {
        pthread_kill(threads[core], SIGTERM);
        pthread_join(threads[core], NULL);
    }
    mtcp_destroy();
    printf("ended\n");
    return 0;
}
