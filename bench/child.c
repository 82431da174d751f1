/* What a child costs: starts /bin/true COUNT times with fork and execve, or with posix_spawn, and prints the median of the
   children's CPU by getrusage(2) and the page faults of the last. Usage: child COUNT [spawn] */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int less(const void *a, const void *b) { return *(long *)a < *(long *)b ? -1 : 1; }
int main(int argc, char **argv) {
    int n = atoi(argv[1]), spawn = argc > 2;
    long *us = calloc(n, sizeof *us), faults = 0;
    for (int i = 0; i < n; i++) {
        char *words[] = {"/bin/true", 0};
        pid_t pid;
        if (spawn) posix_spawn(&pid, words[0], 0, 0, words, environ);
        else if ((pid = fork()) == 0) { execve(words[0], words, environ); _exit(1); }
        struct rusage r; int status;
        wait4(pid, &status, 0, &r);
        us[i] = r.ru_utime.tv_usec + r.ru_stime.tv_usec + 1000000 * (r.ru_utime.tv_sec + r.ru_stime.tv_sec);
        faults = r.ru_minflt;
    }
    qsort(us, n, sizeof *us, less);
    printf("%ld us, %ld faults\n", us[n / 2], faults);
}
