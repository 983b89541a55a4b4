/* The cells of a sweep: which there are, what their trials say, who contends with whom. See sweep.h. */
#include "sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct zc_metric_info zc_sweep_metrics[ZC_METRIC_COUNT] = {
    [ZC_METRIC_THROUGHPUT] = { "gib_per_s", "throughput", true },
    [ZC_METRIC_P50] = { "p50_ns", "median latency", false },
    [ZC_METRIC_P99] = { "p99_ns", "p99 latency", false },
    [ZC_METRIC_CPU] = { "cpu_s_per_gib", "CPU time", false },
};

void zc_model_make(const struct zc_probe *probe, struct zc_model *model)
{
    const uint64_t typical = UINT64_C(1) << 20;
    *model = (struct zc_model){
        .made = true, .register_base_s = probe->fit.base_s, .register_per_page_s = probe->fit.per_page_s,
        .worst_residual = probe->fit.worst_residual, .page_bytes = probe->fit.page_bytes,
        .copy_gib_per_s = (double)typical / 0x1p30 / zc_probe_copy_s(probe, typical),
        .read_gib_per_s = (double)typical / 0x1p30 / zc_probe_read_s(probe, typical, false),
        .read_s = zc_probe_read_s(probe, 4096, false), .crossover_bytes = zc_probe_crossover_bytes(probe),
    };
}

void zc_sweep_init(struct zc_sweep *sweep)
{
    struct zc_result unmeasured;
    memset(sweep, 0, sizeof *sweep);
    zc_result_init(&unmeasured);
    sweep->environment = unmeasured.environment;
    sweep->peer = unmeasured.peer;
    zc_sweep_options_init(&sweep->options);
    sweep->clipped.option = sweep->options.sizes.option;
    sweep->owner_uid = ZC_UNMEASURED;
    sweep->state = ZC_RUN_FAILED;
}

void zc_sweep_destroy(struct zc_sweep *sweep)
{
    free(sweep->cells);
    sweep->cells = NULL;
    sweep->cell_count = 0;
}

/* --- the plan -------------------------------------------------------------------------------------------------- */

static void store(const struct zc_option *option, uint64_t value, struct zc_run_options *options)
{
    void *const field = (char *)options + option->field;
    if (option->type == ZC_OPTION_CHOICE)
        *(int *)field = (int)value;
    else
        *(uint64_t *)field = value;
}

/* Depth is an option of every strategy, but one that has a single request in flight does not feel it. */
static bool feels(const struct zc_option *option, int strategy)
{
    if (zc_strategy_infos[strategy].execution == ZC_EXECUTION_BLOCKING && strcmp(option->name, "operations_max") == 0)
        return false;
    return zc_option_taken(option, strategy);
}

/* Fresh buffers cannot be registered beforehand: such a cell makes no sense and is left out. */
static bool makes_sense(const struct zc_run_options *options)
{
    return options->buffers != ZC_BUFFERS_FRESH || zc_strategy_infos[options->strategy].memory != ZC_MEMORY_PREREGISTERED;
}

/* What a run of the cell would be told, completed and checked as a run's. */
static int complete(const struct zc_sweep_options *sweep, struct zc_run_options *options, struct zc_error *err)
{
    size_t count;
    const struct zc_option *const table = zc_options(&count);
    uint64_t given = 0;
    for (size_t i = 0; i < count; i++)
        if ((sweep->given >> i & 1) != 0 && zc_option_taken(&table[i], options->strategy))
            given |= UINT64_C(1) << i;
    if (!options->skip_validation)      /* each cell's first trial is validated, the ceiling's too */
        given |= zc_option_bit("validate");
    return zc_run_options_check(options, given, err);
}

static int append(struct zc_sweep *sweep, const struct zc_run_options *options, struct zc_error *err)
{
    struct zc_cell *const cell = &sweep->cells[sweep->cell_count];
    if (!makes_sense(options))
        return 0;
    if (sweep->cell_count == ZC_SWEEP_CELLS_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -E2BIG, NULL, "the sweep has more than %d combinations: give fewer sizes, strategies "
                            "or values", ZC_SWEEP_CELLS_MAX);
    memset(cell, 0, sizeof *cell);
    cell->options = *options;
    cell->trial_s = NAN;
    const int rc = complete(&sweep->options, &cell->options, err);
    if (rc == 0)
        zc_sweep_estimate(cell);
    sweep->cell_count += rc == 0;
    return rc;
}

/* Every combination of the axes from `axis` on. */
static int expand(struct zc_sweep *sweep, struct zc_run_options options, uint32_t axis, struct zc_error *err)
{
    if (axis == sweep->options.axis_count)
        return append(sweep, &options, err);
    const struct zc_axis *const values = &sweep->options.axes[axis];
    if (!feels(values->option, options.strategy))
        return expand(sweep, options, axis + 1, err);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < values->count; i++) {
        store(values->option, values->values[i], &options);
        rc = expand(sweep, options, axis + 1, err);
    }
    return rc;
}

int zc_sweep_plan(struct zc_sweep *sweep, struct zc_error *err)
{
    const struct zc_sweep_options *const options = &sweep->options;
    if (options->base.peer[0] == '\0')
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "peer", "peer: it is required (a host, HOST:PORT, or self)");
    if (options->strategies == 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "strategy", "strategy: it is required (all, or names with commas between them)");
    if (options->sizes.count == 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "size", "size: it is required (for instance 4K..256M)");
    free(sweep->cells);
    sweep->cell_count = 0;
    sweep->cells = calloc(ZC_SWEEP_CELLS_MAX, sizeof *sweep->cells);
    if (!sweep->cells)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "sweep: out of memory");
    int rc = 0;
    for (uint32_t s = 0; rc == 0 && s < options->sizes.count; s++) {
        for (int strategy = 0; rc == 0 && strategy < ZC_STRATEGY_COUNT; strategy++) {
            struct zc_run_options one = options->base;
            one.strategy = strategy;
            one.size_bytes = options->sizes.values[s];
            if (options->strategies >> strategy & 1)
                rc = expand(sweep, one, 0, err);
        }
    }
    if (rc == 0 && sweep->cell_count == 0)
        rc = zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "no combination makes sense");
    return rc;
}

static bool same_but_size(const struct zc_cell *cell, const struct zc_run_options *options)
{
    struct zc_run_options a = cell->options, b = *options;
    a.size_bytes = b.size_bytes = 0;
    size_t count;
    const struct zc_option *const table = zc_options(&count);
    for (size_t i = 0; i < count; i++) {
        const void *const left = (const char *)&a + table[i].field, *const right = (const char *)&b + table[i].field;
        const bool wide = table[i].type == ZC_OPTION_SIZE || table[i].type == ZC_OPTION_COUNT;
        if (wide ? *(const uint64_t *)left != *(const uint64_t *)right
                 : table[i].type == ZC_OPTION_CHOICE && *(const int *)left != *(const int *)right)
            return false;
    }
    return true;
}

int zc_sweep_add_cell(struct zc_sweep *sweep, const struct zc_cell *like, uint64_t size_bytes)
{
    for (uint32_t i = 0; i < sweep->cell_count; i++)
        if (sweep->cells[i].options.size_bytes == size_bytes && same_but_size(&sweep->cells[i], &like->options))
            return (int)i;
    if (sweep->cell_count == ZC_SWEEP_CELLS_MAX)
        return -1;
    struct zc_cell *const cell = &sweep->cells[sweep->cell_count];
    const struct zc_run_options options = like->options;
    memset(cell, 0, sizeof *cell);
    cell->options = options;
    cell->options.size_bytes = size_bytes;
    cell->added = true;
    cell->window_s = like->window_s;
    cell->trial_s = like->trial_s;
    zc_sweep_estimate(cell);
    return (int)sweep->cell_count++;
}

/* --- what the trials say --------------------------------------------------------------------------------------- */

void zc_sweep_estimate(struct zc_cell *cell)
{
    double values[ZC_SWEEP_TRIALS_MAX];
    for (int metric = 0; metric < ZC_METRIC_COUNT; metric++) {
        for (uint32_t i = 0; i < cell->trial_count; i++)
            values[i] = cell->trials[i].figures[metric];
        zc_estimate_make(values, cell->trial_count, &cell->estimates[metric]);
    }
}

const struct zc_cell *zc_sweep_best(const struct zc_sweep *sweep, uint32_t strategies, uint64_t size_bytes, enum zc_metric metric)
{
    const struct zc_cell *best = NULL;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        const struct zc_cell *const cell = &sweep->cells[i];
        const double median = cell->estimates[metric].median;
        if (cell->options.size_bytes != size_bytes || !(strategies >> cell->options.strategy & 1) || !isfinite(median))
            continue;
        if (!best || (median > best->estimates[metric].median) == zc_sweep_metrics[metric].more_is_better)
            best = cell;
    }
    return best;
}

static uint32_t with_memory(const struct zc_sweep *sweep, enum zc_memory_kind memory)
{
    uint32_t found = 0;
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        if ((sweep->options.strategies >> i & 1) && zc_strategy_infos[i].memory == memory)
            found |= UINT32_C(1) << i;
    return found;
}

static struct zc_contender contender(uint32_t strategies, const char *name)
{
    struct zc_contender made = { .strategies = strategies };
    snprintf(made.name, sizeof made.name, "%s", name);
    return made;
}

size_t zc_sweep_pairs(const struct zc_sweep *sweep, struct zc_pair pairs[ZC_PAIRS_MAX])
{
    const uint32_t copy = with_memory(sweep, ZC_MEMORY_STAGING), zero_copy = with_memory(sweep, ZC_MEMORY_REGISTER);
    /* These keep what they registered: how they compare depends on buffers that come back, so they answer another question. */
    const uint32_t keeping = with_memory(sweep, ZC_MEMORY_CACHED) | with_memory(sweep, ZC_MEMORY_ODP);
    size_t count = 0;
    int before = -1;
    if (copy && zero_copy)
        pairs[count++] = (struct zc_pair){ contender(copy, "copy"), contender(zero_copy, "zero-copy") };
    for (int i = 0; i < ZC_STRATEGY_COUNT && count < ZC_PAIRS_MAX; i++) {
        const bool measured = ((copy | zero_copy | keeping) >> i & 1) != 0;
        if (measured && before >= 0)
            pairs[count++] = (struct zc_pair){ contender(UINT32_C(1) << before, zc_strategy_names[before]),
                                               contender(UINT32_C(1) << i, zc_strategy_names[i]) };
        if (measured)
            before = i;
    }
    return count;
}

/* Every size of a cell, once and ascending. The number of them. */
static size_t sizes_of(const struct zc_sweep *sweep, uint64_t sizes[ZC_SWEEP_CELLS_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        const uint64_t size = sweep->cells[i].options.size_bytes;
        size_t at = count;
        while (at > 0 && sizes[at - 1] > size)
            at--;
        if (at > 0 && sizes[at - 1] == size)
            continue;
        memmove(&sizes[at + 1], &sizes[at], (count - at) * sizeof sizes[0]);
        sizes[at] = size;
        count++;
    }
    return count;
}

void zc_sweep_crossover(const struct zc_sweep *sweep, const struct zc_pair *pair, enum zc_metric metric, struct zc_crossover *crossover)
{
    uint64_t sizes[ZC_SWEEP_CELLS_MAX];
    struct zc_contest contests[ZC_SWEEP_CELLS_MAX];
    const size_t size_count = sizes_of(sweep, sizes);
    size_t count = 0;
    for (size_t i = 0; i < size_count; i++) {
        const struct zc_cell *const a = zc_sweep_best(sweep, pair->a.strategies, sizes[i], metric);
        const struct zc_cell *const b = zc_sweep_best(sweep, pair->b.strategies, sizes[i], metric);
        if (a && b)
            contests[count++] = (struct zc_contest){ sizes[i], a->estimates[metric], b->estimates[metric] };
    }
    zc_crossover_find(contests, count, zc_sweep_metrics[metric].more_is_better, crossover);
}

static int no_threshold(const struct zc_sweep *sweep, const struct zc_crossover *c, struct zc_error *err)
{
    const char *const winner = c->winner == 0 ? "copying" : "registering";
    char low[32], high[32];
    if (c->kind == ZC_CROSSOVER_NONE)
        return zc_error_set(err, ZC_ERR_INVALID, -ENODATA, "threshold", "threshold: sweep %s found no crossover: %s wins at every size that tells "
                            "them apart (%zu of %zu)", sweep->id, winner, c->sizes - c->undecided, c->sizes);
    if (c->kind == ZC_CROSSOVER_UNMEASURED)
        return zc_error_set(err, ZC_ERR_INVALID, -ENODATA, "threshold", "threshold: sweep %s has too few trials to tell copying and registering "
                            "apart; `zcctl sweep --resume` goes on with it", sweep->id);
    if (c->count == 0)
        return zc_error_set(err, ZC_ERR_INVALID, -ENODATA, "threshold", "threshold: sweep %s was too noisy to tell copying and registering apart",
                            sweep->id);
    zc_size_format(c->crossings[0].low_bytes, low, sizeof low);
    zc_size_format(c->crossings[0].high_bytes, high, sizeof high);
    if (c->count > 1)
        return zc_error_set(err, ZC_ERR_INVALID, -ENODATA, "threshold", "threshold: in sweep %s the better way changes %zu times, first between %s "
                            "and %s: no single threshold says that", sweep->id, c->count, low, high);
    return zc_error_set(err, ZC_ERR_INVALID, -ENODATA, "threshold", "threshold: in sweep %s registering is better up to %s and copying from %s on: "
                        "a threshold says the opposite", sweep->id, low, high);
}

int zc_sweep_threshold(const struct zc_sweep *sweep, uint64_t *threshold_bytes, struct zc_error *err)
{
    struct zc_pair pairs[ZC_PAIRS_MAX];
    struct zc_crossover crossover;
    if (zc_sweep_pairs(sweep, pairs) == 0 || strcmp(pairs[0].a.name, "copy") != 0)
        return zc_error_set(err, ZC_ERR_INVALID, -ENODATA, "threshold", "threshold: sweep %s measured only one of copying and registering", sweep->id);
    zc_sweep_crossover(sweep, &pairs[0], ZC_METRIC_THROUGHPUT, &crossover);
    if (crossover.kind != ZC_CROSSOVER_FOUND || crossover.count != 1 || crossover.crossings[0].below != 0)
        return no_threshold(sweep, &crossover, err);
    *threshold_bytes = crossover.crossings[0].high_bytes;
    return 0;
}
