/* The frame of F-Stack's micro threads: the calls of mt_api.h under the names that programs use beside them. */
#ifndef FF_MICRO_THREAD_H
#define FF_MICRO_THREAD_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <queue>
#include <set>
#include <vector>

#include "mt_api.h"

namespace NS_MICRO_THREAD {

class MtFrame
{
public:
    static MtFrame *Instance(void)
    {
        static MtFrame frame;
        return &frame;
    }
    bool InitFrame(void *log = NULL, int max_thread_num = 0)
    {
        (void)log, (void)max_thread_num; /* there is no log, and memory is the limit */
        return ff_mt_init() == 0;
    }

    static int sendto(int fd, const void *msg, int len, int flags, const struct sockaddr *to, int tolen, int timeout)
    {
        return mt_sendto(fd, msg, len, flags, to, tolen, timeout);
    }
    static int recvfrom(int fd, void *buf, int len, int flags, struct sockaddr *from, socklen_t *fromlen, int timeout)
    {
        return mt_recvfrom(fd, buf, len, flags, from, fromlen, timeout);
    }
    static int connect(int fd, const struct sockaddr *addr, int addrlen, int timeout)
    {
        return mt_connect(fd, addr, addrlen, timeout);
    }
    static int accept(int fd, struct sockaddr *addr, socklen_t *addrlen, int timeout)
    {
        return mt_accept(fd, addr, addrlen, timeout);
    }
    static ssize_t read(int fd, void *buf, size_t nbyte, int timeout) { return mt_read(fd, buf, nbyte, timeout); }
    static ssize_t write(int fd, const void *buf, size_t nbyte, int timeout) { return mt_write(fd, buf, nbyte, timeout); }
    static int recv(int fd, void *buf, int len, int flags, int timeout) { return (int)mt_recv(fd, buf, len, flags, timeout); }
    static ssize_t send(int fd, const void *buf, size_t nbyte, int flags, int timeout)
    {
        return mt_send(fd, buf, nbyte, flags, timeout);
    }
    static void sleep(int ms) { ff_mt_sleep(ms); }
    static int WaitEvents(int fd, int events, int timeout) { return ff_mt_wait_events(fd, events, timeout); }
    static void *CreateThread(ThreadStart entry, void *args) { return ff_mt_start(entry, args); }

    utime64_t GetLastClock(void) { return ff_mt_time_ms(); }
    void *GetActiveThread(void) { return ff_mt_self(); }
};

} // namespace NS_MICRO_THREAD

#endif
