/* What a run is measured on: host, kernel, CPU, memory, limits. Read once at set-up; reads files, so not on the data path. */
#ifndef ZC_ENVIRONMENT_H
#define ZC_ENVIRONMENT_H

#include <stdint.h>

#include "result.h"

/* Everything but environment->device, which zc_device_info() tells. What cannot be found is "" or ZC_UNMEASURED. Any thread. */
void zc_environment_read(struct zc_environment *environment);

/* Memory that may still be allocated without swapping, in bytes: MemAvailable of /proc/meminfo, or what this process' control
 * group has left (cgroup v2) if that is less. Any thread. */
uint64_t zc_memory_free_bytes(void);

#endif
