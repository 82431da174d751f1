/* A program that closes connections by an instruction of its own, and gets their numbers again from calls inside libc: what it
   writes there goes to the file. Usage: stale ADDRESS PORT. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void close_past_libc(int fd)
{
#if defined(__x86_64__)
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "0"((long)SYS_close), "D"((long)fd) : "rcx", "r11", "memory");
#else
    register long number __asm__("x8") = SYS_close, answer __asm__("x0") = fd;
    __asm__ volatile("svc 0" : "+r"(answer) : "r"(number) : "memory");
#endif
}

static int connected(char **arguments)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[2]))};
    inet_pton(AF_INET, arguments[1], &peer.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0 && write(fd, "for the peer", 12) == 12 ? fd : -1;
}

int main(int count, char **arguments)
{
    char one[] = "/tmp/ringway-stale-XXXXXX", two[] = "/tmp/ringway-stale-XXXXXX.txt";
    for (int round = 0; count == 3 && round < 5; round++) {
        int fd = connected(arguments), again = -1;
        close_past_libc(fd);
        switch (round) {
        case 0: again = mkstemp(one); unlink(one); break;
        case 1: again = mkostemps(two, 4, O_CLOEXEC); unlink(two); break;
        case 2: again = fileno(tmpfile()); break;
        case 3: again = fileno(fopen("/dev/null", "w")); break;
        case 4: again = dirfd(opendir("/tmp")); break;
        }
        long wrote = write(again, "for the file", 12);
        printf("%d again %d wrote %ld\n", round, again == fd, wrote);
        if (round < 2)
            close(again);
    }
    return 0;
}
