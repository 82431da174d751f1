/* Echoes TCP and UDP on one port: one thread, one poller, received bytes in place.
 *
 *   cc -I capi/include -o echo capi/examples/echo.c -L target/release -lringway
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

static rw_stream *streams[STREAMS_MAX];
static rw_poller *poller;

enum { LISTENER = STREAMS_MAX, DATAGRAMS };

static void fail(const char *what)
{
    fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void take(rw_listener *listener)
{
    rw_stream *stream;

    while ((stream = rw_accept(listener, NULL, NULL)) != NULL) {
        int number = 0;

        while (number < STREAMS_MAX && streams[number] != NULL)
            number++;
        if (number == STREAMS_MAX) {
            rw_abort(stream);
            continue;
        }
        streams[number] = stream;
        rw_set_nonblocking(stream, 1);
        rw_set_option(stream, RW_NODELAY, 1);
        if (rw_poller_add_stream(poller, stream, RW_READABLE, number) != 0)
            fail("poller");
    }
    if (errno != EAGAIN)
        fail("accept");
}

static void end(int number)
{
    rw_poller_remove_stream(poller, streams[number]);
    rw_close(streams[number]);
    streams[number] = NULL;
}

/* Writes all bytes; waits while the send buffer is full. */
static int answer(rw_stream *stream, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t count = rw_write(stream, data, len);

        if (count < 0 && errno != EAGAIN)
            return -1;
        if (count < 0) {
            rw_set_nonblocking(stream, 0);
            count = rw_write(stream, data, len);
            rw_set_nonblocking(stream, 1);
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
    rw_chunk chunk;
    int got;

    while ((got = rw_read_chunk(streams[number], &chunk)) == 1) {
        int failed = answer(streams[number], chunk.data, chunk.len);

        rw_release(streams[number], &chunk);
        if (failed) {
            end(number);
            return;
        }
    }
    if (got == 0 || errno != EAGAIN)
        end(number);
}

static void reflect(rw_datagrams *socket)
{
    static char buffer[65536];
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    ssize_t count;

    while ((count = rw_recv_from(socket, buffer, sizeof buffer, (struct sockaddr *)&peer, &len)) >= 0) {
        if (rw_send_to(socket, buffer, count, (struct sockaddr *)&peer, len) < 0 && errno != EAGAIN)
            fail("send_to");
        len = sizeof peer;
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in local = { .sin_family = AF_INET };
    rw_event events[64];
    rw_session *session;
    rw_listener *listener;
    rw_datagrams *datagrams;

    if (argc != 2) {
        fprintf(stderr, "usage: echo PORT\n");
        return 2;
    }
    local.sin_port = htons(atoi(argv[1]));
    if ((session = rw_attach(NULL)) == NULL)
        fail("attach");
    if ((listener = rw_listen(session, (struct sockaddr *)&local, sizeof local, 1024)) == NULL)
        fail("listen");
    if ((datagrams = rw_bind_datagrams(session, (struct sockaddr *)&local, sizeof local)) == NULL)
        fail("bind");
    if ((poller = rw_poller_new(session)) == NULL)
        fail("poller");
    rw_listener_set_nonblocking(listener, 1);
    rw_datagrams_set_nonblocking(datagrams, 1);
    if (rw_poller_add_listener(poller, listener, RW_READABLE, LISTENER) != 0
        || rw_poller_add_datagrams(poller, datagrams, RW_READABLE, DATAGRAMS) != 0)
        fail("poller");
    puts("ready");
    fflush(stdout);
    for (;;) {
        int count = rw_poller_wait(poller, events, 64, -1);

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
