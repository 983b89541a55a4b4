/* zcctl wait: join a run that goes on. */
#include "command.h"
#include "follow.h"

int cmd_wait(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    int status = command_args(context, command, &args, argc, argv, 1, 1);

    return status >= 0 ? status : follow_existing(context, args.operands[0]);
}
