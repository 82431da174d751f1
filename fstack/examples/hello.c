/* hello PORT [OPTIONS OF F-STACK]: answers each piece of bytes with a page, on a kqueue, as programs for F-Stack do it. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <rte_lcore.h>

#include "ff_api.h"
#include "ff_config.h"
#include "ff_log.h"

#define EVENTS_MAX 512

static char page[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: keep-alive\r\n\r\nhello\n";
static int kq, listener;
static struct kevent events[EVENTS_MAX];

static int watch(int fd)
{
    struct kevent change;
    EV_SET(&change, fd, EVFILT_READ, EV_ADD, 0, 0, NULL);
    return ff_kevent(kq, &change, 1, NULL, 0, NULL);
}

static int loop(void *arg)
{
    (void)arg;
    int count = ff_kevent(kq, NULL, 0, events, EVENTS_MAX, NULL);
    for (int i = 0; i < count; i++) {
        int fd = (int)events[i].ident;
        if (events[i].flags & EV_EOF) {
            ff_close(fd);
        } else if (fd == listener) {
            for (int available = (int)events[i].data; available > 0; available--) {
                int client = ff_accept(fd, NULL, NULL);
                if (client < 0) {
                    ff_log(FF_LOG_ERR, FF_LOGTYPE_FSTACK_APP, "ff_accept: %s\n", strerror(errno));
                    break;
                }
                watch(client);
            }
        } else {
            char request[1024];
            if (ff_read(fd, request, sizeof(request)) <= 0 || ff_write(fd, page, sizeof(page) - 1) < 0)
                ff_close(fd);
        }
    }
    return 0;
}

static void stop(int signal)
{
    (void)signal;
    ff_stop_run();
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: hello PORT [OPTIONS OF F-STACK]\n");
        return 2;
    }
    if (ff_init(argc, argv) < 0)
        return 1;
    int on = 1;
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    kq = ff_kqueue();
    listener = ff_socket(AF_INET, SOCK_STREAM, 0);
    ff_ioctl(listener, FIONBIO, &on);
    if (ff_bind(listener, (struct linux_sockaddr *)&local, sizeof(local)) < 0 || ff_listen(listener, EVENTS_MAX) < 0 ||
        watch(listener) < 0) {
        perror("hello");
        return 1;
    }
    ff_log(FF_LOG_INFO, FF_LOGTYPE_FSTACK_APP, "listening on core %u\n", rte_lcore_id());
    signal(SIGTERM, stop);
    printf("ready\n");
    fflush(stdout);
    ff_run(loop, NULL);
    ff_close(listener);
    ff_close(kq);
    printf("ended\n");
    return 0;
}
