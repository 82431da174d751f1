// echo PORT: serves one connection in a thread, found by epoll, and ends.
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *argument) {
    int connection = (int)(long)argument;
    char *bytes = malloc(65536);
    ssize_t count;
    while ((count = read(connection, bytes, 65536)) > 0)
        for (ssize_t sent = 0, part; sent < count; sent += part)
            if ((part = write(connection, bytes + sent, count - sent)) < 0) exit(1);
    free(bytes);
    close(connection);
    return NULL;
}

int main(int count, char **arguments) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[count - 1]))};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8)) return 1;
    int waits = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(waits, EPOLL_CTL_ADD, listener, &event);
    if (epoll_wait(waits, &event, 1, -1) != 1) return 1;
    pthread_t thread;
    pthread_create(&thread, NULL, serve, (void *)(long)accept(listener, NULL, NULL));
    pthread_join(thread, NULL);
    close(listener);
    return 0;
}
