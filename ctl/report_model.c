/* The model of a sweep beside what the sweep measured: rows of words, which the page and the Markdown both show. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "report.h"

void report_crossover_text(const json_t *crossover, char *text, size_t size)
{
    const char *kind = text_at(crossover, "kind");
    size_t index, used;
    json_t *crossing;

    if (strcmp(kind, "none") == 0)
        snprintf(text, size, "no crossover in this range: %.60s wins", text_at(crossover, "winner"));
    else
        snprintf(text, size, "%s", strcmp(kind, "noisy") == 0 ? "too noisy to tell" : strcmp(kind, "found") == 0 ? ""
                 : "too few trials or samples");
    json_array_foreach (json_object_get(crossover, "crossings"), index, crossing) {
        used = strlen(text);
        snprintf(text + used, size - used, "%s%.60s up to %s, %.60s from %s on", index > 0 ? "; " : "", text_at(crossing, "below"),
                 format_bytes(number_at(crossing, "low")).s, text_at(crossing, "above"), format_bytes(number_at(crossing, "high")).s);
    }
}

static __attribute__((format(printf, 3, 4))) void put(struct report_row **row, const char *what, const char *format, ...)
{
    va_list args;

    (*row)->what = what;
    va_start(args, format);
    vsnprintf((*row)->value, sizeof((*row)->value), format, args);
    va_end(args);
    ++*row;
}

/* Of the best copy against the best zero-copy, by throughput; NULL: only one of them was measured. */
static const json_t *measured(const json_t *document)
{
    size_t index;
    json_t *crossover;

    json_array_foreach (json_object_get(document, "crossovers"), index, crossover)
        if (strcmp(text_at(crossover, "a"), "copy") == 0 && strcmp(text_at(crossover, "metric"), metric_infos[METRIC_THROUGHPUT].name) == 0)
            return crossover;
    return NULL;
}

size_t report_model(const json_t *document, struct report_row rows[REPORT_MODEL_ROWS])
{
    const json_t *model = json_object_get(document, "model"), *crossover = measured(document);
    double predicted = number_at(model, "crossover_bytes"), residual = number_at(model, "worst_residual");
    struct report_row *row = rows;
    char words[REPORT_CROSSOVER_MAX] = "only one of copying and registering was";

    if (!json_is_object(model))
        return 0;
    if (crossover != NULL)
        report_crossover_text(crossover, words, sizeof(words));
    put(&row, "predicted: registering costs no more than copying", "%s%s%s", isnan(predicted) ? "at no size that was probed" : "from ",
        isnan(predicted) ? "" : format_bytes(predicted).s, isnan(predicted) ? "" : " on");
    put(&row, "measured, by throughput", "%s", words);
    put(&row, "copying 1 MiB", "%s GiB/s", format_number(number_at(model, "copy_gib_per_s")).s);
    put(&row, "registering and deregistering", "%s + %s a page of %s", format_ns(1e9 * number_at(model, "register_base_s")).s,
        format_ns(1e9 * number_at(model, "register_per_page_s")).s, format_bytes(number_at(model, "page_bytes")).s);
    put(&row, "largest residual of that line", "%s %%", format_number(100 * residual).s);
    put(&row, "READs of 1 MiB, one after the other", "%s GiB/s", format_number(number_at(model, "read_gib_per_s")).s);
    put(&row, "a READ of 4 KiB, alone", "%s", format_ns(1e9 * number_at(model, "read_s")).s);
    return (size_t)(row - rows);
}
