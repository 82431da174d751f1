/* What a child costs: two programs, one of which has LIBRARY in LD_PRELOAD, start PROGRAM (/bin/true) in turn, COUNT times each, with fork
   and execve or with posix_spawn. Prints the medians of the time from the call to the child's end, the children's page faults,
   and the median of the differences. Usage: child COUNT LIBRARY [fork|spawn [PROGRAM ARGUMENT...]] */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
struct answer { long nanoseconds, faults; };
static int less(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}
static long median(long *values, int count) {
    qsort(values, count, sizeof *values, less);
    return values[count / 2];
}
static struct answer start_one(int spawn, char **words) {
    struct timespec from, to;
    struct rusage used;
    pid_t pid;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (spawn) posix_spawn(&pid, words[0], 0, 0, words, environ);
    else if ((pid = fork()) == 0) { execve(words[0], words, environ); _exit(1); }
    wait4(pid, &status, 0, &used);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (struct answer){(to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec, used.ru_minflt};
}
/* Starts one child for each byte that arrives at descriptor 0. */
static int serve(int spawn, char **words) {
    for (char byte; read(0, &byte, 1) == 1;) {
        struct answer answer = start_one(spawn, words);
        if (write(0, &answer, sizeof answer) != sizeof answer) return 1;
    }
    return 0;
}
static int begin(const char *self, const char *library, char **words) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) { perror("socketpair"); exit(1); }
    if (fork() == 0) {
        dup2(ends[1], 0);
        close(ends[0]);
        close(ends[1]);
        if (library) setenv("LD_PRELOAD", library, 1);
        if (library && !getenv("RINGWAY_SOCKET")) setenv("RINGWAY_SOCKET", "/nonexistent", 1);
        execv(self, words);
        perror(self);
        _exit(1);
    }
    close(ends[1]);
    return ends[0];
}
int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "serve")) return serve(!strcmp(argv[2], "spawn"), argv + 3);
    if (argc < 3 || atoi(argv[1]) < 1) { fprintf(stderr, "usage: child COUNT LIBRARY [fork|spawn [PROGRAM ARGUMENT...]]\n"); return 2; }
    int count = atoi(argv[1]);
    char *way = argc > 3 ? argv[3] : "fork", *library = argv[2], *usual[] = {argv[0], "serve", way, "/bin/true", 0};
    char **words = argc > 4 ? argv + 1 : usual;
    if (argc > 4) argv[1] = argv[0], argv[2] = "serve";
    int programs[2] = {begin("/proc/self/exe", 0, words), begin("/proc/self/exe", library, words)};
    long *times[2] = {calloc(count, sizeof(long)), calloc(count, sizeof(long))}, *more = calloc(count, sizeof(long));
    struct answer answer[2];
    for (int i = 0; i < count; i++) {
        for (int side = 0; side < 2; side++) {
            if (write(programs[side], "", 1) != 1 || recv(programs[side], &answer[side], sizeof answer[side], MSG_WAITALL) != sizeof answer[side]) {
                fprintf(stderr, "child: a program ended early\n");
                return 1;
            }
            times[side][i] = answer[side].nanoseconds;
        }
        more[i] = times[1][i] - times[0][i];
    }
    printf("%s: without %ld us (%ld faults), with %ld us (%ld faults), difference %ld us\n", way, median(times[0], count) / 1000, answer[0].faults,
           median(times[1], count) / 1000, answer[1].faults, median(more, count) / 1000);
}
