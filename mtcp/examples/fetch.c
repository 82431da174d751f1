/* fetch HOST PORT BYTES COUNT CONCURRENCY [CONFIG]: COUNT connections, each of which asks for BYTES bytes and compares them. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "cpu.h"
#include "debug.h"
#include "rss.h"

#define HEAD_MAX 1024

struct answer {
    char head[HEAD_MAX];
    int head_len;
    int body_begins; /* 0: the head has not ended */
    long body;
    int asked;
};

static mctx_t mctx;
static int epoll;
static struct sockaddr_in server;
static struct answer *answers; /* by id */
static int started, ended, right;
static long bytes;

static int begin(void)
{
    int id = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
    if (id < 0) {
        perror("mtcp_socket");
        return -1;
    }
    memset(&answers[id], 0, sizeof(struct answer));
    mtcp_setsock_nonblock(mctx, id);
    if (mtcp_connect(mctx, id, (struct sockaddr *)&server, sizeof(server)) < 0 && errno != EINPROGRESS) {
        perror("mtcp_connect");
        mtcp_close(mctx, id);
        return -1;
    }
    struct mtcp_epoll_event event = {.events = MTCP_EPOLLOUT, .data.sockid = id};
    mtcp_epoll_ctl(mctx, epoll, MTCP_EPOLL_CTL_ADD, id, &event);
    started++;
    return id;
}

static void finish(int id, int is_right)
{
    mtcp_epoll_ctl(mctx, epoll, MTCP_EPOLL_CTL_DEL, id, NULL);
    mtcp_close(mctx, id);
    ended++;
    right += is_right;
}

static void ask(int id)
{
    char request[HEAD_MAX];
    int len = snprintf(request, sizeof(request), "GET /%ld HTTP/1.1\r\nHost: x\r\n\r\n", bytes);
    struct mtcp_epoll_event event = {.events = MTCP_EPOLLIN, .data.sockid = id};
    if (mtcp_write(mctx, id, request, len) != len) {
        perror("mtcp_write");
        finish(id, 0);
        return;
    }
    answers[id].asked = 1;
    mtcp_epoll_ctl(mctx, epoll, MTCP_EPOLL_CTL_MOD, id, &event);
}

/* Compares what has come of the body. */
static int compare(struct answer *a, const char *data, long len)
{
    for (long i = 0; i < len; i++)
        if (data[i] != (char)((a->body + i) % 256))
            return 0;
    a->body += len;
    return 1;
}

static void hear(int id)
{
    static char data[65536];
    struct answer *a = &answers[id];
    for (;;) {
        ssize_t got = mtcp_recv(mctx, id, data, sizeof(data), 0);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            finish(id, 0);
            return;
        }
        const char *body = data;
        if (!a->body_begins) {
            int part = MIN(got, HEAD_MAX - 1 - a->head_len);
            memcpy(a->head + a->head_len, data, part);
            char *end = strstr(a->head, "\r\n\r\n");
            if (!end) {
                a->head_len += part;
                continue;
            }
            a->body_begins = end + 4 - a->head;
            body += a->body_begins - a->head_len;
        }
        if (!compare(a, body, data + got - body)) {
            finish(id, 0);
            return;
        }
        if (a->body >= bytes) {
            finish(id, a->body == bytes);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    if (argc < 6) {
        fprintf(stderr, "usage: fetch HOST PORT BYTES COUNT CONCURRENCY [CONFIG]\n");
        return 2;
    }
    server.sin_family = AF_INET;
    server.sin_addr.s_addr = inet_addr(argv[1]);
    server.sin_port = htons(atoi(argv[2]));
    bytes = atol(argv[3]);
    int count = atoi(argv[4]), concurrency = atoi(argv[5]), max = concurrency * 3;
    if (mtcp_init(argc > 6 ? argv[6] : NULL) < 0)
        return 1;
    mtcp_getconf(&conf);
    conf.max_concurrency = conf.max_num_buffers = max;
    mtcp_setconf(&conf);
    mctx = mtcp_create_context(0);
    mtcp_init_rss(mctx, INADDR_ANY, conf.num_ip, server.sin_addr.s_addr, server.sin_port);
    epoll = mtcp_epoll_create(mctx, max);
    answers = calloc(max, sizeof(struct answer));
    struct mtcp_epoll_event *events = calloc(max, sizeof(*events));
    while (ended < count) {
        while (started - ended < concurrency && started < count)
            if (begin() < 0)
                return 1;
        int ready = mtcp_epoll_wait(mctx, epoll, events, max, 10000);
        if (ready <= 0) {
            fprintf(stderr, "nothing in ten seconds\n");
            return 1;
        }
        for (int i = 0; i < ready; i++) {
            int id = events[i].data.sockid;
            if (events[i].events & MTCP_EPOLLERR) {
                int error = 0;
                socklen_t len = sizeof(error);
                mtcp_getsockopt(mctx, id, SOL_SOCKET, SO_ERROR, &error, &len);
                fprintf(stderr, "%s: %s\n", EventToString(events[i].events), strerror(error));
                finish(id, 0);
            } else if (answers[id].asked) {
                hear(id);
            } else {
                ask(id);
            }
        }
    }
    mtcp_destroy_context(mctx);
    mtcp_destroy();
    free(answers);
    free(events);
    printf("%d of %d answers are right\n", right, count);
    return right != count;
}
