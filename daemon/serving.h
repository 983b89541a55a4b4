/* What peers see, in the loop: region, listener, sessions. It closes when the device is taken away, and opens again when that is
 * back (presence.h); what it has counted goes on. */
#ifndef ZC_DAEMON_SERVING_H
#define ZC_DAEMON_SERVING_H

#include "daemon.h"

/* Opened. Needs loop and device. */
int serving_start(struct daemon *daemon, struct zc_error *err);
/* BYE to every session; harmless if it was not started. */
void serving_stop(struct daemon *daemon);

/* Register the region - make it, if there is none yet - create the listener on the configuration's address and watch it:
 * daemon->region, daemon->responder. */
int serving_open(struct daemon *daemon, struct zc_error *err);
/* Nothing is left on the device; BYE to the sessions that there are. The region's memory stays as it is, pattern included, because
 * making it anew could take longer than a loop may stand still. Harmless if it is not open. */
void serving_close(struct daemon *daemon);

/* Since the start of the daemon. */
void serving_stats(const struct daemon *daemon, struct zc_responder_stats *stats);
/* Of the device's port: "ACTIVE", "DOWN", ...; "" while it is closed. */
const char *serving_port_state(const struct daemon *daemon);
/* Where "self" is: the address of --listen if it names one, or else the device's own, and the listener's port. Only while it is open. */
void serving_self(const struct daemon *daemon, struct run_self *self);

#endif
