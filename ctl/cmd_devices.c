/* zcctl devices: the RDMA devices that the daemon sees. */
#include "command.h"

int cmd_devices(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    int status = command_args(context, command, &args, argc, argv, 0, 0);

    return status >= 0 ? status : command_call(context, "device.list", NULL, command_output(context)->devices);
}
