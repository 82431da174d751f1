/* The messages of programs for mTCP. Those that need its debug builds say nothing unless a macro of the same name asks for them. */
#ifndef DEBUG_H
#define DEBUG_H

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#ifndef MIN
#define MIN(a, b) ((a)<(b)?(a):(b))
#endif
#ifndef MAX
#define MAX(a, b) ((a)>(b)?(a):(b))
#endif

#define MTCP_TRACE(f, m...) fprintf(stderr, "[%10s:%4d] " f, __func__, __LINE__, ##m)

#define TRACE_CONFIG(f, m...) fprintf(stderr, f, ##m)
#ifdef DBGERR
#define TRACE_ERROR(f, m...) MTCP_TRACE(f, ##m)
#else
#define TRACE_ERROR(f, m...) (void)0
#endif
#ifdef INFO
#define TRACE_INFO(f, m...) MTCP_TRACE(f, ##m)
#else
#define TRACE_INFO(f, m...) (void)0
#endif
#ifdef DBGMSG
#define TRACE_DBG(f, m...) MTCP_TRACE(f, ##m)
#else
#define TRACE_DBG(f, m...) (void)0
#endif
#ifdef APP
#define TRACE_APP(f, m...) MTCP_TRACE(f, ##m)
#else
#define TRACE_APP(f, m...) (void)0
#endif

#endif
