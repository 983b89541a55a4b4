/* The page of a report: one file that needs nothing else. Plots are part of it as SVG, each with its figures as a table. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "documents.h"
#include "gnuplot.h"
#include "options.h"
#include "report.h"
#include "report_page.h"

struct page {
    FILE *out;
    struct report *report;
    unsigned plots;
    struct zc_error *err;
};

/* ---- pieces ---- */

void html_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*text, out);
        }
}

static void element(FILE *out, const char *name, const char *text)
{
    fprintf(out, "<%s>", name);
    html_text(out, text);
    fprintf(out, "</%.*s>", (int)strcspn(name, " "), name);
}

static void table_begin(FILE *out, const char *what)
{
    fprintf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    html_text(out, what);
    fprintf(out, "\"><table>\n");
}

static void table_end(FILE *out)
{
    fprintf(out, "</table></div>\n");
}

/* "5.43 (5.40 to 5.46)" */
static void estimate(FILE *out, enum metric metric, const struct zc_estimate *e)
{
    fprintf(out, "<td>");
    html_text(out, metric_text(metric, e->median).s);
    if (!isnan(e->low))
        fprintf(out, " <small>%s to %s</small>", metric_text(metric, e->low).s, metric_text(metric, e->high).s);
    fprintf(out, "</td>");
}

/* ---- head ---- */

/* What is shown and when it was measured; a letter in front where there are several. */
static void print_documents(const struct page *page)
{
    size_t index;
    json_t *document;

    fprintf(page->out, "<ul>\n");
    json_array_foreach (page->report->documents, index, document) {
        char line[640];
        struct text letter = report_letter(page->report, index);
        snprintf(line, sizeof(line), "%s%s%s %.64s: %.31s peer %.100s, device %.63s (%.31s), %.32s, %.31s", letter.s, *letter.s != '\0' ? ": " : "",
                 document_is_sweep(document) ? "sweep" : "run", text_at(document, "id"),
                 document_is_sweep(document) ? "" : text_at(document, "strategy"), text_at(document, "config.peer"),
                 text_at(document, "environment.device.name"), text_at(document, "environment.device.kind"),
                 text_at(document, "started_at"), text_at(document, "state"));
        element(page->out, "li", line);
        fputc('\n', page->out);
    }
    fprintf(page->out, "</ul>\n");
    json_array_foreach (page->report->documents, index, document)
        if (json_is_string(json_object_get(document, "notice"))) {
            element(page->out, "p class=\"notice\"", text_at(document, "notice"));
            break;      /* they are all of the same words */
        }
}

/* ---- recommendation ---- */

static void print_goal(FILE *out, const char *goal, const json_t *recommendation)
{
    size_t index;
    json_t *sentence;

    fprintf(out, "<h3>For %s</h3>\n<ul>\n", goal);
    json_array_foreach (json_object_get(recommendation, "sentences"), index, sentence) {
        element(out, "li", json_string_value(sentence));
        fputc('\n', out);
    }
    fprintf(out, "</ul>\n");
    if (json_is_string(json_object_get(recommendation, "command"))) {
        element(out, "pre", text_at(recommendation, "command"));
        fputc('\n', out);
    }
}

static const char *metric_words(const char *name)
{
    for (int m = 0; m < METRICS; m++)
        if (strcmp(metric_infos[m].name, name) == 0)
            return metric_infos[m].words;
    return name;
}

static void print_crossover(FILE *out, const json_t *crossover)
{
    char text[REPORT_CROSSOVER_MAX];

    fprintf(out, "<tr>");
    element(out, "td", text_at(crossover, "a"));
    element(out, "td", text_at(crossover, "b"));
    element(out, "td", metric_words(text_at(crossover, "metric")));
    report_crossover_text(crossover, text, sizeof(text));
    element(out, "td", text);
    fprintf(out, "</tr>\n");
}

static void print_model(FILE *out, const json_t *document)
{
    struct report_row rows[REPORT_MODEL_ROWS];
    size_t count = report_model(document, rows);

    if (count == 0)
        return;
    fprintf(out, "<h3>Predicted and measured</h3>\n<p>What a quick probe measured of the parts by themselves, and the crossover that follows "
                 "from them alone.</p>\n");
    table_begin(out, "Predicted and measured");
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "<tr>");
        element(out, "th", rows[i].what);
        element(out, "td", rows[i].value);
        fprintf(out, "</tr>\n");
    }
    table_end(out);
}

static void print_sweep_answers(const struct page *page, size_t index, const json_t *document)
{
    static const char *const goals[] = { "throughput", "latency", "cpu" }, *const words[] = { "throughput", "latency", "CPU time" };
    struct text letter = report_letter(page->report, index);
    size_t i;
    json_t *crossover;

    fprintf(page->out, "<section><h2>Recommendation%s%s</h2>\n", *letter.s != '\0' ? " of " : "", letter.s);
    for (size_t g = 0; g < 3; g++)
        print_goal(page->out, words[g], member_at(json_object_get(document, "recommendation"), goals[g]));
    fprintf(page->out, "<h3>Crossovers</h3>\n");
    table_begin(page->out, "Crossovers");
    fprintf(page->out, "<tr><th>this</th><th>against</th><th>figure</th><th>the better one</th></tr>\n");
    json_array_foreach (json_object_get(document, "crossovers"), i, crossover)
        print_crossover(page->out, crossover);
    table_end(page->out);
    print_model(page->out, document);
    fprintf(page->out, "</section>\n");
}

/* ---- plots ---- */

/* Draws what is in `script` (malloc'ed by the caller's stream) with its caption. */
static int print_plot(struct page *page, const char *script, const char *caption)
{
    char *svg = gnuplot_svg(script, ++page->plots, page->err);

    if (svg == NULL)
        return -1;
    fprintf(page->out, "<figure><div class=\"scroll\" tabindex=\"0\" role=\"img\" aria-label=\"");
    html_text(page->out, caption);
    fprintf(page->out, "\"><div class=\"plot\">%s</div></div>\n<figcaption>", svg);
    html_text(page->out, caption);
    fprintf(page->out, "</figcaption>\n");
    free(svg);
    return 0;
}

/* Sizes down, series across. */
static void print_metric_table(const struct page *page, enum metric metric)
{
    const struct report *report = page->report;
    double last = 0;

    fprintf(page->out, "<details><summary>The figures</summary>\n");
    table_begin(page->out, metric_infos[metric].words);
    fprintf(page->out, "<tr><th>size</th>");
    for (size_t i = 0; i < report->series_count; i++)
        element(page->out, "th", report->series[i].title);
    fprintf(page->out, "</tr>\n");
    for (;;) {
        double size = INFINITY;
        for (size_t i = 0; i < report->series_count; i++)
            for (size_t j = 0; j < report->series[i].count; j++)
                if (report->series[i].cells[j]->size_bytes > last)
                    size = fmin(size, report->series[i].cells[j]->size_bytes);
        if (isinf(size))
            break;
        last = size;
        fprintf(page->out, "<tr><th>%s</th>", format_bytes(size).s);
        for (size_t i = 0; i < report->series_count; i++) {
            const struct cell *cell = NULL;
            for (size_t j = 0; j < report->series[i].count; j++)
                if (report->series[i].cells[j]->size_bytes == size)
                    cell = report->series[i].cells[j];
            if (cell != NULL)
                estimate(page->out, metric, &cell->estimates[metric]);
            else
                fprintf(page->out, "<td>-</td>");
        }
        fprintf(page->out, "</tr>\n");
    }
    table_end(page->out);
    fprintf(page->out, "</details></figure>\n");
}

static const struct cell *best_cell(const struct report *report, enum metric metric, const char **title)
{
    const struct cell *best = NULL;

    for (size_t i = 0; i < report->series_count; i++)
        for (size_t j = 0; j < report->series[i].count && !report->series[i].ceiling; j++) {
            const struct cell *cell = report->series[i].cells[j];
            if (best != NULL && (cell->estimates[metric].median > best->estimates[metric].median) != metric_infos[metric].more_is_better)
                continue;
            best = cell;
            *title = report->series[i].title;
        }
    return best;
}

/* "Throughput against request size, bands are intervals of 95 %. Highest: 5.4 GiB/s by copy_blocking at 1 MiB." */
static void metric_caption(const struct report *report, enum metric metric, char *caption, size_t size)
{
    const struct metric_info *info = &metric_infos[metric];
    const char *title = "", *unit = metric == METRIC_P50 || metric == METRIC_P99 ? "" : info->unit;
    const struct cell *best = best_cell(report, metric, &title);
    bool sizes = false;
    int used;

    for (size_t i = 0; i < report->series_count; i++)
        sizes = sizes || report->series[i].count > 1 || report->series[i].cells[0]->size_bytes != report->series[0].cells[0]->size_bytes;
    used = snprintf(caption, size, "%c%s %s", toupper((unsigned char)info->words[0]), info->words + 1,
                    sizes ? "against request size, bands are intervals of 95 %." : "at one request size, lines are intervals of 95 %.");
    if (best != NULL)
        snprintf(caption + used, size - (size_t)used, " %s: %s%s%s by %.160s at %s.", info->more_is_better ? "Highest" : "Lowest",
                 metric_text(metric, best->estimates[metric].median).s, *unit != '\0' ? " " : "", unit, title,
                 format_bytes(best->size_bytes).s);
}

static int print_metric(struct page *page, enum metric metric)
{
    char *script = NULL, caption[480];
    size_t length;
    FILE *stream = open_memstream(&script, &length);
    bool any = stream != NULL && report_plot_metric(stream, page->report, metric);
    int failed = 0;

    if (stream != NULL)
        fclose(stream);
    if (any) {
        metric_caption(page->report, metric, caption, sizeof(caption));
        failed = print_plot(page, script, caption);
        if (failed == 0)
            print_metric_table(page, metric);
    }
    free(script);
    return failed;
}

static int print_other(struct page *page, bool (*plot)(FILE *, const struct report *), const char *caption,
                       void (*table)(FILE *out, const struct report *report))
{
    char *script = NULL;
    size_t length;
    FILE *stream = open_memstream(&script, &length);
    bool any = stream != NULL && plot(stream, page->report);
    int failed = 0;

    if (stream != NULL)
        fclose(stream);
    if (any)
        failed = print_plot(page, script, caption);
    if (any && failed == 0) {
        fprintf(page->out, "<details><summary>The figures</summary>\n");
        table_begin(page->out, caption);
        table(page->out, page->report);
        table_end(page->out);
        fprintf(page->out, "</details></figure>\n");
    }
    free(script);
    return failed;
}

static int print_plots(struct page *page)
{
    int failed = 0;

    fprintf(page->out, "<section><h2>Plots</h2>\n");
    for (int m = 0; m < METRICS && failed == 0; m++)
        failed = print_metric(page, (enum metric)m);
    if (failed == 0 && report_series(page->report, METRIC_THROUGHPUT) != 0)
        failed = zc_error_set(page->err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "out of memory");
    if (failed == 0)
        failed = print_other(page, report_plot_phases, "Where the time of a request goes, near the middle of the sizes. With threads, stages run "
                             "beside each other.", html_phases);
    if (failed == 0)
        failed = print_other(page, report_plot_percentiles, "Latency of the runs: percentiles until a request's bytes are available.",
                             html_percentiles);
    if (failed == 0)
        failed = print_other(page, report_plot_time, "Throughput of the runs over time, in intervals of 100 ms.", html_time);
    fprintf(page->out, "</section>\n");
    return failed;
}

/* ---- the page ---- */

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<title>zcrdma: copy or register?</title>\n<style>\n"
    ":root{color-scheme:light dark;--ink:#1c1c1c;--paper:#fff;--faint:#5a5a5a;--rule:#c9c9c9;--box:#f3f3f3}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#161616;--faint:#a6a6a6;--rule:#454545;--box:#242424}}\n"
    "body{font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:72rem;padding:1rem;"
    "overflow-wrap:anywhere}\n"
    "h1,h2,h3{line-height:1.25}h2{margin-top:2.5rem;border-bottom:1px solid var(--rule)}\n"
    ".notice{border-left:.3rem solid #d55e00;padding:.5rem 1rem;background:var(--box)}\n"
    "pre{background:var(--box);padding:.75rem;white-space:pre-wrap}\n"
    "figure{margin:2rem 0;break-inside:avoid}figcaption{color:var(--faint);max-width:60rem}\n"
    ".scroll{overflow-x:auto}.plot svg{display:block;width:100%;height:auto;min-width:34rem;max-width:62rem}\n"
    "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}\n"
    "th,td{padding:.25rem .75rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule);white-space:nowrap}\n"
    "td.differs{font-weight:bold}small{color:var(--faint)}summary{cursor:pointer;padding:.5rem 0}\n"
    "@media print{:root{--ink:#000;--paper:#fff;--faint:#333}body{font-size:9pt;max-width:none;padding:0}.scroll{overflow:visible}"
    ".plot svg{min-width:0}table{font-size:6.5pt}th,td{white-space:normal}}\n"
    "</style></head><body><main>\n<h1>zcrdma: copy or register?</h1>\n";

int report_html(FILE *out, struct report *report, struct zc_error *err)
{
    struct page page = { .out = out, .report = report, .err = err };
    size_t index;
    json_t *document;

    fputs(head, out);
    print_documents(&page);
    json_array_foreach (report->documents, index, document)
        if (json_is_object(json_object_get(document, "recommendation")))
            print_sweep_answers(&page, index, document);
    if (print_plots(&page) != 0)
        return -1;
    fprintf(out, "<section><h2>Equal terms</h2>\n<p>What was asked for and what it came to; bold: not the same in all columns.</p>\n");
    table_begin(out, "Terms");
    html_terms(out, report);
    table_end(out);
    fprintf(out, "</section><section><h2>Environment</h2>\n");
    table_begin(out, "Environment");
    html_environment(out, report);
    table_end(out);
    fprintf(out, "</section><section><h2>All figures</h2>\n<p>Medians of the trials with intervals of 95 %% where there are six or more.</p>\n");
    table_begin(out, "All figures");
    html_cells(out, report);
    table_end(out);
    fprintf(out, "</section></main></body></html>\n");
    return 0;
}
