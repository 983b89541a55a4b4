/* The daemon's log: one line a message on stderr, which starts with the time. Under systemd messages go to the journal itself, with
 * priority and fields (SESSION=, PEER=, RUN=): journalctl RUN=ID. Any thread may log: a line is one write(2). */
#ifndef ZC_DAEMON_LOG_H
#define ZC_DAEMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "responder.h"

/* NULL-terminated names by enum zc_log_level: "error", "warning", "info", "debug". */
extern const char *const log_level_names[];

/* Decide once where lines go (JOURNAL_STREAM). Until then they are plain. */
void log_init(void);
/* Messages above `level` are dropped. Any time. */
void log_set_level(enum zc_log_level level);

/* What a message is about. */
struct log_about {
    uint64_t session;       /* 0: none */
    const char *peer, *run; /* NULL: none */
};

/* `about` may be NULL. */
void log_about(enum zc_log_level level, const struct log_about *about, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define log_run(level, id, ...) log_about(level, &(const struct log_about){ .run = (id) }, __VA_ARGS__)
/* A line of the responder's: "session 17 (ADDRESS:PORT): ..." and "refused ADDRESS:PORT: ..." are told apart (responder.h). */
void log_responder(enum zc_log_level level, const char *line);

void log_at(enum zc_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_at(ZC_LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(ZC_LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_at(ZC_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(ZC_LOG_DEBUG, __VA_ARGS__)

#endif
