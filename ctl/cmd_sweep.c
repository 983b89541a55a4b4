/* zcctl sweep: options with lists of values, then sweep.start and run.wait (follow.c). zcctl recommend: what a stored one advises. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "documents.h"
#include "follow.h"
#include "recommend.h"
#include "sweep_json.h"

enum { ROWS_MAX = 72 };

/* A row for each option of a run that a sweep takes, and where its text goes. */
struct rows {
    struct args_option list[ROWS_MAX];
    struct zc_option_word names[ROWS_MAX];
    char helps[ROWS_MAX][160];
    const char *values[ROWS_MAX];
    bool flags[ROWS_MAX];
    size_t count;
};

static void add_row(struct rows *rows, const char *name, const char *metavar, const char *help)
{
    const struct zc_option *option = zc_option_find(name, strlen(name));
    size_t i = rows->count++;

    rows->names[i] = zc_option_dashed(name);
    snprintf(rows->helps[i], sizeof(rows->helps[i]), "%s", help);
    rows->list[i] = (struct args_option){ .name = rows->names[i].text, .letter = option != NULL ? option->letter : 0, .metavar = metavar,
                                           .help = rows->helps[i] };
    if (metavar != NULL)
        rows->list[i].value = &rows->values[i];
    else
        rows->list[i].flag = &rows->flags[i];
}

static void make_rows(struct rows *rows)
{
    size_t count;
    const struct zc_option *table = zc_options(&count);
    char help[160];

    add_row(rows, "strategy", "all|NAME,...", "strategies that are compared (required)");
    add_row(rows, "peer", "HOST[:PORT]", "host whose region is read; self is the daemon's own device (required)");
    add_row(rows, "size", "FROM..TO|SIZE,...", "bytes of one request: a range, or sizes (required)");
    add_row(rows, "steps", "N", "sizes an octave of a range (1)");
    add_row(rows, "trials", "N", "trials of each combination (7; from 6 on there are intervals)");
    add_row(rows, "budget", "TIME", "for everything: 90s, 5m, 1h (5m)");
    add_row(rows, "precision", "SHARE", "no more trials of what is known this well (2%)");
    for (size_t i = 0; i < count && rows->count < ROWS_MAX - 1; i++) {
        if (!zc_sweep_takes(&table[i]) || strcmp(table[i].name, "strategy") == 0 || strcmp(table[i].name, "peer") == 0 ||
            strcmp(table[i].name, "size") == 0)
            continue;
        /* What a run may take from a stored sweep is a size here: the help says so behind its semicolon. */
        snprintf(help, sizeof(help), "%.*s%s", (int)strcspn(table[i].help, table[i].sweep_field != 0 ? ";" : ""), table[i].help,
                 zc_option_is_axis(&table[i]) ? "; several with commas" : "");
        add_row(rows, table[i].name, table[i].sweep_field != 0 ? "SIZE" : table[i].metavar, help);
    }
}

/* The names are JSON's again, and values travel as they were typed: the daemon reads lists and ranges. */
static json_t *params_of(const struct rows *rows)
{
    json_t *params = json_object();

    for (size_t i = 0; i < rows->count; i++) {
        char name[40];
        for (size_t c = 0; c < sizeof(name); c++)
            name[c] = rows->names[i].text[c] == '-' ? '_' : rows->names[i].text[c];
        if (rows->values[i] != NULL)
            json_object_set_new(params, name, json_string(rows->values[i]));
        else if (rows->flags[i])
            json_object_set_new(params, name, json_true());
    }
    return params;
}

int cmd_sweep(struct context *context, const struct command *command, int argc, char **argv)
{
    static struct rows rows;
    const char *resume = NULL;
    bool detach = false;
    struct args args = { .own = rows.list };
    json_t *params;
    int status;

    rows.count = 0;
    make_rows(&rows);
    rows.list[rows.count] = (struct args_option){ .name = "detach", .help = "print the id of the sweep and leave it to the daemon", .flag = &detach };
    rows.list[rows.count + 1] = (struct args_option){ .name = "resume", .metavar = "ID", .help = "go on with a stored sweep; --budget is for the rest", .value = &resume };
    rows.list[rows.count + 2] = (struct args_option){ .name = NULL };
    status = command_args(context, command, &args, argc, argv, 0, 0);
    if (status >= 0)
        return status;
    params = params_of(&rows);
    if (resume != NULL)
        json_object_set_new(params, "resume", json_string(resume));
    return follow_start(context, "sweep.start", params, detach);
}

/* A file is read here: its daemon may be elsewhere, or gone. */
static int recommend_file(struct context *context, const char *path, const char *goal_text, const char *size_text)
{
    json_t *documents = json_array(), *answer;
    int status = documents_load(context, path, documents);
    struct zc_recommendation recommendation;
    struct zc_sweep sweep;
    struct zc_error err;
    enum zc_goal goal;
    uint64_t size_bytes;

    if (status == 0 && (zc_question_parse(goal_text, size_text, &goal, &size_bytes, &err) != 0 ||
                        zc_sweep_from_json(json_array_get(documents, 0), &sweep, &err) != 0)) {
        command_error(context, "%s", err.message);
        status = EXIT_USAGE;
    }
    json_decref(documents);
    if (status != 0)
        return status;
    zc_recommend(&sweep, goal, size_bytes, &recommendation);
    zc_sweep_destroy(&sweep);
    answer = zc_recommendation_to_json(&recommendation);
    command_output(context)->recommendation(context->out, answer);
    json_decref(answer);
    return EXIT_DONE;
}

int cmd_recommend(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *goal = NULL, *size = NULL;
    const struct args_option own[] = {
        { .name = "goal", .metavar = "throughput|latency|cpu", .help = "what matters most (throughput)", .value = &goal },
        { .name = "size", .metavar = "SIZE", .help = "the request size in question (where the goal is reached best)", .value = &size },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 1, 1);
    json_t *params;

    if (status >= 0)
        return status;
    if (document_is_file(args.operands[0]))
        return recommend_file(context, args.operands[0], goal, size);
    params = json_pack("{s:s}", "id", args.operands[0]);
    if (goal != NULL)
        json_object_set_new(params, "goal", json_string(goal));
    if (size != NULL)
        json_object_set_new(params, "size", json_string(size));
    return command_call(context, "sweep.recommend", params, command_output(context)->recommendation);
}
