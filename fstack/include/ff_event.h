/* kqueue(2) of FreeBSD. Filters: EVFILT_READ, _WRITE, _TIMER and _USER; the others give EOPNOTSUPP. */
#ifndef FF_EVENT_H
#define FF_EVENT_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EVFILT_READ (-1)
#define EVFILT_WRITE (-2)
#define EVFILT_AIO (-3)
#define EVFILT_VNODE (-4)
#define EVFILT_PROC (-5)
#define EVFILT_SIGNAL (-6)
#define EVFILT_TIMER (-7) /* data: the period */
#define EVFILT_FS (-9)
#define EVFILT_LIO (-10)
#define EVFILT_USER (-11)
#define EVFILT_SYSCOUNT 11

struct kevent {
    uintptr_t ident; /* a descriptor, or the program's own number of a timer or user event */
    short filter;
    u_short flags;
    u_int fflags;
    intptr_t data; /* reported: bytes to read, size of the send buffer, connections to accept, times that a timer rang, or an errno */
    void *udata;
};

#define EV_SET(kevp_, a, b, c, d, e, f) \
    do {                                \
        struct kevent *kevp = (kevp_);  \
        kevp->ident = (a);              \
        kevp->filter = (b);             \
        kevp->flags = (c);              \
        kevp->fflags = (d);             \
        kevp->data = (e);               \
        kevp->udata = (f);              \
    } while (0)

/* What is to be done with a filter. */
#define EV_ADD 0x0001
#define EV_DELETE 0x0002
#define EV_ENABLE 0x0004
#define EV_DISABLE 0x0008
/* When it is reported. EV_CLEAR: once for each change, if the descriptor's other filter is EV_CLEAR too or not there. */
#define EV_ONESHOT 0x0010
#define EV_CLEAR 0x0020
#define EV_RECEIPT 0x0040
#define EV_DISPATCH 0x0080
#define EV_SYSFLAGS 0xF000
#define EV_DROP 0x1000
#define EV_FLAG1 0x2000
/* Reported. */
#define EV_EOF 0x8000
#define EV_ERROR 0x4000

/* EVFILT_READ, EVFILT_WRITE: NOTE_LOWAT sets SO_RCVLOWAT for reading, and has no effect for writing. */
#define NOTE_LOWAT 0x0001
/* EVFILT_TIMER: the unit of the period; without one of them milliseconds. */
#define NOTE_SECONDS 0x0001
#define NOTE_MSECONDS 0x0002
#define NOTE_USECONDS 0x0004
#define NOTE_NSECONDS 0x0008
/* EVFILT_USER: what becomes of the lower 24 bits, and whether the event happens. */
#define NOTE_FFNOP 0x00000000
#define NOTE_FFAND 0x40000000
#define NOTE_FFOR 0x80000000
#define NOTE_FFCOPY 0xc0000000
#define NOTE_FFCTRLMASK 0xc0000000
#define NOTE_FFLAGSMASK 0x00ffffff
#define NOTE_TRIGGER 0x01000000

#ifdef __cplusplus
}
#endif
#endif
