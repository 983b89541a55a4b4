/* See serving.h. */
#include "serving.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { HELLO_TIMEOUT_MS = 5000 };
static const double TICK_S = 0.1;       /* the responder's deadlines: responder.h */

struct serving {
    struct zc_responder *responder;
    struct loop_io *io;
    struct loop_timer *tick;
};

static bool any_address(const char *address)
{
    return strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

static void on_tick(void *arg)
{
    struct serving *serving = arg;
    zc_responder_process(serving->responder);
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

static int watch(struct daemon *daemon, struct serving *serving)
{
    int failed = loop_timer_create(daemon->loop, on_tick, serving, &serving->tick);
    if (!failed)
        failed = loop_io_create(daemon->loop, zc_responder_fd(serving->responder), LOOP_READ, on_io, serving, &serving->io);
    if (!failed)
        loop_timer_start(serving->tick, TICK_S, TICK_S);
    return failed;
}

int serving_start(struct daemon *daemon, struct zc_error *err)
{
    const struct config *config = &daemon->config;
    const struct config_endpoint *listen = &config->listen;
    struct zc_networks allow;
    struct zc_responder_params params = {
        .device = daemon->device, .region = daemon->region, .listen_address = any_address(listen->address) ? NULL : listen->address,
        .port = listen->port, .max_sessions = config->max_sessions, .max_qps_per_session = config->max_qps_per_session,
        .max_sessions_per_peer = config->max_sessions_per_peer, .allow = &allow, .key = daemon->key,
        .hello_timeout_ms = HELLO_TIMEOUT_MS, .idle_timeout_ms = config->idle_timeout_s * 1000,
        .keepalive_interval_ms = config->keepalive_interval_s * 1000, .log = on_log,
    };
    if (zc_networks_parse(config->allow, &allow, err) != 0)
        return zc_error_set(err, ZC_ERR_INTERNAL, -EINVAL, "allow", "allow: it was checked, and is not valid");
    struct serving *serving = calloc(1, sizeof *serving);
    if (!serving)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "listener: out of memory");
    int failed = zc_responder_create(&params, &serving->responder, err);
    if (failed) {
        free(serving);
        return failed;
    }
    daemon->serving = serving;
    daemon->responder = serving->responder;
    if (watch(daemon, serving) != 0) {
        serving_stop(daemon);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "listener: out of memory");
    }
    log_info("peers connect to %s port %u; region of %zu bytes, an rkey a %s%s", listen->address,
             (unsigned)zc_responder_port(daemon->responder), zc_region_size(daemon->region),
             zc_region_scope(daemon->region) == ZC_RKEY_SESSION ? "session" : "region", daemon->key ? ", with a pre-shared key" : "");
    return 0;
}

void serving_stop(struct daemon *daemon)
{
    struct serving *serving = daemon->serving;
    if (!serving)
        return;
    loop_io_destroy(serving->io);
    loop_timer_destroy(serving->tick);
    zc_responder_destroy(serving->responder);
    free(serving);
    daemon->serving = NULL;
    daemon->responder = NULL;
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
