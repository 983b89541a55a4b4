/* The options of a sweep: lists and ranges where a run has one value. See sweep.h. */
#include "sweep.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 8 };

void zc_sweep_options_init(struct zc_sweep_options *options)
{
    *options = (struct zc_sweep_options){ .trials = 7, .budget_s = 300, .precision = 0.02 };
    zc_run_options_init(&options->base);
    options->sizes.option = zc_option_find("size", 4);
}

/* The windows are the sweep's own, and a trace of hundreds of runs is nobody's. */
bool zc_sweep_takes(const struct zc_option *option)
{
    static const char *const refused[] = { "warmup", "measure", "skip_latency", "skip_throughput", "logging", NULL };
    return zc_choice_find(refused, option->name) < 0;
}

bool zc_option_is_axis(const struct zc_option *option)
{
    static const char *const single[] = { "strategy", "memory_max", "footprint", "validate", NULL };
    return (option->type == ZC_OPTION_SIZE || option->type == ZC_OPTION_COUNT || option->type == ZC_OPTION_CHOICE)
           && zc_sweep_takes(option) && zc_choice_find(single, option->name) < 0;
}

/* --- words ----------------------------------------------------------------------------------------------------- */

static int number_parse(const char *text, double *value, char **end)
{
    if (text[0] == '\0' || text[strspn(text, "0123456789.")] == text[0])
        return -EINVAL;
    errno = 0;
    *value = strtod(text, end);
    return errno || *end == text || !isfinite(*value) ? -EINVAL : 0;
}

int zc_duration_parse(const char *text, double *seconds)
{
    static const struct { const char *unit; double seconds; } units[] = {
        { "", 1 }, { "s", 1 }, { "m", 60 }, { "min", 60 }, { "h", 3600 },
    };
    double value;
    char *end;
    if (number_parse(text, &value, &end) < 0)
        return -EINVAL;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) == 0) {
            *seconds = value * units[i].seconds;
            return 0;
        }
    }
    return -EINVAL;
}

int zc_share_parse(const char *text, double *share)
{
    double value;
    char *end;
    if (number_parse(text, &value, &end) < 0 || (*end != '\0' && strcmp(end, "%") != 0))
        return -EINVAL;
    *share = *end == '%' ? value / 100 : value;
    return 0;
}

int zc_sweep_strategies_parse(const char *text, uint32_t *strategies, struct zc_error *err)
{
    const struct zc_option *const option = zc_option_find("strategy", 8);
    uint32_t found = 0;
    if (strcmp(text, "all") == 0) {
        for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
            found |= (uint32_t)!zc_strategy_infos[i].composite << i;
        *strategies = found;
        return 0;
    }
    for (;;) {
        const size_t length = strcspn(text, ",");
        struct zc_run_options one;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, text);
        const int rc = zc_option_parse(option, name, &one, err);
        if (rc != 0)
            return rc;
        found |= UINT32_C(1) << one.strategy;
        if (text[length] == '\0')
            break;
        text += length + 1;
    }
    *strategies = found;
    return 0;
}

/* --- axes ------------------------------------------------------------------------------------------------------ */

static uint64_t value_of(const struct zc_option *option, const struct zc_run_options *options)
{
    const void *const field = (const char *)options + option->field;
    return option->type == ZC_OPTION_CHOICE ? (uint64_t)*(const int *)field : *(const uint64_t *)field;
}

static int axis_add(struct zc_axis *axis, uint64_t value, struct zc_error *err)
{
    const char *const name = axis->option->name;
    for (uint32_t i = 0; i < axis->count; i++)
        if (axis->values[i] == value)
            return 0;
    if (axis->count == ZC_AXIS_VALUES_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -ERANGE, name, "%s: more than %d values", name, ZC_AXIS_VALUES_MAX);
    axis->values[axis->count++] = value;
    return 0;
}

static int axis_add_text(struct zc_axis *axis, const char *text, size_t length, struct zc_error *err)
{
    struct zc_run_options one;
    char value[80];
    snprintf(value, sizeof value, "%.*s", (int)length, text);
    const int rc = zc_option_parse(axis->option, value, &one, err);
    return rc != 0 ? rc : axis_add(axis, value_of(axis->option, &one), err);
}

int zc_axis_parse(const struct zc_option *option, const char *text, struct zc_axis *axis, struct zc_error *err)
{
    struct zc_axis made = { .option = option };
    for (;;) {
        const size_t length = strcspn(text, ",");
        const int rc = axis_add_text(&made, text, length, err);
        if (rc != 0)
            return rc;
        if (text[length] == '\0')
            break;
        text += length + 1;
    }
    *axis = made;
    return 0;
}

/* Geometric steps from one size to the other, both included; between powers of two whole multiples of 64 bytes. */
static int add_range(struct zc_axis *sizes, uint64_t from, uint64_t to, uint64_t steps, struct zc_error *err)
{
    int rc = 0;
    if (from > to)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "size", "size: the range ends before it begins");
    for (uint64_t i = 0; rc == 0; i++) {
        const double exact = (double)from * exp2((double)i / (double)steps);
        const uint64_t size = i % steps == 0 ? from << (i / steps) : exact < 4096 ? (uint64_t)exact : (uint64_t)exact / 64 * 64;
        if (size >= to)
            break;
        rc = axis_add(sizes, size, err);
    }
    return rc != 0 ? rc : axis_add(sizes, to, err);
}

static int parse_range(struct zc_axis *sizes, const char *text, size_t length, uint64_t steps, struct zc_error *err)
{
    const char *const dots = strstr(text, "..");
    struct zc_axis ends = { .option = sizes->option };
    int rc = axis_add_text(&ends, text, (size_t)(dots - text), err);
    if (rc == 0)
        rc = axis_add_text(&ends, dots + 2, length - (size_t)(dots + 2 - text), err);
    return rc != 0 ? rc : add_range(sizes, ends.values[0], ends.values[ends.count - 1], steps, err);
}

static int by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int zc_sweep_sizes_parse(const char *text, uint64_t steps, struct zc_axis *sizes, struct zc_error *err)
{
    struct zc_axis made = { .option = zc_option_find("size", 4) };
    if (steps < 1 || steps > STEPS_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -ERANGE, "steps", "steps: %llu is not between 1 and %d an octave",
                            (unsigned long long)steps, STEPS_MAX);
    for (;;) {
        const size_t length = strcspn(text, ",");
        const char *const dots = strstr(text, "..");
        const int rc = dots && dots < text + length ? parse_range(&made, text, length, steps, err)
                                                    : axis_add_text(&made, text, length, err);
        if (rc != 0)
            return rc;
        if (text[length] == '\0')
            break;
        text += length + 1;
    }
    qsort(made.values, made.count, sizeof made.values[0], by_value);
    *sizes = made;
    return 0;
}

/* --- one option ------------------------------------------------------------------------------------------------ */

static int parse_own(struct zc_sweep_options *options, const char *name, const char *text, struct zc_error *err)
{
    double value;
    char *end;
    if (strcmp(name, "budget") == 0) {
        if (zc_duration_parse(text, &value) < 0 || value < 1 || value > 86400)
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "budget: \"%.40s\" is not a time of 1s to 24h (use for instance 5m)", text);
        options->budget_s = value;
    } else if (strcmp(name, "precision") == 0) {
        if (zc_share_parse(text, &value) < 0 || value < 0.001 || value > 0.5)
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "precision: \"%.40s\" is not a share of 0.1%% to 50%% (use for instance 2%%)", text);
        options->precision = value;
    } else {    /* trials */
        if (number_parse(text, &value, &end) < 0 || *end != '\0' || value != floor(value) || value < 1 || value > ZC_SWEEP_TRIALS_MAX)
            return zc_error_set(err, ZC_ERR_INVALID, -ERANGE, name, "trials: \"%.40s\" is not a number of 1 to %d", text, ZC_SWEEP_TRIALS_MAX);
        options->trials = (uint64_t)value;
    }
    return 0;
}

static int parse_axis(struct zc_sweep_options *options, const struct zc_option *option, const char *text, struct zc_error *err)
{
    if (options->axis_count == ZC_AXES_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -E2BIG, option->name, "%s: more than %d options have several values", option->name, ZC_AXES_MAX);
    const int rc = zc_axis_parse(option, text, &options->axes[options->axis_count], err);
    if (rc == 0)
        options->axis_count++;
    return rc;
}

static int parse_row(struct zc_sweep_options *options, const struct zc_option *option, const char *text, uint64_t steps, struct zc_error *err)
{
    if (!zc_sweep_takes(option))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, option->name, "%s: a sweep chooses it by itself", option->name);
    if (option->sweep_field != 0 && strstr(text, "sweep:"))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, option->name, "%s: in a sweep it is a size; sweep:ID is for a run", option->name);
    if (strcmp(option->name, "strategy") == 0)
        return zc_sweep_strategies_parse(text, &options->strategies, err);
    if (strcmp(option->name, "size") == 0)
        return zc_sweep_sizes_parse(text, steps, &options->sizes, err);
    if (zc_option_is_axis(option) && strchr(text, ','))
        return parse_axis(options, option, text, err);
    return zc_option_parse(option, text, &options->base, err);
}

int zc_sweep_option_parse(struct zc_sweep_options *options, const char *name, const char *text, uint64_t steps, struct zc_error *err)
{
    static const char *const own[] = { "budget", "precision", "trials", NULL };
    const struct zc_option *const option = zc_option_find(name, strlen(name));
    if (zc_choice_find(own, name) >= 0)
        return parse_own(options, name, text, err);
    if (!option || strcmp(option->name, name) != 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "unknown option \"%.60s\"", name);
    const int rc = parse_row(options, option, text, steps, err);
    if (rc == 0)
        options->given |= zc_option_bit(name);
    return rc;
}
