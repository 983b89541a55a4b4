/* Where the threads and the memory of a run belong: one rule for every strategy, or comparing them is worth nothing. Built on
 * hwloc(7); without it (-DZC_HWLOC=OFF) nothing is bound, and the result says so. Set-up only. */
#ifndef ZC_PLACEMENT_H
#define ZC_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "result.h"

struct zc_placement;

/* The rule. `numa` is the option: "auto" is the NUMA node of the device, or the only node there is; "none" binds nothing; a number
 * is that node. ZC_ERR_INVALID with field "numa" for a node that does not exist. Remembers where the calling thread may run. */
int zc_placement_create(const char *numa, const struct zc_device_info *device, struct zc_placement **placement,
                        struct zc_error *err);
/* By the thread that created it, which goes back to the CPUs it had before. NULL is allowed. */
void zc_placement_destroy(struct zc_placement *placement);

/* The node, or -1: anywhere. */
int zc_placement_node(const struct zc_placement *placement);
/* Bind the calling thread to the CPUs of the node; any thread, also several at once. Threads that it starts afterwards inherit it
 * (sched_setaffinity(2)), so a run's own thread does it first. 0 also if there is nothing to bind; a negative errno where binding
 * is not permitted, as in some containers: the thread goes on where it is. */
int zc_placement_apply(const struct zc_placement *placement);
/* One line for the result: what the rule came to, and what of it could not be done. Returns text. */
const char *zc_placement_text(const struct zc_placement *placement, bool threads_bound, bool memory_bound, char *text, size_t size);

/* Bind a range of whole pages that nobody has touched yet. False: not possible here, or not permitted. Any thread. */
bool zc_placement_bind_memory(void *address, size_t length_bytes, int numa_node);

#endif
