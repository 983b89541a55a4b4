/* zcctl run: options from the option table, then run.start and run.wait (follow.c). */
#include "command.h"
#include "follow.h"
#include "options_json.h"

int cmd_run(struct context *context, const struct command *command, int argc, char **argv)
{
    struct zc_run_options options;
    bool detach = false;
    const struct args_option own[] = {
        { .name = "detach", .help = "print the id of the run and leave it to the daemon", .flag = &detach },
        { .name = NULL },
    };
    struct args args = { .own = own, .run = &options };
    struct zc_error err;
    int status;

    zc_run_options_init(&options);
    status = command_args(context, command, &args, argc, argv, 0, 0);
    if (status >= 0)
        return status;
    if (zc_run_options_check(&options, args.given, &err) != 0) {
        command_error(context, "%s", err.message);
        return EXIT_USAGE;
    }
    return follow_new(context, zc_run_options_to_json_given(&options, args.given), detach);
}
