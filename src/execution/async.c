/* Execution: many requests in flight, one event loop. The caller's thread sleeps in epoll(7) on whatever may happen - completions,
 * chunks that the pool hands back, cancellation, the end of the connection - and never polls; one pool carries out the long stages. */
#include "execution/staged.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum source { SOURCE_COMPLETIONS, SOURCE_POOL, SOURCE_CANCEL, SOURCE_CONNECTION, SOURCE_COUNT };

struct async {
    struct zc_staged staged;    /* first: pipeline->execution is both */
    int epoll_fd;
};

static struct zc_hands async_hands(const struct zc_pipeline *pipeline)
{
    const uint32_t threads = (uint32_t)pipeline->params.options->concurrency;
    if (pipeline->registers)
        return (struct zc_hands){.before = threads, .shared = pipeline->deregisters};
    return (struct zc_hands){.after = pipeline->copies ? threads : 0};
}

static int watch(const struct async *async, int fd, enum source source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = source};
    return fd < 0 || epoll_ctl(async->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int watch_all(const struct zc_pipeline *pipeline, const struct async *async)
{
    const struct zc_pipeline_params *const params = &pipeline->params;
    int rc = watch(async, zc_completion_fd(params->completion), SOURCE_COMPLETIONS);
    if (rc == 0)
        rc = watch(async, pipeline->alarm->fd, SOURCE_POOL);
    if (rc == 0)
        rc = watch(async, params->cancel_fd, SOURCE_CANCEL);
    if (rc == 0)
        rc = watch(async, zc_connection_fd(params->connection), SOURCE_CONNECTION);
    return rc;
}

static int async_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    struct async *const async = calloc(1, sizeof *async);
    if (!async)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for the threads of a run");
    async->epoll_fd = -1;
    int rc = zc_staged_create(pipeline, &async->staged, err);
    if (rc < 0)
        return rc;
    pipeline->always_sleeps = true;
    async->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rc = async->epoll_fd < 0 ? -errno : watch_all(pipeline, async);
    return rc < 0 ? zc_error_set(err, ZC_ERR_RESOURCE, rc, NULL, "cannot set up an epoll instance: %s", strerror(-rc)) : 0;
}

static void async_teardown(struct zc_pipeline *pipeline)
{
    const struct async *const async = pipeline->execution;
    if (async && async->epoll_fd >= 0)
        close(async->epoll_fd);
    zc_staged_destroy(pipeline);
}

/* One turn of the loop's sleep: 1 something has come, 0 time has passed, or a negative errno. The event of the channel is consumed
 * when the queue is armed for the next sleep. */
static int sleep_once(struct zc_pipeline *pipeline)
{
    const struct async *const async = pipeline->execution;
    struct epoll_event events[SOURCE_COUNT];
    const int count = epoll_wait(async->epoll_fd, events, SOURCE_COUNT, ZC_SLEEP_MS);
    bool come = false;
    if (count < 0 && errno != EINTR)
        return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, -errno, "waiting for events failed: %s", strerror(errno));
    zc_alarm_quench(pipeline->alarm);
    for (int i = 0; i < count; i++)
        switch ((enum source)events[i].data.u32) {
        case SOURCE_COMPLETIONS:
        case SOURCE_POOL:
            come = true;
            break;
        case SOURCE_CANCEL:
        case SOURCE_CONNECTION:
            pipeline->watch.next_check_ns = 0;      /* look now */
            break;
        case SOURCE_COUNT:
            break;
        }
    const int rc = zc_pipeline_look_around(pipeline);
    return rc < 0 ? rc : come;
}

static int async_wait(struct zc_pipeline *pipeline)
{
    zc_lap(pipeline, ZC_STAGE_POST);
    const bool flying = pipeline->posted > 0;
    int rc = 0;
    while (rc == 0) {
        rc = zc_pipeline_arm(pipeline);
        if (rc == 0)
            rc = sleep_once(pipeline);
    }
    zc_lap_wait(pipeline, flying);
    return rc < 0 ? rc : 0;
}

static int async_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max)
{
    return zc_staged_reap(pipeline, done, max, async_wait);
}

const struct zc_execution_ops zc_execution_async = {
    .kind = ZC_EXECUTION_ASYNC,
    .hands = async_hands,
    .setup = async_setup,
    .teardown = async_teardown,
    .submit = zc_staged_submit,
    .reap = async_reap,
    .news = zc_staged_news,
    .use = zc_staged_use,
};
