/* Threads open, use and close echo connections while the main thread forks. Each child writes to files under the first free numbers,
   then has a connection of its own. No byte may appear on another's connection. Usage: fork_threads ADDRESS PORT FORKS */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, FILES = 8, SIZE = 256, ROUNDS = 3 };

static struct sockaddr_in peer;
static atomic_int stop;
static atomic_long echoes, wrong, errors;

/* Closing resets: in TIME-WAIT the connections of a minute would take all ports. */
static int open_connection(void)
{
    struct linger reset = {1, 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0)
        return fd;
    static atomic_int shown;
    if (atomic_fetch_add(&shown, 1) < 3)
        perror(fd >= 0 ? "connect" : "socket");
    if (fd >= 0)
        close(fd);
    return -1;
}

/* 0: came back; 1: other bytes came back; 2: an error. */
static int echo(int fd, char tag)
{
    char out[SIZE], in[SIZE];
    size_t got = 0;
    memset(out, tag, SIZE);
    if (write(fd, out, SIZE) != SIZE)
        return 2;
    while (got < SIZE) {
        ssize_t count = read(fd, in + got, SIZE - got);
        if (count <= 0)
            return 2;
        got += (size_t)count;
    }
    return memcmp(out, in, SIZE) != 0;
}

static void *talk(void *argument)
{
    char tag = (char)(long)argument;
    while (!stop) {
        int fd = open_connection(), answer = fd < 0 ? 2 : 0;
        for (int round = 0; round < ROUNDS && answer == 0; round++)
            answer = echo(fd, tag);
        if (fd >= 0)
            close(fd);
        echoes += answer == 0;
        wrong += answer == 1;
        errors += answer == 2;
    }
    return 0;
}

static int child(void)
{
    alarm(20);
    for (int number = 0; number < FILES; number++) {
        int fd = open("/dev/null", O_WRONLY);
        if (fd < 0 || write(fd, "of a child, for a file", 22) != 22)
            return 1;
    }
    int fd = open_connection();
    return fd < 0 ? 2 : 3 * echo(fd, '#');
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    peer.sin_family = AF_INET;
    inet_pton(AF_INET, words[1], &peer.sin_addr);
    peer.sin_port = htons((unsigned short)atoi(words[2]));
    pthread_t threads[THREADS];
    for (long number = 0; number < THREADS; number++)
        pthread_create(&threads[number], 0, talk, (void *)('A' + number));
    int bad = 0;
    for (int number = 0; number < atoi(words[3]); number++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            bad++;
            fprintf(stderr, "child %d: status %x\n", number, (unsigned)status);
        }
    }
    stop = 1;
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], 0);
    printf("bad children %d wrong %ld errors %ld some %d\n", bad, (long)wrong, (long)errors, echoes > 0);
    return 0;
}
