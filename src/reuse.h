/* What one run leaves to the next: a sweep measures hundreds of short runs against the same peer, and connecting, placing and touching
 * memory would take longer than measuring. One thread. */
#ifndef ZC_REUSE_H
#define ZC_REUSE_H

struct zc_reuse;

/* Empty. NULL without memory. zc_measure_params.reuse borrows it; the thread that measures creates and destroys it. */
struct zc_reuse *zc_reuse_create(void);
/* Disconnects and releases what is left in it. NULL is allowed. */
void zc_reuse_destroy(struct zc_reuse *reuse);

#endif
