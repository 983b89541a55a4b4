/* The memory that this process exposes for reading: filled with the pattern, and registered so that nothing but reading can ever be
 * granted: with REMOTE_READ alone, or with MW_BIND alone where every QP gets a memory window, and with it an rkey, of its own. */
#ifndef ZC_REGION_H
#define ZC_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "error.h"
#include "pages.h"

struct zc_region;

enum zc_rkey_scope {
    ZC_RKEY_REGION,     /* one rkey, which serves whoever knows it for as long as the region lives */
    ZC_RKEY_SESSION,    /* a type-2 window for each QP: its rkey is worthless on another QP, and dies with the session */
};

/* ZC_RKEY_REGION, the default kind of pages. */
int zc_region_create(const struct zc_device *device, size_t size_bytes, uint64_t pattern_seed, struct zc_region **region,
                     struct zc_error *err);
/* The same on another kind of pages (see zc_buffer_create_pages()) and with another scope. ZC_RKEY_SESSION on a device that has no
 * type-2 windows is ZC_ERR_DEVICE with field "rkey_scope". */
int zc_region_create_scoped(const struct zc_device *device, size_t size_bytes, enum zc_pages pages, enum zc_rkey_scope scope,
                            uint64_t pattern_seed, struct zc_region **region, struct zc_error *err);
/* Does the device have type-2 windows (IBV_DEVICE_MEM_WINDOW_TYPE_2A or _2B)? */
bool zc_region_windows_offered(const struct zc_device *device);
void zc_region_destroy(struct zc_region *region);
/* Deregister the memory, which stays as it is: nobody reads it until it is offered again, under another rkey. No window is bound to it. */
void zc_region_withdraw(struct zc_region *region);
/* Of one that was withdrawn; the device may be another than before, but as able. */
int zc_region_offer(struct zc_region *region, const struct zc_device *device, struct zc_error *err);
uint64_t zc_region_address(const struct zc_region *region);
size_t zc_region_size(const struct zc_region *region);
uint64_t zc_region_huge_bytes(const struct zc_region *region);  /* on huge pages when it was made; ZC_UNMEASURED: unknown */
enum zc_rkey_scope zc_region_scope(const struct zc_region *region);
struct ibv_mr *zc_region_mr(const struct zc_region *region);    /* what windows are bound to; its rkey reads in ZC_RKEY_REGION only */
uint64_t zc_region_seed(const struct zc_region *region);

#endif
