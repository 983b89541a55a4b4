/* See log.h. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

const char *const log_level_names[] = { "error", "warning", "info", "debug", NULL };
static const int priorities[] = { 3, 4, 6, 7 };    /* syslog(3) */

static atomic_int threshold = ZC_LOG_INFO;
static bool journal;

void log_init(void)
{
    /* The variable is inherited by everything that a service starts; only if stderr is that very stream do prefixes make
     * sense (systemd.exec(5)). */
    const char *stream = getenv("JOURNAL_STREAM");
    uintmax_t device, inode;
    struct stat stat;
    journal = stream && sscanf(stream, "%ju:%ju", &device, &inode) == 2 && fstat(STDERR_FILENO, &stat) == 0
              && stat.st_dev == device && stat.st_ino == inode;
}

void log_set_level(enum zc_log_level level)
{
    atomic_store(&threshold, (int)level);
}

static size_t prefix(char *line, size_t size, enum zc_log_level level)
{
    if (journal)
        return (size_t)snprintf(line, size, "<%d>", priorities[level]);
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t length = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
    return length + (size_t)snprintf(line + length, size - length, ".%03ldZ %s: ", now.tv_nsec / 1000000, log_level_names[level]);
}

void log_at(enum zc_log_level level, const char *format, ...)
{
    if ((int)level > atomic_load(&threshold))
        return;
    int saved = errno;
    char line[LINE_MAX_BYTES];
    size_t length = prefix(line, sizeof line - 1, level);
    va_list args;
    va_start(args, format);
    int written = vsnprintf(line + length, sizeof line - 1 - length, format, args);
    va_end(args);
    if (written > 0)
        length += (size_t)written < sizeof line - 1 - length ? (size_t)written : sizeof line - 2 - length;
    for (size_t i = 0; i < length; i++)     /* what peers and clients sent must not forge lines or drive a terminal */
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        errno = saved;      /* nobody reads the log: nothing to be done about it */
    errno = saved;
}
