/* The result document: see result_json.h, result.h and result.schema.json, which a test holds against this file. */
#include "result_json.h"

#include <math.h>
#include <string.h>

#include "options_json.h"
#include "zc_json.h"

static const char software_notice[] =
    "These figures describe the software device, which moves bytes with the CPU of this machine; they say nothing about a NIC.";

static double per_second(double amount, uint64_t duration_ns)
{
    return duration_ns > 0 ? amount / ((double)duration_ns / 1e9) : NAN;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / 0x1p30;
}

json_t *zc_error_to_json(const struct zc_error *err)
{
    const char *name = err->errnum != 0 ? strerrorname_np(err->errnum < 0 ? -err->errnum : err->errnum) : NULL;

    if (err->kind == ZC_ERR_NONE)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:o}",
        "kind", zc_error_kind_name(err->kind),
        "message", zc_json_text(err->message),
        "field", zc_json_text(err->field),
        "errno", zc_json_text(name));
}

json_t *zc_notice_to_json(const struct zc_device_info *device)
{
    bool software = device->name[0] != '\0' && device->kind == ZC_DEVICE_SOFTWARE;
    return zc_json_text(software ? software_notice : "");
}

json_t *zc_device_info_to_json(const struct zc_device_info *info)
{
    json_t *device = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o}",
        "name", zc_json_text(info->name),
        "kind", zc_device_kind_names[info->kind],
        "firmware", zc_json_text(info->firmware),
        "model", zc_json_text(info->model),
        "vendor_id", zc_json_count(info->vendor_id),
        "vendor_part_id", zc_json_count(info->vendor_part_id),
        "port", info->port,
        "port_state", zc_json_text(info->port_state),
        "link_layer", zc_json_text(info->link_layer),
        "netdev", zc_json_text(info->netdev),
        "address", zc_json_text(info->address));
    json_t *limits = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}",
        "active_mtu_bytes", zc_json_known(info->active_mtu),
        "max_mtu_bytes", zc_json_known(info->max_mtu),
        "rate_gbit_per_s", zc_json_real(info->rate_gbit_per_s),
        "numa_node", info->numa_node < 0 ? json_null() : json_integer(info->numa_node),
        "max_qp", zc_json_count(info->max_qp),
        "max_cqe", zc_json_count(info->max_cqe),
        "max_qp_wr", zc_json_count(info->max_qp_wr),
        "max_sge", zc_json_count(info->max_sge),
        "max_qp_rd_atom", zc_json_count(info->max_qp_rd_atom),
        "max_qp_init_rd_atom", zc_json_count(info->max_qp_init_rd_atom),
        "max_mr_size_bytes", zc_json_known(info->max_mr_size_bytes),
        "max_msg_size_bytes", zc_json_known(info->max_msg_size_bytes),
        "odp", info->odp);

    if (device == NULL || limits == NULL || json_object_update_new(device, limits) != 0) {
        json_decref(device);
        return NULL;
    }
    return device;
}

json_t *zc_environment_to_json(const struct zc_environment *e)
{
    json_t *limits = json_pack("{s:o}", "memlock_bytes", zc_json_count(e->memlock_limit_bytes));
    json_t *rdmav = json_pack("{s:o, s:o}", "fork_safe", zc_json_text(e->fork_safe), "hugepages_safe",
                              zc_json_text(e->hugepages_safe));
    json_t *device = e->device.name[0] == '\0' ? json_null() : zc_device_info_to_json(&e->device);

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "host", zc_json_text(e->host),
        "kernel", zc_json_text(e->kernel),
        "cpu", zc_json_text(e->cpu),
        "cpus_online", zc_json_known(e->cpus_online),
        "numa_nodes", zc_json_known(e->numa_nodes),
        "memory_bytes", zc_json_count(e->memory_bytes),
        "memory_free_bytes", zc_json_count(e->memory_free_bytes),
        "page_size_bytes", zc_json_known(e->page_size_bytes),
        "llc_bytes", zc_json_known(e->llc_bytes),
        "transparent_hugepage", zc_json_text(e->transparent_hugepage),
        "zcrdma_version", zc_json_text(e->zcrdma_version),
        "limits", limits,
        "rdmav", rdmav,
        "device", device);
}

static json_t *node_to_json(int node)
{
    return node < 0 ? json_null() : json_integer(node);
}

static json_t *terms_to_json(const struct zc_terms *t, const struct zc_run_options *config)
{
    json_t *terms = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "inflight", zc_json_count(t->inflight),
        "footprint_bytes", zc_json_count(t->footprint_bytes),
        "buffers", zc_json_count(t->buffers),
        "chunk_bytes", zc_json_count(t->chunk_bytes),
        "chunks", zc_json_count(t->chunks),
        "staging_bytes", zc_json_count(t->staging_bytes),
        "staging_slots", zc_json_count(t->staging_slots),
        "memory_max_bytes", zc_json_count(t->memory_max_bytes),
        "threads", t->wait < 0 ? json_null() : zc_json_count(t->threads),
        "wait", t->wait < 0 ? json_null() : json_string(zc_wait_names[t->wait]),
        "qps", zc_json_known(t->qps),
        "outstanding_reads", zc_json_known(t->outstanding_reads),
        "max_read_bytes", zc_json_count(t->max_read_bytes));
    json_t *memory = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "threshold_sweep", zc_json_text(config->threshold_sweep),
        "post", t->post == ZC_FAMILY_AUTO ? json_null() : json_string(zc_family_names[t->post]),
        "poll", t->poll == ZC_FAMILY_AUTO ? json_null() : json_string(zc_family_names[t->poll]),
        "page_bytes", zc_json_count(t->page_bytes),
        "huge_page_bytes", zc_json_count(t->huge_page_bytes),
        "staging_huge_page_bytes", zc_json_count(t->staging_huge_page_bytes),
        "memory_numa_node", node_to_json(t->memory_numa_node),
        "thread_numa_node", node_to_json(t->thread_numa_node),
        "relaxed_ordering", t->relaxed_ordering < 0 ? json_null() : json_boolean(t->relaxed_ordering),
        "placement", zc_json_text(t->placement));

    if (terms == NULL || memory == NULL || json_object_update_new(terms, memory) != 0) {
        json_decref(terms);
        return NULL;
    }
    return terms;
}

static json_t *latency_to_json(const struct zc_latency *measured)
{
    struct zc_latency l = *measured;

    if (l.count == 0) {
        l.min_ns = l.p50_ns = l.p90_ns = l.p95_ns = l.p99_ns = l.p99_9_ns = l.p99_99_ns = l.max_ns = ZC_UNMEASURED;
        l.mean_ns = NAN;
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "count", zc_json_known(l.count),
        "min_ns", zc_json_count(l.min_ns),
        "mean_ns", zc_json_real(l.mean_ns),
        "p50_ns", zc_json_count(l.p50_ns),
        "p90_ns", zc_json_count(l.p90_ns),
        "p95_ns", zc_json_count(l.p95_ns),
        "p99_ns", zc_json_count(l.p99_ns),
        "p99_9_ns", zc_json_count(l.p99_9_ns),
        "p99_99_ns", zc_json_count(l.p99_99_ns),
        "max_ns", zc_json_count(l.max_ns));
}

static json_t *series_to_json(const struct zc_throughput *t)
{
    json_t *series = json_array();

    for (size_t i = 0; series != NULL && t->series_bytes != NULL && i < t->series_length; i++) {
        if (json_array_append_new(series, zc_json_count(t->series_bytes[i])) != 0) {
            json_decref(series);
            return NULL;
        }
    }
    return series;
}

static json_t *throughput_to_json(const struct zc_throughput *t)
{
    uint64_t none = t->measured ? 0 : ZC_UNMEASURED;    /* or-ed in, it turns every count into null */

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "bytes", zc_json_count(t->bytes | none),
        "requests", zc_json_count(t->requests | none),
        "duration_ns", zc_json_count(t->duration_ns | none),
        "gib_per_s", zc_json_real(t->measured ? per_second(gib(t->bytes), t->duration_ns) : NAN),
        "requests_per_s", zc_json_real(t->measured ? per_second((double)t->requests, t->duration_ns) : NAN),
        "series_interval_ns", zc_json_count(ZC_SERIES_INTERVAL_NS | none),
        "series", t->measured ? series_to_json(t) : json_null());
}

static json_t *cost_to_json(const struct zc_cost *c)
{
    uint64_t none = c->measured ? 0 : ZC_UNMEASURED;
    uint64_t device_cpu_ns = c->device_cpu_ns | none;
    double cpu_s = ((double)c->cpu_user_ns + (double)c->cpu_system_ns) / 1e9;
    double device_s = device_cpu_ns == ZC_UNMEASURED ? NAN : (double)device_cpu_ns / 1e9;
    double moved_gib = c->measured && c->bytes > 0 ? gib(c->bytes) : NAN;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "cpu_s_per_gib", zc_json_real(cpu_s / moved_gib),
        "cpu_user_ns", zc_json_count(c->cpu_user_ns | none),
        "cpu_system_ns", zc_json_count(c->cpu_system_ns | none),
        "bytes", zc_json_count(c->bytes | none),
        "requests", zc_json_count(c->requests | none),
        "duration_ns", zc_json_count(c->duration_ns | none),
        "device_cpu_ns", zc_json_count(device_cpu_ns),
        "device_cpu_s_per_gib", zc_json_real(device_s / moved_gib),
        "registrations", zc_json_count(c->registrations),
        "allocations", zc_json_count(c->allocations),
        "registering_allocations", zc_json_count(c->registering_allocations),
        "cache_hits", zc_json_count(c->cache_hits),
        "cache_misses", zc_json_count(c->cache_misses),
        "cache_evictions", zc_json_count(c->cache_evictions),
        "wait", zc_json_text(c->measured ? "event" : ""));
}

static json_t *phases_to_json(const struct zc_phases *measured)
{
    struct zc_phases p = *measured;

    if (p.requests == 0)
        p.register_ns = p.post_ns = p.wait_ns = p.copy_ns = p.deregister_ns = p.discard_ns = p.consume_ns = NAN;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "requests", zc_json_known(p.requests),
        "register_ns", zc_json_real(p.register_ns),
        "post_ns", zc_json_real(p.post_ns),
        "wait_ns", zc_json_real(p.wait_ns),
        "copy_ns", zc_json_real(p.copy_ns),
        "deregister_ns", zc_json_real(p.deregister_ns),
        "discard_ns", zc_json_real(p.discard_ns),
        "consume_ns", zc_json_real(p.consume_ns));
}

/* "" when validation was asked for and the run ended before it. */
static const char *validation_state(const struct zc_validation *v)
{
    if (v->failed)
        return "failed";
    if (v->mode == ZC_VALIDATE_NONE)
        return "skipped";
    return v->requests > 0 ? "passed" : "";
}

static json_t *validation_to_json(const struct zc_validation *v)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}",
        "mode", zc_validate_names[v->mode],
        "state", zc_json_text(validation_state(v)),
        "requests", zc_json_known(v->requests),
        "bytes", zc_json_known(v->bytes),
        "first_bad_offset", v->failed ? zc_json_count(v->first_bad_offset) : json_null(),
        "expected", v->failed ? json_integer(v->expected) : json_null(),
        "found", v->failed ? json_integer(v->found) : json_null());
}

static json_t *trace_to_json(const struct zc_trace_summary *t)
{
    if (!t->made)
        return json_null();
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}",
        "path", zc_json_text(t->path),
        "window", zc_phase_names[t->latency ? ZC_PHASE_LATENCY : ZC_PHASE_THROUGHPUT],
        "records", zc_json_count(t->records),
        "dropped", zc_json_count(t->dropped),
        "threads", zc_json_count(t->threads),
        "record_ns", zc_json_real(t->record_ns));
}

json_t *zc_peer_info_to_json(const struct zc_peer_info *p)
{
    return json_pack("{s:o, s:o, s:o, s:o}",
        "host", zc_json_text(p->host),
        "address", zc_json_text(p->address),
        "port", zc_json_known(p->port),
        "region_bytes", zc_json_known(p->region_bytes));
}

json_t *zc_result_to_json(const struct zc_result *r)
{
    const char *strategy = r->config.strategy < 0 ? "" : zc_strategy_names[r->config.strategy];
    json_t *latency = json_pack("{s:o, s:o}", "available", latency_to_json(&r->available), "reclaimed",
                                latency_to_json(&r->reclaimed));

    return json_pack("{s:o, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "id", zc_json_text(r->id),
        "schema_version", ZC_RESULT_SCHEMA_VERSION,
        "state", zc_run_state_names[r->state],
        "error", zc_error_to_json(&r->error),
        "notice", zc_notice_to_json(&r->environment.device),
        "strategy", zc_json_text(strategy),
        "peer", zc_peer_info_to_json(&r->peer),
        "owner_uid", zc_json_count(r->owner_uid),
        "started_at", zc_json_time(r->started_unix_ns),
        "finished_at", zc_json_time(r->finished_unix_ns),
        "config", zc_run_options_to_json(&r->config),
        "environment", zc_environment_to_json(&r->environment),
        "terms", terms_to_json(&r->terms, &r->config),
        "latency", latency,
        "throughput", throughput_to_json(&r->throughput),
        "cost", cost_to_json(&r->cost),
        "phases", phases_to_json(&r->phases),
        "trace", trace_to_json(&r->trace),
        "validation", validation_to_json(&r->validation));
}
