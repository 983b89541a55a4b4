/* See service.h. The end: take no more clients and runs, cancel the runs (their threads store them), answer those who wait, then
 * leave the loop; main.c undoes the rest. A second signal, or the deadline, leaves at once. */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "clock.h"
#include "cmd_doctor.h"
#include "cmd_result.h"
#include "log.h"
#include "metrics.h"
#include "presence.h"

static const double STOP_DEADLINE_S = 4.;   /* the whole end takes at most 5 s */
enum { FORCED_END_S = 5 };                  /* even if the main thread is stuck */

static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
enum { SIGNALS = sizeof signals / sizeof signals[0] };
/* Writing to a client that has gone and to a file beyond its limit are errors of the call; the others mean nothing here. */
static const int ignored[] = { SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2 };

struct service {
    struct daemon *daemon;
    struct loop_signal *watchers[SIGNALS];
    struct loop_timer *deadline, *watchdog;
    bool stopping, runs_stopped, clients_drained;
};

static void on_deadline(void *arg)
{
    struct service *service = arg;
    log_warning("stopping: not everything ended in time");
    loop_stop(service->daemon->loop);
}

static void on_forced_end(int number)
{
    static const char message[] = "zcrdmad: stopping took too long: leaving at once\n";
    (void)number;
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
        _exit(EXIT_FAILURE);
    _exit(EXIT_FAILURE);
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
    presence_give_up(daemon);
    if (daemon->responder)
        zc_responder_refuse(daemon->responder);
    loop_timer_start(service->deadline, STOP_DEADLINE_S, 0.);
    signal(SIGALRM, on_forced_end);
    alarm(FORCED_END_S);
    doctor_cancel(daemon);
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
        control_set_max_clients(daemon->control, daemon->config.max_clients);
        store_set_max(daemon->store, daemon->config.max_results);
        result_upkeep(daemon);
        metrics_reload(daemon);
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

static void on_watchdog(void *arg)
{
    (void)arg;
    sd_notify(0, "WATCHDOG=1");
}

/* Pings come from the loop: a main thread that is stuck sends none, and is restarted. */
static int start_watchdog(struct service *service)
{
    uint64_t limit_us;
    if (sd_watchdog_enabled(0, &limit_us) <= 0)
        return 0;
    int failed = loop_timer_create(service->daemon->loop, on_watchdog, service, &service->watchdog);
    if (!failed)
        loop_timer_start(service->watchdog, 0., (double)limit_us / 1e6 / 3.);
    return failed;
}

int service_listen_fd(int *fd, struct zc_error *err)
{
    int count = sd_listen_fds(1);
    if (count < 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, count, "socket", "control socket: sd_listen_fds: %s", strerror(-count));
    if (count > 1 || (count == 1 && sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_STREAM, 1, NULL, 0) <= 0))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "socket",
                            "control socket: systemd must pass exactly one listening Unix stream socket");
    if (count == 1 && fcntl(SD_LISTEN_FDS_START, F_SETFL, O_NONBLOCK) != 0)     /* systemd leaves it blocking */
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, "socket", "control socket: fcntl: %s", strerror(errno));
    *fd = count == 1 ? SD_LISTEN_FDS_START : 0;
    return 0;
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
    if (!failed)
        failed = start_watchdog(service);
    if (failed) {
        service_stop(daemon);
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, NULL, "service: out of memory");
    }
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
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
    loop_timer_destroy(service->watchdog);
    free(service);
    daemon->service = NULL;
}

void service_ready(const struct daemon *daemon)
{
    log_info("ready on %s", daemon->config.socket);
    sd_notifyf(0, "READY=1\nSTATUS=Serving peers with %s", daemon->device_name);
}
