/* zcctl probe: what registering, copying, reading and setting up cost here. */
#include "command.h"
#include "follow.h"

int cmd_probe(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *peer = "self";
    bool quick = false, detach = false;
    const struct args_option own[] = {
        { .name = "peer", .metavar = "HOST", .help = "read from this peer: HOST[:PORT] or self (self)", .value = &peer },
        { .name = "quick", .help = "only what a model of the strategies needs, in about a second", .flag = &quick },
        { .name = "detach", .help = "print the id of the probe and leave it to the daemon", .flag = &detach },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 0, 0);

    if (status >= 0)
        return status;
    return follow_start(context, "probe.start", json_pack("{s:s, s:b}", "peer", peer, "quick", quick), detach);
}
