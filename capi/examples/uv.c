/* Answers TCP with what it gets, in a loop of libuv: the poller's descriptor is one of the loop's.
 *
 *   cc -o uv capi/examples/uv.c $(pkg-config --cflags --libs ringway) -luv
 *   ringway run -- ./uv 7
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ringway.h"

#define STREAMS_MAX 256
#define KEPT_MAX 65536

/* A connection, and the bytes that found no room. */
struct peer {
    ringway_stream *stream;
    size_t kept;
    char bytes[KEPT_MAX];
};

enum { LISTENER = STREAMS_MAX };

static struct peer *peers[STREAMS_MAX];
static ringway_poller *poller;
static ringway_listener *listener;

static void fail(const char *what)
{
    fprintf(stderr, "uv: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void end(int number)
{
    ringway_poller_remove_stream(poller, peers[number]->stream);
    ringway_close(peers[number]->stream);
    free(peers[number]);
    peers[number] = NULL;
}

static void take(void)
{
    ringway_stream *stream;

    while ((stream = ringway_accept(listener, NULL, NULL)) != NULL) {
        int number = 0;

        while (number < STREAMS_MAX && peers[number] != NULL)
            number++;
        if (number == STREAMS_MAX || (peers[number] = calloc(1, sizeof(struct peer))) == NULL) {
            ringway_abort(stream);
            continue;
        }
        peers[number]->stream = stream;
        ringway_set_nonblocking(stream, 1);
        if (ringway_poller_add_stream(poller, stream, RINGWAY_READABLE, number) != 0)
            fail("add");
    }
    if (errno != EAGAIN)
        fail("accept");
}

/* Sends what is kept, then reads more. While bytes are kept, only room to write is waited for. */
static void serve(int number)
{
    struct peer *peer = peers[number];

    for (;;) {
        ssize_t count = 0;

        while (peer->kept > 0 && (count = ringway_write(peer->stream, peer->bytes, peer->kept)) > 0) {
            peer->kept -= count;
            memmove(peer->bytes, peer->bytes + count, peer->kept);
        }
        if (peer->kept == 0 && (count = ringway_read(peer->stream, peer->bytes, KEPT_MAX)) > 0) {
            peer->kept = count;
            continue;
        }
        if (count == 0 || errno != EAGAIN) {
            end(number);
            return;
        }
        if (ringway_poller_add_stream(poller, peer->stream, peer->kept > 0 ? RINGWAY_WRITABLE : RINGWAY_READABLE, number) != 0)
            fail("add");
        return;
    }
}

static void ready(uv_poll_t *handle, int status, int what)
{
    ringway_event events[64];
    int count = ringway_poller_try_wait(poller, events, 64);

    (void)handle;
    (void)what;
    if (status < 0 || count < 0)
        fail("wait");
    for (int i = 0; i < count; i++) {
        if (events[i].token == LISTENER)
            take();
        else if (peers[events[i].token] != NULL)
            serve(events[i].token);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in local = { .sin_family = AF_INET };
    ringway_session *session;
    uv_poll_t handle;

    if (argc != 2) {
        fprintf(stderr, "usage: uv PORT\n");
        return 2;
    }
    local.sin_port = htons(atoi(argv[1]));
    if ((session = ringway_attach(NULL)) == NULL)
        fail("attach");
    if ((listener = ringway_listen(session, (struct sockaddr *)&local, sizeof local, 1024)) == NULL)
        fail("listen");
    if ((poller = ringway_poller_new(session)) == NULL)
        fail("poller");
    ringway_listener_set_nonblocking(listener, 1);
    if (ringway_poller_add_listener(poller, listener, RINGWAY_READABLE, LISTENER) != 0)
        fail("add");
    if (uv_poll_init(uv_default_loop(), &handle, ringway_poller_fd(poller)) != 0 || uv_poll_start(&handle, UV_READABLE, ready) != 0)
        fail("loop");
    puts("ready");
    fflush(stdout);
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
