/* The loop of the executions with threads: see staged.h. Only the owner touches rings, records and queues of the pipeline; a thread
 * has the chunk that it was given, and the user's memory behind it, until it hands it back. */
#include "execution/staged.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- a thread's part ------------------------------------------------------------------------------------------- */

static void work(void *arg, uint32_t index)
{
    struct zc_pipeline *const pipeline = arg;
    struct zc_chunk *const chunk = &pipeline->chunks[index];
    const bool before = chunk->state == ZC_CHUNK_PREPARING, timed = pipeline->laps.on;
    const uint64_t begin = timed ? zc_now_ns() : 0;
    chunk->status = before ? zc_pipeline_before(pipeline, chunk) : zc_pipeline_after(pipeline, chunk);
    chunk->finished_ns = !before || timed ? zc_now_ns() : 0;
    chunk->took_ns = timed ? chunk->finished_ns - begin : 0;
}

/* --- the owner's ----------------------------------------------------------------------------------------------- */

/* What a pool has done goes on its way. How many, or the status of one that failed. */
static int take_back(struct zc_pipeline *pipeline, struct zc_workers *workers)
{
    uint32_t index;
    int count = 0;
    while (workers && zc_workers_take(workers, &index)) {
        struct zc_chunk *const chunk = &pipeline->chunks[index];
        const bool before = chunk->state == ZC_CHUNK_PREPARING;
        if (chunk->status < 0)
            return chunk->status;
        pipeline->laps.stage_ns[before ? ZC_STAGE_BEFORE : ZC_STAGE_AFTER] += chunk->took_ns;
        if (before)
            zc_pipeline_prepared(pipeline, chunk);
        else
            zc_pipeline_retire(pipeline, chunk);
        count++;
    }
    return count;
}

/* Cut and prepare, or give away to be prepared, as long as there are records; without threads, only while there are slots. */
static int start_chunks(struct zc_pipeline *pipeline)
{
    struct zc_staged *const staged = pipeline->execution;
    struct zc_chunk *chunk;
    while ((staged->before || zc_pipeline_wants_chunks(pipeline)) && (chunk = zc_pipeline_next_cut(pipeline))) {
        if (zc_pipeline_prepare_ready(pipeline, chunk))
            continue;
        if (staged->before) {
            zc_workers_give(staged->before, chunk->index);
            continue;
        }
        const int rc = zc_pipeline_prepare(pipeline, chunk);
        if (rc < 0)
            return rc;
    }
    return zc_pipeline_post(pipeline);
}

/* How many landed chunks went on; what the owner finishes gives records back, so there may be more to start. */
static int finish_chunks(struct zc_pipeline *pipeline)
{
    struct zc_staged *const staged = pipeline->execution;
    struct zc_chunk *chunk;
    int count = 0;
    for (; (chunk = zc_pipeline_next_landed(pipeline)); count++) {
        chunk->state = ZC_CHUNK_FINISHING;
        if (staged->after) {
            zc_workers_give(staged->after, chunk->index);
            continue;
        }
        const int rc = zc_pipeline_finish(pipeline, chunk);
        if (rc < 0)
            return rc;
    }
    return count;
}

/* Everything that can be done without waiting, the wire first. How much has moved: 0 means that it is time to wait. */
static int advance(struct zc_pipeline *pipeline)
{
    struct zc_staged *const staged = pipeline->execution;
    const int landed = zc_pipeline_collect(pipeline);
    if (landed < 0)
        return landed;
    const int prepared = take_back(pipeline, staged->before);
    if (prepared < 0)
        return prepared;
    const int finished = staged->after != staged->before ? take_back(pipeline, staged->after) : 0;
    if (finished < 0)
        return finished;
    const int rc = start_chunks(pipeline);
    if (rc < 0)
        return rc;
    const int moved = finish_chunks(pipeline);
    return moved < 0 ? moved : landed + prepared + finished + moved;
}

int zc_staged_submit(struct zc_pipeline *pipeline, struct zc_request *request)
{
    const int rc = zc_pipeline_cut(pipeline, request);
    return rc < 0 ? rc : start_chunks(pipeline);
}

int zc_staged_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max, int (*wait)(struct zc_pipeline *pipeline))
{
    for (;;) {
        int rc = advance(pipeline);
        if (rc >= 0 && !zc_ring_empty(&pipeline->done))
            return zc_pipeline_take_done(pipeline, done, max);
        if (rc == 0)
            rc = wait(pipeline);
        if (rc < 0)
            return rc;
    }
}

bool zc_staged_news(const struct zc_pipeline *pipeline)
{
    const struct zc_staged *const staged = pipeline->execution;
    return (staged->before && zc_workers_any(staged->before)) || (staged->after && zc_workers_any(staged->after));
}

static void add_use(struct zc_workers *workers, bool cpu, struct zc_pipeline_use *use)
{
    uint64_t user_ns, system_ns;
    use->allocations += zc_workers_allocations(workers);
    if (!cpu)
        return;
    zc_workers_cpu_ns(workers, &user_ns, &system_ns);
    use->cpu_user_ns += user_ns;
    use->cpu_system_ns += system_ns;
}

void zc_staged_use(struct zc_pipeline *pipeline, bool cpu, struct zc_pipeline_use *use)
{
    const struct zc_staged *const staged = pipeline->execution;
    if (staged->before)
        add_use(staged->before, cpu, use);
    if (staged->after && staged->after != staged->before)
        add_use(staged->after, cpu, use);
}

/* --- set-up ---------------------------------------------------------------------------------------------------- */

static uint32_t cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    return (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

static uint32_t busy_threads(const struct zc_pipeline *pipeline)
{
    const struct zc_device *const device = pipeline->params.device;
    const bool software = device && zc_device_info(device)->kind == ZC_DEVICE_SOFTWARE;     /* it has a thread that moves the bytes */
    return 1 + zc_hands_count(&pipeline->hands) + software;
}

static int create_pool(struct zc_pipeline *pipeline, struct zc_staged *staged, const char *name, uint32_t threads,
                       struct zc_workers **workers, struct zc_error *err)
{
    const struct zc_workers_params params = {
        .name = name, .threads = threads, .items = pipeline->chunk_count, .work = work, .arg = pipeline, .alarm = &staged->alarm,
        .spin = &pipeline->spin, .thread_allocations = pipeline->params.thread_allocations,
    };
    return zc_workers_create(&params, workers, err);
}

int zc_staged_create(struct zc_pipeline *pipeline, struct zc_staged *staged, struct zc_error *err)
{
    const struct zc_hands *const hands = &pipeline->hands;
    pipeline->execution = staged;
    staged->alarm.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (staged->alarm.fd < 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot create an eventfd: %s", strerror(errno));
    pipeline->alarm = &staged->alarm;
    pipeline->always_sleeps = busy_threads(pipeline) > cores();
    int rc = 0;
    if (hands->before > 0)
        rc = create_pool(pipeline, staged, hands->shared ? "zc-pool" : "zc-register", hands->before, &staged->before, err);
    if (hands->shared)
        staged->after = staged->before;
    else if (rc == 0 && hands->after > 0)
        rc = create_pool(pipeline, staged, pipeline->copies ? "zc-copy" : "zc-deregister", hands->after,
                         &staged->after, err);
    return rc;
}

void zc_staged_destroy(struct zc_pipeline *pipeline)
{
    struct zc_staged *const staged = pipeline->execution;
    if (!staged)
        return;
    zc_workers_destroy(staged->before);
    if (staged->after != staged->before)
        zc_workers_destroy(staged->after);
    if (pipeline->alarm)
        close(staged->alarm.fd);
    pipeline->alarm = NULL;
    pipeline->execution = NULL;
    free(staged);
}
