/* zcctl run: options from the option table, then run.start and run.wait (follow.c). */
#include "command.h"
#include "follow.h"
#include "options_json.h"
#include "run_all.h"

#include <string.h>

/* One strategy, whose name is an option like any other. */
static int choose(struct context *context, const char *name, struct zc_run_options *options, uint64_t *given)
{
    const struct zc_option *strategy = zc_option_find("strategy", strlen("strategy"));
    struct zc_error err;

    if (name == NULL)
        return 0;
    *given |= zc_option_bit("strategy");
    if (zc_option_parse(strategy, name, options, &err) == 0)
        return 0;
    command_error(context, "%s", err.message);
    return EXIT_USAGE;
}

int cmd_run(struct context *context, const struct command *command, int argc, char **argv)
{
    struct zc_run_options options;
    const char *strategies = NULL;
    bool detach = false;
    const struct args_option own[] = {
        { .name = "strategy", .value = &strategies },   /* help has it in the option table */
        { .name = "detach", .help = "print the id of the run and leave it to the daemon", .flag = &detach },
        { .name = "json-stream", .help = "print a line of JSON every 100 ms, the last one with the result", .flag = &context->stream },
        { .name = NULL },
    };
    struct args args = { .own = own, .run = &options };
    struct zc_error err;
    int status;

    zc_run_options_init(&options);
    status = command_args(context, command, &args, argc, argv, 0, 0);
    if (status >= 0)
        return status;
    if (detach && context->stream) {
        command_error(context, "--detach leaves nothing for --json-stream");
        return EXIT_USAGE;
    }
    if (run_all_wanted(strategies) && detach) {
        command_error(context, "--detach goes with one strategy");
        return EXIT_USAGE;
    }
    if (run_all_wanted(strategies))
        return run_all(context, &options, args.given, strategies);
    status = choose(context, strategies, &options, &args.given);
    if (status != 0)
        return status;
    if (zc_run_options_check(&options, args.given, &err) != 0) {
        command_error(context, "%s", err.message);
        return EXIT_USAGE;
    }
    return follow_new(context, zc_run_options_to_json_given(&options, args.given), detach);
}
