/* Micro threads as F-Stack's C++ programs call them, over ff_mt.h, which says what each call does. Calls with bytes return a number below
 * zero and set errno where they fail; F-Stack's own returns other numbers below zero. */
#ifndef FF_MT_API_H
#define FF_MT_API_H

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "ff_api.h"
#include "ff_mt.h"

using std::vector;

namespace NS_MICRO_THREAD {

typedef unsigned long long utime64_t;
typedef void (*ThreadStart)(void *);

/* With arguments: as ff_init, with F-Stack's options and its file. */
inline bool mt_init_frame(int argc = 0, char *const argv[] = NULL)
{
    return (argc == 0 || ff_init(argc, argv) == 0) && ff_mt_init() == 0;
}
inline void mt_set_stack_size(unsigned int bytes) { ff_mt_set_stack_size(bytes); }

inline void *mt_start_thread(void *entry, void *args) { return ff_mt_start(reinterpret_cast<ThreadStart>(entry), args); }
inline void *mt_active_thread() { return ff_mt_self(); }
inline void mt_thread_wait(int ms) { ff_mt_wait(ms); }
inline void mt_thread_wakeup_wait(void *thread) { ff_mt_wake(thread); }
inline void mt_swap_thread() { ff_mt_yield(); }
inline void mt_sleep(int ms) { ff_mt_sleep(ms); }
inline unsigned long long mt_time_ms(void) { return ff_mt_time_ms(); }
inline void mt_set_msg_private(void *data) { ff_mt_set_private(data); }
inline void *mt_get_msg_private() { return ff_mt_get_private(); }

inline int mt_wait_events(int fd, int events, int timeout) { return ff_mt_wait_events(fd, events, timeout); }

inline int mt_recvfrom(int fd, void *buf, int len, int flags, struct sockaddr *from, socklen_t *fromlen, int timeout)
{
    return (int)ff_mt_recvfrom(fd, buf, (size_t)len, flags, from, fromlen, timeout);
}
inline int mt_sendto(int fd, const void *msg, int len, int flags, const struct sockaddr *to, int tolen, int timeout)
{
    return (int)ff_mt_sendto(fd, msg, (size_t)len, flags, to, (socklen_t)tolen, timeout);
}
inline int mt_connect(int fd, const struct sockaddr *addr, int addrlen, int timeout)
{
    return ff_mt_connect(fd, addr, (socklen_t)addrlen, timeout);
}
inline int mt_accept(int fd, struct sockaddr *addr, socklen_t *addrlen, int timeout)
{
    return ff_mt_accept(fd, addr, addrlen, timeout);
}
inline ssize_t mt_read(int fd, void *buf, size_t nbyte, int timeout) { return ff_mt_read(fd, buf, nbyte, timeout); }
inline ssize_t mt_write(int fd, const void *buf, size_t nbyte, int timeout) { return ff_mt_write(fd, buf, nbyte, timeout); }
inline ssize_t mt_recv(int fd, void *buf, int len, int flags, int timeout)
{
    return ff_mt_recv(fd, buf, (size_t)len, flags, timeout);
}
inline ssize_t mt_send(int fd, const void *buf, size_t nbyte, int flags, int timeout)
{
    return ff_mt_send(fd, buf, nbyte, flags, timeout);
}

/* The reply's length, 0 where it is not known yet, below zero where it is none. */
typedef int (*MtFuncTcpMsgLen)(void *buf, int len);
typedef int (*MtFuncTcpMsgChecker)(void *buf, int len, bool closed, void *msg_ctx, bool &msg_len_detected);

enum MT_TCP_CONN_TYPE {
    MT_TCP_SHORT = 1,
    MT_TCP_LONG = 2,
    MT_TCP_SHORT_SNDONLY = 3,
    MT_TCP_LONG_SNDONLY = 4,
    MT_TCP_BUTT
};

namespace of_ringway {

inline int check_len(void *buffer, int len, bool closed, void *context, bool *)
{
    return closed ? 0 : (*static_cast<MtFuncTcpMsgLen *>(context))(buffer, len);
}

struct checker {
    MtFuncTcpMsgChecker ask;
    void *context;
};

inline int check_message(void *buffer, int len, bool closed, void *context, bool *detected)
{
    checker *with = static_cast<checker *>(context);
    return with->ask(buffer, len, closed, with->context, *detected);
}

} // namespace of_ringway

inline int mt_tcpsendrcv_ex(struct sockaddr_in *dst, void *pkg, int len, void *rcv_buf, int *buf_size, int timeout,
                            MtFuncTcpMsgLen func, MT_TCP_CONN_TYPE type = MT_TCP_LONG)
{
    bool reads = type == MT_TCP_SHORT || type == MT_TCP_LONG;
    if (reads && (!buf_size || !func))
        return -10;
    ff_mt_reply reply = {rcv_buf, reads ? *buf_size : 0, false, of_ringway::check_len, &func};
    int done = ff_mt_tcp_exchange(dst, pkg, len, reads ? &reply : NULL, timeout, type);
    if (reads)
        *buf_size = reply.size;
    return done;
}

inline int mt_tcpsendrcv(struct sockaddr_in *dst, void *pkg, int len, void *rcv_buf, int &buf_size, int timeout,
                         MtFuncTcpMsgLen check_func)
{
    return mt_tcpsendrcv_ex(dst, pkg, len, rcv_buf, &buf_size, timeout, check_func, MT_TCP_LONG);
}

/* The reply's memory is the program's to free(3) where it keeps it; else it is gone, and only its length and what the function has seen are left. */
inline int mt_tcpsendrcv_ex(struct sockaddr_in *dst, void *pkg, int len, void *&rcv_buf, int &recv_pkg_size, int timeout,
                            MtFuncTcpMsgChecker check_func, void *msg_ctx = NULL, MT_TCP_CONN_TYPE type = MT_TCP_LONG,
                            bool keep_rcv_buf = false)
{
    bool reads = type == MT_TCP_SHORT || type == MT_TCP_LONG;
    if (reads && !check_func)
        return -10;
    of_ringway::checker with = {check_func, msg_ctx};
    ff_mt_reply reply = {NULL, recv_pkg_size, true, of_ringway::check_message, &with};
    int done = ff_mt_tcp_exchange(dst, pkg, len, reads ? &reply : NULL, timeout, type);
    if (done == 0 && reads) {
        recv_pkg_size = reply.size;
        if (keep_rcv_buf) {
            rcv_buf = reply.buffer;
            return 0;
        }
    }
    free(reply.buffer);
    return done;
}

inline int mt_tcpsendrcv(struct sockaddr_in *dst, void *pkg, int len, void *&rcv_buf, int &recv_pkg_size, int timeout,
                         MtFuncTcpMsgChecker check_func, void *msg_ctx = NULL, bool keep_rcv_buf = false)
{
    return mt_tcpsendrcv_ex(dst, pkg, len, rcv_buf, recv_pkg_size, timeout, check_func, msg_ctx, MT_TCP_LONG, keep_rcv_buf);
}

inline int mt_udpsendrcv(struct sockaddr_in *dst, void *pkg, int len, void *rcv_buf, int &buf_size, int timeout)
{
    return ff_mt_udp_exchange(dst, pkg, len, rcv_buf, &buf_size, timeout);
}

class IMtTask
{
public:
    IMtTask() : _type(0), _result(0) {}
    virtual ~IMtTask() {}
    virtual int Process() { return -1; }
    void SetResult(int rc) { _result = rc; }
    int GetResult(void) { return _result; }
    void SetTaskType(int type) { _type = type; }
    int GetTaskType(void) { return _type; }

protected:
    int _type;
    int _result;
};

typedef vector<IMtTask *> IMtTaskList;

namespace of_ringway {

/* One call of mt_exec_all_task. */
struct task_group {
    void *caller;
    size_t left;
    bool runs;
};

struct task_run {
    IMtTask *task;
    task_group *group;
};

inline void run_task(void *place)
{
    task_run run = *static_cast<task_run *>(place);
    if (run.group->runs)
        run.task->SetResult(run.task->Process());
    if (--run.group->left == 0)
        ff_mt_wake(run.group->caller);
}

} // namespace of_ringway

/* Runs each task in a micro thread of its own, and waits for all of them. -1: a thread could not start, and no task has run. */
inline int mt_exec_all_task(IMtTaskList &req_list)
{
    of_ringway::task_group group = {ff_mt_self(), 0, true};
    std::unique_ptr<of_ringway::task_run[]> runs(new (std::nothrow) of_ringway::task_run[req_list.size()]);
    if (!runs)
        return -1;
    for (size_t place = 0; place < req_list.size() && group.runs; place++) {
        runs[place].task = req_list[place];
        runs[place].group = &group;
        if (ff_mt_start_below(of_ringway::run_task, &runs[place]))
            group.left++;
        else
            group.runs = false;
    }
    while (group.left > 0)
        ff_mt_wait(-1);
    return group.runs ? 0 : -1;
}

} // namespace NS_MICRO_THREAD

#endif
