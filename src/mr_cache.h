/* A cache of registrations: memory that was registered once stays registered after its use, for the next READ into the same place.
 * For programs that use the same buffers again and again, and for the cached_* strategies.
 *
 * An MR names pages, not addresses. Memory that is unmapped, remapped or discarded - munmap(2), mremap(2), mmap(2) with MAP_FIXED,
 * madvise(2) with MADV_DONTNEED, free(3) of a block that goes back to the system - has other pages when it comes back, and a cached MR
 * would go on writing to the old ones. Verbs do not tell, so whoever gives memory back says so first: zc_mr_cache_forget(). */
#ifndef ZC_MR_CACHE_H
#define ZC_MR_CACHE_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "device.h"
#include "error.h"

struct zc_mr_cache;     /* thread-safe */
struct zc_mr_entry;     /* a registration, from get to put */

struct zc_mr_cache_params {
    const struct zc_device *device;     /* borrowed */
    int access;                         /* of every MR: enum ibv_access_flags */
    uint64_t max_bytes;                 /* registered at most, in whole pages; only what is in use at the moment may exceed it */
    uint32_t max_entries;               /* the same for MRs, 1..; more than so many in use at once are refused */
};

/* All memory that it will ever need, but for what the provider allocates in ibv_reg_mr(3). ZC_ERR_RESOURCE. */
int zc_mr_cache_create(const struct zc_mr_cache_params *params, struct zc_mr_cache **cache, struct zc_error *err);
/* Deregisters everything; nothing may be in use any more. NULL is allowed. */
void zc_mr_cache_destroy(struct zc_mr_cache *cache);

/* An MR that covers [address, address + length_bytes), one that is there already or a new one of the pages around it. Those that have
 * not been used for the longest time make room. The caller's until zc_mr_cache_put(). Errors are those of zc_mr_register(). */
int zc_mr_cache_get(struct zc_mr_cache *cache, void *address, uint64_t length_bytes, struct zc_mr_entry **entry, struct zc_error *err);
/* The same if it is there; NULL, and nothing is counted, if it is not. */
struct zc_mr_entry *zc_mr_cache_find(struct zc_mr_cache *cache, void *address, uint64_t length_bytes);
/* Not in use any more. 0, or a negative errno of ibv_dereg_mr(3) where the limit or zc_mr_cache_forget() wants it deregistered. */
int zc_mr_cache_put(struct zc_mr_cache *cache, struct zc_mr_entry *entry);
uint32_t zc_mr_entry_lkey(const struct zc_mr_entry *entry);

/* No MR that touches [address, address + length_bytes) is given out again; those that are not in use are deregistered before it
 * returns, the others when they are put back. Call it before the memory is given back. 0 or a negative errno of ibv_dereg_mr(3). */
int zc_mr_cache_forget(struct zc_mr_cache *cache, void *address, uint64_t length_bytes);

struct zc_mr_cache_stats {
    uint64_t hits, misses;      /* of get and find: it was there, it had to be registered */
    uint64_t evictions;         /* deregistered to make room */
    uint64_t forgotten;         /* deregistered, or about to be, because of zc_mr_cache_forget() */
    uint64_t bytes, entries;    /* registered now, in whole pages; overlapping MRs count each in full, as the kernel counts them */
};
void zc_mr_cache_stats(struct zc_mr_cache *cache, struct zc_mr_cache_stats *stats);

#endif
