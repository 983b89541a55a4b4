/* The exposed memory: a buffer, filled with the pattern, with one MR: see region.h. */
#include "region.h"

#include <errno.h>
#include <stdlib.h>

#include "memory.h"
#include "pattern.h"

struct zc_region {
    struct zc_buffer buffer;
    struct ibv_mr *mr;
    enum zc_rkey_scope scope;
    uint64_t seed, huge_bytes;
};

bool zc_region_windows_offered(const struct zc_device *device)
{
    struct ibv_device_attr attr;
    return ibv_query_device(zc_device_context(device), &attr) == 0 && attr.max_mw > 0 &&
           attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

int zc_region_create(const struct zc_device *device, size_t size_bytes, uint64_t pattern_seed, struct zc_region **region,
                     struct zc_error *err)
{
    return zc_region_create_scoped(device, size_bytes, ZC_PAGES_DEFAULT, ZC_RKEY_REGION, pattern_seed, region, err);
}

int zc_region_create_scoped(const struct zc_device *device, size_t size_bytes, enum zc_pages pages, enum zc_rkey_scope scope,
                            uint64_t pattern_seed, struct zc_region **region, struct zc_error *err)
{
    if (scope == ZC_RKEY_SESSION && !zc_region_windows_offered(device))
        return zc_error_set(err, ZC_ERR_DEVICE, -EOPNOTSUPP, "rkey_scope", "rkey_scope session: the device %s has no type-2 windows",
                            zc_device_info(device)->name);
    struct zc_region *r = calloc(1, sizeof(*r));
    if (!r)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a region");
    r->seed = pattern_seed;
    r->scope = scope;

    int rc = zc_buffer_create_pages(size_bytes, pages, zc_device_info(device)->numa_node, &r->buffer, err);
    if (rc)
        goto free_region;
    r->huge_bytes = zc_buffer_huge_bytes(&r->buffer);
    zc_pattern_fill(r->buffer.address, size_bytes, 0, pattern_seed);
    rc = zc_region_offer(r, device, err);
    if (rc)
        goto destroy_buffer;
    *region = r;
    return 0;

destroy_buffer:
    zc_buffer_destroy(&r->buffer);
free_region:
    free(r);
    return rc;
}

void zc_region_destroy(struct zc_region *region)
{
    if (!region)
        return;
    zc_region_withdraw(region);
    zc_buffer_destroy(&region->buffer);
    free(region);
}

void zc_region_withdraw(struct zc_region *region)
{
    zc_mr_deregister(region->mr);
    region->mr = NULL;
}

int zc_region_offer(struct zc_region *region, const struct zc_device *device, struct zc_error *err)
{
    const int access = region->scope == ZC_RKEY_SESSION ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_READ;
    return zc_mr_register(device, region->buffer.address, region->buffer.length_bytes, access, "the region", &region->mr, err);
}

uint64_t zc_region_address(const struct zc_region *region)
{
    return (uint64_t)(uintptr_t)region->buffer.address;
}

size_t zc_region_size(const struct zc_region *region)
{
    return region->buffer.length_bytes;
}

uint64_t zc_region_huge_bytes(const struct zc_region *region)
{
    return region->huge_bytes;
}

enum zc_rkey_scope zc_region_scope(const struct zc_region *region)
{
    return region->scope;
}

struct ibv_mr *zc_region_mr(const struct zc_region *region)
{
    return region->mr;
}

uint64_t zc_region_seed(const struct zc_region *region)
{
    return region->seed;
}
