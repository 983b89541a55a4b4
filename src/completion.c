/* A CQ on a completion channel of its own: see completion.h. */
#include "completion.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "clock.h"
#include "counters.h"
#include "poller.h"

/* ibv_ack_cq_events(3) takes a mutex; ibv_destroy_cq(3) waits until every event is acknowledged. */
enum { ACK_BATCH = 256 };

struct zc_completion {
    struct ibv_comp_channel *channel;
    struct zc_poller poller;
    unsigned unacknowledged;
};

static int create_cq(struct zc_completion *c, const struct zc_device *device, int cqe, enum zc_family family, struct zc_error *err)
{
    struct ibv_context *const context = zc_device_context(device);
    if (family != ZC_FAMILY_BASIC) {
        struct ibv_cq_init_attr_ex attr = {.cqe = (uint32_t)cqe, .cq_context = c, .channel = c->channel,
                                           .wc_flags = IBV_WC_STANDARD_FLAGS};
        c->poller.ex = ibv_create_cq_ex(context, &attr);
        if (c->poller.ex) {
            c->poller.cq = ibv_cq_ex_to_cq(c->poller.ex);
            return 0;
        }
        /* What a device lacks it says so; anything else, too many entries for instance, is true of a basic CQ as well. */
        if (family == ZC_FAMILY_EXTENDED && (errno == EOPNOTSUPP || errno == ENOSYS))
            return zc_error_set(err, ZC_ERR_DEVICE, -errno, "post", "%s has no extended completion queue (ibv_create_cq_ex): %m",
                                zc_device_info(device)->name);
    }
    if (family != ZC_FAMILY_EXTENDED)
        c->poller.cq = ibv_create_cq(context, cqe, c, c->channel, 0);
    if (c->poller.cq)
        return 0;
    return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot create a completion queue of %d entries (%s allows %u): %m", cqe,
                        zc_device_info(device)->name, zc_device_info(device)->max_cqe);
}

int zc_completion_create(const struct zc_device *device, int cqe, struct zc_completion **completion, struct zc_error *err)
{
    return zc_completion_create_family(device, cqe, ZC_FAMILY_BASIC, completion, err);
}

int zc_completion_create_family(const struct zc_device *device, int cqe, enum zc_family family, struct zc_completion **completion,
                                struct zc_error *err)
{
    struct ibv_context *context = zc_device_context(device);
    struct zc_completion *c = calloc(1, sizeof(*c));
    if (!c)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a completion queue");

    int rc;
    c->channel = ibv_create_comp_channel(context);
    if (!c->channel) {
        rc = zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot create a completion channel: %m");
        goto free_completion;
    }
    zc_count(&zc_counters.channels, 1);
    int flags = fcntl(c->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(c->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        rc = zc_error_set(err, ZC_ERR_INTERNAL, -errno, NULL, "cannot make the completion channel non-blocking: %m");
        goto destroy_channel;
    }
    rc = create_cq(c, device, cqe, family, err);
    if (rc)
        goto destroy_channel;
    zc_count(&zc_counters.cqs, 1);
    *completion = c;
    return 0;

destroy_channel:
    ibv_destroy_comp_channel(c->channel);
    zc_count(&zc_counters.channels, -1);
free_completion:
    free(c);
    return rc;
}

void zc_completion_destroy(struct zc_completion *completion)
{
    if (!completion)
        return;
    ibv_ack_cq_events(completion->poller.cq, completion->unacknowledged);
    ibv_destroy_cq(completion->poller.cq);
    zc_count(&zc_counters.cqs, -1);
    ibv_destroy_comp_channel(completion->channel);
    zc_count(&zc_counters.channels, -1);
    free(completion);
}

struct ibv_cq *zc_completion_cq(const struct zc_completion *completion)
{
    return completion->poller.cq;
}

enum zc_family zc_completion_family(const struct zc_completion *completion)
{
    return completion->poller.ex ? ZC_FAMILY_EXTENDED : ZC_FAMILY_BASIC;
}

int zc_completion_fd(const struct zc_completion *completion)
{
    return completion->channel->fd;
}

int zc_completion_poll(struct zc_completion *completion, int max, struct ibv_wc *wcs)
{
    return zc_poll(&completion->poller, max, wcs);
}

int zc_completion_rearm(struct zc_completion *completion)
{
    struct ibv_cq *cq;
    void *cq_context;
    /* One event at most is pending: the CQ raises one each time it was armed, and each arming here is preceded by this read. */
    if (ibv_get_cq_event(completion->channel, &cq, &cq_context) == 0) {
        if (++completion->unacknowledged >= ACK_BATCH) {
            ibv_ack_cq_events(completion->poller.cq, completion->unacknowledged);
            completion->unacknowledged = 0;
        }
    } else if (errno != EAGAIN && errno != EINTR) {
        return -errno;
    }
    int rc = ibv_req_notify_cq(completion->poller.cq, 0);
    return rc > 0 ? -rc : rc;
}

int zc_completion_wait(struct zc_completion *completion, int wake_fd, uint64_t deadline_ns)
{
    struct pollfd fds[2] = {
        {.fd = completion->channel->fd, .events = POLLIN},
        {.fd = wake_fd, .events = POLLIN},      /* poll(2) ignores -1 */
    };
    for (;;) {
        uint64_t now_ns = zc_now_ns();
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000u), .tv_nsec = (long)(left_ns % 1000000000u)};
        int ready = ppoll(fds, 2, &left, NULL);
        if (ready >= 0)
            return fds[0].revents ? 1 : 0;
        if (errno != EINTR)
            return -errno;
    }
}
