/* Messages of F-Stack programs: to stderr, a file, or a stream of the program's. */
#ifndef FF_LOG_H
#define FF_LOG_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FF_LOG_DISABLE 0U
#define FF_LOG_EMERG 1U
#define FF_LOG_ALERT 2U
#define FF_LOG_CRIT 3U
#define FF_LOG_ERR 4U
#define FF_LOG_WARNING 5U
#define FF_LOG_NOTICE 6U
#define FF_LOG_INFO 7U
#define FF_LOG_DEBUG 8U

#define FF_LOGTYPE_FSTACK_LIB 24
#define FF_LOGTYPE_FSTACK_FREEBSD 25
#define FF_LOGTYPE_FSTACK_APP 26

int ff_log_open_set(const char *path);
int ff_log_reset_stream(void *stream); /* a FILE *; NULL: stderr */
void ff_log_close(void);               /* what ff_log_open_set has opened */
void ff_log_set_global_level(uint32_t level);
int ff_log_set_level(uint32_t logtype, uint32_t level);

/* Of this library: for ff_vlog. */
int ff_log_is_printed(uint32_t level, uint32_t logtype);
void *ff_log_stream(void);

static inline int ff_vlog(uint32_t level, uint32_t logtype, const char *format, va_list arguments)
{
    FILE *stream = (FILE *)ff_log_stream();
    if (!ff_log_is_printed(level, logtype))
        return 0;
    int printed = vfprintf(stream ? stream : stderr, format, arguments);
    fflush(stream ? stream : stderr);
    return printed;
}

static inline int ff_log(uint32_t level, uint32_t logtype, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int printed = ff_vlog(level, logtype, format, arguments);
    va_end(arguments);
    return printed;
}

#ifdef __cplusplus
}
#endif
#endif
