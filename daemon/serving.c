/* See serving.h. */
#include "serving.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "clock.h"
#include "log.h"
#include "presence.h"

enum { HELLO_TIMEOUT_MS = 5000 };
static const double TICK_S = 0.1;       /* the responder's deadlines: responder.h */

struct serving {
    struct loop_io *io;
    struct loop_timer *tick;
    struct zc_responder_stats before;       /* of the responders that have gone */
    char port_state[ZC_NAME_MAX];
};

static bool any_address(const char *address)
{
    return strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

static void on_tick(void *arg)
{
    const struct daemon *daemon = arg;
    zc_responder_process(daemon->responder);
}

static void on_io(void *arg, int events)
{
    (void)events;
    on_tick(arg);
}

static void on_log(void *arg, enum zc_log_level level, const char *message)
{
    (void)arg;
    log_responder(level, message);
}

static void on_port_changed(void *arg)
{
    const struct daemon *daemon = arg;
    struct zc_device_info now;
    struct zc_error err;
    if (zc_device_look(daemon->device, &now, &err) == 0)
        memcpy(daemon->serving->port_state, now.port_state, sizeof now.port_state);
    else
        log_warning("%s", err.message);
}

static void on_device_lost(void *arg, bool removed)
{
    presence_lost(arg, removed);
}

/* --- region ------------------------------------------------------------------------------------------------------- */

static enum zc_rkey_scope rkey_scope(const struct daemon *daemon)
{
    switch ((enum config_rkey_scope)daemon->config.rkey_scope) {
    case CONFIG_RKEY_SESSION: return ZC_RKEY_SESSION;
    case CONFIG_RKEY_REGION: return ZC_RKEY_REGION;
    case CONFIG_RKEY_AUTO: break;
    }
    return zc_region_windows_offered(daemon->device) ? ZC_RKEY_SESSION : ZC_RKEY_REGION;
}

static int create_region(struct daemon *daemon, struct zc_error *err)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = zc_now_ns();
    return zc_region_create_scoped(daemon->device, daemon->config.region_size_bytes, (enum zc_pages)daemon->config.region_pages,
                                   rkey_scope(daemon), seed, &daemon->region, err);
}

/* --- listener ----------------------------------------------------------------------------------------------------- */

static int create_responder(struct daemon *daemon, struct zc_error *err)
{
    const struct config *config = &daemon->config;
    const struct config_endpoint *listen = &config->listen;
    struct zc_networks allow;
    struct zc_responder_params params = {
        .device = daemon->device, .region = daemon->region, .listen_address = any_address(listen->address) ? NULL : listen->address,
        .port = listen->port, .max_sessions = config->max_sessions, .max_qps_per_session = config->max_qps_per_session,
        .max_sessions_per_peer = config->max_sessions_per_peer, .allow = &allow, .key = daemon->key,
        .sessions_before = daemon->serving->before.sessions_total, .hello_timeout_ms = HELLO_TIMEOUT_MS,
        .idle_timeout_ms = config->idle_timeout_s * 1000, .keepalive_interval_ms = config->keepalive_interval_s * 1000, .log = on_log,
        .port_changed = on_port_changed, .device_lost = on_device_lost, .device_arg = daemon,
    };
    if (zc_networks_parse(config->allow, &allow, err) != 0)
        return zc_error_set(err, ZC_ERR_INTERNAL, -EINVAL, "allow", "allow: it was checked, and is not valid");
    return zc_responder_create(&params, &daemon->responder, err);
}

static int watch(struct daemon *daemon, struct zc_error *err)
{
    struct serving *serving = daemon->serving;
    int failed = loop_timer_create(daemon->loop, on_tick, daemon, &serving->tick);
    if (!failed)
        failed = loop_io_create(daemon->loop, zc_responder_fd(daemon->responder), LOOP_READ, on_io, daemon, &serving->io);
    if (failed)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "listener: out of memory");
    loop_timer_start(serving->tick, TICK_S, TICK_S);
    return 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

int serving_open(struct daemon *daemon, struct zc_error *err)
{
    int failed = daemon->region ? zc_region_offer(daemon->region, daemon->device, err) : create_region(daemon, err);
    if (!failed)
        failed = create_responder(daemon, err);
    if (!failed)
        failed = watch(daemon, err);
    if (failed) {
        serving_close(daemon);
        return failed;
    }
    on_port_changed(daemon);
    log_info("peers connect to %s port %u; region of %zu bytes, an rkey a %s%s", daemon->config.listen.address,
             (unsigned)zc_responder_port(daemon->responder), zc_region_size(daemon->region),
             zc_region_scope(daemon->region) == ZC_RKEY_SESSION ? "session" : "region", daemon->key ? ", with a pre-shared key" : "");
    return 0;
}

static void add_stats(struct zc_responder_stats *sum, const struct zc_responder_stats *stats)
{
    sum->sessions_total += stats->sessions_total;
    sum->sessions_refused += stats->sessions_refused;
    sum->ended_bye += stats->ended_bye;
    sum->ended_disconnected += stats->ended_disconnected;
    sum->ended_error += stats->ended_error;
    sum->ended_closed += stats->ended_closed;
    sum->ended_timeout += stats->ended_timeout;
    sum->ended_idle += stats->ended_idle;
    sum->ended_unreachable += stats->ended_unreachable;
    sum->port_errors += stats->port_errors;
    sum->port_activations += stats->port_activations;
}

void serving_close(struct daemon *daemon)
{
    struct serving *serving = daemon->serving;
    loop_io_destroy(serving->io);
    loop_timer_destroy(serving->tick);
    serving->io = NULL;
    serving->tick = NULL;
    serving->port_state[0] = 0;
    if (daemon->responder) {
        struct zc_responder_stats stats;
        zc_responder_stats(daemon->responder, &stats);
        stats.ended_closed += stats.sessions_open;
        add_stats(&serving->before, &stats);
    }
    zc_responder_destroy(daemon->responder);
    daemon->responder = NULL;
    if (daemon->region)
        zc_region_withdraw(daemon->region);
}

int serving_start(struct daemon *daemon, struct zc_error *err)
{
    daemon->serving = calloc(1, sizeof *daemon->serving);
    if (!daemon->serving)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "listener: out of memory");
    int failed = serving_open(daemon, err);
    if (failed)
        serving_stop(daemon);
    return failed;
}

void serving_stop(struct daemon *daemon)
{
    if (!daemon->serving)
        return;
    serving_close(daemon);
    zc_region_destroy(daemon->region);
    free(daemon->serving);
    daemon->region = NULL;
    daemon->serving = NULL;
}

void serving_stats(const struct daemon *daemon, struct zc_responder_stats *stats)
{
    struct zc_responder_stats now = { 0 };
    if (daemon->responder)
        zc_responder_stats(daemon->responder, &now);
    *stats = daemon->serving->before;
    stats->sessions_open = now.sessions_open;
    add_stats(stats, &now);
}

const char *serving_port_state(const struct daemon *daemon)
{
    return daemon->serving->port_state;
}

void serving_self(const struct daemon *daemon, struct run_self *self)
{
    const char *address = daemon->config.listen.address;
    if (any_address(address))
        address = zc_device_info(daemon->device)->address;
    memset(self, 0, sizeof *self);
    memcpy(self->address, address, strlen(address));
    self->port = zc_responder_port(daemon->responder);
}
