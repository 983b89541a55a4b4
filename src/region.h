/* The memory that this process exposes for reading: filled with the pattern, registered with REMOTE_READ and nothing else. */
#ifndef ZC_REGION_H
#define ZC_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "error.h"
#include "options.h"

struct zc_region;

int zc_region_create(const struct zc_device *device, size_t size_bytes, uint64_t pattern_seed, struct zc_region **region,
                     struct zc_error *err);
/* The same on another kind of pages; see zc_buffer_create_pages(). */
int zc_region_create_pages(const struct zc_device *device, size_t size_bytes, enum zc_pages pages, uint64_t pattern_seed,
                           struct zc_region **region, struct zc_error *err);
void zc_region_destroy(struct zc_region *region);
uint64_t zc_region_address(const struct zc_region *region);
size_t zc_region_size(const struct zc_region *region);
uint64_t zc_region_huge_bytes(const struct zc_region *region);  /* on huge pages when it was made; ZC_UNMEASURED: unknown */
uint32_t zc_region_rkey(const struct zc_region *region);
uint64_t zc_region_seed(const struct zc_region *region);

#endif
