/* The daemon's log: one line a message on stderr. Under systemd a line starts with its priority (sd-daemon(3)) and the journal
 * adds the time; elsewhere it starts with the time. Any thread may log: a line is one write(2). */
#ifndef ZC_DAEMON_LOG_H
#define ZC_DAEMON_LOG_H

#include <stdbool.h>

#include "responder.h"

/* NULL-terminated names by enum zc_log_level: "error", "warning", "info", "debug". */
extern const char *const log_level_names[];

/* Decide once how lines look (JOURNAL_STREAM). Until then lines are plain. */
void log_init(void);
/* Messages above `level` are dropped. Any time. */
void log_set_level(enum zc_log_level level);

void log_at(enum zc_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_at(ZC_LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(ZC_LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_at(ZC_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(ZC_LOG_DEBUG, __VA_ARGS__)

#endif
