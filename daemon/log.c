/* See log.h. */
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "result.h"

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
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t length = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
    return length + (size_t)snprintf(line + length, size - length, ".%03ldZ %s: ", now.tv_nsec / 1000000, log_level_names[level]);
}

static void to_stderr(enum zc_log_level level, const char *message)
{
    char line[LINE_MAX_BYTES + 64];
    size_t length = prefix(line, sizeof line, level);
    length += (size_t)snprintf(line + length, sizeof line - length, "%s\n", message);
    if (write(STDERR_FILENO, line, length) < 0)
        return;     /* nobody reads the log: nothing to be done about it */
}

/* A field, if there is something to say. */
static void add_field(struct iovec *fields, int *count, char *text, size_t size, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    const int length = snprintf(text, size, "%s=%s", name, value);
    fields[(*count)++] = (struct iovec){ text, (size_t)length < size ? (size_t)length : size - 1 };
}

static void to_journal(enum zc_log_level level, const struct log_about *about, const char *message)
{
    enum { FIELDS = 5 };
    char text[FIELDS][LINE_MAX_BYTES + 16], number[24];
    struct iovec fields[FIELDS];
    int count = 0;
    snprintf(number, sizeof number, "%d", priorities[level]);
    add_field(fields, &count, text[0], sizeof text[0], "MESSAGE", message);
    add_field(fields, &count, text[1], sizeof text[1], "PRIORITY", number);
    if (about) {
        snprintf(number, sizeof number, "%" PRIu64, about->session);
        add_field(fields, &count, text[2], sizeof text[2], "SESSION", about->session ? number : NULL);
        add_field(fields, &count, text[3], sizeof text[3], "PEER", about->peer);
        add_field(fields, &count, text[4], sizeof text[4], "RUN", about->run);
    }
    if (sd_journal_sendv(fields, count) < 0)
        to_stderr(level, message);
}

static void log_va(enum zc_log_level level, const struct log_about *about, const char *format, va_list args)
{
    if ((int)level > atomic_load(&threshold))
        return;
    int saved = errno;
    char message[LINE_MAX_BYTES];
    vsnprintf(message, sizeof message, format, args);
    for (char *c = message; *c; c++)        /* what peers and clients sent must not forge lines or drive a terminal */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    if (journal)
        to_journal(level, about, message);
    else
        to_stderr(level, message);
    errno = saved;
}

void log_at(enum zc_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_va(level, NULL, format, args);
    va_end(args);
}

void log_about(enum zc_log_level level, const struct log_about *about, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_va(level, about, format, args);
    va_end(args);
}

void log_responder(enum zc_log_level level, const char *line)
{
    char peer[ZC_NAME_MAX] = "";
    struct log_about about = { .peer = peer };
    if (sscanf(line, "session %" SCNu64 " (%63[^)])", &about.session, peer) < 2 && sscanf(line, "refused %63[^ ]", peer) == 1)
        peer[strcspn(peer, " ") - 1] = 0;       /* the colon behind it */
    log_about(level, &about, "%s", line);
}
