/* zcrdmad: what is initialised, in which order, and undone in reverse. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc_count.h"
#include "clock.h"
#include "cmd_doctor.h"
#include "cmd_result.h"
#include "daemon.h"
#include "dispatch.h"
#include "log.h"
#include "measure.h"
#include "metrics.h"
#include "presence.h"
#include "reexec.h"
#include "service.h"
#include "serving.h"
#include "version.h"

enum { EXIT_USAGE = 2 };

/* Sessions of the software device take descriptors, and 1024 is what a login or a unit usually gets. Best effort. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int start_device(struct daemon *daemon, struct zc_error *err)
{
    int failed = device_choose(daemon->config.device, daemon->config.argv, &daemon->device, err);
    if (!failed)
        snprintf(daemon->device_name, sizeof daemon->device_name, "%s", zc_device_info(daemon->device)->name);
    return failed;
}

static void stop_device(struct daemon *daemon)
{
    zc_device_close(daemon->device);
}

static int start_loop(struct daemon *daemon, struct zc_error *err)
{
    int failed = loop_create(&daemon->loop);
    return failed ? zc_error_set(err, ZC_ERR_RESOURCE, failed, NULL, "cannot make the event loop") : 0;
}

static void stop_loop(struct daemon *daemon)
{
    loop_destroy(daemon->loop);
}

/* Early, so that a second daemon is told so before it registers memory; served only once the loop runs. */
static int start_control(struct daemon *daemon, struct zc_error *err)
{
    const struct config *config = &daemon->config;
    struct control_params params = {
        .loop = daemon->loop, .path = config->socket, .access = { config->socket_group, (mode_t)config->socket_mode },
        .max_clients = config->max_clients, .handle = dispatch_call, .arg = daemon,
    };
    int failed = service_listen_fd(&params.listen_fd, err);
    return failed ? failed : control_create(&params, &daemon->control, err);
}

static void stop_control(struct daemon *daemon)
{
    control_destroy(daemon->control);
}

static int start_store(struct daemon *daemon, struct zc_error *err)
{
    struct zc_error unusable = { 0 };
    daemon->store = store_create(daemon->config.state_dir);
    if (!daemon->store)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "store: out of memory");
    store_set_max(daemon->store, daemon->config.max_results);
    if (store_check(daemon->store, &unusable) != 0)
        log_warning("%s; runs are measured all the same", unusable.message);
    return 0;
}

static void stop_store(struct daemon *daemon)
{
    store_destroy(daemon->store);
}

static int start_worker(struct daemon *daemon, struct zc_error *err)
{
    int failed = worker_create(daemon->loop, &daemon->worker, err);
    if (!failed)
        result_upkeep(daemon);
    return failed;
}

static void stop_worker(struct daemon *daemon)
{
    worker_destroy(daemon->worker);
}

static int start_key(struct daemon *daemon, struct zc_error *err)
{
    return daemon->config.key_file[0] ? zc_key_load(daemon->config.key_file, &daemon->key, err) : 0;
}

static void stop_key(struct daemon *daemon)
{
    zc_key_destroy(daemon->key);
}

static void on_device_lost(void *arg)
{
    presence_lost(arg, true);
}

static int start_runs(struct daemon *daemon, struct zc_error *err)
{
    struct runs_params params = { .loop = daemon->loop, .store = daemon->store, .device = daemon->device,
                                  .key = daemon->key, .thread_allocations = daemon->thread_allocations, .measure = zc_measure,
                                  .device_lost = on_device_lost, .device_arg = daemon };
    serving_self(daemon, &params.self);
    return runs_create(&params, &daemon->runs, err);
}

static void stop_runs(struct daemon *daemon)
{
    runs_destroy(daemon->runs);
}

static const struct stage {
    int (*start)(struct daemon *daemon, struct zc_error *err);
    void (*stop)(struct daemon *daemon);
} stages[] = {
    { start_device, stop_device },      /* may execute the program again: before any descriptor is taken over */
    { start_loop, stop_loop },
    { start_control, stop_control },
    { start_store, stop_store },
    { start_worker, stop_worker },
    { start_key, stop_key },
    { serving_start, serving_stop },
    { start_runs, stop_runs },
    { doctor_start, doctor_stop },
    { presence_start, presence_stop },
    { metrics_start, metrics_stop },
    { service_start, service_stop },
};
enum { STAGES = sizeof stages / sizeof stages[0] };

static int start(struct daemon *daemon)
{
    struct zc_error err = { 0 };
    for (int i = 0; i < STAGES; i++) {
        if (stages[i].start(daemon, &err) == 0)
            continue;
        log_error("%s", err.message);
        while (i--)
            stages[i].stop(daemon);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* A run's thread that does not end uses device and store: then only what others would notice is undone. */
static void stop(struct daemon *daemon)
{
    if (runs_alive(daemon->runs)) {
        log_error("a run did not end in time; leaving without it");
        serving_stop(daemon);
        control_destroy(daemon->control);
        _exit(EXIT_SUCCESS);
    }
    for (int i = STAGES; i--;)
        stages[i].stop(daemon);
    log_info("stopped");
}

static int configure(int argc, char **argv, struct config *config, bool *done)
{
    struct zc_error err = { 0 };
    enum config_action action;
    *done = true;
    if (config_load(argc, argv, config, &action, &err) != 0) {
        fprintf(stderr, "zcrdmad: %s\n", err.message);
        return EXIT_USAGE;
    }
    switch (action) {
    case CONFIG_SHOW_HELP: config_print_help(stdout); break;
    case CONFIG_SHOW_VERSION: puts("zcrdmad " ZC_VERSION); break;
    case CONFIG_CHECK: config_print(config, stdout); break;
    case CONFIG_RUN: break;
    }
    *done = action != CONFIG_RUN;
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct daemon daemon;
    bool done;
    daemon.started_ns = zc_now_ns();
    daemon.thread_allocations = alloc_count_thread;
    int status = configure(argc, argv, &daemon.config, &done);
    if (done)
        return status;
    json_object_seed(0);        /* before there are threads */
    log_init();
    log_set_level((enum zc_log_level)daemon.config.log_level);
    raise_descriptors();
    status = start(&daemon);
    if (status != EXIT_SUCCESS)
        return status;
    service_ready(&daemon);
    loop_run(daemon.loop);
    stop(&daemon);
    return EXIT_SUCCESS;
}
