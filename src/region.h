/* The memory that this process exposes for reading: filled with the pattern, registered with REMOTE_READ and nothing else. */
#ifndef ZC_REGION_H
#define ZC_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "error.h"

struct zc_region;

int zc_region_create(const struct zc_device *device, size_t size_bytes, uint64_t pattern_seed, struct zc_region **region,
                     struct zc_error *err);
void zc_region_destroy(struct zc_region *region);
uint64_t zc_region_address(const struct zc_region *region);
size_t zc_region_size(const struct zc_region *region);
uint32_t zc_region_rkey(const struct zc_region *region);
uint64_t zc_region_seed(const struct zc_region *region);

#endif
