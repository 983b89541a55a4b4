/* Reports for other programs and for text: CSV (RFC 4180) and Markdown. */
#include <math.h>
#include <string.h>

#include "documents.h"
#include "report.h"

/* ---- CSV: a row a cell ---- */

static void csv_text(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* Empty: not measured. */
static void csv_number(FILE *out, double value)
{
    fputc(',', out);
    if (!isnan(value))
        fprintf(out, "%.9g", value);
}

void report_csv(FILE *out, const struct report *report)
{
    fprintf(out, "id,kind,strategy,label,size_bytes,trials");
    for (int m = 0; m < METRICS; m++)
        fprintf(out, ",%s,%s_low,%s_high", metric_infos[m].name, metric_infos[m].name, metric_infos[m].name);
    for (size_t p = 0; p < REPORT_PHASES; p++)
        fprintf(out, ",%s", report_phases[p][1]);
    fprintf(out, ",error\r\n");
    for (size_t i = 0; i < report->cells.count; i++) {
        const struct cell *cell = &report->cells.list[i];
        csv_text(out, text_at(cell->document, "id"));
        fprintf(out, ",%s,%s,", document_is_sweep(cell->document) ? "sweep" : "run", cell->strategy);
        csv_text(out, cell->label);
        fprintf(out, ",%.0f,%zu", cell->size_bytes, cell->trial_count);
        for (int m = 0; m < METRICS; m++) {
            csv_number(out, cell->estimates[m].median);
            csv_number(out, cell->estimates[m].low);
            csv_number(out, cell->estimates[m].high);
        }
        for (size_t p = 0; p < REPORT_PHASES; p++)
            csv_number(out, number_at(cell->phases, report_phases[p][1]));
        fputc(',', out);
        csv_text(out, cell->error != NULL ? cell->error : "");
        fprintf(out, "\r\n");
    }
}

/* ---- Markdown ---- */

static void md_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\`*_<>|#[]", *text) != NULL)
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void md_document(FILE *out, const struct report *report, size_t index)
{
    const json_t *document = json_array_get(report->documents, index);
    struct text letter = report_letter(report, index);

    fprintf(out, "* %s%s%s `%s`, peer ", letter.s, *letter.s != '\0' ? ": " : "", document_is_sweep(document) ? "sweep" : "run",
            text_at(document, "id"));
    md_text(out, text_at(document, "config.peer"));
    fprintf(out, ", device ");
    md_text(out, text_at(document, "environment.device.name"));
    fprintf(out, " (%s), host ", text_at(document, "environment.device.kind"));
    md_text(out, text_at(document, "environment.host"));
    fprintf(out, ", %s, %s\n", text_at(document, "started_at"), text_at(document, "state"));
}

static void md_recommendation(FILE *out, const struct report *report, size_t index)
{
    static const char *const goals[] = { "throughput", "latency", "cpu" }, *const words[] = { "throughput", "latency", "CPU time" };
    const json_t *all = json_object_get(json_array_get(report->documents, index), "recommendation");
    struct text letter = report_letter(report, index);
    size_t i;
    json_t *sentence;

    for (size_t g = 0; json_is_object(all) && g < 3; g++) {
        fprintf(out, "\n## For %s%s%s\n\n", words[g], *letter.s != '\0' ? ", " : "", letter.s);
        json_array_foreach (json_object_get(json_object_get(all, goals[g]), "sentences"), i, sentence) {
            fprintf(out, "* ");
            md_text(out, json_string_value(sentence));
            fputc('\n', out);
        }
        if (json_is_string(json_object_get(json_object_get(all, goals[g]), "command")))
            fprintf(out, "\n      %s\n", text_at(json_object_get(all, goals[g]), "command"));
    }
}

static void md_model(FILE *out, const struct report *report, size_t index)
{
    struct report_row rows[REPORT_MODEL_ROWS];
    size_t count = report_model(json_array_get(report->documents, index), rows);
    struct text letter = report_letter(report, index);

    if (count == 0)
        return;
    fprintf(out, "\n## Predicted and measured%s%s\n\nWhat a quick probe measured of the parts by themselves, and the crossover that follows from "
                 "them alone.\n\n| part | figure |\n| --- | --- |\n", *letter.s != '\0' ? ", " : "", letter.s);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "| %s | ", rows[i].what);
        md_text(out, rows[i].value);
        fprintf(out, " |\n");
    }
}

static void md_cell(FILE *out, const struct report *report, const struct cell *cell)
{
    fprintf(out, "| %s%s", report_letter(report, cell->index).s, *report_letter(report, cell->index).s != '\0' ? ": " : "");
    md_text(out, cell->label);
    fprintf(out, " | %s | %zu", format_bytes(cell->size_bytes).s, cell->trial_count);
    for (int m = 0; m < METRICS; m++) {
        const struct zc_estimate *e = &cell->estimates[m];
        fprintf(out, " | %s", metric_text((enum metric)m, e->median).s);
        if (!isnan(e->low))
            fprintf(out, " (%s to %s)", metric_text((enum metric)m, e->low).s, metric_text((enum metric)m, e->high).s);
    }
    fprintf(out, " |\n");
}

void report_markdown(FILE *out, const struct report *report)
{
    const char *notice = NULL;

    fprintf(out, "# zcrdma: copy or register?\n\n");
    for (size_t i = 0; i < json_array_size(report->documents); i++) {
        md_document(out, report, i);
        if (notice == NULL)
            notice = json_string_value(json_object_get(json_array_get(report->documents, i), "notice"));
    }
    if (notice != NULL)
        fprintf(out, "\n> %s\n", notice);
    for (size_t i = 0; i < json_array_size(report->documents); i++) {
        md_recommendation(out, report, i);
        md_model(out, report, i);
    }
    fprintf(out, "\n## Figures\n\nMedians of the trials with intervals of 95 %% where there are six or more.\n\n"
                 "| strategy | size | trials | GiB/s | p50 | p99 | CPU s/GiB |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < report->cells.count; i++)
        md_cell(out, report, &report->cells.list[i]);
}
