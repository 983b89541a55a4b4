/* zcctl strategies: what each one is made of, which options belong to it, what it shows. From the tables; needs no daemon. */
#include "command.h"
#include "options.h"

/* The options that not every strategy takes. */
static json_t *own_options(int strategy)
{
    size_t count;
    const struct zc_option *table = zc_options(&count);
    json_t *names = json_array();

    for (size_t i = 0; i < count; i++)
        if (table[i].strategies != ZC_ALL_STRATEGIES && zc_option_taken(&table[i], strategy))
            json_array_append_new(names, json_string(table[i].name));
    return names;
}

static json_t *describe(int strategy)
{
    const struct zc_strategy_info *info = &zc_strategy_infos[strategy];

    return json_pack("{s:s, s:s?, s:s, s:s, s:s, s:o, s:s}",
        "name", info->name,
        "alias", info->alias,
        "memory", zc_memory_names[info->memory],
        "execution", zc_execution_names[info->execution],
        "chunk", zc_chunking_names[info->chunking],
        "options", own_options(strategy),
        "shows", info->shows);
}

int cmd_strategies(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    int status = command_args(context, command, &args, argc, argv, 0, 0);
    json_t *rows, *answer;

    if (status >= 0)
        return status;
    rows = json_array();
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        json_array_append_new(rows, describe(i));
    answer = json_pack("{s:o}", "strategies", rows);
    command_output(context)->strategies(context->out, answer);
    json_decref(answer);
    return EXIT_DONE;
}
