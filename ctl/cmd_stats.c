/* zcctl stats: the daemon's counters. */
#include "command.h"

int cmd_stats(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    int status = command_args(context, command, &args, argc, argv, 0, 0);

    return status >= 0 ? status : command_call(context, "stats", NULL, command_output(context)->stats);
}
