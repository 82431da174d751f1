/* Micro threads as F-Stack's programs use them.
 * threads serve PORT: a thread for each connection returns what it gets.
 * threads ask ADDRESS PORT COUNT: so many threads at once ask the server and compare, each over a connection of its own and over kept ones. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "mt_incl.h"
#include "micro_thread.h"

static struct sockaddr_in address = {};

static void echo(void *argument)
{
    int fd = *static_cast<int *>(argument);
    delete static_cast<int *>(argument);
    char buffer[32 * 1024];
    ssize_t got;
    while ((got = mt_recv(fd, buffer, sizeof buffer, 0, -1)) > 0)
        if (mt_send(fd, buffer, got, 0, 60000) < 0)
            break;
    close(fd);
}

static int serve()
{
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 || ioctl(listener, FIONBIO, &on) < 0 ||
        bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) < 0 || listen(listener, 1024) < 0) {
        perror("listen");
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int fd = mt_accept(listener, NULL, NULL, -1);
        if (fd >= 0 && !mt_start_thread(reinterpret_cast<void *>(echo), new int(fd))) {
            perror("mt_start_thread");
            close(fd);
        }
    }
}

static int four_bytes_ahead(void *buffer, int len)
{
    uint32_t length = 0;
    if (len < (int)sizeof length)
        return 0;
    memcpy(&length, buffer, sizeof length);
    return (int)length;
}

static int known_length(void *buffer, int len, bool closed, void *context, bool &detected)
{
    int length = closed ? -1 : four_bytes_ahead(buffer, len);
    detected = length > 0;
    ++*static_cast<int *>(context);
    return length;
}

class Asks : public IMtTask
{
public:
    virtual int Process()
    {
        uint32_t request[256];
        for (int round = 0; round < 8; round++) {
            uint32_t length = sizeof request;
            memset(request, round + 1, sizeof request);
            request[0] = length;
            char reply[2048];
            int size = sizeof reply, asked = 0;
            MT_TCP_CONN_TYPE kind = round % 2 ? MT_TCP_LONG : MT_TCP_SHORT;
            if (mt_tcpsendrcv_ex(&address, request, length, reply, &size, 60000, four_bytes_ahead, kind) != 0)
                return -1;
            if (size != (int)length || memcmp(reply, request, length) != 0)
                return -2;
            void *kept = NULL;
            size = 16;
            if (mt_tcpsendrcv_ex(&address, request, length, kept, size, 60000, known_length, &asked, kind, true) != 0)
                return -3;
            bool same = size == (int)length && asked > 0 && memcmp(kept, request, length) == 0;
            free(kept);
            if (!same)
                return -4;
            mt_swap_thread();
        }
        return 0;
    }
};

static int ask(size_t count)
{
    vector<Asks> all(count);
    IMtTaskList tasks;
    for (size_t place = 0; place < count; place++)
        tasks.push_back(&all[place]);
    if (mt_exec_all_task(tasks) != 0)
        return 1;
    size_t good = 0;
    for (size_t place = 0; place < count; place++) {
        if (all[place].GetResult() == 0)
            good++;
        else
            printf("task %zu: %d\n", place, all[place].GetResult());
    }
    printf("%zu of %zu\n", good, count);
    return good != count;
}

int main(int count, char *arguments[])
{
    bool serves = count == 3 && strcmp(arguments[1], "serve") == 0, asks = count == 5 && strcmp(arguments[1], "ask") == 0;
    if ((!serves && !asks) || !mt_init_frame()) {
        fprintf(stderr, "usage: threads serve PORT | threads ask ADDRESS PORT COUNT\n");
        return 2;
    }
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = serves ? INADDR_ANY : inet_addr(arguments[2]);
    address.sin_port = htons(atoi(arguments[serves ? 2 : 3]));
    return serves ? serve() : ask(atoi(arguments[4]));
}
