/* See run_all.h. */
#include "run_all.h"

#include <stdio.h>
#include <string.h>

#include "client.h"
#include "follow.h"
#include "format.h"
#include "options_json.h"

enum { RUNS_MAX = 32 };

struct plan {
    struct zc_run_options options;
    uint64_t given;
};

/* What is run, in its order. */
struct plans {
    struct plan list[RUNS_MAX];
    size_t count;
};

bool run_all_wanted(const char *strategies)
{
    return strategies != NULL && (strcmp(strategies, "all") == 0 || strchr(strategies, ',') != NULL);
}

static void leave_out(struct context *context, struct plan *plan, const struct zc_option *option, uint64_t bit)
{
    plan->given &= ~bit;
    command_error(context, "%s does not take --%s: left out", zc_strategy_names[plan->options.strategy],
                  zc_option_dashed(option->name).text);
}

/* Only what was given travels, so that the daemon's defaults fill the rest. */
static void fit_options(struct context *context, struct plan *plan)
{
    bool preregistered = zc_strategy_infos[plan->options.strategy].memory == ZC_MEMORY_PREREGISTERED;
    size_t count;
    const struct zc_option *table = zc_options(&count);

    for (size_t i = 0; i < count; i++)
        if ((plan->given >> i & 1) != 0 && !zc_option_taken(&table[i], plan->options.strategy))
            leave_out(context, plan, &table[i], UINT64_C(1) << i);
    if (preregistered && plan->options.buffers == ZC_BUFFERS_FRESH) {   /* registered beforehand is not fresh */
        leave_out(context, plan, zc_option_find("buffers", 7), zc_option_bit("buffers"));
        plan->options.buffers = ZC_BUFFERS_REUSE;
    }
}

/* 0, or an exit status with everything said. */
static int add(struct context *context, struct plans *plans, const struct zc_run_options *options, uint64_t given, int strategy)
{
    struct plan *plan = &plans->list[plans->count];
    struct zc_run_options checked;
    struct zc_error err;

    if (zc_strategy_infos[strategy].memory == ZC_MEMORY_PREREGISTERED && !options->skip_validation &&
        (given & zc_option_bit("validate")) == 0) {
        command_error(context, "%s is left out: it wants --skip-validation, or --validate first or all",
                      zc_strategy_names[strategy]);
        return 0;
    }
    if (plans->count == RUNS_MAX) {
        command_error(context, "more than %d runs in one command", RUNS_MAX);
        return EXIT_USAGE;
    }
    *plan = (struct plan){ .options = *options, .given = given | zc_option_bit("strategy") };
    plan->options.strategy = strategy;
    fit_options(context, plan);
    checked = plan->options;
    if (zc_run_options_check(&checked, plan->given, &err) != 0) {
        command_error(context, "%s", err.message);
        return EXIT_USAGE;
    }
    plans->count++;
    return 0;
}

static int plan_list(struct context *context, struct plans *plans, const struct zc_run_options *options, uint64_t given,
                     const char *strategies)
{
    for (;;) {
        size_t length = strcspn(strategies, ",");
        struct zc_run_options one = *options;
        struct zc_error err;
        char name[64];
        int status;

        snprintf(name, sizeof(name), "%.*s", (int)length, strategies);
        if (zc_option_parse(zc_option_find("strategy", 8), name, &one, &err) != 0) {
            command_error(context, "%s", err.message);
            return EXIT_USAGE;
        }
        status = add(context, plans, options, given, one.strategy);
        if (status != 0 || strategies[length] == '\0')
            return status;
        strategies += length + 1;
    }
}

/* Has the device that the runs will use on-demand paging? Then, or if nobody knows yet: NULL; else its name. */
static json_t *device_without_odp(struct context *context, const struct zc_run_options *options)
{
    struct client *client = NULL;
    struct zc_error err;
    json_t *answer = NULL, *name = NULL, *row;
    size_t index;

    if (client_open(context->socket_path, &client, &err) == CLIENT_OK)
        client_call(client, "device.list", NULL, &answer, &err);
    client_close(client);
    json_array_foreach (json_object_get(answer, "devices"), index, row) {
        bool used = strcmp(options->device, "auto") == 0 ? json_is_true(json_object_get(row, "in_use"))
                                                         : strcmp(options->device, text_at(row, "name")) == 0;
        if (used && json_is_false(json_object_get(row, "odp")))
            name = json_incref(json_object_get(row, "name"));
        if (used)
            break;
    }
    json_decref(answer);
    return name;
}

/* Every strategy that says something of its own on this device. */
static int plan_all(struct context *context, struct plans *plans, const struct zc_run_options *options, uint64_t given)
{
    json_t *without = device_without_odp(context, options);
    int status = 0;

    if (without != NULL)
        command_error(context, "the odp strategies are left out: the device %s has no on-demand paging (ODP)",
                      json_string_value(without));
    for (int i = 0; status == 0 && i < ZC_STRATEGY_COUNT; i++)
        if (!zc_strategy_infos[i].composite && (without == NULL || zc_strategy_infos[i].memory != ZC_MEMORY_ODP))
            status = add(context, plans, options, given, i);
    json_decref(without);
    return status;
}

static int make_plans(struct context *context, struct plans *plans, const struct zc_run_options *options, uint64_t given,
                      const char *strategies)
{
    int status = 0;

    if (strcmp(strategies, "all") != 0)
        status = plan_list(context, plans, options, given, strategies);
    else
        status = plan_all(context, plans, options, given);
    if (status == 0 && plans->count == 0) {
        command_error(context, "nothing is left to run");
        status = EXIT_USAGE;
    }
    return status;
}

int run_all(struct context *context, const struct zc_run_options *options, uint64_t given, const char *strategies)
{
    struct plans plans = { .count = 0 };
    json_t *documents;
    int status = make_plans(context, &plans, options, given, strategies);

    if (status != 0)
        return status;
    documents = json_array();
    for (size_t i = 0; i < plans.count && status != EXIT_INTERRUPTED && status != EXIT_UNREACHABLE; i++) {
        struct plan *plan = &plans.list[i];
        json_t *document = NULL;
        char label[96];
        int one;

        snprintf(label, sizeof(label), "%zu/%zu %s ", i + 1, plans.count, zc_strategy_names[plan->options.strategy]);
        one = follow_quietly(context, zc_run_options_to_json_given(&plan->options, plan->given), label, &document);
        if (document != NULL)
            json_array_append_new(documents, document);
        if (one != EXIT_DONE)
            status = one == EXIT_INTERRUPTED || one == EXIT_UNREACHABLE ? one : EXIT_FAILED;
    }
    if (!context->stream && (context->json || json_array_size(documents) > 0))
        command_output(context)->comparison(context->out, documents);
    json_decref(documents);
    return status;
}
