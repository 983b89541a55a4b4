/* One table of metrics: where each is in the answer to `stats`, and what it is called. See zc_metrics.h. */
#include "zc_metrics.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct metric {
    const char *name;       /* without zcrdma_ and _total */
    bool counter;           /* else a gauge */
    const char *path;       /* members of `stats`, with dots between them; {label}: every member, and its name is the label's value */
    double scale;           /* from the unit of `stats` to that of the metric */
    const char *help;
};

static const struct metric metrics[] = {
    { "device_present", false, "device_present", 1, "1 while the RDMA device is there, 0 from its removal until it is back." },
    { "device_removals", true, "device_removals", 1, "Times that the RDMA device was removed." },
    { "port_active", false, "port.active", 1, "1 while the port of the RDMA device is ACTIVE." },
    { "port_events", true, "port.events.{event}", 1, "Times that the port of the RDMA device went down and up." },
    { "uptime_seconds", false, "uptime_s", 1, "Time since zcrdmad was started." },
    { "sessions", false, "sessions.open", 1, "Sessions of peers that read here." },
    { "sessions_opened", true, "sessions.total", 1, "Sessions that were accepted." },
    { "sessions_refused", true, "sessions.refused", 1, "Connection requests of peers that were refused." },
    { "sessions_ended", true, "sessions.ended.{reason}", 1, "Sessions that ended, by reason." },
    { "queue_pairs", false, "objects.qps", 1, "Queue pairs that zcrdmad has." },
    { "completion_queues", false, "objects.cqs", 1, "Completion queues that zcrdmad has." },
    { "memory_regions", false, "objects.mrs", 1, "Memory regions that zcrdmad has." },
    { "registered_bytes", false, "objects.mr_bytes", 1, "Memory that zcrdmad has registered." },
    { "memory_windows", false, "objects.mws", 1, "Memory windows that zcrdmad has." },
    { "cm_ids", false, "objects.cm_ids", 1, "Identifiers of rdma_cm that zcrdmad has." },
    { "region_bytes", false, "region.size_bytes", 1, "Memory that peers can read." },
    { "runs_active", false, "runs.active", 1, "Runs that are being measured." },
    { "runs_queued", false, "runs.queued", 1, "Runs that wait for their turn." },
    { "runs", true, "runs.strategies.{strategy}.ended.{state}", 1, "Runs that ended, by strategy and how." },
    { "last_read_bytes_per_second", false, "runs.strategies.{strategy}.gib_per_s", 0x1p30,
      "Throughput of the last run of a strategy that measured it." },
    { "run_errors", true, "runs.errors.{kind}", 1, "Runs that failed, by kind of error." },
    { "results_not_stored", true, "runs.not_stored", 1, "Runs whose result could not be stored." },
    { "results", false, "results.stored", 1, "Files in the folder of results." },
    { "control_clients", false, "clients", 1, "Clients that are connected to the control socket." },
    { "control_clients_refused", true, "clients_refused", 1, "Clients that were refused because there were too many." },
    { "resident_memory_bytes", false, "process.rss_bytes", 1, "Resident memory of zcrdmad." },
    { "open_fds", false, "process.fds", 1, "Open file descriptors of zcrdmad." },
    { "threads", false, "process.threads", 1, "Threads of zcrdmad." },
};

enum { LABELS_MAX_BYTES = 256 };

struct writer {
    FILE *out;
    const struct metric *metric;
    enum zc_metrics_format format;
    bool begun;             /* the family's head is written */
};

static void write_head(struct writer *writer)
{
    const struct metric *m = writer->metric;
    const char *suffix = m->counter && writer->format == ZC_METRICS_PROMETHEUS ? "_total" : "";
    if (!writer->begun)
        fprintf(writer->out, "# TYPE zcrdma_%s%s %s\n# HELP zcrdma_%s%s %s\n", m->name, suffix, m->counter ? "counter" : "gauge",
                m->name, suffix, m->help);
    writer->begun = true;
}

static void write_sample(struct writer *writer, const json_t *value, const char *labels)
{
    const struct metric *m = writer->metric;
    if (!json_is_number(value) && !json_is_boolean(value))
        return;
    write_head(writer);
    fprintf(writer->out, "zcrdma_%s%s%s%s%s ", m->name, m->counter ? "_total" : "", *labels ? "{" : "", labels, *labels ? "}" : "");
    if (json_is_boolean(value))
        fprintf(writer->out, "%d\n", json_is_true(value));
    else if (json_is_integer(value) && m->scale == 1)
        fprintf(writer->out, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
    else
        fprintf(writer->out, "%.12g\n", json_number_value(value) * m->scale);
}

/* `labels` with one more; false: it does not fit. Names of members are identifiers of ours; whatever else they hold is left out. */
static bool add_label(char *to, const char *labels, const char *name, size_t name_length, const char *value)
{
    int length = snprintf(to, LABELS_MAX_BYTES, "%s%s%.*s=\"", labels, *labels ? "," : "", (int)name_length, name);
    for (; length < LABELS_MAX_BYTES - 2 && *value; value++)
        if (*value != '"' && *value != '\\' && (unsigned char)*value >= 0x20)
            to[length++] = *value;
    if (length >= LABELS_MAX_BYTES - 2)
        return false;
    to[length++] = '"';
    to[length] = 0;
    return true;
}

/* What `path` leads to from `value` on. */
static void walk(struct writer *writer, const json_t *value, const char *path, const char *labels)
{
    const size_t length = strcspn(path, ".");
    const char *rest = path[length] ? path + length + 1 : "", *name;
    char longer[LABELS_MAX_BYTES];
    json_t *member;
    if (!*path) {
        write_sample(writer, value, labels);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, member) {
        if (*path == '{') {
            if (add_label(longer, labels, path + 1, length - 2, name))
                walk(writer, member, rest, longer);
        } else if (strlen(name) == length && memcmp(name, path, length) == 0) {
            walk(writer, member, rest, labels);
        }
    }
}

char *zc_metrics(const json_t *stats, enum zc_metrics_format format)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        struct writer writer = { .out = out, .metric = &metrics[i], .format = format };
        walk(&writer, stats, metrics[i].path, "");
    }
    if (format == ZC_METRICS_OPENMETRICS)
        fputs("# EOF\n", out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}
