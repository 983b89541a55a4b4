/* See sweeping.h. The order of things: a coarse pass through all cells, rounds in random order until each has its trials, then the
 * crossovers by bisection and the cells that are close. Each part has its share of the budget, so that none starves the next. */
#include "sweeping.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "clock.h"

/* Windows of a trial: latency, throughput, cost, each with its own length; the first two have a warm-up before them. */
static const double WARMUP_SHARE = 0.25, WINDOWS = 3.5;
static const double WINDOW_MIN_S = 0.003, WINDOW_MAX_S = 1;
static const double FEW_REQUESTS = 10;         /* in a window at least, where many are in flight */
static const double ROUNDS_SHARE = 0.7;         /* of the budget is for the coarse pass and the rounds */
static const double SETUP_GUESS_S = 0.01;       /* of a trial, until it was measured */
static const double PROBE_BUDGET_S = 15;        /* a smaller budget has no second to spare for the model */
static const double BRACKET = 1.15;             /* sizes of a crossing that are this close are not bisected further */

struct sweeper {
    const struct zc_sweep_params *params;
    struct zc_sweep *sweep;
    struct zc_reuse *reuse;
    uint64_t random;
    uint64_t start_ns;
    double before_s;            /* measured in an earlier part of a resumed sweep */
    uint64_t best_bytes_per_s;
    int rc;                     /* what ended the sweep; 0: nothing has */
};

static double elapsed_s(const struct sweeper *sweeper)
{
    return sweeper->before_s + (double)(zc_now_ns() - sweeper->start_ns) / 1e9;
}

static bool time_left(const struct sweeper *sweeper, double share)
{
    return sweeper->rc == 0 && elapsed_s(sweeper) < sweeper->sweep->options.budget_s * share;
}

/* xorshift64*: any sequence will do that does not follow the order of the cells. */
static uint64_t next_random(struct sweeper *sweeper)
{
    sweeper->random ^= sweeper->random >> 12;
    sweeper->random ^= sweeper->random << 25;
    sweeper->random ^= sweeper->random >> 27;
    return sweeper->random * UINT64_C(0x2545F4914F6CDD1D);
}

static void shuffle(struct sweeper *sweeper, uint32_t *list, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t j = (uint32_t)(next_random(sweeper) % i), kept = list[i - 1];
        list[i - 1] = list[j];
        list[j] = kept;
    }
}

/* --- one trial ------------------------------------------------------------------------------------------------- */

static bool precise(const struct sweeper *sweeper, const struct zc_cell *cell)
{
    return zc_estimate_precision(&cell->estimates[ZC_METRIC_THROUGHPUT]) <= sweeper->sweep->options.precision;
}

static bool cell_done(const struct sweeper *sweeper, const struct zc_cell *cell)
{
    return cell->error.kind != ZC_ERR_NONE || cell->trial_count >= sweeper->sweep->options.trials
           || (cell->trial_count >= ZC_INTERVAL_TRIALS_MIN && precise(sweeper, cell));
}

static void publish(struct sweeper *sweeper, const struct zc_cell *cell)
{
    struct zc_sweep_progress *const progress = sweeper->params->progress;
    uint32_t done = 0;
    for (uint32_t i = 0; i < sweeper->sweep->cell_count; i++)
        done += cell_done(sweeper, &sweeper->sweep->cells[i]);
    if (progress) {
        atomic_store(&progress->cells_done, done);
        atomic_store(&progress->cells_total, sweeper->sweep->cell_count);
        atomic_store(&progress->strategy, (uint32_t)cell->options.strategy);
        atomic_store(&progress->size_bytes, cell->options.size_bytes);
        atomic_store(&progress->elapsed_ns, (uint64_t)(elapsed_s(sweeper) * 1e9));
        atomic_store(&progress->budget_ns, (uint64_t)(sweeper->sweep->options.budget_s * 1e9));
        atomic_store(&progress->best_bytes_per_s, sweeper->best_bytes_per_s);
    }
    if (sweeper->params->wake)
        sweeper->params->wake(sweeper->params->wake_arg);
}

static double per_gib(double value, uint64_t bytes)
{
    return bytes > 0 ? value / ((double)bytes / 0x1p30) : NAN;
}

static double known(uint64_t ns)
{
    return ns == ZC_UNMEASURED ? NAN : (double)ns;
}

static void record(struct sweeper *sweeper, struct zc_cell *cell, const struct zc_result *result)
{
    struct zc_trial *const trial = &cell->trials[cell->trial_count];
    const struct zc_throughput *const t = &result->throughput;
    const double seconds = (double)t->duration_ns / 1e9, rate = (double)t->bytes / seconds;
    trial->figures[ZC_METRIC_THROUGHPUT] = rate / 0x1p30;
    trial->figures[ZC_METRIC_P50] = result->available.count ? known(result->available.p50_ns) : NAN;
    trial->figures[ZC_METRIC_P99] = result->available.count ? known(result->available.p99_ns) : NAN;
    trial->figures[ZC_METRIC_CPU] = result->cost.measured
        ? per_gib((double)(result->cost.cpu_user_ns + result->cost.cpu_system_ns) / 1e9, result->cost.bytes) : NAN;
    if (cell->trial_count == 0)
        cell->phases = result->phases;
    cell->inflight = result->terms.inflight;
    cell->registrations_per_s = (uint64_t)((double)result->cost.registrations / seconds);
    if (rate > (double)sweeper->best_bytes_per_s)
        sweeper->best_bytes_per_s = (uint64_t)rate;
    cell->trial_count++;
    zc_sweep_estimate(cell);
}

static bool ends_the_sweep(const struct zc_error *error)
{
    switch (error->kind) {
    case ZC_ERR_CANCELLED:
    case ZC_ERR_PEER:
    case ZC_ERR_VALIDATION:
    case ZC_ERR_INTERNAL:
        return true;
    case ZC_ERR_DEVICE:
        return error->errnum == -ENODEV;    /* it was removed */
    default:
        return false;
    }
}

/* Errors of a cell are its own; the rest ends the sweep. */
static void take_error(struct sweeper *sweeper, struct zc_cell *cell, const struct zc_error *error)
{
    if (ends_the_sweep(error)) {
        sweeper->sweep->error = *error;
        sweeper->rc = error->errnum ? error->errnum : -EIO;
    } else {
        cell->error = *error;
    }
}

static void remember_terms(struct zc_sweep *sweep, const struct zc_result *result)
{
    if (result->environment.host[0])
        sweep->environment = result->environment;
    if (result->peer.region_bytes)
        sweep->peer = result->peer;
}

static struct zc_measure_params trial_params(struct sweeper *sweeper, const struct zc_cell *cell)
{
    const struct zc_sweep_params *const given = sweeper->params;
    struct zc_measure_params params = {
        .device = given->device, .options = cell->options, .host = given->host, .port = given->port, .key = given->key, .cancel_fd = given->cancel_fd,
        .cancel = given->cancel, .thread_allocations = given->thread_allocations, .reuse = sweeper->reuse,
        .skip_phases = cell->trial_count > 0,
    };
    params.options.measure_s = cell->window_s;
    params.options.warmup_s = cell->window_s * WARMUP_SHARE;
    if (cell->trial_count > 0) {        /* the bytes were compared in the first one */
        params.options.validate = ZC_VALIDATE_NONE;
        params.options.skip_validation = true;
    }
    return params;
}

/* One attempt. False: no request completed in its window. */
static bool attempt(struct sweeper *sweeper, struct zc_cell *cell)
{
    const struct zc_measure_params params = trial_params(sweeper, cell);
    struct zc_result result;
    const uint64_t begin = zc_now_ns();
    zc_result_init(&result);
    const int rc = sweeper->params->measure(&params, &result);
    remember_terms(sweeper->sweep, &result);
    const bool empty = rc < 0 && result.error.kind == ZC_ERR_UNMEASURED;
    if (rc == 0) {
        record(sweeper, cell, &result);
        const double took = (double)(zc_now_ns() - begin) / 1e9;
        cell->trial_s = isfinite(cell->trial_s) && cell->trial_count > 2 ? (cell->trial_s + took) / 2 : took;
    } else if (!empty) {
        take_error(sweeper, cell, &result.error);
    }
    zc_result_destroy(&result);
    return !empty;
}

/* A window in which nothing completed was too short; the next one of this cell is longer. */
static void run_trial(struct sweeper *sweeper, struct zc_cell *cell)
{
    publish(sweeper, cell);
    while (!attempt(sweeper, cell)) {
        if (cell->window_s * 4 > sweeper->sweep->options.budget_s / 4) {
            zc_error_set(&cell->error, ZC_ERR_UNMEASURED, -ENODATA, "budget", "no request of %llu bytes completed within %.3g s: the "
                         "budget is too small", (unsigned long long)cell->options.size_bytes, cell->window_s);
            return;
        }
        cell->window_s *= 4;
    }
}

/* --- the passes ------------------------------------------------------------------------------------------------ */

/* Sizes that the peer's region does not hold are not measured, and the document says which. */
static void clip(struct zc_sweep *sweep)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        const uint64_t size = sweep->cells[i].options.size_bytes;
        if (sweep->peer.region_bytes == 0 || size <= sweep->peer.region_bytes) {
            if (kept != i)
                sweep->cells[kept] = sweep->cells[i];
            kept++;
        } else if (sweep->clipped.count == 0 || sweep->clipped.values[sweep->clipped.count - 1] != size) {
            sweep->clipped.values[sweep->clipped.count++] = size;   /* the cells ascend by size, and so do these */
        }
    }
    sweep->cell_count = kept;
}

static uint64_t depth_of(const struct zc_run_options *options)
{
    const uint64_t fit = options->memory_max_bytes / options->size_bytes;
    const uint64_t depth = fit < options->operations_max ? fit : options->operations_max;
    return zc_strategy_infos[options->strategy].execution == ZC_EXECUTION_BLOCKING || depth < 1 ? 1 : depth;
}

/* So that a few requests complete in it at the rate of the next smaller size. */
static double window_for(const struct sweeper *sweeper, const struct zc_cell *cell, double wanted_s)
{
    const struct zc_sweep *const sweep = sweeper->sweep;
    double rate = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        const struct zc_cell *const other = &sweep->cells[i];
        if (other->options.strategy == cell->options.strategy && other->trial_count && other->options.size_bytes <= cell->options.size_bytes)
            rate = other->estimates[ZC_METRIC_THROUGHPUT].median * 0x1p30;
    }
    const double requests = fmin(2.5 * (double)depth_of(&cell->options), FEW_REQUESTS);
    const double few = rate > 0 ? requests * (double)cell->options.size_bytes / rate : 0;
    return fmax(few, fmin(fmax(wanted_s, WINDOW_MIN_S), WINDOW_MAX_S));
}

/* Until the first cell was measured, the peer's region is not known; its size may be beyond it. */
static void coarse_pass(struct sweeper *sweeper)
{
    struct zc_sweep *const sweep = sweeper->sweep;
    const double trials = (double)sweep->cell_count * (double)sweep->options.trials;
    const double wanted = ((sweep->options.budget_s * ROUNDS_SHARE - elapsed_s(sweeper)) / trials - SETUP_GUESS_S) / WINDOWS;
    bool clipped = false;
    for (uint32_t i = 0; i < sweep->cell_count && sweeper->rc == 0; i++) {
        struct zc_cell *const cell = &sweep->cells[i];
        if (cell->trial_count || cell->error.kind != ZC_ERR_NONE)
            continue;
        if (!time_left(sweeper, 1))
            return;
        cell->window_s = window_for(sweeper, cell, wanted);
        run_trial(sweeper, cell);
        if (!clipped && sweep->peer.region_bytes) {
            clip(sweep);
            clipped = true;
        }
    }
}

/* The longest windows with which every cell gets its trials within the share of the rounds. */
static void plan_windows(struct sweeper *sweeper)
{
    struct zc_sweep *const sweep = sweeper->sweep;
    double setups = 0, trials = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        const struct zc_cell *const cell = &sweep->cells[i];
        if (cell_done(sweeper, cell))
            continue;
        const double left = (double)(sweep->options.trials - cell->trial_count);
        const double setup = isfinite(cell->trial_s) ? fmax(cell->trial_s - WINDOWS * cell->window_s, 0) : SETUP_GUESS_S;
        setups += setup * left;
        trials += left;
    }
    const double available = sweep->options.budget_s * ROUNDS_SHARE - elapsed_s(sweeper) - setups;
    for (uint32_t i = 0; i < sweep->cell_count && trials > 0; i++)
        sweep->cells[i].window_s = window_for(sweeper, &sweep->cells[i], available / trials / WINDOWS);
}

/* A round of one trial for each cell that wants one; false: none does. */
static bool round_of_trials(struct sweeper *sweeper, uint32_t *order)
{
    struct zc_sweep *const sweep = sweeper->sweep;
    uint32_t count = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++)
        if (!cell_done(sweeper, &sweep->cells[i]))
            order[count++] = i;
    shuffle(sweeper, order, count);
    for (uint32_t i = 0; i < count && time_left(sweeper, 1); i++)
        run_trial(sweeper, &sweep->cells[order[i]]);
    return count > 0;
}

/* --- where strategies are close -------------------------------------------------------------------------------- */

static uint64_t between(uint64_t low, uint64_t high)
{
    const uint64_t middle = (uint64_t)sqrt((double)low * (double)high);
    return middle < 4096 ? middle : middle / 64 * 64;
}

/* The best of each contender beside the middle goes on measuring there. False: there is no room for more cells. */
static bool bisect(struct sweeper *sweeper, const struct zc_pair *pair, enum zc_metric metric, const struct zc_crossing *crossing)
{
    struct zc_sweep *const sweep = sweeper->sweep;
    const uint64_t middle = between(crossing->low_bytes, crossing->high_bytes);
    const uint32_t contenders[] = { pair->a.strategies, pair->b.strategies };
    bool added = false;
    for (int i = 0; i < 2; i++) {
        const uint64_t sides[] = { crossing->low_bytes, crossing->high_bytes };
        for (int side = 0; side < 2; side++) {
            const struct zc_cell *const like = zc_sweep_best(sweep, contenders[i], sides[side], metric);
            const uint32_t before = sweep->cell_count;
            added |= like && zc_sweep_add_cell(sweep, like, middle) >= 0 && sweep->cell_count > before;
        }
    }
    return added;
}

/* Add cells where a crossing lies between two sizes that are far apart. False: every crossing is known well enough. */
static bool bisect_crossings(struct sweeper *sweeper)
{
    static const enum zc_metric metrics[] = { ZC_METRIC_THROUGHPUT, ZC_METRIC_CPU, ZC_METRIC_P99, ZC_METRIC_P50 };
    struct zc_pair pairs[ZC_PAIRS_MAX];
    const size_t count = zc_sweep_pairs(sweeper->sweep, pairs);
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        bool added = false;
        for (size_t p = 0; p < count; p++) {
            struct zc_crossover crossover;
            zc_sweep_crossover(sweeper->sweep, &pairs[p], metrics[m], &crossover);
            for (size_t c = 0; c < crossover.count; c++)
                if ((double)crossover.crossings[c].high_bytes > BRACKET * (double)crossover.crossings[c].low_bytes)
                    added |= bisect(sweeper, &pairs[p], metrics[m], &crossover.crossings[c]);
        }
        if (added)
            return true;
    }
    return false;
}

/* Another trial for both contenders at each size that they could not be told apart at. Such a pair goes on until it is known as well as
 * asked, or has all its trials, whatever comes out meanwhile: stopping when a difference shows would find one where there is none.
 * False: nothing is left that more trials decide. */
static bool settle_contests(struct sweeper *sweeper)
{
    struct zc_sweep *const sweep = sweeper->sweep;
    struct zc_pair pairs[ZC_PAIRS_MAX];
    bool any = false;
    if (zc_sweep_pairs(sweep, pairs) == 0)
        return false;
    for (uint32_t s = 0; s < sweep->cell_count && time_left(sweeper, 1); s++) {
        const uint64_t size = sweep->cells[s].options.size_bytes;
        const uint32_t both[] = { pairs[0].a.strategies, pairs[0].b.strategies };
        struct zc_cell *cells[2];
        for (int i = 0; i < 2; i++) {
            const struct zc_cell *const best = zc_sweep_best(sweep, both[i], size, ZC_METRIC_THROUGHPUT);
            cells[i] = best ? &sweep->cells[best - sweep->cells] : NULL;
        }
        if (!cells[0] || !cells[1])
            continue;
        if (zc_estimate_compare(&cells[0]->estimates[0], &cells[1]->estimates[0]) == 0)
            cells[0]->contested = cells[1]->contested = true;
        for (int i = 0; i < 2; i++) {
            if (!cells[i]->contested || cells[i]->trial_count == ZC_SWEEP_TRIALS_MAX || precise(sweeper, cells[i]) || cells[i]->error.kind != ZC_ERR_NONE)
                continue;
            run_trial(sweeper, cells[i]);
            any = true;
        }
    }
    return any;
}

static void refine(struct sweeper *sweeper, uint32_t *order)
{
    while (time_left(sweeper, 1) && bisect_crossings(sweeper))
        while (time_left(sweeper, 1) && round_of_trials(sweeper, order))
            ;
    while (time_left(sweeper, 1) && settle_contests(sweeper))
        ;
}

/* --- from beginning to end ------------------------------------------------------------------------------------- */

/* The model is worth having and nothing more: where the probe fails, the sweep goes on without, and meets the reason itself. */
static void make_model(struct sweeper *sweeper)
{
    const struct zc_sweep_params *const given = sweeper->params;
    const struct zc_probe_params params = {
        .device = given->device, .host = given->host, .port = given->port, .quick = true, .key = given->key,
        .cancel_fd = given->cancel_fd, .cancel = given->cancel,
    };
    struct zc_probe *const probe = calloc(1, sizeof *probe);
    if (!probe)
        return;
    if (given->probe(&params, probe, NULL) == 0)
        zc_model_make(probe, &sweeper->sweep->model);
    free(probe);
}

static void measure_all(struct sweeper *sweeper, uint32_t *order)
{
    if (sweeper->params->probe && !sweeper->sweep->model.made && sweeper->sweep->options.budget_s >= PROBE_BUDGET_S)
        make_model(sweeper);
    coarse_pass(sweeper);
    do
        plan_windows(sweeper);      /* again for each round: what trials take is known better each time */
    while (time_left(sweeper, 1) && round_of_trials(sweeper, order));
    bool complete = true;
    for (uint32_t i = 0; i < sweeper->sweep->cell_count; i++)
        complete &= cell_done(sweeper, &sweeper->sweep->cells[i]);
    sweeper->sweep->complete = complete;
    refine(sweeper, order);
}

/* Cells of the bisection that got no trial before the time was up say nothing. */
static void drop_empty(struct zc_sweep *sweep)
{
    while (sweep->cell_count && sweep->cells[sweep->cell_count - 1].added && sweep->cells[sweep->cell_count - 1].trial_count == 0)
        sweep->cell_count--;
}

static bool any_trial(const struct zc_sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->cell_count; i++)
        if (sweep->cells[i].trial_count)
            return true;
    return false;
}

int zc_sweep_run(const struct zc_sweep_params *params, struct zc_sweep *sweep)
{
    struct sweeper sweeper = {
        .params = params, .sweep = sweep, .reuse = zc_reuse_create(), .start_ns = zc_now_ns(), .before_s = sweep->elapsed_s,
    };
    uint32_t *const order = calloc(ZC_SWEEP_CELLS_MAX, sizeof *order);
    sweep->error = (struct zc_error){ .kind = ZC_ERR_NONE };
    sweep->complete = false;
    if (!sweep->started_unix_ns)
        sweep->started_unix_ns = zc_unix_ns();
    if (!sweep->seed && getrandom(&sweep->seed, sizeof sweep->seed, 0) < 0)
        sweep->seed = zc_now_ns();
    sweep->seed = (sweep->seed & (UINT64_MAX >> 12)) | 1;      /* a JSON number holds it exactly */
    sweeper.random = sweep->seed ^ (uint64_t)(sweep->elapsed_s * 1e9);
    if (!sweeper.reuse || !order)
        sweeper.rc = zc_error_set(&sweep->error, ZC_ERR_RESOURCE, -ENOMEM, NULL, "sweep: out of memory");
    else
        measure_all(&sweeper, order);
    drop_empty(sweep);
    if (sweeper.rc == 0 && !any_trial(sweep))
        sweeper.rc = zc_error_set(&sweep->error, sweep->cell_count ? sweep->cells[0].error.kind : ZC_ERR_INVALID, -ENODATA,
                                  sweep->cell_count ? sweep->cells[0].error.field : "size", "%s", sweep->cell_count ?
                                  sweep->cells[0].error.message : "every size is larger than the peer's region");
    sweep->state = sweeper.rc == 0 ? ZC_RUN_DONE : sweep->error.kind == ZC_ERR_CANCELLED ? ZC_RUN_CANCELLED : ZC_RUN_FAILED;
    sweep->elapsed_s = elapsed_s(&sweeper);
    sweep->finished_unix_ns = zc_unix_ns();
    zc_reuse_destroy(sweeper.reuse);
    free(order);
    return sweeper.rc;
}
