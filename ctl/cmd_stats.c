/* zcctl stats: the daemon's counters. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "zc_metrics.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_OPENMETRICS, FORMAT_PROMETHEUS };
static const char *const formats[] = { "text", "json", "openmetrics", "prometheus", NULL };

static void print_metrics(FILE *out, const json_t *stats, enum zc_metrics_format format)
{
    char *text = zc_metrics(stats, format);

    if (text != NULL)
        fputs(text, out);
    free(text);
}

static void print_openmetrics(FILE *out, json_t *stats)
{
    print_metrics(out, stats, ZC_METRICS_OPENMETRICS);
}

static void print_prometheus(FILE *out, json_t *stats)
{
    print_metrics(out, stats, ZC_METRICS_PROMETHEUS);
}

int cmd_stats(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *name = NULL;
    const struct args_option own[] = {
        { .name = "format", .metavar = "FORMAT", .help = "text, json, openmetrics, or prometheus (for node_exporter's textfile collector)",
          .value = &name },
        { .name = NULL },
    };
    void (*const shows[])(FILE *out, json_t *stats) = { output_text.stats, output_json.stats, print_openmetrics, print_prometheus };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 0, 0), format;

    if (status >= 0)
        return status;
    format = name != NULL ? zc_choice_find(formats, name) : context->json ? FORMAT_JSON : FORMAT_TEXT;
    if (format < 0) {
        command_error(context, "--format \"%.64s\" is not one of text, json, openmetrics, prometheus", name);
        return EXIT_USAGE;
    }
    if (context->json && format != FORMAT_JSON) {
        command_error(context, "--json and --format %s exclude each other", name);
        return EXIT_USAGE;
    }
    return command_call(context, "stats", NULL, shows[format]);
}
