/* See sweep_json.h. */
#include "sweep_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_json.h"
#include "result_json.h"
#include "zc_json.h"

/* A figure with six digits: more would be noise, and the document must fit into one message. */
static json_t *figure(double value)
{
    char text[32];
    if (!isfinite(value))
        return json_null();
    snprintf(text, sizeof text, "%.6g", value);
    return json_real(strtod(text, NULL));
}

/* --- options --------------------------------------------------------------------------------------------------- */

/* As it would stand on the command line. */
static int scalar_text(const json_t *value, char *text, size_t size)
{
    if (json_is_string(value))
        return snprintf(text, size, "%s", json_string_value(value)) < (int)size ? 0 : -EINVAL;
    if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, size, "%.15g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, size, "%s", json_is_true(value) ? "true" : "false");
    else
        return -EINVAL;
    return 0;
}

static int value_text(const json_t *value, char *text, size_t size)
{
    size_t used = 0;
    if (!json_is_array(value))
        return scalar_text(value, text, size);
    if (json_array_size(value) == 0)
        return -EINVAL;
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (i > 0 && used + 1 < size)
            text[used++] = ',';
        if (used + 1 >= size || scalar_text(json_array_get(value, i), text + used, size - used) != 0)
            return -EINVAL;
        used += strlen(text + used);
    }
    return 0;
}

static int steps_from_json(const json_t *object, uint64_t *steps, struct zc_error *err)
{
    const json_t *const given = json_object_get(object, "steps");
    char text[32];
    *steps = 1;
    if (!given)
        return 0;
    if (scalar_text(given, text, sizeof text) != 0 || text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "steps", "steps: it is not a whole number");
    *steps = strtoull(text, NULL, 10);
    return 0;
}

int zc_sweep_options_from_json(const json_t *object, struct zc_sweep_options *options, struct zc_error *err)
{
    struct zc_sweep_options decoded;
    uint64_t steps;
    const char *name;
    json_t *value;
    zc_sweep_options_init(&decoded);
    int rc = steps_from_json(object, &steps, err);
    if (rc != 0)
        return rc;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        char text[2048];
        if (strcmp(name, "steps") == 0)
            continue;
        if (value_text(value, text, sizeof text) != 0)
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "%.60s: neither a value nor an array of values", name);
        rc = zc_sweep_option_parse(&decoded, name, text, steps, err);
        if (rc != 0)
            return rc;
    }
    *options = decoded;
    return 0;
}

static json_t *axis_value(const struct zc_option *option, uint64_t value)
{
    return option->type == ZC_OPTION_CHOICE ? json_string(option->choices[value]) : zc_json_count(value);
}

static json_t *axis_to_json(const struct zc_axis *axis)
{
    json_t *const values = json_array();
    for (uint32_t i = 0; i < axis->count; i++)
        json_array_append_new(values, axis_value(axis->option, axis->values[i]));
    return values;
}

static json_t *config_to_json(const struct zc_sweep_options *options)
{
    json_t *const config = zc_run_options_to_json_given(&options->base, options->given);
    json_t *const strategies = json_array();
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        if (options->strategies >> i & 1)
            json_array_append_new(strategies, json_string(zc_strategy_names[i]));
    json_object_set_new(config, "strategy", strategies);
    json_object_set_new(config, "size", axis_to_json(&options->sizes));
    for (uint32_t i = 0; i < options->axis_count; i++)
        json_object_set_new(config, options->axes[i].option->name, axis_to_json(&options->axes[i]));
    json_object_set_new(config, "trials", zc_json_count(options->trials));
    json_object_set_new(config, "budget", json_real(options->budget_s));
    json_object_set_new(config, "precision", json_real(options->precision));
    return config;
}

/* --- cells ----------------------------------------------------------------------------------------------------- */

static json_t *estimate_to_json(const struct zc_estimate *e)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "trials", zc_json_count(e->trials), "median", figure(e->median), "low", figure(e->low),
                     "high", figure(e->high));
}

static json_t *trials_to_json(const struct zc_cell *cell, enum zc_metric metric)
{
    json_t *const values = json_array();
    for (uint32_t i = 0; i < cell->trial_count; i++)
        json_array_append_new(values, figure(cell->trials[i].figures[metric]));
    return values;
}

static uint64_t axis_field(const struct zc_option *option, const struct zc_run_options *options)
{
    const void *const field = (const char *)options + option->field;
    return option->type == ZC_OPTION_CHOICE ? (uint64_t)*(const int *)field : *(const uint64_t *)field;
}

static json_t *cell_phases(const struct zc_phases *p)
{
    if (p->requests == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "register_ns", figure(p->register_ns), "post_ns", figure(p->post_ns), "wait_ns",
                     figure(p->wait_ns), "copy_ns", figure(p->copy_ns), "deregister_ns", figure(p->deregister_ns));
}

static json_t *cell_to_json(const struct zc_sweep_options *options, const struct zc_cell *cell)
{
    json_t *const json = json_pack("{s:s, s:o}", "strategy", zc_strategy_names[cell->options.strategy], "size",
                                   zc_json_count(cell->options.size_bytes));
    json_t *const trials = json_object();
    for (uint32_t i = 0; i < options->axis_count; i++) {
        const struct zc_option *const option = options->axes[i].option;
        json_object_set_new(json, option->name, zc_option_taken(option, cell->options.strategy)
                            ? axis_value(option, axis_field(option, &cell->options)) : json_null());
    }
    json_object_set_new(json, "added", json_boolean(cell->added));
    json_object_set_new(json, "error", zc_error_to_json(&cell->error));
    json_object_set_new(json, "inflight", zc_json_known(cell->inflight));
    json_object_set_new(json, "registrations_per_s", cell->trial_count ? zc_json_count(cell->registrations_per_s) : json_null());
    json_object_set_new(json, "window_s", figure(cell->window_s));
    for (int m = 0; m < ZC_METRIC_COUNT; m++) {
        json_object_set_new(json, zc_sweep_metrics[m].name, estimate_to_json(&cell->estimates[m]));
        json_object_set_new(trials, zc_sweep_metrics[m].name, trials_to_json(cell, (enum zc_metric)m));
    }
    json_object_set_new(json, "phases", cell_phases(&cell->phases));
    json_object_set_new(json, "trials", trials);
    return json;
}

static json_t *cells_to_json(const struct zc_sweep *sweep)
{
    json_t *const cells = json_array();
    for (uint32_t i = 0; i < sweep->cell_count; i++)
        json_array_append_new(cells, cell_to_json(&sweep->options, &sweep->cells[i]));
    return cells;
}

/* --- what follows ---------------------------------------------------------------------------------------------- */

static json_t *crossings_to_json(const struct zc_pair *pair, const struct zc_crossover *crossover)
{
    json_t *const crossings = json_array();
    for (size_t i = 0; i < crossover->count; i++) {
        const struct zc_crossing *const c = &crossover->crossings[i];
        json_array_append_new(crossings, json_pack("{s:o, s:o, s:s, s:s}", "low", zc_json_count(c->low_bytes), "high",
            zc_json_count(c->high_bytes), "below", c->below == 0 ? pair->a.name : pair->b.name, "above",
            c->below == 0 ? pair->b.name : pair->a.name));
    }
    return crossings;
}

static json_t *crossover_to_json(const struct zc_sweep *sweep, const struct zc_pair *pair, enum zc_metric metric)
{
    struct zc_crossover crossover;
    zc_sweep_crossover(sweep, pair, metric, &crossover);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:f, s:o}", "a", pair->a.name, "b", pair->b.name, "metric",
                     zc_sweep_metrics[metric].name, "kind", zc_crossover_kind_names[crossover.kind], "winner",
                     zc_json_text(crossover.winner < 0 ? "" : crossover.winner == 0 ? pair->a.name : pair->b.name), "sizes",
                     zc_json_count(crossover.sizes), "undecided", zc_json_count(crossover.undecided), "confidence", ZC_CONFIDENCE,
                     "crossings", crossings_to_json(pair, &crossover));
}

static json_t *crossovers_to_json(const struct zc_sweep *sweep)
{
    struct zc_pair pairs[ZC_PAIRS_MAX];
    const size_t count = zc_sweep_pairs(sweep, pairs);
    json_t *const crossovers = json_array();
    for (size_t i = 0; i < count; i++)
        for (int m = 0; m < ZC_METRIC_COUNT; m++)
            json_array_append_new(crossovers, crossover_to_json(sweep, &pairs[i], (enum zc_metric)m));
    return crossovers;
}

static json_t *model_to_json(const struct zc_model *m)
{
    if (!m->made)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "register_base_s", figure(m->register_base_s), "register_per_page_s",
                     figure(m->register_per_page_s), "worst_residual", figure(m->worst_residual), "page_bytes",
                     zc_json_known(m->page_bytes), "copy_gib_per_s", figure(m->copy_gib_per_s), "read_gib_per_s",
                     figure(m->read_gib_per_s), "read_s", figure(m->read_s), "crossover_bytes", figure(m->crossover_bytes));
}

json_t *zc_recommendation_to_json(const struct zc_recommendation *r)
{
    json_t *const sentences = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(sentences, zc_json_text(r->sentences[i]));
    return json_pack("{s:s, s:s, s:o, s:o}", "goal", zc_goal_names[r->goal], "metric", zc_sweep_metrics[r->metric].name, "sentences", sentences,
                     "command", zc_json_text(r->command));
}

static json_t *recommendations_to_json(const struct zc_sweep *sweep)
{
    json_t *const all = json_object();
    for (int goal = 0; goal < ZC_GOAL_COUNT; goal++) {
        struct zc_recommendation r;
        zc_recommend(sweep, (enum zc_goal)goal, 0, &r);
        json_object_set_new(all, zc_goal_names[goal], zc_recommendation_to_json(&r));
    }
    return all;
}

json_t *zc_sweep_to_json(const struct zc_sweep *s)
{
    return json_pack("{s:o, s:s, s:i, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}",
        "id", zc_json_text(s->id),
        "kind", "sweep",
        "schema_version", ZC_SWEEP_SCHEMA_VERSION,
        "owner_uid", zc_json_count(s->owner_uid),
        "state", zc_run_state_names[s->state],
        "error", zc_error_to_json(&s->error),
        "notice", zc_notice_to_json(&s->environment.device),
        "peer", zc_peer_info_to_json(&s->peer),
        "started_at", zc_json_time(s->started_unix_ns),
        "finished_at", zc_json_time(s->finished_unix_ns),
        "config", config_to_json(&s->options),
        "environment", zc_environment_to_json(&s->environment),
        "elapsed_s", figure(s->elapsed_s),
        "complete", s->complete,
        "seed", zc_json_count(s->seed),
        "clipped", axis_to_json(&s->clipped),
        "cells", cells_to_json(s),
        "crossovers", crossovers_to_json(s),
        "model", model_to_json(&s->model),
        "recommendation", recommendations_to_json(s));
}

/* --- back ------------------------------------------------------------------------------------------------------ */

static double number_or_nan(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static uint64_t count_or_zero(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
}

static void trials_from_json(const json_t *json, struct zc_cell *cell)
{
    const json_t *const trials = json_object_get(json, "trials");
    const size_t count = json_array_size(json_object_get(trials, zc_sweep_metrics[0].name));
    cell->trial_count = (uint32_t)(count < ZC_SWEEP_TRIALS_MAX ? count : ZC_SWEEP_TRIALS_MAX);
    for (uint32_t i = 0; i < cell->trial_count; i++)
        for (int m = 0; m < ZC_METRIC_COUNT; m++)
            cell->trials[i].figures[m] = number_or_nan(json_array_get(json_object_get(trials, zc_sweep_metrics[m].name), i));
    zc_sweep_estimate(cell);
}

static void phases_from_json(const json_t *json, struct zc_phases *phases)
{
    const struct { const char *name; double *ns; } parts[] = {
        { "register_ns", &phases->register_ns }, { "post_ns", &phases->post_ns }, { "wait_ns", &phases->wait_ns },
        { "copy_ns", &phases->copy_ns }, { "deregister_ns", &phases->deregister_ns },
    };
    phases->requests = json_is_object(json);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i].ns = number_or_nan(json_object_get(json, parts[i].name));
}

static bool matches(const struct zc_sweep_options *options, const struct zc_cell *cell, const json_t *json)
{
    const char *const strategy = json_string_value(json_object_get(json, "strategy"));
    if (!strategy || strcmp(strategy, zc_strategy_names[cell->options.strategy]) != 0)
        return false;
    for (uint32_t i = 0; i < options->axis_count; i++) {
        const struct zc_option *const option = options->axes[i].option;
        const json_t *const value = json_object_get(json, option->name);
        json_t *const own = zc_option_taken(option, cell->options.strategy)
            ? axis_value(option, axis_field(option, &cell->options)) : json_null();
        const bool same = json_equal(value, own);
        json_decref(own);
        if (!same)
            return false;
    }
    return true;
}

/* The cell of the plan that this one is, or a new one of the same options: added by a bisection. NULL: foreign. */
static struct zc_cell *find_cell(struct zc_sweep *sweep, const json_t *json)
{
    const uint64_t size = count_or_zero(json_object_get(json, "size"));
    for (uint32_t i = 0; size > 0 && i < sweep->cell_count; i++) {
        struct zc_cell *const cell = &sweep->cells[i];
        if (!matches(&sweep->options, cell, json))
            continue;
        const int index = cell->options.size_bytes == size ? (int)i : zc_sweep_add_cell(sweep, cell, size);
        return index < 0 ? NULL : &sweep->cells[index];
    }
    return NULL;
}

static int cells_from_json(const json_t *document, struct zc_sweep *sweep, struct zc_error *err)
{
    size_t index;
    json_t *json;
    json_array_foreach (json_object_get(document, "cells"), index, json) {
        struct zc_cell *const cell = find_cell(sweep, json);
        if (!cell)
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "id", "cell %zu of the stored sweep does not belong to its configuration", index);
        trials_from_json(json, cell);
        phases_from_json(json_object_get(json, "phases"), &cell->phases);
        cell->inflight = count_or_zero(json_object_get(json, "inflight"));
        cell->registrations_per_s = count_or_zero(json_object_get(json, "registrations_per_s"));
        cell->window_s = fmax(number_or_nan(json_object_get(json, "window_s")), 0);
    }
    return 0;
}

/* Sizes beyond the peer's region were planned and taken out. */
static void clip(struct zc_sweep *sweep)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        bool clipped = false;
        for (uint32_t c = 0; c < sweep->clipped.count; c++)
            clipped |= sweep->cells[i].options.size_bytes == sweep->clipped.values[c];
        if (!clipped)
            sweep->cells[kept++] = sweep->cells[i];
    }
    sweep->cell_count = kept;
}

static void model_from_json(const json_t *json, struct zc_model *m)
{
    const struct { const char *name; double *value; } parts[] = {
        { "register_base_s", &m->register_base_s }, { "register_per_page_s", &m->register_per_page_s },
        { "worst_residual", &m->worst_residual }, { "copy_gib_per_s", &m->copy_gib_per_s }, { "read_gib_per_s", &m->read_gib_per_s },
        { "read_s", &m->read_s }, { "crossover_bytes", &m->crossover_bytes },
    };
    m->made = json_is_object(json);
    m->page_bytes = count_or_zero(json_object_get(json, "page_bytes"));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i].value = number_or_nan(json_object_get(json, parts[i].name));
}

static void terms_from_json(const json_t *document, struct zc_sweep *sweep)
{
    const json_t *const device = json_object_get(json_object_get(document, "environment"), "device");
    const char *const name = json_string_value(json_object_get(device, "name"));
    const char *const kind = json_string_value(json_object_get(device, "kind"));
    const json_t *const clipped = json_object_get(document, "clipped");
    const char *const id = json_string_value(json_object_get(document, "id"));
    snprintf(sweep->id, sizeof sweep->id, "%s", id ? id : "");
    snprintf(sweep->environment.device.name, sizeof sweep->environment.device.name, "%s", name ? name : "");
    const int found = kind ? zc_choice_find(zc_device_kind_names, kind) : -1;
    sweep->environment.device.kind = found < 0 ? ZC_DEVICE_HARDWARE : (enum zc_device_kind)found;
    sweep->peer.region_bytes = count_or_zero(json_object_get(json_object_get(document, "peer"), "region_bytes"));
    model_from_json(json_object_get(document, "model"), &sweep->model);
    sweep->elapsed_s = fmax(number_or_nan(json_object_get(document, "elapsed_s")), 0);
    for (size_t i = 0; i < json_array_size(clipped) && i < ZC_AXIS_VALUES_MAX; i++)
        sweep->clipped.values[sweep->clipped.count++] = count_or_zero(json_array_get(clipped, i));
}

int zc_sweep_from_json(const json_t *document, struct zc_sweep *sweep, struct zc_error *err)
{
    const char *const kind = json_string_value(json_object_get(document, "kind"));
    zc_sweep_init(sweep);
    if (!kind || strcmp(kind, "sweep") != 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "id", "it is the result of a run, not of a sweep");
    terms_from_json(document, sweep);
    int rc = zc_sweep_options_from_json(json_object_get(document, "config"), &sweep->options, err);
    if (rc == 0)
        rc = zc_sweep_plan(sweep, err);
    if (rc == 0) {
        clip(sweep);
        rc = cells_from_json(document, sweep, err);
    }
    if (rc != 0)
        zc_sweep_destroy(sweep);
    return rc;
}
