/* How many verbs objects of ours are alive in this process. Every create and destroy in src/ goes with one of these, so that
 * "nothing is left behind" is a number. Relaxed atomics; any thread. */
#ifndef ZC_COUNTERS_H
#define ZC_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct zc_counters {
    atomic_uint_least64_t pds, mrs, mr_bytes, mws, cqs, channels, qps, srqs, cm_ids;    /* alive now */
    atomic_uint_least64_t registrations;                                            /* ibv_reg_mr calls ever */
};
extern struct zc_counters zc_counters;

static inline void zc_count(atomic_uint_least64_t *counter, int64_t delta)
{
    atomic_fetch_add_explicit(counter, (uint64_t)delta, memory_order_relaxed);
}

#endif
