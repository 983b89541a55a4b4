/* Waiting of a pipeline's owner: for completions, and for what the execution's own threads hand back. */
#include "pipeline_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    SPINS_PER_LOOK = 256,           /* empty polls between two readings of the clock */
    CHECK_INTERVAL_NS = 5000000,    /* between two looks at the connection */
    SLEEP_NS = ZC_SLEEP_MS * 1000000,
};

static int fail_stuck(struct zc_pipeline *pipeline)
{
    char note[ZC_PORT_NOTE_MAX];
    return zc_pipeline_fail(pipeline, ZC_ERR_PEER, -ETIMEDOUT, "no completion for %.3g s with %" PRIu32 " READs in flight%s",
                            (double)pipeline->params.stuck_ns / 1e9, pipeline->posted,
                            zc_device_port_note(pipeline->params.device, note));
}

int zc_pipeline_check(struct zc_pipeline *pipeline)
{
    struct zc_error lost;
    const int rc = zc_connection_check(pipeline->params.connection, &lost);
    const int landed = rc == -ENOTCONN ? zc_pipeline_collect(pipeline) : 0;     /* a READ that has failed knows the cause */
    if (landed < 0)
        return landed;
    return rc < 0 ? zc_pipeline_fail(pipeline, lost.kind, rc, "%s", lost.message) : 0;
}

int zc_pipeline_look_around(struct zc_pipeline *pipeline)
{
    struct zc_watch *const watch = &pipeline->watch;
    const struct zc_pipeline_params *const params = &pipeline->params;
    if (zc_pipeline_cancelled(pipeline))
        return zc_pipeline_fail_cancelled(pipeline);
    const uint64_t now = zc_now_ns();
    if (watch->since_ns == 0)
        *watch = (struct zc_watch){.since_ns = now, .next_check_ns = now + CHECK_INTERVAL_NS};
    if (now < watch->next_check_ns)
        return 0;
    watch->next_check_ns = now + CHECK_INTERVAL_NS;
    const int rc = zc_pipeline_check(pipeline);
    if (rc < 0)
        return rc;
    if (pipeline->posted > 0 && now - watch->since_ns >= params->stuck_ns)
        return fail_stuck(pipeline);
    if (params->idle)
        params->idle(params->idle_arg, now);
    return 0;
}

/* A thread of the execution has handed something back. */
static bool has_news(const struct zc_pipeline *pipeline)
{
    const struct zc_execution_ops *const execution = pipeline->strategy->execution;
    return execution->news && execution->news(pipeline);
}

/* No system call: neither collecting nor looking for news makes one. */
static int wait_polling(struct zc_pipeline *pipeline)
{
    for (uint32_t spins = 1;; spins++) {
        const int landed = zc_pipeline_collect(pipeline);
        if (landed != 0)
            return landed;
        if (has_news(pipeline))
            return 0;
        if (spins % SPINS_PER_LOOK == 0) {
            const int rc = zc_pipeline_look_around(pipeline);
            if (rc < 0)
                return rc;
        }
    }
}

/* Poll, arm, poll again - a completion before arming raises no event - and only then is there reason to sleep. */
int zc_pipeline_arm(struct zc_pipeline *pipeline)
{
    if (pipeline->alarm)
        zc_alarm_arm(pipeline->alarm);
    int rc = zc_completion_rearm(pipeline->params.completion);
    if (rc < 0)
        return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "arming the completion queue failed: %s", strerror(-rc));
    rc = zc_pipeline_collect(pipeline);
    return rc != 0 ? rc : has_news(pipeline);
}

/* Beside the channel one descriptor more is watched: the alarm of the execution's threads or, without any, the cancellation, which is
 * looked at after each sleep anyhow. */
static int wait_sleeping(struct zc_pipeline *pipeline)
{
    const int wake_fd = pipeline->alarm ? pipeline->alarm->fd : pipeline->params.cancel_fd;
    for (;;) {
        int rc = zc_pipeline_collect(pipeline);
        if (rc == 0)
            rc = has_news(pipeline);
        if (rc == 0)
            rc = zc_pipeline_arm(pipeline);
        if (rc != 0)
            return rc;
        rc = zc_completion_wait(pipeline->params.completion, wake_fd, zc_now_ns() + SLEEP_NS);
        if (rc < 0)
            return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "waiting for a completion failed: %s", strerror(-rc));
        if (pipeline->alarm)
            zc_alarm_quench(pipeline->alarm);
        rc = zc_pipeline_look_around(pipeline);
        if (rc < 0)
            return rc;
    }
}

int zc_pipeline_wait(struct zc_pipeline *pipeline)
{
    zc_lap(pipeline, ZC_STAGE_POST);
    const bool flying = pipeline->posted > 0;
    const int rc = pipeline->wait == ZC_WAIT_EVENT ? wait_sleeping(pipeline) : wait_polling(pipeline);
    zc_lap_wait(pipeline, flying);
    return rc < 0 ? rc : 0;
}
