/* zcctl wait: join a run that goes on. */
#include "command.h"
#include "follow.h"

int cmd_wait(struct context *context, const struct command *command, int argc, char **argv)
{
    const struct args_option own[] = {
        { .name = "json-stream", .help = "print a line of JSON every 100 ms, the last one with the result", .flag = &context->stream },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 1, 1);

    return status >= 0 ? status : follow_existing(context, args.operands[0]);
}
