/* Completion queues: order, notification, overflow, resizing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "pair.h"

static struct pair with_channel(void)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    o.channel = true;
    pair_open(&p, &o);
    return p;
}

/* "event", "no event", or what is wrong with the event. Acknowledged. */
static const char *event(struct pair *p, struct ibv_cq *expected, int ms)
{
    struct pollfd f = {.fd = p->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    if (poll(&f, 1, ms) != 1)
        return "no event";
    need(ibv_get_cq_event(p->channel, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    return cq != expected ? "event of another CQ" : context != expected->cq_context ? "wrong context" : "event";
}

static void arm_before(const void *arg)
{
    struct pair p = with_channel();
    (void)arg;
    need(ibv_req_notify_cq(p.cq[0], 0), "ibv_req_notify_cq");
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 1, 8), "WRITE");
    say("%s", event(&p, p.cq[0], WAIT_MS));
    say("%s", outcome(p.cq[0], 1));
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 2, 8), "WRITE");
    say("not armed again: %s", event(&p, p.cq[0], QUIET_MS));
}

/* A request for notification is for completions added after it. */
static void arm_after(const void *arg)
{
    struct pair p = with_channel();
    (void)arg;
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 1, 8), "WRITE");
    pause_ms(500);
    need(ibv_req_notify_cq(p.cq[0], 0), "ibv_req_notify_cq");
    say("%s", event(&p, p.cq[0], QUIET_MS));
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 2, 8), "WRITE");
    say("next: %s", event(&p, p.cq[0], WAIT_MS));
    say("%s", tally(p.cq[0], 1, 2));
}

static void never_armed(const void *arg)
{
    struct pair p = with_channel();
    (void)arg;
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 1, 8), "WRITE");
    say("%s", event(&p, p.cq[0], QUIET_MS));
}

static void one_event(const void *arg)
{
    struct pair p = with_channel();
    (void)arg;
    need(ibv_req_notify_cq(p.cq[0], 0), "ibv_req_notify_cq");
    for (uint64_t i = 0; i < 10; i++)
        need(post_rdma(&p, IBV_WR_RDMA_WRITE, i, 8), "WRITE");
    say("%s", event(&p, p.cq[0], WAIT_MS));
    say("then %s", event(&p, p.cq[0], QUIET_MS));
    say("%s", tally(p.cq[0], 0, 10));
}

static void send_flagged(struct pair *p, uint64_t id, unsigned int flags)
{
    struct ibv_sge s = sge(&p->buf[0], 0, 8);
    need(post_recv(p, 1, id, 8), "ibv_post_recv");
    need(post(p->qp[0], (struct ibv_send_wr){.wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags}),
         "SEND");
    if (strcmp(outcome(p->cq[0], id), "ok"))
        give_up("SEND", EPROTO);
}

static void solicited(const void *arg)
{
    struct pair p = with_channel();
    (void)arg;
    need(ibv_req_notify_cq(p.cq[1], 1), "ibv_req_notify_cq");
    send_flagged(&p, 1, 0);
    say("unsolicited: %s", event(&p, p.cq[1], QUIET_MS));
    send_flagged(&p, 2, IBV_SEND_SOLICITED);
    say("solicited: %s", event(&p, p.cq[1], WAIT_MS));
    say("%s", tally(p.cq[1], 1, 2));
    need(post_recv(&p, 1, 3, 8), "ibv_post_recv");
    need(ibv_req_notify_cq(p.cq[1], 1), "ibv_req_notify_cq");
    need(to_state(p.qp[1], IBV_QPS_ERR), "ERR");
    say("error: %s", event(&p, p.cq[1], WAIT_MS));
}

/* Asking for solicited completions does not take back a request for all of them. */
static void weaker_request(const void *arg)
{
    struct pair p = with_channel();
    (void)arg;
    need(ibv_req_notify_cq(p.cq[1], 0), "ibv_req_notify_cq");
    need(ibv_req_notify_cq(p.cq[1], 1), "ibv_req_notify_cq");
    send_flagged(&p, 1, 0);
    say("%s", event(&p, p.cq[1], WAIT_MS));
}

static void not_blocking(const void *arg)
{
    struct pair p = with_channel();
    struct ibv_cq *cq;
    void *context;
    (void)arg;
    need(fcntl(p.channel->fd, F_SETFL, O_NONBLOCK), "fcntl");
    say("%s", error_name(ibv_get_cq_event(p.channel, &cq, &context)));
}

static atomic_bool destroyed;

static void *destroy(void *cq)
{
    need(ibv_destroy_cq(cq), "ibv_destroy_cq");
    atomic_store(&destroyed, true);
    return NULL;
}

/* ibv_destroy_cq() waits for acknowledgements. */
static void unacknowledged(const void *arg)
{
    struct pair p = with_channel();
    struct ibv_cq *cq;
    void *context;
    pthread_t t;
    (void)arg;
    need(ibv_req_notify_cq(p.cq[0], 0), "ibv_req_notify_cq");
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 1, 8), "WRITE");
    need(ibv_get_cq_event(p.channel, &cq, &context), "ibv_get_cq_event");
    need(ibv_destroy_qp(p.qp[0]), "ibv_destroy_qp");
    need(pthread_create(&t, NULL, destroy, cq), "pthread_create");
    pause_ms(QUIET_MS);
    say("%s", atomic_load(&destroyed) ? "does not wait" : "waits");
    ibv_ack_cq_events(cq, 1);
    need(pthread_join(t, NULL), "pthread_join");
    say("destroyed");
}

static void overflow(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.cqe = 4;
    o.cap.max_send_wr = 300;
    pair_open(&p, &o);
    for (int i = 0; i <= p.cq[0]->cqe + 8; i++)
        need(post_rdma(&p, IBV_WR_RDMA_WRITE, (uint64_t)i, 8), "WRITE");
    void *element = NULL;
    const char *e = async_event(p.ctx, WAIT_MS, &element);
    say("%s", e ? e : "no event");
    say("%s", element == p.cq[0] ? "right CQ" : "another element");
}

/* As many completions as the CQ was made for do not overflow it, and lie there in order until they are polled. */
static void brim_full(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    struct ibv_wc wc[64];
    (void)arg;
    o.cqe = 32;
    pair_open(&p, &o);
    for (uint64_t i = 0; i < 32; i++)
        need(post_rdma(&p, IBV_WR_RDMA_WRITE, i, 8), "WRITE");
    pause_ms(1000);
    say("poll 5 gives %d", ibv_poll_cq(p.cq[0], 5, wc));
    say("poll 64 gives %d", ibv_poll_cq(p.cq[0], 64, wc));
    say("%s", wc[0].wr_id == 5 && wc[26].wr_id == 31 ? "in order" : "out of order");
    say("%s", async_event(p.ctx, 0, NULL) ? "event" : "no event");
}

static void resize(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.cqe = 16;
    pair_open(&p, &o);
    for (uint64_t i = 0; i < 10; i++)
        need(post_rdma(&p, IBV_WR_RDMA_WRITE, i, 8), "WRITE");
    pause_ms(500);
    int e = ibv_resize_cq(p.cq[0], 500);
    if (e == EOPNOTSUPP || e == ENOSYS) {
        say("not offered");
        return;
    }
    say("larger %s", error_name(e));
    say("%s", p.cq[0]->cqe >= 500 ? "cqe" : "wrong cqe");
    say("smaller than its content %s", error_name(ibv_resize_cq(p.cq[0], 1)));
    say("0 %s", error_name(ibv_resize_cq(p.cq[0], 0)));
    say("%s", tally(p.cq[0], 0, 10));
}

/* Two queue pairs on one CQ keep apart what is theirs. */
static void shared(const void *arg)
{
    struct pair p;
    int count[2] = {0, 0};
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_qp *first = p.qp[0], *second = pair_qp(&p, 0), *peer = pair_qp(&p, 1);
    pair_walk(&p, second, peer, IBV_QPS_RTS);
    pair_walk(&p, peer, second, IBV_QPS_RTS);
    for (uint64_t i = 0; i < 20; i++) {
        p.qp[0] = i % 2 ? second : first;
        need(post_rdma(&p, IBV_WR_RDMA_READ, i, 2000), "READ");
    }
    for (int i = 0; i < 20; i++) {
        struct ibv_wc wc;
        if (!next_wc(p.cq[0], &wc, WAIT_MS) || wc.status != IBV_WC_SUCCESS)
            give_up("READ", EPROTO);
        int which = wc.qp_num == second->qp_num;
        if ((int)wc.wr_id != which + 2 * count[which]++) {
            say("out of order");
            return;
        }
    }
    say("each in order");
}

#define NOTIFY "IBA 11.4.2.2; ibv_req_notify_cq(3)"

const struct check cq_checks[] = {
    {"cq_arm_before", arm_before, "event, ok, not armed again: no event", NOTIFY, NULL},
    {"cq_arm_after", arm_after, "no event, next: event, 2 ok", NOTIFY, NULL},
    {"cq_never_armed", never_armed, "no event", NOTIFY, NULL},
    {"cq_one_event", one_event, "event, then no event, 10 ok", NOTIFY, NULL},
    {"cq_solicited", solicited, "unsolicited: no event, solicited: event, 2 ok, error: event", NOTIFY, NULL},
    {"cq_weaker_request", weaker_request, "event", "IBA 11.4.2.2: the stronger request stands", NULL},
    {"cq_event_not_blocking", not_blocking, "EAGAIN", "ibv_get_cq_event(3)", NULL},
    {"cq_destroy_waits_for_ack", unacknowledged, "waits, destroyed", "ibv_get_cq_event(3)", NULL},
    {"cq_overflow", overflow, "CQ_ERR, right CQ", "IBA 11.6.3.2: CQ error; ibv_get_async_event(3)", NULL},
    {"cq_brim_full", brim_full, "poll 5 gives 5, poll 64 gives 27, in order, no event", "IBA 11.4.2.1; ibv_poll_cq(3)", NULL},
    {"cq_resize", resize, "larger ok, cqe, smaller than its content EINVAL, 0 EINVAL, 10 ok | not offered",
     "IBA 11.2.8.3; ibv_resize_cq(3)", NULL},
    {"cq_shared", shared, "each in order", "IBA 10.8.3.3", NULL},
    {0},
};
