/* Walking lists of SGEs, one contiguous run at a time, each held under a hazard while it is touched; and the move itself. */
#include <string.h>

#include "soft.h"

#if defined(__SSE2__)
#include <emmintrin.h>

/* Below this a cached copy is faster and whoever waits for the bytes finds them near. */
#define STREAM_BYTES 16384u

/* As a NIC's DMA does, past this core's caches: the application reads the bytes from another core, and lines that are dirty here
 * would cross over one miss at a time. tests/bench/run overlap shows what it is worth. */
static void stream(uint8_t *to, const uint8_t *from, size_t n)
{
    size_t head = (size_t)(-(uintptr_t)to & 15);
    memcpy(to, from, head);
    to += head, from += head, n -= head;
    for (; n >= 64; to += 64, from += 64, n -= 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
    }
    memcpy(to, from, n);
    _mm_sfence(); /* before the completion that tells of them */
}
#endif

void zs_copy(void *to, const void *from, size_t n)
{
#if defined(__SSE2__)
    uintptr_t t = (uintptr_t)to, f = (uintptr_t)from;
    if (n >= STREAM_BYTES && (t >= f + n || f >= t + n)) {
        stream(to, from, n);
        return;
    }
#endif
    memmove(to, from, n); /* a program may READ its own memory into an overlapping place */
}

void zs_cursor_start(struct zs_cursor *c, struct zs_qp *qp, const struct zs_wqe *w, uint32_t offset)
{
    *c = (struct zs_cursor){.sge = zs_wqe_sges(qp, w), .num_sge = w->num_sge};
    if (w->flags & IBV_SEND_INLINE)
        c->inline_data = zs_wqe_inline(qp, w);
    zs_cursor_skip(c, offset);
}

void zs_cursor_skip(struct zs_cursor *c, size_t bytes)
{
    if (c->inline_data) {
        c->at += (uint32_t)bytes;
        return;
    }
    while (c->index < c->num_sge) {
        size_t left = c->sge[c->index].length - c->at;
        if (bytes < left) {
            c->at += (uint32_t)bytes;
            return;
        }
        bytes -= left;
        c->index++;
        c->at = 0;
    }
}

void *zs_cursor_hold(struct zs_cursor *c, int hazard, const struct zs_pd *pd, uint32_t access, size_t want, size_t *got)
{
    *got = 0;
    if (c->inline_data) {
        *got = want;
        return (void *)(uintptr_t)(c->inline_data + c->at);
    }
    zs_cursor_skip(c, 0); /* past empty SGEs */
    if (c->index == c->num_sge)
        return NULL;
    const struct ibv_sge *s = &c->sge[c->index];
    size_t left = s->length - c->at;
    *got = want < left ? want : left;
    return zs_mr_hold(hazard, pd, s->lkey, s->addr + c->at, *got, access);
}
