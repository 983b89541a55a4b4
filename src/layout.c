/* The layout of a request's user memory: see layout.h. */
#include "layout.h"

#include <unistd.h>

enum { CACHE_LINE = 64 };

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

void zc_layout_make(uint64_t size_bytes, uint64_t pieces, uint64_t align_bytes, uint64_t discard_page_bytes, struct zc_layout *layout)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t count = pieces > 1 ? pieces : 1, last = size_bytes / count + size_bytes % count;
    const uint64_t unit = align_bytes > 0 || last >= page ? page : CACHE_LINE, offset = align_bytes % page;
    const uint64_t gap = count > 1 ? unit : 0, piece = round_up(offset + last, unit) + gap;
    *layout = (struct zc_layout){
        .pieces = (uint32_t)count,
        .piece_bytes = size_bytes / count,
        .last_bytes = last,
        .offset_bytes = offset,
        .piece_stride_bytes = piece,
        .stride_bytes = discard_page_bytes > 0 ? round_up(count * piece, discard_page_bytes) : count * piece,
    };
}

void zc_layout_apply(const struct zc_layout *layout, uint8_t *memory, struct zc_piece *pieces, struct zc_request *request)
{
    request->user = memory + layout->offset_bytes;
    request->piece_count = 0;
    if (layout->pieces == 1)
        return;
    for (uint32_t i = 0; i < layout->pieces; i++)
        pieces[i] = (struct zc_piece){request->user + i * layout->piece_stride_bytes,
                                      i + 1 < layout->pieces ? layout->piece_bytes : layout->last_bytes};
    request->pieces = pieces;
    request->piece_count = layout->pieces;
}

struct zc_piece zc_layout_piece(const struct zc_layout *layout, const struct zc_request *request, uint32_t index)
{
    return request->piece_count > 0 ? request->pieces[index] : (struct zc_piece){request->user, layout->last_bytes};
}
