/* zcctl runs: what is queued and active; cancelling without waiting. */
#include <limits.h>
#include <string.h>

#include "command.h"

int cmd_runs(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    int status = command_args(context, command, &args, argc, argv, 0, INT_MAX);
    const char *verb = args.operand_count > 0 ? args.operands[0] : "list";

    if (status >= 0)
        return status;
    if (strcmp(verb, "list") == 0 && args.operand_count <= 1)
        return command_call(context, "run.list", NULL, command_output(context)->runs);
    if (strcmp(verb, "cancel") == 0 && args.operand_count >= 2)
        return command_each(context, "run.cancel", "cancelled", args.operands + 1, args.operand_count - 1, NULL);
    return command_usage(context, command, verb);
}
