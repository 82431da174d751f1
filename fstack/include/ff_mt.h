/* Micro threads for C: functions with stacks of their own in one thread of the process. One runs at a time, and goes on until it calls a
 * function of this header that waits, or has made sixteen that need not; then others run. mt_api.h is the interface of F-Stack's programs, for C++.
 *
 * Timeouts are milliseconds; below zero is without an end. What fails returns -1 and sets errno, ETIME where the time is over; the calls with
 * bytes have the other errors of recv(2), send(2) and their like, and EINVAL where there is no byte. None raises SIGPIPE. Descriptors are those of the process, and none but
 * ff_mt_connect and ff_mt_accept, which set O_NONBLOCK, changes how other calls wait for them. What a descriptor without MSG_DONTWAIT has
 * to say (a pipe) is waited for, then read or written.
 *
 * Each thread of the process has micro threads of its own, the first of which is itself; they do not move. Stacks have 128 KiB, and running over one
 * is SIGSEGV. No function may be called in a signal handler. */
#ifndef FF_MT_H
#define FF_MT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

int ff_mt_init(void); /* begins this thread's micro threads; the other calls do so too */
int ff_mt_set_stack_size(unsigned int bytes); /* of those that start from now on: 16 KiB to 1 GiB, in pages */

void *ff_mt_start(void (*entry)(void *), void *argument); /* NULL: ENOMEM, EAGAIN; it runs when the caller waits */
void *ff_mt_start_below(void (*entry)(void *), void *argument); /* the same; its private pointer is the starter's */
void *ff_mt_self(void);
void ff_mt_yield(void); /* lets all run that may */
void ff_mt_sleep(int ms);
/* Until ff_mt_wake. A wake-up that comes before is taken by the next ff_mt_wait. ESRCH: the thread has ended. */
int ff_mt_wait(int timeout);
int ff_mt_wake(void *thread);
void ff_mt_set_private(void *data); /* one pointer for a thread and those that it has started below itself */
void *ff_mt_get_private(void);
uint64_t ff_mt_time_ms(void); /* since 1970 */

#define KQ_EVENT_NONE 0
#define KQ_EVENT_READ 1
#define KQ_EVENT_WRITE 2
int ff_mt_wait_events(int fd, int events, int timeout); /* which of the events hold; 0: the time is over */

ssize_t ff_mt_read(int fd, void *buffer, size_t len, int timeout);
ssize_t ff_mt_recv(int fd, void *buffer, size_t len, int flags, int timeout);
ssize_t ff_mt_recvfrom(int fd, void *buffer, size_t len, int flags, struct sockaddr *from, socklen_t *from_len, int timeout);
/* All bytes, or -1: some of them may be sent then. */
ssize_t ff_mt_write(int fd, const void *buffer, size_t len, int timeout);
ssize_t ff_mt_send(int fd, const void *buffer, size_t len, int flags, int timeout);
ssize_t ff_mt_sendto(int fd, const void *buffer, size_t len, int flags, const struct sockaddr *to, socklen_t to_len, int timeout);
int ff_mt_connect(int fd, const struct sockaddr *address, socklen_t len, int timeout); /* 0 also where it is connected */
int ff_mt_accept(int fd, struct sockaddr *address, socklen_t *len, int timeout);

/* How long the reply is of which `len` bytes are there: 0 is not known yet, below zero that it is none. `closed`: no more will come.
 * *detected = true: the number is the whole reply's, and the function is not asked again before it is there. */
typedef int (*ff_mt_check)(void *buffer, int len, bool closed, void *context, bool *detected);

struct ff_mt_reply {
    void *buffer; /* the caller's, of `size` bytes; or, where it grows, the library's: free(3) it, also after an error */
    int size;     /* then the reply's */
    bool grows;
    ff_mt_check check;
    void *context;
};

/* Sends a request, whole, and then reads its reply. `kind`: 1 a connection of its own, 2 one that stays for the next request to the address; 3 and 4 the
 * same without a reply, which may be NULL. 1,024 connections stay; where there are more, those that have waited for ten minutes go.
 * -1 no socket, -2 not sent, -3 not received, -4 not connected (errno says why); -5 the check refuses, -6 the buffer is full, -7 the peer has
 * closed, -10 an argument, -11 no memory. */
int ff_mt_tcp_exchange(const struct sockaddr_in *to, const void *request, int len, struct ff_mt_reply *reply, int timeout, int kind);
/* A datagram and its answer, from the address that was asked alone. The numbers are the same. */
int ff_mt_udp_exchange(const struct sockaddr_in *to, const void *request, int len, void *buffer, int *size, int timeout);

#ifdef __cplusplus
}
#endif

#endif
