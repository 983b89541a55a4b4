/* How often the calling thread has called the allocator. Part of the program zcrdmad, not of its library. */
#ifndef ZC_DAEMON_ALLOC_COUNT_H
#define ZC_DAEMON_ALLOC_COUNT_H

#include <stdint.h>

/* For struct zc_measure_params.thread_allocations: a function, or NULL where calls cannot be counted (sanitizers have an
 * allocator of their own). */
extern uint64_t (*const alloc_count_thread)(void);

#endif
