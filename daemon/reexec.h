/* Which device: a real one, or the software device, which is put in front of libibverbs by executing this program again with
 * LD_PRELOAD. Before anything else is opened. */
#ifndef ZC_DAEMON_REEXEC_H
#define ZC_DAEMON_REEXEC_H

#include "device.h"
#include "error.h"

/* Open the device that the configuration names: a name, "auto" or "soft". For the software device the program is executed once
 * more (argv as given to main()), and the call returns in the second life, with LD_PRELOAD as the user had it. Logs which device
 * it is. ZC_ERR_NOT_FOUND, ZC_ERR_DEVICE. */
int device_choose(const char *wanted, char **argv, struct zc_device **device, struct zc_error *err);

#endif
