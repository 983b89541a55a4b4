/* The command line: tables of options in, targets and operands out. getopt_long(3) is not used because the options of `run` come
 * from the option table of proto/. No allocation, no output. */
#ifndef CTL_ARGS_H
#define CTL_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "options.h"

struct args_option {
    const char *name;       /* without dashes; NULL ends a table */
    char letter;            /* 0: none */
    const char *metavar;    /* NULL for flags */
    const char *help;       /* NULL: help does not list it */
    const char **value;     /* where the text goes, borrowed from argv; NULL for flags */
    bool *flag;             /* set to true; NULL for options with a value */
};

struct args {
    const struct args_option *common, *own;     /* NULL-terminated; own may be NULL */
    struct zc_run_options *run;                 /* NULL: the option table is not accepted */
    bool stop_at_operand;                       /* leave what follows the first operand alone */
    /* written */
    uint64_t given;                             /* rows of the option table that were given */
    char **operands;                            /* points into argv, which is reordered */
    int operand_count;
};

/* `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`, flags; `--` ends the options; options may follow operands. argv[0] is
 * passed over. 0, or -EINVAL with an error that names the option and the nearest one. */
int args_parse(struct args *args, int argc, char **argv, struct zc_error *err);

#endif
