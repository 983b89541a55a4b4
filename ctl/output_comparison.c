/* The table of several strategies on the same terms. At most 100 columns; "-" is "not measured". */
#include <math.h>
#include <string.h>

#include "format.h"
#include "output.h"

enum { WIDTH = 100 };

/* The fastest strategy that neither copies nor registers; NAN if none was measured. */
static double ceiling(const json_t *documents)
{
    double best = NAN;
    size_t index;
    json_t *doc;

    json_array_foreach (documents, index, doc)
        if (strncmp(text_at(doc, "strategy"), "ideal_", 6) == 0)
            best = fmax(best, number_at(doc, "throughput.gib_per_s"));
    return best;
}

/* ibv_reg_mr calls a second of the window in which they were counted. */
static double registration_rate(const json_t *doc)
{
    double window_ns = number_at(doc, "throughput.duration_ns");

    if (isnan(window_ns))
        window_ns = number_at(doc, "config.measure") * 1e9;
    return number_at(doc, "cost.registrations") / (window_ns / 1e9);
}

static void print_row(FILE *out, const json_t *doc, double ideal)
{
    double rate = number_at(doc, "throughput.gib_per_s"), share = 100 * rate / ideal;
    const char *state = text_at(doc, "state");

    fprintf(out, "%-22s %8s ", text_at(doc, "strategy"), format_number(rate).s);
    if (isnan(share))
        fprintf(out, "%7s ", "-");
    else
        fprintf(out, "%5.0f %% ", share);
    fprintf(out, "%9s %9s %9s %10s %9s%s%s\n", format_ns(number_at(doc, "latency.available.p50_ns")).s,
            format_ns(number_at(doc, "latency.available.p99_ns")).s, format_ns(number_at(doc, "latency.reclaimed.p50_ns")).s,
            format_number(number_at(doc, "cost.cpu_s_per_gib")).s, format_number(registration_rate(doc)).s,
            strcmp(state, "done") == 0 ? "" : "  ", strcmp(state, "done") == 0 ? "" : state);
}

void output_comparison_text(FILE *out, json_t *documents)
{
    const json_t *first = json_array_get(documents, 0);
    double ideal = ceiling(documents);
    size_t index;
    json_t *doc;

    clean_strings(documents);
    fprintf(out, "%s a request, peer %s, %s (%s)\n\n", format_bytes(number_at(first, "config.size")).s, text_at(first, "config.peer"),
            text_at(first, "environment.device.name"), text_at(first, "environment.device.kind"));
    fprintf(out, "%-22s %8s %7s %9s %9s %9s %10s %9s\n", "strategy", "GiB/s", "ideal", "p50", "p99", "reclaimed", "CPU s/GiB",
            "regs/s");
    json_array_foreach (documents, index, doc)
        print_row(out, doc, ideal);
    fputc('\n', out);
    print_wrapped(out, 0, WIDTH, "ideal: share of the fastest ideal strategy, if one was run. p50 and p99: until the bytes are available; "
                  "reclaimed: p50 until the buffer is free again, too. regs/s: registrations in the measured window.");
    if (json_is_string(json_object_get(first, "notice")))
        print_wrapped(out, 0, WIDTH, text_at(first, "notice"));
}
