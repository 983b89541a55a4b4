/* See presence.h. One timer looks; on it the device goes in two steps, because threads may be using it: runs and the doctor. */
#include "presence.h"

#include <errno.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "cmd_doctor.h"
#include "log.h"
#include "serving.h"

static const double LOOK_S = 0.5, LEAVE_S = 0.05;

struct presence {
    struct daemon *daemon;
    struct loop_timer *timer;
    uint8_t port;
    bool lost, removed;     /* it has said so */
    bool failing;           /* it is back and cannot be served, which has been logged */
    uint64_t removals;
};

static void look_again(struct presence *presence, double after_s)
{
    loop_timer_start(presence->timer, after_s, LOOK_S);
}

/* Peers and new runs are done with it; runs that are active hear of it by their connections. */
static void leave(struct presence *presence)
{
    struct daemon *daemon = presence->daemon;
    log_error("the RDMA device %s was removed: its sessions and runs end, and nothing is served until it is back", daemon->device_name);
    sd_notifyf(0, "STATUS=The RDMA device %s was removed", daemon->device_name);
    presence->removals++;
    presence->lost = false;
    runs_device_gone(daemon->runs, daemon->device_name);
    serving_close(daemon);
}

/* By threads: a run may use another device, too. */
static bool in_use(const struct daemon *daemon)
{
    return runs_alive(daemon->runs) || doctor_busy(daemon);
}

/* Closed as soon as nobody uses it. */
static bool closed(struct presence *presence)
{
    struct daemon *daemon = presence->daemon;
    if (!daemon->device)
        return true;
    if (in_use(daemon))
        return false;
    if (presence->removed)
        zc_device_tell_gone(daemon->device);
    presence->removed = false;
    zc_device_close(daemon->device);
    daemon->device = NULL;
    return true;
}

static void serve_again(struct presence *presence)
{
    struct daemon *daemon = presence->daemon;
    struct zc_error err;
    struct run_self self;
    if (serving_open(daemon, &err) != 0) {
        if (!presence->failing)
            log_error("the RDMA device %s is back, but: %s", daemon->device_name, err.message);
        presence->failing = true;
        return;
    }
    presence->failing = false;
    serving_self(daemon, &self);
    runs_device_back(daemon->runs, daemon->device, &self);
    log_info("the RDMA device %s is back", daemon->device_name);
    sd_notifyf(0, "STATUS=Serving peers with %s", daemon->device_name);
}

/* A device that cannot be served yet, for instance because it has no address, is closed by the next look, and opened again. */
static void come_back(struct presence *presence)
{
    struct daemon *daemon = presence->daemon;
    struct zc_error ignored;
    if (!zc_device_port_active(daemon->device_name, presence->port))
        return;
    if (zc_device_open(daemon->device_name, &daemon->device, &ignored) == 0 && *zc_device_info(daemon->device)->address)
        serve_again(presence);
}

static void on_timer(void *arg)
{
    struct presence *presence = arg;
    struct daemon *daemon = presence->daemon;
    if (daemon->responder && (presence->lost || zc_device_gone(daemon->device)))
        leave(presence);
    if (daemon->responder) {
        if (!in_use(daemon))
            zc_device_let_go_others(daemon->device);
        return;
    }
    if (closed(presence))
        come_back(presence);
    else
        look_again(presence, LEAVE_S);
}

int presence_start(struct daemon *daemon, struct zc_error *err)
{
    struct presence *presence = calloc(1, sizeof *presence);
    if (!presence || loop_timer_create(daemon->loop, on_timer, presence, &presence->timer) != 0) {
        free(presence);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "presence: out of memory");
    }
    presence->daemon = daemon;
    presence->port = zc_device_info(daemon->device)->port;
    daemon->presence = presence;
    look_again(presence, LOOK_S);
    return 0;
}

void presence_stop(struct daemon *daemon)
{
    struct presence *presence = daemon->presence;
    if (!presence)
        return;
    loop_timer_destroy(presence->timer);
    free(presence);
    daemon->presence = NULL;
}

void presence_lost(struct daemon *daemon, bool removed)
{
    struct presence *presence = daemon->presence;
    if (!presence || !daemon->responder)    /* the whole daemon comes or goes; or it is known */
        return;
    presence->lost = true;
    presence->removed = removed;
    runs_device_gone(daemon->runs, daemon->device_name);
    look_again(presence, 0.);
}

void presence_give_up(struct daemon *daemon)
{
    loop_timer_stop(daemon->presence->timer);
}

bool presence_served(const struct daemon *daemon)
{
    return daemon->responder != NULL;
}

uint64_t presence_removals(const struct daemon *daemon)
{
    return daemon->presence->removals;
}

int presence_error(const struct daemon *daemon, struct zc_error *err)
{
    return runs_gone_error(daemon->device_name, err);
}
