/* The responder's side in the loop: region, listener, sessions. */
#ifndef ZC_DAEMON_SERVING_H
#define ZC_DAEMON_SERVING_H

#include "daemon.h"

/* Create the listener on the configuration's address and watch it. Needs loop, device and region. */
int serving_start(struct daemon *daemon, struct zc_error *err);
/* BYE to every session; harmless if it was not started. */
void serving_stop(struct daemon *daemon);
/* Where "self" is: the address of --listen if it names one, or else the device's own, and the listener's port. */
void serving_self(const struct daemon *daemon, struct run_self *self);

#endif
