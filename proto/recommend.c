/* See recommend.h. No figure appears here that was not measured, and no difference that the intervals do not show. */
#include "recommend.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const zc_goal_names[] = {
    [ZC_GOAL_THROUGHPUT] = "throughput", [ZC_GOAL_LATENCY] = "latency", [ZC_GOAL_CPU] = "cpu", [ZC_GOAL_COUNT] = NULL,
};

static __attribute__((format(printf, 2, 3))) void say(struct zc_recommendation *r, const char *format, ...)
{
    va_list args;
    if (r->count == ZC_SENTENCES_MAX)
        return;
    va_start(args, format);
    vsnprintf(r->sentences[r->count++], ZC_SENTENCE_MAX, format, args);
    va_end(args);
}

struct words {
    char text[64];
};

static struct words size_words(uint64_t bytes)
{
    struct words w;
    const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(w.text, sizeof w.text, "%.4g %s", value, units[unit]);
    return w;
}

static struct words figure_words(enum zc_metric metric, double value)
{
    struct words w;
    if (metric == ZC_METRIC_THROUGHPUT)
        snprintf(w.text, sizeof w.text, "%.3g GiB/s", value);
    else if (metric == ZC_METRIC_CPU)
        snprintf(w.text, sizeof w.text, "%.3g CPU s/GiB", value);
    else if (value < 1e6)
        snprintf(w.text, sizeof w.text, "%.4g us", value / 1e3);
    else
        snprintf(w.text, sizeof w.text, "%.4g ms", value / 1e6);
    return w;
}

static uint32_t with_memory(enum zc_memory_kind memory)
{
    uint32_t found = 0;
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        if (zc_strategy_infos[i].memory == memory)
            found |= UINT32_C(1) << i;
    return found;
}

/* Everything that is an answer to "copy or register?": the ceilings are none, nor is what keeps its registrations and so depends on
 * buffers that come back. */
static uint32_t answers(void)
{
    return with_memory(ZC_MEMORY_STAGING) | with_memory(ZC_MEMORY_REGISTER) | with_memory(ZC_MEMORY_HYBRID);
}

/* --- the size in question -------------------------------------------------------------------------------------- */

static bool measured(const struct zc_cell *cell, enum zc_metric metric)
{
    return (answers() >> cell->options.strategy & 1) && isfinite(cell->estimates[metric].median);
}

static uint64_t nearest_size(const struct zc_sweep *sweep, uint64_t wanted, enum zc_metric metric)
{
    uint64_t nearest = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        const uint64_t size = sweep->cells[i].options.size_bytes;
        if (measured(&sweep->cells[i], metric)
            && (!nearest || fabs(log((double)size / (double)wanted)) < fabs(log((double)nearest / (double)wanted))))
            nearest = size;
    }
    return nearest;
}

static uint64_t middle_size(const struct zc_sweep *sweep, enum zc_metric metric)
{
    double low = INFINITY, high = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        if (!measured(&sweep->cells[i], metric))
            continue;
        low = fmin(low, (double)sweep->cells[i].options.size_bytes);
        high = fmax(high, (double)sweep->cells[i].options.size_bytes);
    }
    return high > 0 ? nearest_size(sweep, (uint64_t)sqrt(low * high), metric) : 0;
}

static uint64_t best_size(const struct zc_sweep *sweep, enum zc_metric metric)
{
    const struct zc_cell *best = NULL;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        const struct zc_cell *const cell = &sweep->cells[i];
        if (measured(cell, metric) && (!best || (cell->estimates[metric].median > best->estimates[metric].median)
                                                == zc_sweep_metrics[metric].more_is_better))
            best = cell;
    }
    return best ? best->options.size_bytes : 0;
}

/* --- sentences ------------------------------------------------------------------------------------------------- */

static void say_crossing(struct zc_recommendation *r, const struct zc_crossover *crossover)
{
    const struct zc_crossing *const c = &crossover->crossings[0];
    static const char *const ways[] = { "copy", "register (zero-copy)" };
    if (crossover->count == 1)
        say(r, "For %s: up to %s %s, from %s on %s; the change lies between the two.", zc_sweep_metrics[r->metric].words,
            size_words(c->low_bytes).text, ways[c->below], size_words(c->high_bytes).text, ways[!c->below]);
    else
        say(r, "For %s the better way changes %zu times, first between %s and %s (%s below it).", zc_sweep_metrics[r->metric].words,
            crossover->count, size_words(c->low_bytes).text, size_words(c->high_bytes).text, ways[c->below]);
}

static void say_crossover(const struct zc_sweep *sweep, struct zc_recommendation *r)
{
    struct zc_pair pairs[ZC_PAIRS_MAX];
    struct zc_crossover crossover;
    const char *const what = zc_sweep_metrics[r->metric].words;
    if (zc_sweep_pairs(sweep, pairs) == 0 || strcmp(pairs[0].a.name, "copy") != 0) {
        say(r, "Only one of copying and registering was measured, so this sweep cannot say which is better.");
        return;
    }
    zc_sweep_crossover(sweep, &pairs[0], r->metric, &crossover);
    switch (crossover.kind) {
    case ZC_CROSSOVER_FOUND:
        say_crossing(r, &crossover);
        break;
    case ZC_CROSSOVER_NONE:
        say(r, "For %s there is no crossover in this range: %s wins at every size that tells them apart (%zu of %zu).", what,
            crossover.winner == 0 ? "copying" : "registering", crossover.sizes - crossover.undecided, crossover.sizes);
        break;
    case ZC_CROSSOVER_NOISY:
        say(r, "For %s it is too noisy to tell copying and registering apart: their intervals overlap at all %zu sizes.", what, crossover.sizes);
        break;
    case ZC_CROSSOVER_UNMEASURED:
        say(r, "For %s there are too few trials to tell copying and registering apart; a larger --budget helps.", what);
        break;
    }
}

static void say_best(struct zc_recommendation *r, const struct zc_cell *best)
{
    const struct zc_estimate *const e = &best->estimates[r->metric];
    const char *const name = zc_strategy_names[best->options.strategy];
    if (isfinite(e->low))
        say(r, "At %s the best is %s with %s (95 %% interval %s to %s, %zu trials).", size_words(best->options.size_bytes).text, name,
            figure_words(r->metric, e->median).text, figure_words(r->metric, e->low).text, figure_words(r->metric, e->high).text, e->trials);
    else
        say(r, "At %s the best is %s with %s (%zu trial%s: too few for an interval).", size_words(best->options.size_bytes).text, name,
            figure_words(r->metric, e->median).text, e->trials, e->trials == 1 ? "" : "s");
}

/* Copying against registering by CPU time, or by throughput where CPU time is the goal. */
static void say_price(const struct zc_sweep *sweep, struct zc_recommendation *r, uint64_t size)
{
    const enum zc_metric other = r->metric == ZC_METRIC_CPU ? ZC_METRIC_THROUGHPUT : ZC_METRIC_CPU;
    const struct zc_cell *const copy = zc_sweep_best(sweep, with_memory(ZC_MEMORY_STAGING), size, r->metric);
    const struct zc_cell *const zero = zc_sweep_best(sweep, with_memory(ZC_MEMORY_REGISTER), size, r->metric);
    if (!copy || !zero || !isfinite(copy->estimates[other].median) || !isfinite(zero->estimates[other].median))
        return;
    const bool told = zc_estimate_compare(&copy->estimates[other], &zero->estimates[other]) != 0;
    say(r, "There copying (%s) %s %s and registering (%s) %s%s.", zc_strategy_names[copy->options.strategy],
        other == ZC_METRIC_CPU ? "costs" : "moves", figure_words(other, copy->estimates[other].median).text, zc_strategy_names[zero->options.strategy],
        figure_words(other, zero->estimates[other].median).text, told ? "" : ", which is within the noise");
}

static void say_ceiling(const struct zc_sweep *sweep, struct zc_recommendation *r, const struct zc_cell *best)
{
    const struct zc_cell *const ideal = zc_sweep_best(sweep, with_memory(ZC_MEMORY_PREREGISTERED), best->options.size_bytes,
                                                      ZC_METRIC_THROUGHPUT);
    const double rate = best->estimates[ZC_METRIC_THROUGHPUT].median;
    if (!ideal || !isfinite(rate))
        return;
    const double ceiling = ideal->estimates[ZC_METRIC_THROUGHPUT].median;
    say(r, "Its throughput is %.0f %% of the ceiling (%s: %s).", 100 * rate / ceiling, zc_strategy_names[ideal->options.strategy],
        figure_words(ZC_METRIC_THROUGHPUT, ceiling).text);
}

static void say_phases(struct zc_recommendation *r, const struct zc_cell *best)
{
    const struct zc_phases *const p = &best->phases;
    const struct { const char *words; double ns; } parts[] = {
        { "registering", p->register_ns }, { "posting", p->post_ns }, { "waiting for the READ", p->wait_ns },
        { "copying", p->copy_ns }, { "deregistering", p->deregister_ns },
    };
    double sum = 0;
    size_t most = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sum += isfinite(parts[i].ns) ? parts[i].ns : 0;
        if (isfinite(parts[i].ns) && (!isfinite(parts[most].ns) || parts[i].ns > parts[most].ns))
            most = i;
    }
    if (p->requests && sum > 0)
        say(r, "What holds a single request back there is %s: %.0f %% of its %s.", parts[most].words, 100 * parts[most].ns / sum,
            figure_words(ZC_METRIC_P50, sum).text);
}

/* --- the command ----------------------------------------------------------------------------------------------- */

static void append(char *text, size_t size, const char *option, const char *value)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, " --%s%s%s", zc_option_dashed(option).text, value ? " " : "", value ? value : "");
}

static void append_option(char *text, size_t size, const struct zc_option *option, const struct zc_run_options *options)
{
    const void *const field = (const char *)options + option->field;
    char value[64];
    switch (option->type) {
    case ZC_OPTION_FLAG:
        if (*(const bool *)field)
            append(text, size, option->name, NULL);
        return;
    case ZC_OPTION_SIZE:
        append(text, size, option->name, zc_size_format(*(const uint64_t *)field, value, sizeof value));
        return;
    case ZC_OPTION_COUNT:
        snprintf(value, sizeof value, "%llu", (unsigned long long)*(const uint64_t *)field);
        append(text, size, option->name, value);
        return;
    case ZC_OPTION_CHOICE:
        append(text, size, option->name, option->choices[*(const int *)field]);
        return;
    case ZC_OPTION_SECONDS:
    case ZC_OPTION_TEXT:
        append(text, size, option->name, field);
        return;
    }
}

/* What was given, and nothing that is a default anyway. */
static void make_command(const struct zc_sweep *sweep, const struct zc_cell *best, char *text, size_t size)
{
    size_t count;
    const struct zc_option *const table = zc_options(&count);
    snprintf(text, size, "zcctl run");
    for (size_t i = 0; i < count; i++)
        if ((sweep->options.given >> i & 1) != 0 && zc_option_taken(&table[i], best->options.strategy))
            append_option(text, size, &table[i], &best->options);
}

void zc_recommend(const struct zc_sweep *sweep, enum zc_goal goal, uint64_t size_bytes, struct zc_recommendation *r)
{
    *r = (struct zc_recommendation){ .goal = goal };
    r->metric = goal == ZC_GOAL_THROUGHPUT ? ZC_METRIC_THROUGHPUT : goal == ZC_GOAL_CPU ? ZC_METRIC_CPU : ZC_METRIC_P99;
    if (goal == ZC_GOAL_LATENCY && !middle_size(sweep, ZC_METRIC_P99))
        r->metric = ZC_METRIC_P50;
    const uint64_t size = size_bytes ? nearest_size(sweep, size_bytes, r->metric)
        : goal == ZC_GOAL_LATENCY ? middle_size(sweep, r->metric) : best_size(sweep, r->metric);
    const struct zc_cell *const best = size ? zc_sweep_best(sweep, answers(), size, r->metric) : NULL;
    say_crossover(sweep, r);
    if (best) {
        say_best(r, best);
        say_price(sweep, r, size);
        say_ceiling(sweep, r, best);
        say_phases(r, best);
        make_command(sweep, best, r->command, sizeof r->command);
    }
    if (sweep->environment.device.kind == ZC_DEVICE_SOFTWARE && sweep->environment.device.name[0])
        say(r, "These figures describe the software device and this machine's CPU, not a NIC.");
}

int zc_question_parse(const char *goal_text, const char *size_text, enum zc_goal *goal, uint64_t *size_bytes, struct zc_error *err)
{
    const int found = goal_text ? zc_choice_find(zc_goal_names, goal_text) : ZC_GOAL_THROUGHPUT;
    uint64_t size = 0;
    if (found < 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "goal", "goal: \"%.40s\" is not one of throughput, latency, cpu", goal_text);
    if (size_text && (zc_size_parse(size_text, &size) != 0 || size == 0))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "size", "size: \"%.40s\" is not a size (use for instance 64K)", size_text);
    *goal = (enum zc_goal)found;
    *size_bytes = size;
    return 0;
}
