/* What subcommands share: their table, the context of a call, usage texts, exit statuses. One file a subcommand: cmd_*.c. */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "args.h"
#include "client.h"
#include "error.h"
#include "output.h"

enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,        /* the run failed, the daemon refused, the figures could not be stored */
    EXIT_USAGE = 2,         /* also when the daemon refused a parameter */
    EXIT_UNREACHABLE = 3,   /* no daemon, or the connection was lost */
    EXIT_INTERRUPTED = 130,
};

struct context {
    const char *socket_path;
    const char *program;    /* "zcctl" or "zcctl run", for messages */
    bool json, help, version;
    bool stream;            /* `run` and `wait` --json-stream: a line of JSON for each progress notification, then one with the result */
    bool completing;        /* for a shell: command_args() offers words instead of parsing them (complete.h) */
    FILE *out;
};

struct command {
    const char *name;
    int (*run)(struct context *context, const struct command *command, int argc, char **argv);   /* exit status; argv[0]: name */
    const char *operands;   /* for usage and completion: "ID", "[list | cancel ID...]"; "" if none */
    const char *ids;        /* the method that lists what ID can be; NULL: there are none */
    const char *help;       /* one line */
    const char *notes;      /* paragraphs behind the options in the command's help; NULL: none */
};

/* In the order in which help lists them; a NULL name ends the table. */
extern const struct command commands[];

/* The whole of zcctl but for main(). Returns the exit status. */
int command_main(int argc, char **argv, FILE *out);

/* Parse a subcommand's arguments together with the common options. -1: go on; else an exit status, and everything is said (help was
 * asked for, or a usage error). `args->own` and `args->run` are the caller's. */
int command_args(struct context *context, const struct command *command, struct args *args, int argc, char **argv, int min_operands,
                 int max_operands);

/* The text or JSON form, as --json says. */
const struct output *command_output(const struct context *context);

/* A verb that the command does not have, or too few or too many operands for it. Returns EXIT_USAGE. */
int command_usage(const struct context *context, const struct command *command, const char *verb);

/* `length` bytes of text into a file, an old one replaced. Returns the exit status, and why it failed is said. */
int command_write_file(const struct context *context, const char *path, const char *text, size_t length);

/* "zcctl run: MESSAGE" on stderr. */
void command_error(const struct context *context, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Say why a call did not succeed, return the exit status for it. */
int command_failed(const struct context *context, enum client_status status, const struct zc_error *err);

/* Connect, call, give the result (a new reference) to `show`: what most subcommands are. Returns the exit status. */
int command_call(struct context *context, const char *method, json_t *params, void (*show)(FILE *out, json_t *result));

/* The method once for each of `ids`, its parameter "id" being the text, or what `number` makes of it; `done` ("cancelled") is said of each
 * that succeeded. Goes on after one that was refused. Returns the exit status. */
int command_each(struct context *context, const char *method, const char *done, char **ids, int count, json_t *(*number)(const char *id));

int cmd_run(struct context *context, const struct command *command, int argc, char **argv);
int cmd_runs(struct context *context, const struct command *command, int argc, char **argv);
int cmd_sweep(struct context *context, const struct command *command, int argc, char **argv);
int cmd_recommend(struct context *context, const struct command *command, int argc, char **argv);
int cmd_wait(struct context *context, const struct command *command, int argc, char **argv);
int cmd_results(struct context *context, const struct command *command, int argc, char **argv);
int cmd_report(struct context *context, const struct command *command, int argc, char **argv);
int cmd_compare(struct context *context, const struct command *command, int argc, char **argv);
int cmd_stats(struct context *context, const struct command *command, int argc, char **argv);
int cmd_sessions(struct context *context, const struct command *command, int argc, char **argv);
int cmd_probe(struct context *context, const struct command *command, int argc, char **argv);
int cmd_doctor(struct context *context, const struct command *command, int argc, char **argv);
int cmd_strategies(struct context *context, const struct command *command, int argc, char **argv);
int cmd_devices(struct context *context, const struct command *command, int argc, char **argv);
int cmd_version(struct context *context, const struct command *command, int argc, char **argv);

#endif
