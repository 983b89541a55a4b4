/* The counters as a file for node_exporter's textfile collector (metrics_file). */
#ifndef ZC_DAEMON_METRICS_H
#define ZC_DAEMON_METRICS_H

#include "daemon.h"

/* Needs loop, worker and whatever the counters are of. Without metrics_file there is nothing to do, until metrics_reload(). */
int metrics_start(struct daemon *daemon, struct zc_error *err);
/* Removes the file: what it says is no longer so. Harmless if not started. */
void metrics_stop(struct daemon *daemon);
/* The configuration has been read again. */
void metrics_reload(struct daemon *daemon);

#endif
