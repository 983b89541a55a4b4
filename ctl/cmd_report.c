/* zcctl report: several results as one page, or as tables. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "documents.h"
#include "report.h"
#include "zc_json.h"

enum format { FORMAT_HTML, FORMAT_CSV, FORMAT_JSON, FORMAT_MD };
static const char *const format_names[] = { [FORMAT_HTML] = "html", [FORMAT_CSV] = "csv", [FORMAT_JSON] = "json", [FORMAT_MD] = "md", NULL };

/* By name, else by the end of the file's name, else HTML. -1: there is no such format, and it is said. */
static int choose_format(const struct context *context, const char *name, const char *path)
{
    const char *point = path != NULL ? strrchr(path, '.') : NULL;
    int found = name == NULL && point != NULL ? zc_choice_find(format_names, point + 1) : name == NULL ? FORMAT_HTML
                : zc_choice_find(format_names, name);

    if (name == NULL)
        return found < 0 ? FORMAT_HTML : found;
    if (found < 0)
        command_error(context, "--format: \"%.64s\" is not one of html, csv, json, md", name);
    return found;
}

static int write_report(const struct context *context, FILE *out, struct report *report, enum format format)
{
    struct zc_error err;

    switch (format) {
    case FORMAT_CSV:
        report_csv(out, report);
        return EXIT_DONE;
    case FORMAT_MD:
        report_markdown(out, report);
        return EXIT_DONE;
    case FORMAT_JSON:
        json_dumpf(report->documents, out, ZC_JSON_DOCUMENT);
        fputc('\n', out);
        return EXIT_DONE;
    case FORMAT_HTML:
        break;
    }
    if (report_html(out, report, &err) == 0)
        return EXIT_DONE;
    command_error(context, "%s", err.message);
    return EXIT_FAILED;
}

/* Into memory first: a file is not touched for a report that cannot be made. */
static int deliver(struct context *context, json_t *documents, enum format format, const char *path)
{
    struct report report = { .documents = documents };
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    bool made = memory != NULL && cells_make(documents, &report.cells);
    int status = made ? write_report(context, memory, &report, format) : EXIT_FAILED;

    if (!made)
        command_error(context, "out of memory");
    if (memory != NULL)
        fclose(memory);
    if (status == EXIT_DONE && path == NULL)
        fwrite(text, 1, length, context->out);
    else if (status == EXIT_DONE)
        status = command_write_file(context, path, text, length);
    report_series_free(&report);
    cells_free(&report.cells);
    free(text);
    return status;
}

int cmd_report(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *path = NULL, *name = NULL;
    const struct args_option own[] = {
        { .name = "output", .letter = 'o', .metavar = "FILE", .help = "where the report goes (the standard output)", .value = &path },
        { .name = "format", .metavar = "html|csv|json|md", .help = "what it is (by the name of FILE, else html)", .value = &name },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 1, INT_MAX), format;
    json_t *documents;

    if (status >= 0)
        return status;
    format = context->json && name == NULL ? FORMAT_JSON : choose_format(context, name, path);
    if (format < 0)
        return EXIT_USAGE;
    if (format == FORMAT_HTML && path == NULL && isatty(fileno(context->out))) {
        command_error(context, "a page is for a browser: give -o FILE, or --format md for text");
        return EXIT_USAGE;
    }
    documents = json_array();
    status = 0;
    for (int i = 0; status == 0 && i < args.operand_count; i++)
        status = documents_load(context, args.operands[i], documents);
    if (status == 0)
        status = deliver(context, documents, (enum format)format, path);
    json_decref(documents);
    return status;
}
