/* The table of one result: what an RDMA engineer looks at first stands first. At most 100 columns; "-" is "not measured". */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "format.h"
#include "output.h"

enum { LABEL = 12, WIDTH = 100, BAR = 40, SPARKS = 60 };

static void print_label(FILE *out, const char *label)
{
    fprintf(out, "%-*s", LABEL, label);
}

static void print_header(FILE *out, const json_t *doc)
{
    fprintf(out, "%s, %s a request, peer %s", text_at(doc, "strategy"), format_bytes(number_at(doc, "config.size")).s,
            text_at(doc, "config.peer"));
    if (!isnan(number_at(doc, "peer.port")))
        fprintf(out, " (%s port %s)", text_at(doc, "peer.address"), format_count(number_at(doc, "peer.port")).s);
    fprintf(out, ": %s\n", text_at(doc, "state"));
}

static void print_error(FILE *out, const json_t *doc)
{
    if (!json_is_object(json_object_get(doc, "error")))
        return;
    print_label(out, "error");
    print_wrapped(out, LABEL, WIDTH, text_at(doc, "error.message"));
}

static void print_device(FILE *out, const json_t *doc)
{
    const json_t *device = member_at(doc, "environment.device");
    double rate = number_at(device, "rate_gbit_per_s");

    print_label(out, "device");
    if (!json_is_object(device)) {
        fprintf(out, "-\n");
        return;
    }
    fprintf(out, "%s port %s, %s, %s, MTU %s, %s", text_at(device, "name"), format_count(number_at(device, "port")).s,
            text_at(device, "kind"), text_at(device, "port_state"), format_count(number_at(device, "active_mtu_bytes")).s,
            text_at(device, "link_layer"));
    if (!isnan(rate))
        fprintf(out, ", %s Gbit/s", format_number(rate).s);
    fputc('\n', out);
    if (json_is_string(json_object_get(doc, "notice"))) {
        print_label(out, "");
        print_wrapped(out, LABEL, WIDTH, text_at(doc, "notice"));
    }
    if (json_is_string(json_object_get(device, "model"))) {
        char line[256];

        snprintf(line, sizeof(line), "It plays a model: %s.", text_at(device, "model"));
        print_label(out, "");
        print_wrapped(out, LABEL, WIDTH, line);
    }
}

static void print_host(FILE *out, const json_t *doc)
{
    char line[512];

    snprintf(line, sizeof(line), "%s, %s, %s (%s), %s, %s memory", text_at(doc, "environment.host"),
             text_at(doc, "environment.kernel"), format_plural(number_at(doc, "environment.cpus_online"), "CPU").s,
             text_at(doc, "environment.cpu"), format_plural(number_at(doc, "environment.numa_nodes"), "NUMA node").s,
             format_bytes(number_at(doc, "environment.memory_bytes")).s);
    print_label(out, "host");
    print_wrapped(out, LABEL, WIDTH, line);
}

/* The whole intervals of the series in GiB/s; *count of them, malloc'ed. NULL: fewer than two. */
static double *series_rates(const json_t *throughput, size_t *count)
{
    const json_t *series = json_object_get(throughput, "series");
    double interval = number_at(throughput, "series_interval_ns"), duration = number_at(throughput, "duration_ns");
    size_t whole = json_array_size(series);
    double *rates;

    if ((double)whole * interval > duration)
        whole = (size_t)(duration / interval);
    rates = whole >= 2 ? calloc(whole, sizeof(*rates)) : NULL;
    for (size_t i = 0; rates != NULL && i < whole; i++)
        rates[i] = json_number_value(json_array_get(series, i)) / 0x1p30 / (interval / 1e9);
    *count = whole;
    return rates;
}

static void print_series(FILE *out, const json_t *throughput)
{
    double low = INFINITY, high = 0, interval = number_at(throughput, "series_interval_ns");
    size_t count, group;
    double *rates = series_rates(throughput, &count);

    if (rates == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, rates[i]);
        high = fmax(high, rates[i]);
    }
    print_label(out, "");
    fprintf(out, "%s to %s GiB/s in intervals of %s\n", format_number(low).s, format_number(high).s, format_ns(interval).s);
    if (high > 0) {
        print_label(out, "");
        group = draw_series(out, rates, count, SPARKS, draw_unicode());
        fprintf(out, "  %s a character, from 0\n", format_ns((double)group * interval).s);
    }
    free(rates);
}

static void print_throughput(FILE *out, const json_t *doc)
{
    const json_t *t = json_object_get(doc, "throughput");
    double rate = number_at(t, "gib_per_s");

    print_label(out, "throughput");
    if (isnan(rate)) {
        fprintf(out, "-  (%s)\n", json_is_true(member_at(doc, "config.skip_throughput")) ? "skipped" : "not measured");
        return;
    }
    fprintf(out, "%s GiB/s   %s Gbit/s   %s requests/s\n", format_number(rate).s,
            format_number(number_at(t, "bytes") * 8 / number_at(t, "duration_ns")).s,
            format_number(number_at(t, "requests_per_s")).s);
    print_label(out, "");
    fprintf(out, "%s in %s within %s, %s in flight\n", format_bytes(number_at(t, "bytes")).s,
            format_plural(number_at(t, "requests"), "request").s, format_ns(number_at(t, "duration_ns")).s,
            format_count(number_at(doc, "terms.inflight")).s);
    print_series(out, t);
}

static void print_latency_row(FILE *out, const char *label, const json_t *latency)
{
    static const char *const members[] = { "min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns",
                                           "mean_ns" };

    print_label(out, label);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        fprintf(out, "%8s ", format_ns(number_at(latency, members[i])).s);
    fprintf(out, "%7s\n", format_count(number_at(latency, "count")).s);
}

static void print_latency(FILE *out, const json_t *doc)
{
    static const char *const heads[] = { "min", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", "mean" };

    print_label(out, "latency");
    if (isnan(number_at(doc, "latency.available.count"))) {
        fprintf(out, "-  (%s)\n", json_is_true(member_at(doc, "config.skip_latency")) ? "skipped" : "not measured");
        return;
    }
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        fprintf(out, "%8s ", heads[i]);
    fprintf(out, "%7s\n", "count");
    print_latency_row(out, "  available", member_at(doc, "latency.available"));
    print_latency_row(out, "  reclaimed", member_at(doc, "latency.reclaimed"));
}

/* In the order in which a request goes through them. */
static const struct { const char *name, *member; } phase_rows[] = {
    { "discard", "discard_ns" }, { "register", "register_ns" }, { "post", "post_ns" }, { "wait", "wait_ns" },
    { "copy", "copy_ns" }, { "deregister", "deregister_ns" }, { "consume", "consume_ns" },
};
enum { PHASES = sizeof(phase_rows) / sizeof(phase_rows[0]) };

/* A row a stage that the strategy has, with its share of all of them. */
static void print_phases(FILE *out, const json_t *doc)
{
    const json_t *p = json_object_get(doc, "phases");
    double sum = 0;

    print_label(out, "phases");
    if (isnan(number_at(p, "requests"))) {
        fprintf(out, "-\n");
        return;
    }
    for (size_t i = 0; i < PHASES; i++)
        sum += fmax(number_at(p, phase_rows[i].member), 0);     /* fmax() passes over NAN */
    fprintf(out, "of a request, mean of %s\n", format_count(number_at(p, "requests")).s);
    for (size_t i = 0; i < PHASES; i++) {
        double ns = number_at(p, phase_rows[i].member);
        if (isnan(ns))
            continue;
        fprintf(out, "  %-10s%8s  ", phase_rows[i].name, format_ns(ns).s);
        draw_bar(out, ns / sum, BAR, draw_unicode());
        fprintf(out, "%4.0f %%\n", sum > 0 ? 100 * ns / sum : 0);
    }
}

static void print_cache(FILE *out, const json_t *cost)
{
    const double hits = number_at(cost, "cache_hits"), misses = number_at(cost, "cache_misses");

    if (isnan(hits))
        return;
    print_label(out, "cache");
    fprintf(out, "%s, %s miss%s", format_plural(hits, "hit").s, format_count(misses).s, misses == 1 ? "" : "es");
    if (hits + misses > 0)
        fprintf(out, " (%s %% hits)", format_number(100 * hits / (hits + misses)).s);
    fprintf(out, ", %s\n", format_plural(number_at(cost, "cache_evictions"), "eviction").s);
}

static void print_cost(FILE *out, const json_t *doc)
{
    const json_t *c = json_object_get(doc, "cost");
    double moved = number_at(c, "bytes") / 0x1p30;
    double device = number_at(c, "device_cpu_s_per_gib");

    print_label(out, "CPU");
    if (isnan(number_at(c, "cpu_s_per_gib"))) {
        fprintf(out, "-\n");
    } else {
        fprintf(out, "%s s/GiB (user %s, system %s), waiting for events, %s\n", format_number(number_at(c, "cpu_s_per_gib")).s,
                format_number(number_at(c, "cpu_user_ns") / 1e9 / moved).s,
                format_number(number_at(c, "cpu_system_ns") / 1e9 / moved).s, format_plural(number_at(c, "requests"), "request").s);
        if (!isnan(device)) {
            print_label(out, "");
            fprintf(out, "%s s/GiB more in the software device's thread, which does a NIC's work\n", format_number(device).s);
        }
    }
    print_label(out, "data path");
    if (isnan(number_at(c, "registrations")) && isnan(number_at(c, "allocations"))) {
        fprintf(out, "-\n");
        return;
    }
    fprintf(out, "%s, %s in the measured window\n", format_plural(number_at(c, "registrations"), "memory registration").s,
            format_plural(number_at(c, "allocations"), "allocator call").s);
    print_cache(out, c);
}

/* Of what is on by a word of the user or the device only. */
static void print_options(FILE *out, const json_t *doc)
{
    const bool relaxed = json_is_true(member_at(doc, "terms.relaxed_ordering"));
    const double tos = number_at(doc, "config.tos"), callers = number_at(doc, "config.threads");
    const char *comma = "";

    if (!relaxed && !(tos > 0) && !(callers > 1))
        return;
    print_label(out, "");
    if (callers > 1) {
        fprintf(out, "of %s independent callers together", format_count(callers).s);
        comma = ", ";
    }
    if (relaxed) {
        fprintf(out, "%srelaxed ordering", comma);
        comma = ", ";
    }
    if (tos > 0)
        fprintf(out, "%stype of service %s", comma, format_count(tos).s);
    fputc('\n', out);
}

/* Only if the user asked for something else than one piece as it comes. */
static void print_pieces(FILE *out, const json_t *doc)
{
    const double pieces = number_at(doc, "config.pieces"), align = number_at(doc, "config.align");

    if (!(pieces > 1) && !(align > 0))
        return;
    print_label(out, "");
    fprintf(out, "each in %s", format_plural(pieces, "piece").s);
    if (align > 0)
        fprintf(out, ", aligned to %s and no better", format_bytes(align).s);
    fputc('\n', out);
}

/* Of the strategies that copy what is smaller. */
static void print_threshold(FILE *out, const json_t *doc)
{
    const double threshold = number_at(doc, "config.threshold");

    if (isnan(threshold))
        return;
    print_label(out, "threshold");
    fprintf(out, "%s: smaller requests are copied, others registered\n", format_bytes(threshold).s);
    if (!json_is_string(member_at(doc, "terms.threshold_sweep")))
        return;
    print_label(out, "");
    fprintf(out, "from sweep %s\n", text_at(doc, "terms.threshold_sweep"));
}

static void print_terms(FILE *out, const json_t *doc)
{
    const json_t *t = json_object_get(doc, "terms");
    double footprint = number_at(t, "footprint_bytes"), cache = number_at(doc, "environment.llc_bytes");
    double huge = number_at(t, "huge_page_bytes");

    print_label(out, "terms");
    if (isnan(number_at(t, "chunks"))) {
        fprintf(out, "-\n");
        return;
    }
    fprintf(out, "%s of %s a request, %s (%s), wait by %s\n", format_plural(number_at(t, "chunks"), "chunk").s,
            format_bytes(number_at(t, "chunk_bytes")).s, format_plural(number_at(t, "staging_slots"), "staging slot").s,
            format_bytes(number_at(t, "staging_bytes")).s, text_at(doc, "config.wait"));
    print_threshold(out, doc);
    print_label(out, "connection");
    fprintf(out, "%s, %s each, %s a READ at most", format_plural(number_at(t, "qps"), "QP").s,
            format_plural(number_at(t, "outstanding_reads"), "outstanding READ").s, format_bytes(number_at(t, "max_read_bytes")).s);
    if (json_is_string(json_object_get(t, "post")))
        fprintf(out, ", %s verbs", text_at(t, "post"));
    fputc('\n', out);
    print_options(out, doc);
    print_label(out, "footprint");
    fprintf(out, "%s in %s", format_bytes(footprint).s, format_plural(number_at(t, "buffers"), "user buffer").s);
    if (!isnan(footprint / cache))
        fprintf(out, ", %s x the last-level cache (%s)", format_number(footprint / cache).s, format_bytes(cache).s);
    if (!isnan(huge) && footprint > 0)
        fprintf(out, ", %.0f %% on huge pages", fmin(100, 100 * huge / footprint));
    fputc('\n', out);
    print_label(out, "buffers");
    fprintf(out, "%s, pages %s", strcmp(text_at(doc, "config.buffers"), "fresh") == 0 ? "untouched before each request"
            : "touched beforehand", text_at(doc, "config.pages"));
    fprintf(out, " (%s)%s\n", format_bytes(number_at(t, "page_bytes")).s,
            json_is_true(member_at(doc, "config.consume")) ? ", every byte read once after it came" : "");
    print_pieces(out, doc);
    print_label(out, "placement");
    print_wrapped(out, LABEL, WIDTH, text_at(t, "placement"));
}

static void print_trace(FILE *out, const json_t *doc)
{
    const json_t *trace = json_object_get(doc, "trace");
    const double dropped = number_at(trace, "dropped");

    if (!json_is_object(trace))
        return;
    print_label(out, "trace");
    fprintf(out, "%s of %s in the %s window", format_plural(number_at(trace, "records"), "record").s,
            format_plural(number_at(trace, "threads"), "thread").s, text_at(trace, "window"));
    if (dropped > 0)
        fprintf(out, " (the last; %s older)", format_count(dropped).s);
    fprintf(out, ", %s each\n", format_ns(number_at(trace, "record_ns")).s);
    if (json_is_string(json_object_get(trace, "path"))) {
        print_label(out, "");
        fprintf(out, "zcctl results trace %s -o FILE\n", text_at(doc, "id"));
    }
}

static void print_validation(FILE *out, const json_t *doc)
{
    const json_t *v = json_object_get(doc, "validation");
    const char *state = text_at(v, "state");

    print_label(out, "validation");
    if (strcmp(state, "passed") == 0)
        fprintf(out, "passed: %s, %s compared with the peer's pattern\n", format_plural(number_at(v, "requests"), "request").s,
                format_bytes(number_at(v, "bytes")).s);
    else if (strcmp(state, "failed") == 0)
        fprintf(out, "FAILED at offset %s of the peer's region: expected 0x%02x, found 0x%02x\n",
                format_count(number_at(v, "first_bad_offset")).s, (unsigned)json_integer_value(json_object_get(v, "expected")),
                (unsigned)json_integer_value(json_object_get(v, "found")));
    else
        fprintf(out, "%s\n", strcmp(state, "skipped") == 0 ? state : "-  (not reached)");
}

void output_result_text(FILE *out, json_t *document)
{
    if (strcmp(text_at(document, "kind"), "sweep") == 0) {
        output_sweep_text(out, document);
        return;
    }
    if (strcmp(text_at(document, "kind"), "probe") == 0) {
        output_probe_text(out, document);
        return;
    }
    clean_strings(document);
    print_header(out, document);
    print_error(out, document);
    print_device(out, document);
    print_host(out, document);
    fputc('\n', out);
    print_throughput(out, document);
    print_latency(out, document);
    print_phases(out, document);
    print_cost(out, document);
    fputc('\n', out);
    print_terms(out, document);
    print_validation(out, document);
    print_trace(out, document);
    print_label(out, "run");
    fprintf(out, "%s, %s to %s\n", text_at(document, "id"), text_at(document, "started_at"), text_at(document, "finished_at"));
}
