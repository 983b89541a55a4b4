/* See report_page.h. */
#include "report_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "documents.h"
#include "options.h"

static void cell(FILE *out, const char *text)
{
    fputs("<td>", out);
    html_text(out, text);
    fputs("</td>", out);
}

static void heading(FILE *out, const char *text)
{
    fputs("<th>", out);
    html_text(out, text);
    fputs("</th>", out);
}

/* "A: copy_blocking" above the column of a document. */
static void document_heading(FILE *out, const struct report *report, size_t index)
{
    const json_t *document = json_array_get(report->documents, index);
    struct text letter = report_letter(report, index);
    char title[160];

    snprintf(title, sizeof(title), "%.8s%s%.60s", letter.s, *letter.s != '\0' ? ": " : "",
             document_is_sweep(document) ? "sweep" : text_at(document, "strategy"));
    heading(out, title);
}

/* ---- text alternatives ---- */

void html_phases(FILE *out, const struct report *report)
{
    fprintf(out, "<tr><th>strategy</th><th>size</th>");
    for (size_t p = 0; p < REPORT_PHASES; p++)
        heading(out, report_phases[p][0]);
    fprintf(out, "</tr>\n");
    for (size_t i = 0; i < report->cells.count; i++) {
        const struct cell *row = &report->cells.list[i];
        if (row->phases == NULL || isnan(number_at(row->phases, "wait_ns")))
            continue;
        fprintf(out, "<tr>");
        cell(out, row->label);
        cell(out, format_bytes(row->size_bytes).s);
        for (size_t p = 0; p < REPORT_PHASES; p++)
            cell(out, format_ns(number_at(row->phases, report_phases[p][1])).s);
        fprintf(out, "</tr>\n");
    }
}

void html_percentiles(FILE *out, const struct report *report)
{
    size_t index;
    json_t *document;

    fprintf(out, "<tr><th>run</th><th>until</th>");
    for (size_t p = 0; p < REPORT_PERCENTILES; p++)
        heading(out, report_percentiles[p][0]);
    fprintf(out, "<th>requests</th></tr>\n");
    json_array_foreach (report->documents, index, document)
        for (int reclaimed = 0; reclaimed < 2 && !document_is_sweep(document); reclaimed++) {
            const char *name = reclaimed ? "reclaimed" : "available";
            const json_t *latency = json_object_get(json_object_get(document, "latency"), name);
            fprintf(out, "<tr>");
            document_heading(out, report, index);
            cell(out, name);
            for (size_t p = 0; p < REPORT_PERCENTILES; p++)
                cell(out, format_ns(number_at(latency, report_percentiles[p][1])).s);
            cell(out, format_count(number_at(latency, "count")).s);
            fprintf(out, "</tr>\n");
        }
}

/* A window may have thousands of intervals: their quartiles say it in a row. */
static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static void time_row(FILE *out, const json_t *throughput)
{
    const json_t *series = json_object_get(throughput, "series");
    double interval_s = number_at(throughput, "series_interval_ns") / 1e9;
    size_t count = (size_t)fmax(number_at(throughput, "duration_ns") / 1e9 / interval_s, 0);
    double *rates = calloc(count + 1, sizeof(*rates));

    if (count > json_array_size(series))
        count = json_array_size(series);
    for (size_t i = 0; rates != NULL && i < count; i++)
        rates[i] = json_number_value(json_array_get(series, i)) / 0x1p30 / interval_s;
    if (rates != NULL)
        qsort(rates, count, sizeof(*rates), ascending);
    for (size_t q = 0; q <= 4; q++)
        cell(out, format_number(rates != NULL && count > 0 ? rates[(count - 1) * q / 4] : NAN).s);
    cell(out, format_count((double)count).s);
    free(rates);
}

void html_time(FILE *out, const struct report *report)
{
    size_t index;
    json_t *document;

    fprintf(out, "<tr><th>run, GiB/s</th><th>lowest</th><th>lower quartile</th><th>median</th><th>upper quartile</th><th>highest</th>"
                 "<th>intervals</th></tr>\n");
    json_array_foreach (report->documents, index, document) {
        if (document_is_sweep(document))
            continue;
        fprintf(out, "<tr>");
        document_heading(out, report, index);
        time_row(out, json_object_get(document, "throughput"));
        fprintf(out, "</tr>\n");
    }
}

/* ---- terms and environment ---- */

static void value_text(const json_t *value, bool bytes, char *text, size_t size)
{
    char *dumped;

    if (value == NULL || json_is_null(value)) {
        snprintf(text, size, "-");
    } else if (json_is_string(value)) {
        snprintf(text, size, "%s", json_string_value(value));
    } else if (bytes && json_is_number(value)) {
        snprintf(text, size, "%s", format_bytes(json_number_value(value)).s);
    } else {
        dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        snprintf(text, size, "%s", dumped != NULL ? dumped : "-");
        free(dumped);
    }
}

/* The values of sizes with their units, in lists, too. */
static void list_text(const json_t *value, bool bytes, char *text, size_t size)
{
    size_t index, used = 0;
    json_t *item;

    if (!json_is_array(value)) {
        value_text(value, bytes, text, size);
        return;
    }
    text[0] = '\0';
    json_array_foreach (value, index, item) {
        char one[128];
        value_text(item, bytes, one, sizeof(one));
        if (used + strlen(one) + 3 > size)
            break;
        used += (size_t)snprintf(text + used, size - used, "%s%s", index > 0 ? ", " : "", one);
    }
}

/* One member of all documents, at `group`.`name`. */
static void member_row(FILE *out, const struct report *report, const char *group, const char *name)
{
    const struct zc_option *option = zc_option_find(name, strlen(name));
    bool bytes = (option != NULL && option->type == ZC_OPTION_SIZE) || strstr(name, "bytes") != NULL, differs = false;
    const json_t *first = json_object_get(member_at(json_array_get(report->documents, 0), group), name);
    size_t index;
    json_t *document;

    json_array_foreach (report->documents, index, document) {
        const json_t *value = json_object_get(member_at(document, group), name);
        differs = differs || (first != value && !json_equal(first, value));
    }
    fprintf(out, "<tr>");
    heading(out, name);
    json_array_foreach (report->documents, index, document) {
        char text[1024];
        list_text(json_object_get(member_at(document, group), name), bytes, text, sizeof(text));
        fputs(differs ? "<td class=\"differs\">" : "<td>", out);
        html_text(out, text);
        fputs("</td>", out);
    }
    fprintf(out, "</tr>\n");
}

/* A row for every member that any of the documents has at `group`; objects in it are groups of their own. */
static void group_rows(FILE *out, const struct report *report, const char *group)
{
    json_t *done = json_object(), *document, *value;
    const char *name;
    size_t index;

    json_array_foreach (report->documents, index, document) {
        json_object_foreach ((json_t *)member_at(document, group), name, value) {
            if (json_object_get(done, name) != NULL || json_is_object(value))
                continue;
            json_object_set_new(done, name, json_true());
            member_row(out, report, group, name);
        }
    }
    json_decref(done);
}

static void column_headings(FILE *out, const struct report *report)
{
    fprintf(out, "<tr><th></th>");
    for (size_t i = 0; i < json_array_size(report->documents); i++)
        document_heading(out, report, i);
    fprintf(out, "</tr>\n");
}

void html_terms(FILE *out, const struct report *report)
{
    column_headings(out, report);
    group_rows(out, report, "config");
    group_rows(out, report, "terms");
}

void html_environment(FILE *out, const struct report *report)
{
    column_headings(out, report);
    group_rows(out, report, "environment");
    group_rows(out, report, "environment.limits");
    group_rows(out, report, "environment.rdmav");
    group_rows(out, report, "environment.device");
}

/* ---- all figures ---- */

static void figure(FILE *out, enum metric metric, const struct zc_estimate *e)
{
    char text[2 * FORMAT_MAX + 8] = "-";

    cell(out, metric_text(metric, e->median).s);
    if (!isnan(e->low))
        snprintf(text, sizeof(text), "%s to %s", metric_text(metric, e->low).s, metric_text(metric, e->high).s);
    cell(out, text);
}

void html_cells(FILE *out, const struct report *report)
{
    bool letters = json_array_size(report->documents) > 1;

    fprintf(out, "<tr>%s<th>strategy</th><th>size</th><th>trials</th>", letters ? "<th></th>" : "");
    for (int m = 0; m < METRICS; m++)
        fprintf(out, "<th>%s%s%s</th><th>interval</th>", metric_infos[m].words, m == METRIC_THROUGHPUT || m == METRIC_CPU ? ", " : "",
                m == METRIC_THROUGHPUT || m == METRIC_CPU ? metric_infos[m].unit : "");
    fprintf(out, "</tr>\n");
    for (size_t i = 0; i < report->cells.count; i++) {
        const struct cell *row = &report->cells.list[i];
        fprintf(out, "<tr>");
        if (letters)
            heading(out, report_letter(report, row->index).s);
        cell(out, row->label);
        cell(out, format_bytes(row->size_bytes).s);
        cell(out, row->error != NULL ? row->error : format_count((double)row->trial_count).s);
        for (int m = 0; m < METRICS; m++)
            figure(out, (enum metric)m, &row->estimates[m]);
        fprintf(out, "</tr>\n");
    }
}
