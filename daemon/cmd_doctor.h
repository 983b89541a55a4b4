/* The doctor has a thread of its own, because it pauses and may wait for a peer: what main.c and service.c need to know of it. */
#ifndef ZC_DAEMON_CMD_DOCTOR_H
#define ZC_DAEMON_CMD_DOCTOR_H

#include <stdbool.h>

#include "daemon.h"

int doctor_start(struct daemon *daemon, struct zc_error *err);
/* Waits for what is being looked at; the rest is answered as not done. */
void doctor_stop(struct daemon *daemon);
bool doctor_busy(const struct daemon *daemon);  /* its thread is using the device, or is about to */
/* The daemon stops: peers are not waited for any longer. */
void doctor_cancel(struct daemon *daemon);

#endif
