/* The probe from its plan to its model: see probe_run.h. What a row measures is in probe_memory.c and probe_read.c. */
#include "probe_run.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "probe_private.h"

enum {
    TRIAL_NS = 50000,               /* a trial repeats what is shorter */
    REPEATS_MAX = 64,
    QUICK_BUDGET_NS = 25000000, FULL_BUDGET_NS = 50000000,      /* of a row */
    TOGETHER_MAX = 64 << 20,        /* bytes that are registered at the same time */
    THREADS_MAX = 64,
};

/* ---- what the parts share ---- */

int probe_look(const struct probe_run *run)
{
    if (!run->params->cancel || !atomic_load(run->params->cancel))
        return 0;
    return zc_error_set(run->err, ZC_ERR_CANCELLED, -ECANCELED, NULL, "cancelled");
}

bool probe_more(const struct probe_run *run, size_t done, uint64_t start_ns)
{
    if (done >= ZC_PROBE_TRIALS_MAX || (run->params->cancel && atomic_load(run->params->cancel)))
        return false;
    const uint64_t now_ns = zc_now_ns();
    zc_connection_keep(run->connection, now_ns);    /* rows of memory say nothing to the peer for seconds */
    return done < ZC_PROBE_TRIALS_MIN || now_ns - start_ns < run->row_budget_ns;
}

unsigned probe_repeats(uint64_t once_ns)
{
    const uint64_t repeats = once_ns > 0 ? TRIAL_NS / once_ns : REPEATS_MAX;
    return repeats < 1 ? 1 : repeats > REPEATS_MAX ? REPEATS_MAX : (unsigned)repeats;
}

void probe_unmeasured(struct zc_probe_row *row, const struct zc_error *why)
{
    snprintf(row->why, sizeof row->why, "%.*s", ZC_PROBE_WHY_MAX - 1, why->message);
}

/* ---- the plan ---- */

/* CPUs that this thread may use. */
static uint32_t cores(void)
{
    cpu_set_t set;
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : (uint32_t)count;
}

static void plan_pair(struct zc_probe *probe, struct zc_probe_case is, enum zc_probe_what there, enum zc_probe_what back)
{
    is.what = there;
    zc_probe_add(probe, &is);
    is.what = back;
    zc_probe_add(probe, &is);
}

static void plan_registrations(struct zc_probe *probe, const uint64_t *sizes, size_t count, struct zc_probe_case is)
{
    for (size_t i = 0; i < count; i++) {
        is.size_bytes = sizes[i];
        if (sizes[i] * is.threads <= TOGETHER_MAX)
            plan_pair(probe, is, ZC_PROBE_REGISTER, ZC_PROBE_DEREGISTER);
    }
}

/* The fit's own come first; then all kinds of pages, warm and cold, by one, two and as many threads as there are cores. */
static void plan_memory(struct zc_probe *probe)
{
    static const uint64_t fine[] = { 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20 };
    static const uint64_t coarse[] = { 64 << 10, 1 << 20, 16 << 20 };
    static const enum zc_pages kinds[] = { ZC_PAGES_DEFAULT, ZC_PAGES_THP, ZC_PAGES_2M };
    const uint32_t threads[] = { 1, 2, cores() };
    plan_registrations(probe, fine, sizeof fine / sizeof fine[0], (struct zc_probe_case){ .threads = 1 });
    for (size_t kind = 0; !probe->quick && kind < sizeof kinds / sizeof kinds[0]; kind++)
        for (int cold = 0; cold <= 1; cold++)
            for (size_t i = 0; i < (threads[2] > 2 ? 3 : threads[2]); i++)
                if (kinds[kind] != ZC_PAGES_DEFAULT || cold || threads[i] > 1)
                    plan_registrations(probe, coarse, sizeof coarse / sizeof coarse[0],
                                       (struct zc_probe_case){ .pages = kinds[kind], .cold = cold, .threads = threads[i] });
}

static void plan_copies(struct zc_probe *probe)
{
    const uint64_t largest = probe->quick ? 16 << 20 : 64 << 20;
    for (uint64_t size = 4 << 10; size <= largest; size *= 4)
        zc_probe_add(probe, &(struct zc_probe_case){ .what = ZC_PROBE_COPY, .size_bytes = size, .threads = 1 });
}

static uint32_t stream_depth(const struct probe_run *run)
{
    const uint32_t agreed = zc_connection_outstanding_reads(run->connection);
    return agreed < ZC_PROBE_INFLIGHT_MAX ? agreed : ZC_PROBE_INFLIGHT_MAX;
}

/* Sizes that the peer's region holds and one READ may carry. */
static void plan_reads(const struct probe_run *run, uint32_t inflight, bool event)
{
    static const uint64_t sizes[] = { 8, 4 << 10, 64 << 10, ZC_PROBE_READ_MAX };
    const size_t count = event ? 2 : sizeof sizes / sizeof sizes[0];    /* waiting differs where READs are short */
    for (size_t i = 0; i < count; i++)
        if (sizes[i] <= run->probe->peer.region_bytes && sizes[i] <= zc_connection_max_read_bytes(run->connection))
            zc_probe_add(run->probe, &(struct zc_probe_case){ .what = ZC_PROBE_READ, .size_bytes = sizes[i], .threads = 1,
                                                              .inflight = inflight, .event = event });
}

static void plan(const struct probe_run *run)
{
    struct zc_probe *const probe = run->probe;
    plan_memory(probe);
    plan_copies(probe);
    plan_reads(run, 1, false);
    if (stream_depth(run) > 1)
        plan_reads(run, stream_depth(run), false);
    if (probe->quick)
        return;
    plan_reads(run, 1, true);
    plan_pair(probe, (struct zc_probe_case){ .threads = 1 }, ZC_PROBE_QP_CREATE, ZC_PROBE_QP_DESTROY);
    plan_pair(probe, (struct zc_probe_case){ .threads = 1 }, ZC_PROBE_CONNECT, ZC_PROBE_DISCONNECT);
}

/* ---- measuring ---- */

static void tell(const struct probe_run *run, uint32_t done)
{
    struct zc_probe_progress *const progress = run->params->progress;
    const struct zc_probe *const probe = run->probe;
    if (progress) {
        atomic_store(&progress->rows, probe->row_count);
        atomic_store(&progress->rows_done, done);
        atomic_store(&progress->what, (int)probe->rows[done < probe->row_count ? done : probe->row_count - 1].is.what);
    }
    if (run->params->wake)
        run->params->wake(run->params->wake_arg);
}

static uint32_t rows_alike(const struct zc_probe *probe, uint32_t first)
{
    uint32_t count = 1;
    while (first + count < probe->row_count && probe->rows[first + count].is.what == probe->rows[first].is.what)
        count++;
    return count;
}

/* Measure the row at `at` and those that go with it; *used is how many. */
static int measure(struct probe_run *run, uint32_t at, uint32_t *used)
{
    struct zc_probe_row *const row = &run->probe->rows[at];
    *used = 2;
    switch (row->is.what) {
    case ZC_PROBE_REGISTER:
        return probe_registration(run, row, row + 1);
    case ZC_PROBE_QP_CREATE:
        return probe_qp(run, row, row + 1);
    case ZC_PROBE_CONNECT:
        return probe_session(run, row, row + 1);
    case ZC_PROBE_COPY:
        *used = rows_alike(run->probe, at);
        return probe_copies(run, row, *used);
    default:
        *used = 1;
        return probe_read(run, row);
    }
}

static int measure_all(struct probe_run *run)
{
    uint32_t used = 1;
    for (uint32_t at = 0; at < run->probe->row_count; at += used) {
        tell(run, at);
        int rc = probe_look(run);
        if (rc == 0)
            rc = zc_connection_check(run->connection, run->err);
        if (rc == 0)
            rc = measure(run, at, &used);
        if (rc < 0)
            return rc;
    }
    tell(run, run->probe->row_count);
    return 0;
}

static int run_steps(struct probe_run *run)
{
    int rc = zc_placement_create("auto", zc_device_info(run->params->device), &run->placement, run->err);
    if (rc < 0)
        return rc;
    zc_placement_apply(run->placement);
    run->numa_node = zc_placement_node(run->placement);
    rc = probe_connect(run, ZC_PROBE_INFLIGHT_MAX);        /* first: a peer that is not there is said at once */
    if (rc < 0)
        return rc;
    plan(run);
    rc = measure_all(run);
    zc_probe_fit_make(run->probe);
    return rc;
}

static void begin(const struct zc_probe_params *params, struct zc_probe *probe)
{
    char id[ZC_ID_MAX], asked_peer[ZC_PEER_MAX];
    const uint64_t owner_uid = probe->owner_uid;
    memcpy(id, probe->id, sizeof id);
    memcpy(asked_peer, probe->asked_peer, sizeof asked_peer);
    zc_probe_init(probe);
    memcpy(probe->id, id, sizeof id);
    memcpy(probe->asked_peer, asked_peer, sizeof asked_peer);
    probe->owner_uid = owner_uid;
    probe->quick = params->quick;
    probe->started_unix_ns = zc_unix_ns();
    zc_environment_read(&probe->environment);
    probe->environment.device = *zc_device_info(params->device);
    snprintf(probe->peer.host, sizeof probe->peer.host, "%s", params->host);
    probe->peer.port = params->port;
}

int zc_probe_run(const struct zc_probe_params *params, struct zc_probe *probe, struct zc_error *err)
{
    struct probe_run *const run = calloc(1, sizeof *run);
    int rc;
    begin(params, probe);
    if (run) {
        *run = (struct probe_run){ .params = params, .probe = probe, .err = &probe->error, .numa_node = -1,
                                   .row_budget_ns = params->quick ? QUICK_BUDGET_NS : FULL_BUDGET_NS };
        rc = run_steps(run);
        probe_release(run);
        zc_placement_destroy(run->placement);
        free(run);
    } else {
        rc = zc_error_set(&probe->error, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a probe");
    }
    probe->made = rc == 0;
    probe->state = rc == 0 ? ZC_RUN_DONE : probe->error.kind == ZC_ERR_CANCELLED ? ZC_RUN_CANCELLED : ZC_RUN_FAILED;
    probe->finished_unix_ns = zc_unix_ns();
    if (err)
        *err = probe->error;
    return rc;
}
