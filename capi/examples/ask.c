/* Sends a megabyte to an echo server without a copy, reads it back and compares it; then provokes the errors.
 *
 *   cc -o ask capi/examples/ask.c $(pkg-config --cflags --libs ringway)
 *   ringway run -- ./ask 10.0.0.1 7
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringway.h"

#define BYTES (1u << 20)

static uint8_t pattern(uint32_t at)
{
    return (at * 2654435761u) >> 24;
}

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "ask: %s: %s\n", what, ringway_strerror(errno));
        exit(1);
    }
}

static uint32_t send_some(ringway_stream *stream, uint32_t sent)
{
    ringway_room room;
    size_t len = 0;

    check(ringway_reserve(stream, BYTES - sent, &room) == 0, "reserve");
    for (; len < room.len; len++)
        room.data[len] = pattern(sent + len);
    check(ringway_commit(stream, &room, len) == 0, "commit");
    check(ringway_commit(stream, &room, len) == -1 && errno == EINVAL, "a room is committed once");
    return sent + len;
}

static uint32_t read_some(ringway_stream *stream, uint32_t got)
{
    ringway_chunk chunk;

    check(ringway_read_chunk(stream, &chunk) == 1, "read_chunk");
    for (size_t i = 0; i < chunk.len; i++)
        check(chunk.data[i] == pattern(got + i), "every byte is as it was sent");
    got += chunk.len;
    ringway_release(stream, &chunk);
    ringway_release(stream, &chunk);
    return got;
}

static void fail_as_the_header_says(ringway_session *session, ringway_stream *stream)
{
    struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_port = htons(9) };
    struct sockaddr_in cut = { .sin_family = AF_INET };
    struct sockaddr family = { .sa_family = AF_UNIX };
    ringway_room room;
    uint32_t value;

    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(ringway_connect(session, (struct sockaddr *)&loopback, sizeof loopback) == NULL && errno == ENETUNREACH, "loopback");
    check(ringway_connect(session, (struct sockaddr *)&cut, 4) == NULL && errno == EINVAL, "a cut address");
    check(ringway_connect(session, &family, sizeof family) == NULL && errno == EAFNOSUPPORT, "another family");
    check(ringway_read(NULL, NULL, 0) == -1 && errno == EFAULT, "no stream");
    check(ringway_write(stream, NULL, 1) == -1 && errno == EFAULT, "no buffer");
    check(ringway_set_option(stream, 99, 1) == -1 && errno == ENOPROTOOPT, "no option");
    check(ringway_get_option(stream, 0, &value) == -1 && errno == ENOPROTOOPT, "no option 0");
    check(ringway_get_option(stream, RINGWAY_NODELAY, NULL) == -1 && errno == EFAULT, "no place for the value");
    check(ringway_reserve(stream, 16, &room) == 0, "reserve");
    check(ringway_commit(stream, &room, room.len + 1) == -1 && errno == EINVAL, "more than was reserved");
    check(ringway_attach("/nonexistent") == NULL, "no service");
}

static void read_as_it_was_set(ringway_stream *stream)
{
    static const struct { int option; uint32_t value; } settings[] = {
        { RINGWAY_NODELAY, 1 },      { RINGWAY_CORK, 0 },         { RINGWAY_KEEPALIVE, 1 },
        { RINGWAY_KEEPIDLE, 70 },    { RINGWAY_KEEPINTVL, 7 },    { RINGWAY_KEEPCNT, 3 },
        { RINGWAY_USER_TIMEOUT, 90001 }, { RINGWAY_QUICKACK, 1 }, { RINGWAY_CONGESTION, 1 },
        { RINGWAY_TOS, 8 },          { RINGWAY_TTL, 60 },         { RINGWAY_MAX_PACING_RATE, UINT32_MAX },
    };
    uint32_t value;

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        check(ringway_set_option(stream, settings[i].option, settings[i].value) == 0, "set_option");
        check(ringway_get_option(stream, settings[i].option, &value) == 0, "get_option");
        check(value == settings[i].value, "an option reads as it was set");
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in remote = { .sin_family = AF_INET };
    ringway_session *session;
    ringway_stream *stream;
    uint32_t sent = 0, got = 0;
    char byte;

    check(argc == 3 && inet_pton(AF_INET, argv[1], &remote.sin_addr) == 1, "usage: ask ADDRESS PORT");
    remote.sin_port = htons(atoi(argv[2]));
    check(ringway_version() == RINGWAY_VERSION, "the header is the library's");
    check(strcmp(ringway_strerror(-EPIPE), ringway_strerror(EPIPE)) == 0, "strerror of a negative number");
    check((session = ringway_attach(NULL)) != NULL, "attach");
    check((stream = ringway_connect(session, (struct sockaddr *)&remote, sizeof remote)) != NULL, "connect");
    fail_as_the_header_says(session, stream);
    read_as_it_was_set(stream);
    while (got < BYTES) {
        while (sent < BYTES && sent - got < 32768)
            sent = send_some(stream, sent);
        got = read_some(stream, got);
    }
    check(ringway_shutdown(stream) == 0, "shutdown");
    check(ringway_read(stream, &byte, 1) == 0, "the end of the stream");
    ringway_close(stream);
    ringway_detach(session);
    puts("every byte came back");
    return 0;
}
