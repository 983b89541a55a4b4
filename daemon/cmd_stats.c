/* stats */
#include "cmd_stats.h"

#include <string.h>

#include "clock.h"
#include "cmd.h"
#include "counters.h"
#include "presence.h"
#include "process.h"
#include "serving.h"
#include "zc_json.h"

static json_t *sessions(const struct daemon *daemon)
{
    struct zc_responder_stats s;
    serving_stats(daemon, &s);
    json_t *ended = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "bye", zc_json_count(s.ended_bye), "disconnected",
                              zc_json_count(s.ended_disconnected), "error", zc_json_count(s.ended_error), "timeout",
                              zc_json_count(s.ended_timeout), "idle", zc_json_count(s.ended_idle), "unreachable",
                              zc_json_count(s.ended_unreachable), "closed", zc_json_count(s.ended_closed));
    return json_pack("{s:o, s:o, s:o, s:o}", "open", zc_json_count(s.sessions_open), "total", zc_json_count(s.sessions_total),
                     "refused", zc_json_count(s.sessions_refused), "ended", ended);
}

static json_t *counter(const atomic_uint_least64_t *value)
{
    return zc_json_count(atomic_load_explicit(value, memory_order_relaxed));
}

static json_t *objects(void)
{
    const struct zc_counters *c = &zc_counters;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pds", counter(&c->pds), "mrs", counter(&c->mrs), "mr_bytes",
                     counter(&c->mr_bytes), "mws", counter(&c->mws), "cqs", counter(&c->cqs), "channels", counter(&c->channels), "qps", counter(&c->qps),
                     "srqs", counter(&c->srqs), "cm_ids", counter(&c->cm_ids));
}

/* Those that have had a run. */
static json_t *strategies(const struct runs_stats *s)
{
    json_t *all = json_object();
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++) {
        if (s->strategies[i].done + s->strategies[i].failed + s->strategies[i].cancelled == 0)
            continue;
        json_t *ended = json_pack("{s:o, s:o, s:o}", "done", zc_json_count(s->strategies[i].done), "failed",
                                  zc_json_count(s->strategies[i].failed), "cancelled", zc_json_count(s->strategies[i].cancelled));
        json_object_set_new(all, zc_strategy_names[i],
                            json_pack("{s:o, s:o}", "ended", ended, "gib_per_s", zc_json_real(s->strategies[i].gib_per_s)));
    }
    return all;
}

static json_t *errors(const struct runs_stats *s)
{
    json_t *all = json_object();
    for (int kind = ZC_ERR_INVALID; kind <= ZC_ERR_INTERNAL; kind++)
        json_object_set_new(all, zc_error_kind_name((enum zc_error_kind)kind), zc_json_count(s->errors[kind]));
    return all;
}

static json_t *runs(const struct daemon *daemon)
{
    struct runs_stats s;
    runs_stats(daemon->runs, &s);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "active", zc_json_count(s.active), "queued", zc_json_count(s.queued),
                     "done", zc_json_count(s.done), "failed", zc_json_count(s.failed), "cancelled", zc_json_count(s.cancelled),
                     "not_stored", zc_json_count(s.not_stored), "strategies", strategies(&s), "errors", errors(&s));
}

static json_t *process(void)
{
    struct process_info p;
    process_info(&p);
    return json_pack("{s:o, s:o, s:o}", "rss_bytes", zc_json_count(p.rss_bytes), "fds", zc_json_count(p.fds), "threads",
                     zc_json_count(p.threads));
}

/* Without a device there is no listener, and no state of a port. */
static json_t *listener(const struct daemon *daemon)
{
    json_t *port = daemon->responder ? json_integer(zc_responder_port(daemon->responder)) : json_null();
    return json_pack("{s:s, s:o}", "address", daemon->config.listen.address, "port", port);
}

static json_t *port(const struct daemon *daemon)
{
    struct zc_responder_stats s;
    serving_stats(daemon, &s);
    const char *state = serving_port_state(daemon);
    json_t *events = json_pack("{s:o, s:o}", "down", zc_json_count(s.port_errors), "up", zc_json_count(s.port_activations));
    return json_pack("{s:o, s:b, s:o}", "state", zc_json_text(state), "active", strcmp(state, "ACTIVE") == 0, "events", events);
}

json_t *stats_to_json(const struct daemon *daemon)
{
    json_t *results = json_pack("{s:o}", "stored", zc_json_count(store_count(daemon->store)));
    json_t *region = json_pack("{s:o, s:o}", "size_bytes", zc_json_count(zc_region_size(daemon->region)), "huge_page_bytes",
                               zc_json_count(zc_region_huge_bytes(daemon->region)));
    return json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:o, s:o, s:o, s:o}", "uptime_s",
                     (double)(zc_now_ns() - daemon->started_ns) / 1e9, "sessions", sessions(daemon), "objects", objects(), "runs",
                     runs(daemon), "results", results, "clients", zc_json_count(control_clients(daemon->control)), "clients_refused",
                     zc_json_count(control_refused(daemon->control)), "process", process(), "device",
                     daemon->device_name, "device_present", presence_served(daemon), "device_removals",
                     zc_json_count(presence_removals(daemon)), "port", port(daemon), "region", region, "listen", listener(daemon));
}

int cmd_stats(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call, (void)params, (void)err;
    *result = stats_to_json(daemon);
    return 0;
}
