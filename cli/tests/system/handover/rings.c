/* Sockets in an io_uring. With -DLIBURING the ring is liburing's, else it is made and used by syscall(2).
   rings accept|multishot|poll|registered PORT COUNT FIFO: listens, waits for the FIFO, then answers COUNT connections by the ring.
   rings connect HOST PORT: connects by connect(2), sends a line and reads the answer by the ring. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES = 64 };

static void need(int holds, const char *what) {
    if (!holds) {
        printf("%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

#ifdef LIBURING
#include <liburing.h>
static struct io_uring ring;

static void make(void) {
    errno = -io_uring_queue_init(ENTRIES, &ring, 0);
    need(errno == 0, "ring");
}

static struct io_uring_sqe *request(void) {
    return memset(io_uring_get_sqe(&ring), 0, sizeof(struct io_uring_sqe));
}

static struct io_uring_cqe completion(void) {
    struct io_uring_cqe *cqe;
    need(io_uring_submit_and_wait(&ring, 1) >= 0, "submit");
    need(io_uring_wait_cqe(&ring, &cqe) == 0, "wait");
    struct io_uring_cqe copy = *cqe;
    io_uring_cqe_seen(&ring, cqe);
    return copy;
}

static void keep(int fd) {
    need(io_uring_register_files(&ring, &fd, 1) == 0, "register");
}
#else
static struct io_uring_params params;
static int ring;
static char *queues;
static struct io_uring_sqe *requests;
static unsigned waiting;

static unsigned *at(unsigned offset) {
    return (unsigned *)(queues + offset);
}

static void make(void) {
    ring = syscall(SYS_io_uring_setup, ENTRIES, &params);
    need(ring >= 0, "ring");
    size_t len = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    size_t indices = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    queues = mmap(NULL, len > indices ? len : indices, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    need(queues != MAP_FAILED && params.features & IORING_FEAT_SINGLE_MMAP, "queues");
    requests = mmap(NULL, params.sq_entries * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    need(requests != MAP_FAILED, "requests");
}

static struct io_uring_sqe *request(void) {
    unsigned *tail = at(params.sq_off.tail), place = *tail & (params.sq_entries - 1);
    at(params.sq_off.array)[place] = place;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    waiting++;
    return memset(&requests[place], 0, sizeof requests[place]);
}

static struct io_uring_cqe completion(void) {
    unsigned *head = at(params.cq_off.head), *tail = at(params.cq_off.tail);
    do {
        need(syscall(SYS_io_uring_enter, ring, waiting, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0, "enter");
        waiting = 0;
    } while (*head == __atomic_load_n(tail, __ATOMIC_ACQUIRE));
    struct io_uring_cqe *cqes = (struct io_uring_cqe *)(queues + params.cq_off.cqes);
    struct io_uring_cqe copy = cqes[*head & (params.cq_entries - 1)];
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return copy;
}

static void keep(int fd) {
    need(syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1) == 0, "register");
}
#endif

/* What a request to accept more than one has told while another one was waited for. */
enum { MORE = 1 };
static int accepted[ENTRIES], accepts, has_more;

static void note(struct io_uring_cqe cqe) {
    accepted[accepts++] = cqe.res;
    has_more = cqe.flags & IORING_CQE_F_MORE;
}

static int result(void) {
    for (;;) {
        struct io_uring_cqe cqe = completion();
        if (cqe.user_data != MORE) return cqe.res;
        note(cqe);
    }
}

static int ask(int operation, int fd, const void *bytes, unsigned len) {
    struct io_uring_sqe *sqe = request();
    sqe->opcode = operation;
    sqe->fd = fd;
    sqe->addr = (uintptr_t)bytes;
    sqe->len = len;
    return result();
}

/* The descriptor of the next connection, and the port of its peer. */
static int next(const char *how, int listener, int *port) {
    struct sockaddr_in peer = {0};
    socklen_t len = sizeof peer;
    int fd;
    if (!strcmp(how, "poll")) {
        struct io_uring_sqe *sqe = request();
        sqe->opcode = IORING_OP_POLL_ADD;
        sqe->fd = listener;
        sqe->poll32_events = POLLIN;
        need(result() == POLLIN, "poll");
        fd = accept4(listener, (struct sockaddr *)&peer, &len, 0);
    } else if (!strcmp(how, "multishot")) {
        while (accepts == 0) {
            if (!has_more) {
                struct io_uring_sqe *sqe = request();
                sqe->opcode = IORING_OP_ACCEPT;
                sqe->fd = listener;
                sqe->ioprio = IORING_ACCEPT_MULTISHOT;
                sqe->user_data = MORE;
            }
            note(completion());
        }
        fd = accepted[--accepts];
        need(getpeername(fd, (struct sockaddr *)&peer, &len) == 0, "peer");
    } else {
        struct io_uring_sqe *sqe = request();
        sqe->opcode = IORING_OP_ACCEPT;
        sqe->fd = listener;
        sqe->addr = (uintptr_t)&peer;
        sqe->addr2 = (uintptr_t)&len;
        if (!strcmp(how, "registered")) {
            sqe->fd = 0;
            sqe->flags = IOSQE_FIXED_FILE;
        }
        fd = result();
    }
    need(fd >= 0, "accept");
    *port = ntohs(peer.sin_port);
    return fd;
}

static void serve(const char *how, int port, int count, const char *fifo) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    need(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 64) == 0, "listen");
    puts("listens");
    int door = open(fifo, O_RDONLY);
    need(door >= 0, "fifo");
    close(door);
    make();
    if (!strcmp(how, "registered")) {
        keep(listener);
        puts("kept");
    }
    for (int served = 0; served < count; served++) {
        int peer, fd = next(how, listener, &peer), len;
        char bytes[256];
        while ((len = ask(IORING_OP_RECV, fd, bytes, sizeof bytes)) > 0)
            need(ask(IORING_OP_SEND, fd, bytes, len) == len, "send");
        errno = -len;
        need(len == 0, "receive");
        need(ask(IORING_OP_CLOSE, fd, NULL, 0) == 0, "close");
        printf("%d\n", peer);
    }
    puts("served");
}

static void connect_to(const char *host, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &name.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(fd, (struct sockaddr *)&name, sizeof name) == 0, "connect");
    make();
    char bytes[16] = {0};
    need(ask(IORING_OP_SEND, fd, "line\n", 5) == 5, "send");
    need(ask(IORING_OP_RECV, fd, bytes, sizeof bytes - 1) == 5, "receive");
    printf("answered %s", bytes);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 5)
        serve(arguments[1], atoi(arguments[2]), atoi(arguments[3]), arguments[4]);
    else
        connect_to(arguments[2], atoi(arguments[3]));
}
