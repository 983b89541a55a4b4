/* The daemon as a service: signals, systemd's notifications, and the orderly end. */
#ifndef ZC_DAEMON_SERVICE_H
#define ZC_DAEMON_SERVICE_H

#include <stdbool.h>

#include "daemon.h"

/* SIGTERM and SIGINT end the daemon, SIGHUP reads the configuration again, SIGPIPE is ignored. Needs everything else. */
int service_start(struct daemon *daemon, struct zc_error *err);
void service_stop(struct daemon *daemon);   /* harmless if it was not started */

/* The control socket that systemd listens on for us (zcrdmad.socket), taken over into *fd; 0: there is none. More than one is an
 * error. After the program has executed itself again (reexec.h): it marks descriptors close-on-exec. */
int service_listen_fd(int *fd, struct zc_error *err);

/* Tell systemd that requests are served; without systemd nothing happens. */
void service_ready(const struct daemon *daemon);

#endif
