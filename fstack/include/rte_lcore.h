/* DPDK's number of the calling thread's core, which F-Stack's programs print. */
#ifndef RTE_LCORE_H
#define RTE_LCORE_H

#ifdef __cplusplus
#include <sched.h>
#else
/* <sched.h> has it only for programs that have asked for GNU's functions. */
int sched_getcpu(void);
#endif

static inline unsigned rte_lcore_id(void)
{
    return (unsigned)sched_getcpu();
}

#endif
