/* The daemon's counters, for the control socket and for metrics.c. */
#ifndef ZC_DAEMON_CMD_STATS_H
#define ZC_DAEMON_CMD_STATS_H

#include "daemon.h"

/* The answer to `stats`: a new reference, NULL without memory. Reads /proc/self, and no disk. */
json_t *stats_to_json(const struct daemon *daemon);

#endif
