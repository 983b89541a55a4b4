/* The table of subcommands, and what they share. See command.h. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "complete.h"
#include "version.h"

#define DEFAULT_SOCKET "/run/zcrdmad/control.sock"

const struct command commands[] = {
    { .name = "run", .run = cmd_run, .operands = "--strategy NAME --peer HOST", .help = "measure one strategy against one peer",
      .notes = "SIZE is a number of bytes or has a suffix: 64K, 1M, 1MiB (powers of 1024).\n"
               "--strategy also takes names with commas between them, or all: one run after another, one table.\n"
               "The hybrid strategies are not among all: at one size each is what a copy or a pipeline strategy is.\n"
               "Ctrl-C cancels the run and waits for its end; Ctrl-C again leaves at once.\n"
               "Exit status: 0 done, 1 the run failed or its result could not be stored, 2 usage, 3 no daemon,\n"
               "130 interrupted." },
    { .name = "sweep", .run = cmd_sweep, .operands = "--strategy all|NAME,... --peer HOST --size FROM..TO", .help = "compare strategies over sizes: the answer on one screen",
      .notes = "Each combination is measured several times in random order, then sizes at which the better strategy\n"
               "changes are narrowed down, all within --budget. A sweep that was interrupted is stored: --resume ID." },
    { .name = "recommend", .run = cmd_recommend, .operands = "ID", .ids = "result.list",
      .help = "what a sweep advises, in sentences, and the run of its best choice",
      .notes = "A file of a sweep's result (with a '/' or ending in .json) works like its id, and needs no daemon." },
    { .name = "wait", .run = cmd_wait, .operands = "ID", .ids = "run.list",
      .help = "follow a run that was started with --detach to its result" },
    { .name = "runs", .run = cmd_runs, .operands = "[list | cancel ID...]", .ids = "run.list",
      .help = "queued and active runs" },
    { .name = "results", .run = cmd_results, .operands = "[list | show ID | get ID | trace ID | delete ID...]", .ids = "result.list",
      .help = "stored results",
      .notes = "show prints the table that `run` printed, get the JSON document, trace what run --logging recorded\n"
               "(Chrome trace format: open it with ui.perfetto.dev or chrome://tracing)." },
    { .name = "report", .run = cmd_report, .operands = "ID...", .ids = "result.list",
      .help = "one page about results, with plots",
      .notes = "HTML needs gnuplot (Debian package gnuplot-nox); the page needs nothing else and can be given away.\n"
               "Runs and sweeps go together, side by side. Files of results (with a '/' or ending in .json) work like ids." },
    { .name = "compare", .run = cmd_compare, .operands = "ID ID", .ids = "result.list",
      .help = "what is better or worse in the second result, beyond the noise",
      .notes = "Two sweeps, or runs: ID,ID,... are trials of one side, six or more for an interval. Files of results work like ids.\n"
               "Exit status: 0 nothing is worse by more than --fail-over, 1 something is, or nothing can be told." },
    { .name = "stats", .run = cmd_stats, .operands = "", .help = "counters of the daemon" },
    { .name = "sessions", .run = cmd_sessions, .operands = "[list | close ID...]", .ids = "session.list",
      .help = "sessions of peers that read here" },
    { .name = "devices", .run = cmd_devices, .operands = "", .help = "RDMA devices and their ports" },
    { .name = "probe", .run = cmd_probe, .operands = "", .help = "what registering, copying, reading and setting up cost here",
      .notes = "Takes a few seconds. Each figure is a median with the interval that holds it with at least 95 % confidence. Registering\n"
               "is measured by size, kind of pages, touched before (warm) or not (cold), and threads that do it at once." },
    { .name = "doctor", .run = cmd_doctor, .operands = "", .help = "what would spoil a measurement, and what to do about it",
      .notes = "Looks at the host of zcrdmad for about a second; with --peer also at the path to a peer. Levels: bad - runs fail;\n"
               "warn - figures will be worse, or differ from time to time; note; unknown - the host does not tell; ok.\n"
               "Exit status: 0 nothing is bad, 1 something is, 2 usage, 3 no daemon." },
    { .name = "strategies", .run = cmd_strategies, .operands = "", .help = "the strategies: parts, options, what each shows" },
    { .name = "version", .run = cmd_version, .operands = "", .help = "versions of zcctl and of the daemon" },
    { .name = NULL },
};

/* ---- messages ---- */

void command_error(const struct context *context, const char *format, ...)
{
    char message[2 * ZC_ERROR_MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    fflush(context->out);
    fprintf(stderr, "%s: %s\n", context->program, zc_text_clean(message));
}

int command_failed(const struct context *context, enum client_status status, const struct zc_error *err)
{
    command_error(context, "%s", err->message);
    if (status == CLIENT_LOST)
        return EXIT_UNREACHABLE;
    return err->kind == ZC_ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

const struct output *command_output(const struct context *context)
{
    return context->json ? &output_json : &output_text;
}

/* ---- options and help ---- */

/* The common options with their targets in *context. */
struct common {
    struct args_option rows[5];
};
static struct common common_options(struct context *context)
{
    return (struct common){ {
        { .name = "socket", .metavar = "PATH", .help = "control socket (default " DEFAULT_SOCKET ", or $ZCRDMA_SOCKET)",
          .value = &context->socket_path },
        { .name = "json", .help = "print JSON", .flag = &context->json },
        { .name = "help", .letter = 'h', .help = "show this help", .flag = &context->help },
        { .name = "version", .letter = 'V', .help = "show the version of zcctl", .flag = &context->version },
        { .name = NULL },
    } };
}

static void print_option(FILE *out, char letter, const char *name, const char *metavar, const char *help, const char *more)
{
    char left[128];

    snprintf(left, sizeof(left), "%c%c%s --%s%s%s", letter != 0 ? '-' : ' ', letter != 0 ? letter : ' ', letter != 0 ? "," : " ",
             zc_option_dashed(name).text, metavar != NULL ? " " : "", metavar != NULL ? metavar : "");
    fprintf(out, "  %-31s  %s%s\n", left, help, more);
}

static void print_options(FILE *out, const struct args_option *options)
{
    for (; options != NULL && options->name != NULL; options++)
        if (options->help != NULL)
            print_option(out, options->letter, options->name, options->metavar, options->help, "");
}

static void print_run_options(FILE *out)
{
    size_t count;
    const struct zc_option *options = zc_options(&count);
    char more[160];

    for (size_t i = 0; i < count; i++) {
        more[0] = '\0';
        if (options[i].default_text == NULL)
            snprintf(more, sizeof(more), " (required)");
        else if (options[i].other_default != NULL)
            snprintf(more, sizeof(more), " (%s, %s: %s)", options[i].default_text, options[i].others_name, options[i].other_default);
        else if (options[i].type != ZC_OPTION_FLAG)
            snprintf(more, sizeof(more), " (%s)", options[i].default_text);
        print_option(out, options[i].letter, options[i].name, options[i].metavar, options[i].help, more);
    }
    fprintf(out, "\nStrategies:");
    for (size_t i = 0; zc_strategy_names[i] != NULL; i++)
        fprintf(out, " %s", zc_strategy_names[i]);
    fputc('\n', out);
}

static void print_usage(FILE *out)
{
    struct context unused;
    struct common common = common_options(&unused);

    fprintf(out, "Usage: zcctl [OPTIONS] COMMAND [ARGUMENTS]\n"
                 "Measures copy-based against zero-copy RDMA READ with the help of zcrdmad.\n\nCommands:\n");
    for (const struct command *command = commands; command->name != NULL; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->help);
    fprintf(out, "\nOptions, before or behind the command:\n");
    print_options(out, common.rows);
    fprintf(out, "\n`zcctl COMMAND --help` tells more. For instance: zcctl run --strategy copy_blocking --peer self\n");
}

static void print_command_help(FILE *out, const struct command *command, const struct args *args)
{
    fprintf(out, "Usage: zcctl %s%s%s [OPTIONS]\n%c%s.\n\nOptions:\n", command->name, *command->operands != '\0' ? " " : "",
            command->operands, toupper((unsigned char)command->help[0]), command->help + 1);
    if (args->run != NULL)
        print_run_options(out);
    if (args->run != NULL)
        fputc('\n', out);
    print_options(out, args->own);
    print_options(out, args->common);
    if (command->notes != NULL)
        fprintf(out, "\n%s\n", command->notes);
}

static int print_version(FILE *out)
{
    fprintf(out, "zcctl %s\n", ZC_VERSION);
    return EXIT_DONE;
}

int command_args(struct context *context, const struct command *command, struct args *args, int argc, char **argv, int min_operands,
                 int max_operands)
{
    struct common common = common_options(context);
    struct zc_error err;
    int rc;

    args->common = common.rows;
    if (context->completing) {
        complete_command(context, command, args, argc, argv);
        args->common = NULL;
        return EXIT_DONE;
    }
    rc = args_parse(args, argc, argv, &err);
    if (rc == 0 && context->help) {
        print_command_help(context->out, command, args);
        return EXIT_DONE;
    }
    args->common = NULL;    /* its rows are gone with this function */
    if (rc == 0 && context->version)
        return print_version(context->out);
    if (rc != 0)
        command_error(context, "%s", err.message);
    else if (args->operand_count < min_operands)
        command_error(context, "too few arguments; usage: zcctl %s %s", command->name, command->operands);
    else if (args->operand_count > max_operands)
        command_error(context, "unexpected argument \"%.64s\"", args->operands[max_operands]);
    else
        return -1;
    return EXIT_USAGE;
}

int command_call(struct context *context, const char *method, json_t *params, void (*show)(FILE *out, json_t *result))
{
    struct client *client = NULL;
    struct zc_error err;
    json_t *result;
    enum client_status status = client_open(context->socket_path, &client, &err);

    if (status == CLIENT_OK)
        status = client_call(client, method, params, &result, &err);
    else
        json_decref(params);
    if (status == CLIENT_OK && show != NULL)
        show(context->out, result);
    if (status == CLIENT_OK)
        json_decref(result);
    client_close(client);
    return status == CLIENT_OK ? EXIT_DONE : command_failed(context, status, &err);
}

int command_each(struct context *context, const char *method, const char *done, char **ids, int count, json_t *(*number)(const char *id))
{
    int status = EXIT_DONE;

    for (int i = 0; i < count; i++) {
        json_t *id = number != NULL ? number(ids[i]) : json_string(ids[i]);
        int one = command_call(context, method, json_pack("{s:o}", "id", id), NULL);
        if (one == EXIT_DONE)
            command_output(context)->done(context->out, done, ids[i]);
        else
            status = one;
    }
    return status;
}

int command_write_file(const struct context *context, const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fwrite(text, 1, length, file) == length;
    int errnum = errno;

    if (file != NULL && fclose(file) != 0 && written) {
        written = false;
        errnum = errno;
    }
    if (!written)
        command_error(context, "cannot write %s: %s", path, strerror(errnum));
    return written ? EXIT_DONE : EXIT_FAILED;
}

/* ---- dispatch ---- */

static int unknown_command(const struct context *context, const char *name)
{
    const char *names[32] = { NULL }, *nearest;

    for (size_t i = 0; commands[i].name != NULL && i < 31; i++)
        names[i] = commands[i].name;
    nearest = zc_choice_nearest(names, name);
    if (nearest != NULL)
        command_error(context, "unknown command \"%.64s\" (did you mean %s?)", name, nearest);
    else
        command_error(context, "unknown command \"%.64s\" (zcctl --help lists them)", name);
    return EXIT_USAGE;
}

int command_usage(const struct context *context, const struct command *command, const char *verb)
{
    const char *verbs[VERBS_MAX + 1], *nearest;
    char storage[VERB_STORAGE];

    complete_verbs(command, verbs, storage);
    nearest = zc_choice_find(verbs, verb) < 0 ? zc_choice_nearest(verbs, verb) : NULL;
    if (nearest != NULL)
        command_error(context, "there is no %.64s (did you mean zcctl %s %s?)", verb, command->name, nearest);
    else
        command_error(context, "usage: zcctl %s %s", command->name, command->operands);
    return EXIT_USAGE;
}

static int dispatch(struct context *context, int argc, char **argv)
{
    char program[48];

    for (const struct command *command = commands; command->name != NULL; command++) {
        if (strcmp(command->name, argv[0]) != 0)
            continue;
        snprintf(program, sizeof(program), "zcctl %s", command->name);
        context->program = program;
        return command->run(context, command, argc, argv);
    }
    return unknown_command(context, argv[0]);
}

int command_main(int argc, char **argv, FILE *out)
{
    const char *environment = getenv("ZCRDMA_SOCKET");
    struct context context = { .program = "zcctl", .out = out };
    struct common common = common_options(&context);
    struct args args = { .common = common.rows, .stop_at_operand = true };
    struct zc_error err;
    int status;

    context.socket_path = environment != NULL && *environment != '\0' ? environment : DEFAULT_SOCKET;
    if (args_parse(&args, argc, argv, &err) != 0) {
        command_error(&context, "%s", err.message);
        return EXIT_USAGE;
    }
    if (args.operand_count > 0 && strcmp(args.operands[0], "__complete") == 0) {
        complete(&context, args.operand_count - 1, args.operands + 1, common.rows);
        return EXIT_DONE;
    }
    if (context.version && !context.help)
        return print_version(out);
    if (args.operand_count > 0 && strcmp(args.operands[0], "help") == 0) {      /* `help run` is `run --help` */
        context.help = true;
        args.operands++;
        args.operand_count--;
    }
    if (args.operand_count == 0) {
        print_usage(context.help ? out : stderr);
        return context.help ? EXIT_DONE : EXIT_USAGE;
    }
    status = dispatch(&context, args.operand_count, args.operands);
    context.program = "zcctl";
    if (fflush(out) != 0 || ferror(out)) {
        command_error(&context, "cannot write to the standard output: %s", strerror(errno));
        return status != EXIT_DONE ? status : EXIT_FAILED;
    }
    return status;
}
