/* Echoes TCP and UDP on one port: one thread, one poller, received bytes in place.
 *
 *   cc -o echo capi/examples/echo.c $(pkg-config --cflags --libs ringway)
 *   ringway run -- ./echo 7
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringway.h"

#define STREAMS_MAX 1024

static ringway_stream *streams[STREAMS_MAX];
static ringway_poller *poller;

enum { LISTENER = STREAMS_MAX, DATAGRAMS };

static void fail(const char *what)
{
    fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void take(ringway_listener *listener)
{
    ringway_stream *stream;

    while ((stream = ringway_accept(listener, NULL, NULL)) != NULL) {
        int number = 0;

        while (number < STREAMS_MAX && streams[number] != NULL)
            number++;
        if (number == STREAMS_MAX) {
            ringway_abort(stream);
            continue;
        }
        streams[number] = stream;
        ringway_set_nonblocking(stream, 1);
        ringway_set_option(stream, RINGWAY_NODELAY, 1);
        if (ringway_poller_add_stream(poller, stream, RINGWAY_READABLE, number) != 0)
            fail("poller");
    }
    if (errno != EAGAIN)
        fail("accept");
}

static void end(int number)
{
    ringway_poller_remove_stream(poller, streams[number]);
    ringway_close(streams[number]);
    streams[number] = NULL;
}

/* Writes all bytes; waits while the send buffer is full. */
static int answer(ringway_stream *stream, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t count = ringway_write(stream, data, len);

        if (count < 0 && errno != EAGAIN)
            return -1;
        if (count < 0) {
            ringway_set_nonblocking(stream, 0);
            count = ringway_write(stream, data, len);
            ringway_set_nonblocking(stream, 1);
            if (count < 0)
                return -1;
        }
        data += count;
        len -= count;
    }
    return 0;
}

static void serve(int number)
{
    ringway_chunk chunk;
    int got;

    while ((got = ringway_read_chunk(streams[number], &chunk)) == 1) {
        int failed = answer(streams[number], chunk.data, chunk.len);

        ringway_release(streams[number], &chunk);
        if (failed) {
            end(number);
            return;
        }
    }
    if (got == 0 || errno != EAGAIN)
        end(number);
}

static void reflect(ringway_udp *socket)
{
    static char buffer[65536];
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    ssize_t count;

    while ((count = ringway_recv_from(socket, buffer, sizeof buffer, (struct sockaddr *)&peer, &len)) >= 0) {
        if (ringway_send_to(socket, buffer, count, (struct sockaddr *)&peer, len) < 0 && errno != EAGAIN)
            fail("send_to");
        len = sizeof peer;
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in local = { .sin_family = AF_INET };
    ringway_event events[64];
    ringway_session *session;
    ringway_listener *listener;
    ringway_udp *datagrams;

    if (argc != 2) {
        fprintf(stderr, "usage: echo PORT\n");
        return 2;
    }
    local.sin_port = htons(atoi(argv[1]));
    if ((session = ringway_attach(NULL)) == NULL)
        fail("attach");
    if ((listener = ringway_listen(session, (struct sockaddr *)&local, sizeof local, 1024)) == NULL)
        fail("listen");
    if ((datagrams = ringway_bind_udp(session, (struct sockaddr *)&local, sizeof local)) == NULL)
        fail("bind");
    if ((poller = ringway_poller_new(session)) == NULL)
        fail("poller");
    ringway_listener_set_nonblocking(listener, 1);
    ringway_udp_set_nonblocking(datagrams, 1);
    if (ringway_poller_add_listener(poller, listener, RINGWAY_READABLE, LISTENER) != 0
        || ringway_poller_add_udp(poller, datagrams, RINGWAY_READABLE, DATAGRAMS) != 0)
        fail("poller");
    puts("ready");
    fflush(stdout);
    for (;;) {
        int count = ringway_poller_wait(poller, events, 64, -1);

        if (count < 0)
            fail("wait");
        for (int i = 0; i < count; i++) {
            if (events[i].token == LISTENER)
                take(listener);
            else if (events[i].token == DATAGRAMS)
                reflect(datagrams);
            else if (streams[events[i].token] != NULL)
                serve(events[i].token);
        }
    }
}
