/* zcctl: talks to zcrdmad over its control socket. Everything else is in command.c and cmd_*.c. */
#include <stdio.h>

#include "command.h"

int main(int argc, char **argv)
{
    return command_main(argc, argv, stdout);
}
