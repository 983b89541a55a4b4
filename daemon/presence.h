/* Whether the device is there. It may be taken away while the daemon runs - hot-unplug, a driver that is unloaded or starts anew,
 * `rdma link delete` - and the kernel may wait until nobody uses it. Then everything on it goes: sessions, region, listener, runs, the
 * device itself. The daemon answers as before, and serves again when a device of this name is back with an ACTIVE port. */
#ifndef ZC_DAEMON_PRESENCE_H
#define ZC_DAEMON_PRESENCE_H

#include <stdbool.h>

#include "daemon.h"

/* Needs everything that uses the device. */
int presence_start(struct daemon *daemon, struct zc_error *err);
void presence_stop(struct daemon *daemon);      /* harmless if it was not started */

/* The device is being removed, or else has failed for good; it has said so itself. No run starts on it any more; the rest is done
 * later, so that whoever is destroyed may call. */
void presence_lost(struct daemon *daemon, bool removed);
/* The daemon is stopping: what comes back is not taken. */
void presence_give_up(struct daemon *daemon);

bool presence_served(const struct daemon *daemon);          /* false: removed, and not back */
uint64_t presence_removals(const struct daemon *daemon);    /* since the start */
/* The error of whoever wants the device while it is not served. Returns err->errnum. */
int presence_error(const struct daemon *daemon, struct zc_error *err);

#endif
