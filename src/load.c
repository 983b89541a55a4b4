/* The one loop that every window runs on. It reads the clock itself only at its ends: requests carry the time at which they became
 * available, and that serves as the loop's clock too. */
#include "load.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"

enum { CACHE_LINE = 64, REAP_MAX = 64, CHECK_INTERVAL_NS = 100000000 };

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

uint64_t zc_load_stride(uint64_t size_bytes, uint64_t page_bytes)
{
    return round_up(size_bytes, size_bytes >= page_bytes ? page_bytes : CACHE_LINE);
}

void zc_load_init(struct zc_load *load, struct zc_pipeline *pipeline, uint64_t size_bytes, void *buffers, uint64_t buffer_count,
                  uint64_t region_bytes, bool rotate)
{
    *load = (struct zc_load){
        .pipeline = pipeline,
        .size_bytes = size_bytes,
        .buffers = buffers,
        .buffer_count = buffer_count,
    };
    zc_layout_make(size_bytes, 1, 0, 0, &load->layout);
    zc_load_rotate(load, region_bytes, rotate);
}

void zc_load_rotate(struct zc_load *load, uint64_t region_bytes, bool rotate)
{
    const uint64_t stride = zc_load_stride(load->size_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    load->next_offset = 0;
    load->offset_step_bytes = rotate ? stride : 0;
    load->offset_count = rotate ? (region_bytes - load->size_bytes) / stride + 1 : 1;
}

void zc_load_lay_out(struct zc_load *load, const struct zc_layout *layout, struct zc_piece *pieces)
{
    load->layout = *layout;
    load->pieces = pieces;
}

void zc_load_fresh(struct zc_load *load, uint64_t page_bytes)
{
    load->discard = true;
    load->layout.stride_bytes = round_up(load->layout.stride_bytes, page_bytes);
}

static void advance(uint64_t *index, uint64_t count)
{
    *index = *index + 1 < count ? *index + 1 : 0;
}

/* What is done to a buffer besides reading into it is a phase of its own: the clock is read before and behind it, and the
 * pipeline's stages leave the time out. */
static uint64_t own_phase_begins(const struct zc_load *load)
{
    return load->time_stages ? zc_now_ns() : 0;
}

static void own_phase_ends(struct zc_load *load, uint64_t began_ns, uint64_t *sum_ns)
{
    if (!load->time_stages)
        return;
    const uint64_t took_ns = zc_now_ns() - began_ns;
    *sum_ns += took_ns;
    zc_pipeline_skip_ns(load->pipeline, took_ns);
}

/* What an allocator would hand out: pages that nobody has touched. The mapping, its node and its kind of pages stay. A cached
 * registration of the old pages ends here; its time counts as part of the discarding that wants it. */
static int discard(struct zc_load *load, uint8_t *buffer)
{
    const uint64_t began_ns = own_phase_begins(load);
    const int rc = zc_pipeline_forget(load->pipeline, buffer, load->layout.stride_bytes);
    if (rc < 0)
        return rc;
    if (madvise(buffer, load->layout.stride_bytes, MADV_DONTNEED) != 0)
        return -errno;
    own_phase_ends(load, began_ns, &load->discard_ns);
    return 0;
}

/* Four sums side by side: the memory is what takes the time, not the adding. */
static uint64_t checksum(const uint8_t *bytes, uint64_t length)
{
    uint64_t sums[4] = {0}, words[4], at = 0;
    for (; at + sizeof words <= length; at += sizeof words) {
        memcpy(words, bytes + at, sizeof words);
        for (int i = 0; i < 4; i++)
            sums[i] += words[i];
    }
    for (; at < length; at++)
        sums[0] += bytes[at];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static void consume(struct zc_load *load, const struct zc_request *request)
{
    const uint64_t began_ns = own_phase_begins(load);
    for (uint32_t i = 0; i < load->layout.pieces; i++) {
        const struct zc_piece piece = zc_layout_piece(&load->layout, request, i);
        load->checksum += checksum(piece.address, piece.length_bytes);
    }
    own_phase_ends(load, began_ns, &load->consume_ns);
}

/* Requests may overtake each other, and no two in flight may share a buffer: each cycles through buffers of its own, every depth-th
 * one from that of its own number. `fresh`: its first in this pass. */
static int submit_next(struct zc_load *load, struct zc_pass *pass, struct zc_request *request, bool fresh)
{
    const uint64_t own = (uint64_t)(request - zc_pipeline_request(load->pipeline, 0)), next = request->buffer + pass->depth;
    request->buffer = fresh || next >= load->buffer_count ? own : next;
    uint8_t *const buffer = load->buffers + request->buffer * load->layout.stride_bytes;
    zc_layout_apply(&load->layout, buffer, load->pieces ? load->pieces + own * load->layout.pieces : NULL, request);
    const int rc = load->discard ? discard(load, buffer) : 0;
    if (rc < 0)
        return rc;
    request->remote_offset = load->next_offset * load->offset_step_bytes;
    advance(&load->next_offset, load->offset_count);
    if (pass->before)
        pass->before(pass, request);
    return zc_pipeline_submit(load->pipeline, request);
}

void zc_load_idle(void *arg, uint64_t now_ns)
{
    struct zc_load *const load = arg;
    if (now_ns < load->next_tick_ns)
        return;
    load->next_tick_ns = now_ns + load->tick_interval_ns;
    if (load->tick)
        load->tick(load->tick_arg, now_ns, load->tick_bytes);
    load->tick_bytes = 0;
}

/* Count one finished request. */
static int account(struct zc_load *load, struct zc_pass *pass, const struct zc_request *request)
{
    const uint64_t available = request->available_ns;
    pass->all_requests++;
    pass->all_bytes += load->size_bytes;
    load->tick_bytes += load->size_bytes;
    zc_load_idle(load, available);
    if (available >= load->next_check_ns) {
        load->next_check_ns = available + CHECK_INTERVAL_NS;
        const int rc = zc_pipeline_check(load->pipeline);
        if (rc < 0)
            return rc;
    }
    if (available <= pass->start_ns || available > pass->end_ns)
        return 0;
    if (!pass->open) {
        pass->open = true;
        if (pass->opened)
            pass->opened(pass);
    }
    pass->requests++;
    pass->bytes += load->size_bytes;
    return pass->finished ? pass->finished(pass, request) : 0;
}

static bool cancelled(const struct zc_load *load)
{
    return (load->cancel && atomic_load_explicit(load->cancel, memory_order_relaxed)) ||
           (load->stop && atomic_load_explicit(load->stop, memory_order_relaxed));
}

/* Reap, count, submit again, until the window has closed and nothing is in flight any more. */
static int keep_in_flight(struct zc_load *load, struct zc_pass *pass, uint32_t in_flight, uint64_t submitted)
{
    struct zc_request *done[REAP_MAX];
    const uint64_t limit = pass->request_limit ? pass->request_limit : UINT64_MAX;
    while (in_flight > 0) {
        const int count = zc_pipeline_reap(load->pipeline, done, REAP_MAX);
        if (count < 0)
            return count;
        for (int i = 0; i < count; i++) {
            int rc = account(load, pass, done[i]);
            if (rc < 0)
                return rc;
            if (cancelled(load))
                return -ECANCELED;
            if (load->consume)
                consume(load, done[i]);
            if (done[i]->reclaimed_ns >= pass->end_ns || submitted == limit) {
                in_flight--;
                continue;
            }
            rc = submit_next(load, pass, done[i], false);
            if (rc < 0)
                return rc;
            submitted++;
        }
    }
    return 0;
}

int zc_load_run(struct zc_load *load, struct zc_pass *pass)
{
    const uint64_t begin = zc_now_ns();
    pass->start_ns = begin + pass->warmup_ns;
    pass->end_ns = pass->window_ns < UINT64_MAX - pass->start_ns ? pass->start_ns + pass->window_ns : UINT64_MAX;
    pass->requests = pass->bytes = pass->all_requests = pass->all_bytes = 0;
    pass->open = false;
    load->next_tick_ns = begin + load->tick_interval_ns;
    load->tick_bytes = 0;
    load->next_check_ns = begin + CHECK_INTERVAL_NS;

    int rc = 0;
    uint32_t first = 0;
    while (rc == 0 && first < pass->depth && (pass->request_limit == 0 || first < pass->request_limit)) {
        rc = submit_next(load, pass, zc_pipeline_request(load->pipeline, first), true);
        if (rc == 0)
            first++;
    }
    if (rc == 0)
        rc = keep_in_flight(load, pass, first, first);
    const uint64_t now = zc_now_ns();
    if (rc == -ECANCELED && now < pass->end_ns)
        pass->end_ns = now > pass->start_ns ? now : pass->start_ns;
    return rc;
}
