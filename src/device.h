/* RDMA devices: listing, opening, the facts that results record. Contexts come from rdma_get_devices(3) only, because rdma_cm
 * refuses the PD of any other context (DESIGN section 4). Called at start-up and set-up, never on the data path. */
#ifndef ZC_DEVICE_H
#define ZC_DEVICE_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "device_info.h"
#include "error.h"

struct zc_device;   /* an open device with one PD; thread-safe once open, as libibverbs is */

/* Fill `infos` with one row a port, at most `max`; *count is how many exist. 0 with *count 0 when there is no RDMA device. */
int zc_device_list(struct zc_device_info *infos, size_t max, size_t *count, struct zc_error *err);

/* Open `name`, or with NULL the first device that has an ACTIVE port with an address that rdma_cm can use.
 * ZC_ERR_NOT_FOUND (naming what exists) or ZC_ERR_DEVICE. */
int zc_device_open(const char *name, struct zc_device **device, struct zc_error *err);
void zc_device_close(struct zc_device *device);     /* nothing of it may be alive any more; NULL is allowed */

struct ibv_context *zc_device_context(const struct zc_device *device);
struct ibv_pd *zc_device_pd(const struct zc_device *device);
const struct zc_device_info *zc_device_info(const struct zc_device *device);
/* Read the port's state again into the info (after an async event). */
int zc_device_refresh(struct zc_device *device, struct zc_error *err);

/* CPU nanoseconds that the software device's thread of this process has used; ZC_UNMEASURED on other devices. Any thread. */
uint64_t zc_device_cpu_ns(void);

#endif
