/* Threads wait in one epoll instance, without sleeping, while the main thread forks. Each child waits in the instance too: a lock that a
   thread of the parent had at that instant would never be released in the child. Usage: fork_epoll ADDRESS PORT FORKS */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3 };

static int set;
static atomic_int stop;

/* 1: the connection, and nothing else, is writable. */
static int look(void)
{
    struct epoll_event told[8];
    return epoll_wait(set, told, 8, 0) == 1 && told[0].events == EPOLLOUT;
}

static void *watch(void *argument)
{
    while (!stop)
        look();
    return argument;
}

int main(int count, char **arguments)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[count - 2]))};
    struct epoll_event wish = {.events = EPOLLIN | EPOLLOUT};
    pthread_t threads[THREADS];
    int fd = socket(AF_INET, SOCK_STREAM, 0), bad = 0;
    inet_pton(AF_INET, arguments[count - 3], &peer.sin_addr);
    set = epoll_create1(0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) || epoll_ctl(set, EPOLL_CTL_ADD, fd, &wish))
        return 1;
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, watch, NULL);
    for (int n = atoi(arguments[count - 1]); n > 0; n--) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(!look());
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    stop = 1;
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    printf("bad children %d\n", bad);
    return 0;
}
