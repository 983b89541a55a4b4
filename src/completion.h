/* A CQ with its completion channel: polling without system calls, or sleeping in epoll(7) on the channel. One owner thread. */
#ifndef ZC_COMPLETION_H
#define ZC_COMPLETION_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "device.h"
#include "error.h"
#include "family.h"

struct zc_completion;

/* `cqe`: as many completions as can ever be outstanding. */
int zc_completion_create(const struct zc_device *device, int cqe, struct zc_completion **completion, struct zc_error *err);
/* The same, polled with another family than the basic one. ZC_FAMILY_EXTENDED where the device has no such CQ: ZC_ERR_DEVICE with
 * field "post"; ZC_FAMILY_AUTO then makes a basic one. */
int zc_completion_create_family(const struct zc_device *device, int cqe, enum zc_family family, struct zc_completion **completion,
                                struct zc_error *err);
enum zc_family zc_completion_family(const struct zc_completion *completion);    /* in use: BASIC or EXTENDED */
void zc_completion_destroy(struct zc_completion *completion);   /* acknowledges what is left; its QPs are gone already */
struct ibv_cq *zc_completion_cq(const struct zc_completion *completion);
int zc_completion_fd(const struct zc_completion *completion);   /* the channel's descriptor, non-blocking */

/* zc_poll(): how many were written to `wcs`, or a negative errno. No system call, no allocation. */
int zc_completion_poll(struct zc_completion *completion, int max, struct ibv_wc *wcs);

/* Consume a pending channel event, if any, acknowledge it (in batches: ibv_ack_cq_events(3) locks) and arm the CQ again. The
 * caller polls afterwards, because a completion that came before arming raises no event. 0 or a negative errno. */
int zc_completion_rearm(struct zc_completion *completion);

/* Sleep until the channel has an event, `wake_fd` (-1: none) is readable, or deadline_ns (CLOCK_MONOTONIC) has passed. Arm first,
 * then poll, then wait. 1 event, 0 timeout or wake, negative errno. */
int zc_completion_wait(struct zc_completion *completion, int wake_fd, uint64_t deadline_ns);

#endif
