/* A probe as tables: registering and deregistering, copying, READs, setting up. what was not measured is left out, and why is said below.
 * At most 100 columns. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "format.h"
#include "output.h"

enum { WIDTH = 100 };

static json_t *rows_of(const json_t *document)
{
    return json_object_get(document, "rows");
}

static bool is(const json_t *row, const char *name, const char *value)
{
    return strcmp(text_at(row, name), value) == 0;
}

/* Is there a figure in this row of that kind? */
static bool has_figure(const json_t *row, const char *what)
{
    return is(row, "what", what) && json_is_number(member_at(row, "median_s"));
}

/* The row of another kind that was measured of the same thing. */
static json_t *counterpart(const json_t *document, const json_t *row, const char *what)
{
    static const char *const alike[] = { "size_bytes", "pages", "memory", "threads" };
    json_t *other;
    size_t index;

    json_array_foreach (rows_of(document), index, other) {
        bool same = is(other, "what", what);
        for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++)
            same = same && json_equal(json_object_get(row, alike[i]), json_object_get(other, alike[i]));
        if (same)
            return other;
    }
    return NULL;
}

/* "1.23 us 1.20-1.31": the median and the interval that holds it. */
static struct text measured(const json_t *row)
{
    struct text text;
    double low = number_at(row, "low_s") * 1e9, high = number_at(row, "high_s") * 1e9;

    snprintf(text.s, sizeof(text.s), "%.20s", format_ns(number_at(row, "median_s") * 1e9).s);
    if (!isnan(low))
        snprintf(text.s, sizeof(text.s), "%.12s  %.12s - %.12s", format_ns(number_at(row, "median_s") * 1e9).s, format_ns(low).s,
                 format_ns(high).s);
    return text;
}

static void print_registrations(FILE *out, const json_t *document)
{
    json_t *row;
    size_t index;

    fprintf(out, "\n%-8s%-7s%7s%10s    %-27s  %s\n", "pages", "memory", "threads", "size", "register", "deregister");
    json_array_foreach (rows_of(document), index, row)
        if (has_figure(row, "register"))
            fprintf(out, "%-8s%-7s%7s%10s    %-27s  %s\n", text_at(row, "pages"), text_at(row, "memory"),
                    format_count(number_at(row, "threads")).s, format_bytes(number_at(row, "size_bytes")).s, measured(row).s,
                    measured(counterpart(document, row, "deregister")).s);
}

static void print_copies(FILE *out, const json_t *document)
{
    json_t *row;
    size_t index;

    fprintf(out, "\n%-22s%10s    %-27s  %7s\n", "", "size", "copy", "GiB/s");
    json_array_foreach (rows_of(document), index, row)
        if (has_figure(row, "copy"))
            fprintf(out, "%-22s%10s    %-27s  %7s\n", "", format_bytes(number_at(row, "size_bytes")).s, measured(row).s,
                    format_number(number_at(row, "gib_per_s")).s);
}

/* The READ of the same size that was waited for in that way; `stream`: with more than one in flight. */
static json_t *other_read(const json_t *document, const json_t *row, const char *wait, bool stream)
{
    json_t *other;
    size_t index;

    json_array_foreach (rows_of(document), index, other)
        if (is(other, "what", "read") && is(other, "wait", wait) && (number_at(other, "inflight") > 1) == stream &&
            json_equal(json_object_get(row, "size_bytes"), json_object_get(other, "size_bytes")))
            return other;
    return NULL;
}

static void print_reads(FILE *out, const json_t *document)
{
    json_t *row;
    size_t index;

    fprintf(out, "\n%10s    %-27s  %-27s  %s\n", "READ", "polling", "asleep until the event", "in a stream");
    json_array_foreach (rows_of(document), index, row) {
        if (!has_figure(row, "read") || !is(row, "wait", "poll") || number_at(row, "inflight") > 1)
            continue;
        const json_t *stream = other_read(document, row, "poll", true);
        fprintf(out, "%10s    %-27s  %-27s  %s GiB/s\n", format_bytes(number_at(row, "size_bytes")).s, measured(row).s,
                measured(other_read(document, row, "event", false)).s, format_number(number_at(stream, "gib_per_s")).s);
    }
}

static void print_set_up(FILE *out, const json_t *document)
{
    static const char *const lines[][2] = { { "qp_create", "create a QP" }, { "qp_destroy", "destroy it" },
                                            { "connect", "connect a session" }, { "disconnect", "disconnect it" } };
    json_t *row;
    size_t index;

    fputc('\n', out);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        json_array_foreach (rows_of(document), index, row)
            if (has_figure(row, lines[i][0]))
                fprintf(out, "%-22s%10s    %s\n", lines[i][1], "", measured(row).s);
}

/* Is it the first of its kind - of memory: of its pages - that has a reason? The others have much the same. */
static bool is_news(const json_t *document, size_t index)
{
    const json_t *row = json_array_get(rows_of(document), index);

    for (size_t i = 0; i < index; i++) {
        const json_t *before = json_array_get(rows_of(document), i);
        bool alike = is(before, "pages", text_at(row, "pages")) &&
                     (json_is_string(member_at(row, "pages")) || is(before, "what", text_at(row, "what")));
        if (alike && json_is_string(member_at(before, "why")))
            return false;
    }
    return true;
}

static void print_reasons(FILE *out, const json_t *document)
{
    bool first = true;
    json_t *row;
    size_t index;

    json_array_foreach (rows_of(document), index, row) {
        if (!json_is_string(member_at(row, "why")) || !is_news(document, index))
            continue;
        fprintf(out, "%snot measured: %s", first ? "\n" : "", text_at(row, "what"));
        if (json_is_string(member_at(row, "pages")))
            fprintf(out, " with pages %s", text_at(row, "pages"));
        fprintf(out, ":\n    ");
        print_wrapped(out, 4, WIDTH, text_at(row, "why"));
        first = false;
    }
}

static void print_model(FILE *out, const json_t *document)
{
    double base = number_at(document, "fit.base_s"), crossover = number_at(document, "crossover_bytes");
    char line[8 * FORMAT_MAX];

    if (isnan(base))
        return;
    snprintf(line, sizeof(line), "Registering and deregistering: %s + %s a page of %s (%s to %s, within %s %%).",
             format_ns(base * 1e9).s, format_ns(number_at(document, "fit.per_page_s") * 1e9).s,
             format_bytes(number_at(document, "fit.page_bytes")).s, format_bytes(number_at(document, "fit.low_bytes")).s,
             format_bytes(number_at(document, "fit.high_bytes")).s,
             format_number(number_at(document, "fit.worst_residual") * 100).s);
    fputc('\n', out);
    print_wrapped(out, 0, WIDTH, line);
    if (isnan(crossover))
        fprintf(out, "By these figures copying stays cheaper up to %s.\n", format_bytes(number_at(document, "fit.high_bytes")).s);
    else
        fprintf(out, "By these figures it costs no more than copying from %s on.\n", format_bytes(crossover).s);
}

static bool has(const json_t *document, const char *what)
{
    json_t *row;
    size_t index;

    json_array_foreach (rows_of(document), index, row)
        if (has_figure(row, what))
            return true;
    return false;
}

void output_probe_text(FILE *out, json_t *document)
{
    clean_strings(document);
    fprintf(out, "probe %s: %s on %s, peer %s\n", text_at(document, "id"), text_at(document, "state"),
            text_at(document, "environment.device.name"), text_at(document, "config.peer"));
    if (json_is_string(json_object_get(document, "notice")))
        print_wrapped(out, 0, WIDTH, text_at(document, "notice"));
    if (has(document, "register"))
        print_registrations(out, document);
    if (has(document, "copy"))
        print_copies(out, document);
    if (has(document, "read"))
        print_reads(out, document);
    if (has(document, "qp_create") || has(document, "connect"))
        print_set_up(out, document);
    print_reasons(out, document);
    print_model(out, document);
}
