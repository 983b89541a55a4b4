/* See service.h. The end: take no more clients and runs, cancel the runs (their threads store them), answer those who wait, then
 * leave the loop; main.c undoes the rest. A second signal, or the deadline, leaves at once. */
#include "service.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "clock.h"
#include "log.h"

static const double STOP_DEADLINE_S = 4.;   /* the whole end takes at most 5 s */

static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
enum { SIGNALS = sizeof signals / sizeof signals[0] };

struct service {
    struct daemon *daemon;
    struct loop_signal *watchers[SIGNALS];
    struct loop_timer *deadline;
    bool stopping, runs_stopped, clients_drained;
};

static void on_deadline(void *arg)
{
    struct service *service = arg;
    log_warning("stopping: not everything ended in time");
    loop_stop(service->daemon->loop);
}

static void leave_if_done(struct service *service)
{
    if (service->runs_stopped && service->clients_drained)
        loop_stop(service->daemon->loop);
}

static void on_runs_stopped(void *arg)
{
    struct service *service = arg;
    service->runs_stopped = true;
    leave_if_done(service);
}

static void on_clients_drained(void *arg)
{
    struct service *service = arg;
    service->clients_drained = true;
    leave_if_done(service);
}

static void stop(struct service *service, int number)
{
    struct daemon *daemon = service->daemon;
    if (service->stopping) {
        log_warning("signal %d again: leaving at once", number);
        loop_stop(daemon->loop);
        return;
    }
    service->stopping = true;
    log_info("signal %d: stopping", number);
    sd_notify(0, "STOPPING=1");
    loop_timer_start(service->deadline, STOP_DEADLINE_S, 0.);
    runs_stop(daemon->runs, on_runs_stopped, service);
    control_drain(daemon->control, on_clients_drained, service);
}

static void report_fixed(const char *key)
{
    log_warning("configuration: %s changed; it takes effect at the next start", key);
}

static void reload(struct daemon *daemon)
{
    struct zc_error err = { 0 };
    size_t fixed = 0;
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, zc_now_ns() / 1000);
    if (config_reload(&daemon->config, report_fixed, &fixed, &err) != 0) {
        log_error("configuration not read again, the old one stays: %s", err.message);
    } else {
        log_set_level((enum zc_log_level)daemon->config.log_level);
        log_info("configuration read again");
    }
    sd_notify(0, "READY=1");
}

static void on_signal(void *arg, int number)
{
    struct service *service = arg;
    if (number != SIGHUP)
        stop(service, number);
    else if (!service->stopping)
        reload(service->daemon);
}

int service_start(struct daemon *daemon, struct zc_error *err)
{
    struct service *service = calloc(1, sizeof *service);
    if (!service)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "service: out of memory");
    service->daemon = daemon;
    daemon->service = service;
    int failed = loop_timer_create(daemon->loop, on_deadline, service, &service->deadline);
    for (int i = 0; !failed && i < SIGNALS; i++)
        failed = loop_signal_create(daemon->loop, signals[i], on_signal, service, &service->watchers[i]);
    if (failed) {
        service_stop(daemon);
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, NULL, "service: out of memory");
    }
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

void service_stop(struct daemon *daemon)
{
    struct service *service = daemon->service;
    if (!service)
        return;
    for (int i = 0; i < SIGNALS; i++)
        loop_signal_destroy(service->watchers[i]);
    loop_timer_destroy(service->deadline);
    free(service);
    daemon->service = NULL;
}

void service_ready(const struct daemon *daemon)
{
    log_info("ready on %s", daemon->config.socket);
    sd_notifyf(0, "READY=1\nSTATUS=Serving peers with %s", zc_device_info(daemon->device)->name);
}
