/* Lists and counters as text. A result's table is in output_result.c. */
#include "output.h"

#include <string.h>

#include "format.h"

static void print_started(FILE *out, json_t *answer)
{
    fprintf(out, "%s\n", text_at(answer, "id"));
}

/* Ids are as wide as the daemon makes them for most strategies; nothing is ever cut, because ids and peers are copied from here. */
enum { ID = 35 };

static void print_results(FILE *out, json_t *answer)
{
    const json_t *results = json_object_get(answer, "results");
    size_t index;
    json_t *row;

    clean_strings(answer);
    if (json_array_size(results) == 0) {
        fprintf(out, "no results stored\n");
        return;
    }
    fprintf(out, "%-*s %-9s %8s %6s %7s %-8s %s\n", ID, "id", "state", "size", "GiB/s", "p50", "device", "strategy and peer");
    json_array_foreach (results, index, row) {
        fprintf(out, "%-*s ", ID, text_at(row, "id"));
        if (!json_is_true(json_object_get(row, "readable"))) {
            fprintf(out, "unreadable: %s\n", text_at(row, "error"));
            continue;
        }
        fprintf(out, "%-9s %8s %6s %7s %-8s %s %s\n", text_at(row, "state"), format_bytes(number_at(row, "size")).s,
                format_number(number_at(row, "gib_per_s")).s, format_ns(number_at(row, "p50_ns")).s, text_at(row, "device_kind"),
                text_at(row, "strategy"), text_at(row, "peer"));
    }
}

static void print_runs(FILE *out, json_t *answer)
{
    const json_t *runs = json_object_get(answer, "runs");
    size_t index;
    json_t *row;

    clean_strings(answer);
    if (json_array_size(runs) == 0) {
        fprintf(out, "no runs queued or active\n");
        return;
    }
    fprintf(out, "%-*s %-7s %8s %-10s %8s %8s %s\n", ID, "id", "state", "size", "phase", "elapsed", "of", "strategy and peer");
    json_array_foreach (runs, index, row)
        fprintf(out, "%-*s %-7s %8s %-10s %8s %8s %s %s\n", ID, text_at(row, "id"), text_at(row, "state"),
                format_bytes(number_at(row, "size")).s, text_at(row, "phase"), format_ns(number_at(row, "elapsed_s") * 1e9).s,
                format_ns(number_at(row, "total_s") * 1e9).s, text_at(row, "strategy"), text_at(row, "peer"));
}

static void print_sessions(FILE *out, json_t *answer)
{
    const json_t *sessions = json_object_get(answer, "sessions");
    size_t index;
    json_t *row;

    clean_strings(answer);
    if (json_array_size(sessions) == 0) {
        fprintf(out, "no sessions open\n");
        return;
    }
    fprintf(out, "%6s %4s %9s %-10s %12s %s\n", "id", "QPs", "READs/QP", "state", "age", "peer");
    json_array_foreach (sessions, index, row)
        fprintf(out, "%6s %4s %9s %-10s %12s %s\n", format_count(number_at(row, "id")).s, format_count(number_at(row, "qps")).s,
                format_count(number_at(row, "outstanding_reads")).s,
                json_is_true(json_object_get(row, "welcomed")) ? "welcomed" : "greeting",
                format_duration(number_at(row, "age_s")).s, text_at(row, "peer"));
}

static void print_device(FILE *out, const json_t *device)
{
    const char *firmware = text_at(device, "firmware");
    double mr_size = number_at(device, "max_mr_size_bytes");

    fprintf(out, "%s port %s: %s, %s, %s%s\n", text_at(device, "name"), format_count(number_at(device, "port")).s,
            text_at(device, "kind"), text_at(device, "port_state"), text_at(device, "link_layer"),
            json_is_true(json_object_get(device, "in_use")) ? ", in use by zcrdmad" : "");
    fprintf(out, "  address %s, netdev %s, MTU %s of %s, rate %s Gbit/s, NUMA node %s, firmware %s\n", text_at(device, "address"),
            text_at(device, "netdev"), format_count(number_at(device, "active_mtu_bytes")).s,
            format_count(number_at(device, "max_mtu_bytes")).s, format_number(number_at(device, "rate_gbit_per_s")).s,
            format_count(number_at(device, "numa_node")).s, firmware);
    fprintf(out, "  at most %s, %s a queue, %s a CQ, %s a WR\n", format_plural(number_at(device, "max_qp"), "QP").s,
            format_plural(number_at(device, "max_qp_wr"), "WR").s, format_plural(number_at(device, "max_cqe"), "CQE").s,
            format_plural(number_at(device, "max_sge"), "SGE").s);
    fprintf(out, "  outstanding READs a QP: %s as requester, %s as responder; MR %s, message %s\n",
            format_count(number_at(device, "max_qp_init_rd_atom")).s, format_count(number_at(device, "max_qp_rd_atom")).s,
            mr_size < 0x1p60 ? format_bytes(mr_size).s : "of any size", format_bytes(number_at(device, "max_msg_size_bytes")).s);
    fprintf(out, "  on-demand paging: %s\n", json_is_true(json_object_get(device, "odp")) ? "yes" : "no");
}

static void print_devices(FILE *out, json_t *answer)
{
    const json_t *devices = json_object_get(answer, "devices");
    size_t index;
    json_t *row;

    clean_strings(answer);
    if (json_array_size(devices) == 0)
        fprintf(out, "no RDMA devices\n");
    json_array_foreach (devices, index, row)
        print_device(out, row);
}

/* Option names as they are typed. */
static void print_options(FILE *out, const json_t *options)
{
    char line[512] = "";
    size_t index;
    json_t *name;

    json_array_foreach (options, index, name) {
        size_t used = strlen(line);

        snprintf(line + used, sizeof(line) - used, "%s--%s", used > 0 ? " " : "", json_string_value(name));
    }
    for (char *c = strchr(line, '_'); c != NULL; c = strchr(c, '_'))
        *c = '-';
    print_wrapped(out, 9, 100, line);
}

static void print_strategies(FILE *out, json_t *answer)
{
    size_t index;
    json_t *row;

    json_array_foreach (json_object_get(answer, "strategies"), index, row) {
        fprintf(out, "%s", text_at(row, "name"));
        if (json_is_string(json_object_get(row, "alias")))
            fprintf(out, ", also %s", text_at(row, "alias"));
        fprintf(out, "\n  shows  %s\n  is     memory %s, execution %s, chunk %s\n  takes  ", text_at(row, "shows"),
                text_at(row, "memory"), text_at(row, "execution"), text_at(row, "chunk"));
        print_options(out, json_object_get(row, "options"));
    }
    fprintf(out, "and what every strategy takes: zcctl run --help\n");
}

/* A line of counters: label, then "VALUE WORD" for each member; a word that ends in '*' is a thing and gets its plural. */
static void print_counters(FILE *out, const char *label, const json_t *object, const char *const (*members)[2], size_t count)
{
    fprintf(out, "%-10s", label);
    for (size_t i = 0; i < count; i++) {
        double value = number_at(object, members[i][0]);
        const char *word = members[i][1];
        int length = (int)strcspn(word, "*");
        fprintf(out, "%s%s %.*s%s", i > 0 ? ", " : " ", format_count(value).s, length, word,
                word[length] == '*' && value != 1 ? "s" : "");
    }
    fputc('\n', out);
}
#define PRINT_COUNTERS(out, label, object, members) \
    print_counters(out, label, object, members, sizeof(members) / sizeof((members)[0]))

static void print_stats_device(FILE *out, const json_t *answer)
{
    if (json_is_false(json_object_get(answer, "device_present")))
        fprintf(out, "%-10s %s was REMOVED: nothing is served until it is back\n", "device", text_at(answer, "device"));
    else
        fprintf(out, "%-10s %s, port %s, region of %s, listening on %s port %s\n", "device", text_at(answer, "device"),
                text_at(answer, "port.state"), format_bytes(number_at(answer, "region.size_bytes")).s,
                text_at(answer, "listen.address"), format_count(number_at(answer, "listen.port")).s);
}

static void print_stats(FILE *out, json_t *answer)
{
    static const char *const sessions[][2] = { { "open", "open" }, { "total", "in all" }, { "refused", "refused" } };
    static const char *const ended[][2] = { { "bye", "by BYE" }, { "disconnected", "disconnected" }, { "error", "error*" },
                                            { "timeout", "timeout*" }, { "idle", "idle" }, { "unreachable", "unreachable" },
                                            { "closed", "closed here" } };
    static const char *const objects[][2] = { { "pds", "PD*" }, { "mrs", "MR*" }, { "mws", "MW*" }, { "cqs", "CQ*" }, { "channels", "channel*" },
                                              { "qps", "QP*" }, { "srqs", "SRQ*" }, { "cm_ids", "rdma_cm id*" } };
    static const char *const runs[][2] = { { "active", "active" }, { "queued", "queued" }, { "done", "done" },
                                           { "failed", "failed" }, { "cancelled", "cancelled" } };

    clean_strings(answer);
    fprintf(out, "%-10s up %s, %s, %s resident, %s, %s\n", "zcrdmad", format_duration(number_at(answer, "uptime_s")).s,
            format_plural(number_at(answer, "clients"), "client").s, format_bytes(number_at(answer, "process.rss_bytes")).s,
            format_plural(number_at(answer, "process.fds"), "descriptor").s,
            format_plural(number_at(answer, "process.threads"), "thread").s);
    print_stats_device(out, answer);
    PRINT_COUNTERS(out, "sessions", member_at(answer, "sessions"), sessions);
    PRINT_COUNTERS(out, "  ended", member_at(answer, "sessions.ended"), ended);
    PRINT_COUNTERS(out, "objects", member_at(answer, "objects"), objects);
    fprintf(out, "%-10s %s registered\n", "", format_bytes(number_at(answer, "objects.mr_bytes")).s);
    PRINT_COUNTERS(out, "runs", member_at(answer, "runs"), runs);
    fprintf(out, "%-10s %s stored\n", "results", format_count(number_at(answer, "results.stored")).s);
}

static void print_version(FILE *out, json_t *versions)
{
    clean_strings(versions);
    fprintf(out, "zcctl    %s\n", text_at(versions, "zcctl"));
    if (!json_is_object(json_object_get(versions, "zcrdmad")))
        return;
    fprintf(out, "zcrdmad  %s (control protocol %s, peer protocol %s, result schema %s)\n", text_at(versions, "zcrdmad.version"),
            text_at(versions, "zcrdmad.control_protocol"), format_count(number_at(versions, "zcrdmad.peer_protocol")).s,
            format_count(number_at(versions, "zcrdmad.result_schema")).s);
}

static void print_done(FILE *out, const char *verb, const char *what)
{
    fprintf(out, "%s %s\n", verb, what);
}

const struct output output_text = {
    .started = print_started,
    .result = output_result_text,
    .comparison = output_comparison_text,
    .recommendation = output_recommendation_text,
    .compare = output_compare_text,
    .results = print_results,
    .runs = print_runs,
    .stats = print_stats,
    .sessions = print_sessions,
    .devices = print_devices,
    .doctor = output_doctor_text,
    .strategies = print_strategies,
    .version = print_version,
    .done = print_done,
};
