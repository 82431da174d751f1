/* many WHAT N ADDRESS PORT: N connections to an echo server, all at once, each with a thread that blocks in read, a forked
 * child, or an epoll instance. Prints how many got their byte back. Between "waiting" and SIGUSR1 nothing happens. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 4096 };
static struct sockaddr_in peer;
static int descriptors[MOST], count;
static long good;
static pthread_barrier_t connected;
static sigset_t signs;

static int connection(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0) return fd;
    perror("connect");
    exit(1);
}

static void wait_for_sign(void) {
    int sign;
    puts("waiting");
    fflush(stdout);
    sigwait(&signs, &sign);
}

static void *reader(void *number) {
    int fd = descriptors[(long)number] = connection();
    char byte;
    pthread_barrier_wait(&connected);
    if (read(fd, &byte, 1) == 1)
        __sync_fetch_and_add(&good, 1);
    else
        fprintf(stderr, "read: %s\n", strerror(errno));
    return NULL;
}

static void write_to_all(void) {
    for (int i = 0; i < count; i++)
        if (write(descriptors[i], "x", 1) != 1) perror("write");
}

static void threads(void) {
    static pthread_t thread[MOST];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&connected, NULL, count + 1);
    for (long i = 0; i < count; i++)
        if (pthread_create(thread + i, &small, reader, (void *)i)) exit(1);
    pthread_barrier_wait(&connected);
    wait_for_sign();
    write_to_all();
    for (int i = 0; i < count; i++) pthread_join(thread[i], NULL);
}

static void epolls(void) {
    static int epoll[MOST];
    struct epoll_event event = {.events = EPOLLIN};
    for (int i = 0; i < count; i++) {
        epoll[i] = epoll_create1(0);
        descriptors[i] = connection();
        if (epoll_ctl(epoll[i], EPOLL_CTL_ADD, descriptors[i], &event)) perror("epoll_ctl");
    }
    wait_for_sign();
    write_to_all();
    for (int i = 0; i < count; i++) good += epoll_wait(epoll[i], &event, 1, 60000) == 1;
}

static void processes(void) {
    int go[2], ready[2], status;
    char byte;
    if (pipe(go) || pipe(ready)) exit(1);
    int first = connection();
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) exit(1);
        if (child) continue;
        int fd = connection();
        close(go[1]);
        if (write(ready[1], "r", 1) != 1) _exit(2);
        if (read(go[0], &byte, 1) != 0) _exit(3);
        _exit(write(fd, "x", 1) == 1 && read(fd, &byte, 1) == 1 ? 0 : 4);
    }
    for (int i = 0; i < count; i++)
        if (read(ready[0], &byte, 1) != 1) exit(1);
    wait_for_sign();
    close(go[1]);
    while (wait(&status) > 0) good += status == 0;
    good = write(first, "x", 1) == 1 && read(first, &byte, 1) == 1 ? good : -1;
}

int main(int argc, char **argv) {
    struct rlimit limit;
    if (argc != 5) return 2;
    sigemptyset(&signs);
    sigaddset(&signs, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signs, NULL);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    count = atoi(argv[2]);
    peer.sin_family = AF_INET;
    peer.sin_port = htons(atoi(argv[4]));
    inet_pton(AF_INET, argv[3], &peer.sin_addr);
    (*argv[1] == 't' ? threads : *argv[1] == 'e' ? epolls : processes)();
    printf("%ld of %d\n", good, count);
    return 0;
}
