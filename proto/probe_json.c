/* The probe's document: see probe_json.h, probe.h and probe.schema.json, which a test holds against this file. */
#include "probe_json.h"

#include <math.h>

#include "result_json.h"
#include "zc_json.h"

static bool has_memory(enum zc_probe_what what)
{
    return what == ZC_PROBE_REGISTER || what == ZC_PROBE_DEREGISTER || what == ZC_PROBE_COPY;
}

/* Bytes a second, where time means that bytes were moved. */
static double rate_of(const struct zc_probe_row *row)
{
    const bool moves = row->is.what == ZC_PROBE_COPY || row->is.what == ZC_PROBE_READ;
    return moves && row->time_s.median > 0 ? (double)row->is.size_bytes / row->time_s.median / 0x1p30 : NAN;
}

static json_t *row_to_json(const struct zc_probe_row *row)
{
    const struct zc_probe_case *const is = &row->is;
    const bool memory = has_memory(is->what), read = is->what == ZC_PROBE_READ;
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "what", zc_probe_what_names[is->what],
        "size_bytes", zc_json_known(is->size_bytes),
        "pages", zc_json_text(memory ? zc_pages_names[is->pages] : ""),
        "memory", zc_json_text(!memory ? "" : is->cold ? "cold" : "warm"),
        "threads", zc_json_count(is->threads),
        "inflight", zc_json_known(is->inflight),
        "wait", zc_json_text(!read ? "" : zc_wait_names[is->event ? ZC_WAIT_EVENT : ZC_WAIT_POLL]),
        "median_s", zc_json_real(row->time_s.median),
        "low_s", zc_json_real(row->time_s.low),
        "high_s", zc_json_real(row->time_s.high),
        "min_s", zc_json_real(row->min_s),
        "max_s", zc_json_real(row->max_s),
        "gib_per_s", zc_json_real(rate_of(row)),
        "trials", zc_json_count(row->time_s.trials),
        "why", zc_json_text(row->why));
}

static json_t *rows_to_json(const struct zc_probe *probe)
{
    json_t *const rows = json_array();
    for (uint32_t i = 0; rows && i < probe->row_count; i++)
        if (json_array_append_new(rows, row_to_json(&probe->rows[i])) != 0) {
            json_decref(rows);
            return NULL;
        }
    return rows;
}

static json_t *fit_to_json(const struct zc_probe_fit *fit)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "base_s", zc_json_real(fit->base_s),
        "per_page_s", zc_json_real(fit->per_page_s),
        "page_bytes", zc_json_known(fit->page_bytes),
        "worst_residual", zc_json_real(fit->worst_residual),
        "sizes", zc_json_count(fit->sizes),
        "low_bytes", zc_json_known(fit->low_bytes),
        "high_bytes", zc_json_known(fit->high_bytes));
}

json_t *zc_probe_to_json(const struct zc_probe *probe)
{
    return json_pack("{s:o, s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "id", zc_json_text(probe->id),
        "kind", "probe",
        "schema_version", ZC_PROBE_SCHEMA_VERSION,
        "state", zc_run_state_names[probe->state],
        "error", zc_error_to_json(&probe->error),
        "notice", zc_notice_to_json(&probe->environment.device),
        "peer", zc_peer_info_to_json(&probe->peer),
        "owner_uid", zc_json_count(probe->owner_uid),
        "started_at", zc_json_time(probe->started_unix_ns),
        "finished_at", zc_json_time(probe->finished_unix_ns),
        "environment", zc_environment_to_json(&probe->environment),
        "config", json_pack("{s:o, s:b}", "peer", zc_json_text(probe->asked_peer), "quick", probe->quick),
        "fit", fit_to_json(&probe->fit),
        "crossover_bytes", zc_json_real(zc_probe_crossover_bytes(probe)),
        "rows", rows_to_json(probe));
}
