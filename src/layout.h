/* How the user memory of a request lies: in one piece or in several (--pieces), as it comes or beginning at a certain place of a page
 * (--align), on pages of its own if they are discarded. Pure arithmetic, used at set-up and by load.c. */
#ifndef ZC_LAYOUT_H
#define ZC_LAYOUT_H

#include <stdint.h>

#include "pipeline.h"

struct zc_layout {
    uint32_t pieces;            /* of a request, 1.. */
    uint64_t piece_bytes;       /* of each but the last, */
    uint64_t last_bytes;        /* which has the rest */
    uint64_t offset_bytes;      /* where the first begins in the request's memory */
    uint64_t piece_stride_bytes;    /* from the beginning of one to that of the next; there is a gap between two */
    uint64_t stride_bytes;      /* of the memory of a request */
};

/* discard_page_bytes: size of the pages that are discarded before each request; 0: they are not. Neighbours share no cache line, and
 * from a page up no page. */
void zc_layout_make(uint64_t size_bytes, uint64_t pieces, uint64_t align_bytes, uint64_t discard_page_bytes, struct zc_layout *layout);

/* Have `request` read into the memory at `memory`. `pieces`: at least layout->pieces of them, which it keeps; not used for one. */
void zc_layout_apply(const struct zc_layout *layout, uint8_t *memory, struct zc_piece *pieces, struct zc_request *request);

/* The pieces that a request of this layout was given, one after the other. */
struct zc_piece zc_layout_piece(const struct zc_layout *layout, const struct zc_request *request, uint32_t index);

#endif
