/* RDMA devices: listing, opening, the facts that results record. Contexts come from rdma_get_devices(3) only, because rdma_cm
 * refuses the PD of any other context (DESIGN section 4). Called at start-up and set-up, never on the data path. */
#ifndef ZC_DEVICE_H
#define ZC_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

#include "device_info.h"
#include "error.h"

struct zc_device;   /* an open device with one PD; thread-safe once open, as libibverbs is */

/* Fill `infos` with one row a port, at most `max`; *count is how many exist. 0 with *count 0 when there is no RDMA device. */
int zc_device_list(struct zc_device_info *infos, size_t max, size_t *count, struct zc_error *err);

/* Open `name`, or with NULL the first device that has an ACTIVE port with an address that rdma_cm can use.
 * ZC_ERR_NOT_FOUND (naming what exists) or ZC_ERR_DEVICE. */
int zc_device_open(const char *name, struct zc_device **device, struct zc_error *err);
/* Nothing of it may be alive any more. A device that is gone is let go, so that the kernel can finish removing it: its context must
 * not be anybody else's in this process. NULL is allowed. */
void zc_device_close(struct zc_device *device);

struct ibv_context *zc_device_context(const struct zc_device *device);
struct ibv_pd *zc_device_pd(const struct zc_device *device);
const struct zc_device_info *zc_device_info(const struct zc_device *device);
/* The same with the port as it is now (its state, MTU): what zc_device_info() tells is of the time of opening. */
int zc_device_look(const struct zc_device *device, struct zc_device_info *info, struct zc_error *err);
/* For messages: "; port 1 of rxe0 is DOWN", or "" while it is ACTIVE. Returns text. NULL: no device. */
enum { ZC_PORT_NOTE_MAX = ZC_NAME_MAX * 2 + 24 };
const char *zc_device_port_note(const struct zc_device *device, char text[ZC_PORT_NOTE_MAX]);

/* Has the device been taken away since it was opened (hot-unplug, `rdma link delete`)? Two things that the kernel does at once: it
 * removes the device's node, and it waits - on Soft-RoCE for ever - until nobody has it open. Costs a system call. */
bool zc_device_gone(const struct zc_device *device);
/* rdma_cm has said so (RDMA_CM_EVENT_DEVICE_REMOVAL), which comes a moment before it can be seen. Nobody else uses the device. */
void zc_device_tell_gone(struct zc_device *device);
/* librdmacm has opened every device of the host together with this one: let go those that have been taken away since. Nobody in this
 * process uses another device than this one meanwhile. */
void zc_device_let_go_others(struct zc_device *device);
/* May a device of this name be opened with a port in use? By sysfs alone: nothing is opened. */
bool zc_device_port_active(const char *name, uint8_t port);

/* CPU nanoseconds that the software device's thread of this process has used; ZC_UNMEASURED on other devices. Any thread. */
uint64_t zc_device_cpu_ns(void);

#endif
