/* zcctl: talks to zcrdmad over its control socket. Everything else is in command.c and cmd_*.c. */
#include <locale.h>
#include <stdio.h>

#include "command.h"

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");    /* which characters the terminal has; numbers keep their point */
    return command_main(argc, argv, stdout);
}
