/* Inside the software device: the objects, who may touch what, and the calls between the files of src/soft.
 *
 * Threads. The application's threads post, poll and make control calls; one device thread a process moves the data.
 * dev.lock guards every object except what is named below; the device thread holds it for one quantum of work (at most
 * ZS_PIECE bytes), control calls take it with zs_lock(), which the device thread lets pass first.
 * Without dev.lock: posting (the queue's own spinlock among producers, tail published with release), polling (the CQ's
 * spinlock among consumers), registration (memory.c: its own mutex; the device reads MR slots under a hazard). */
#ifndef ZCSOFT_SOFT_H
#define ZCSOFT_SOFT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base.h"
#include "move.h"
#include "wire.h"
#include "zcsoft.h"

#define ZS_EXPORT __attribute__((visibility("default")))
#define ZS_MAX_SGE 32
#define ZS_MAX_INLINE 1024
#define ZS_MAX_WR 16384
#define ZS_MAX_CQE (1 << 20)
#define ZS_MAX_RD_ATOMIC 128
#define ZS_MAX_QP 65536
#define ZS_MAX_MR (1 << 20)
#define ZS_MAX_MSG 0x80000000u
#define ZS_PSN_MASK 0xffffffu

/* --- event sources and timers of the device thread (device.c) ---------------------------------------------------- */

struct zs_source {
    int fd;
    uint32_t events;
    bool dead;
    bool answers; /* looked at before the others of the same turn */
    struct zs_source *next_dead;
    void (*ready)(struct zs_source *s, uint32_t events);
    void (*release)(struct zs_source *s); /* frees the object; called when no event can point to it any more */
};

int zs_source_add(struct zs_source *s, uint32_t events);
void zs_source_want(struct zs_source *s, uint32_t events);
void zs_source_close(struct zs_source *s); /* closes the fd; release() follows later */

struct zs_timer {
    struct zs_list link;
    uint64_t at_ns;
    bool armed;
    void (*fire)(struct zs_timer *t);
};

void zs_timer_set(struct zs_timer *t, uint64_t at_ns, void (*fire)(struct zs_timer *t));
void zs_timer_clear(struct zs_timer *t);

uint64_t zs_now_ns(void);

/* --- contexts, PDs (context.c) ------------------------------------------------------------------------------------ */

struct zs_context {
    struct zs_list link;
    pthread_mutex_t async_lock;
    struct zs_list async_pending; /* struct zs_async, not yet fetched */
    _Atomic uint32_t users;       /* PDs, CQs and channels alive */
    struct verbs_context v; /* last: programs hold a pointer to v.context */
};

struct zs_pd {
    struct ibv_pd pd;
    _Atomic uint32_t users;
};

static inline struct zs_context *zs_ctx(struct ibv_context *c)
{
    return zs_container(c, struct zs_context, v.context);
}

struct ibv_device *zs_device(void);
struct ibv_context *zs_context_open(void);
void zs_context_close(struct ibv_context *c);
void zs_async_event(struct ibv_context *c, enum ibv_event_type type, void *element);
void zs_async_forget(struct ibv_context *c, const void *element);
bool zs_usable(void); /* false (and errno set) in a forked child: the device belongs to the parent */

/* --- attributes (attributes.c) ------------------------------------------------------------------------------------ */

struct zs_gid {
    union ibv_gid gid;
    uint32_t ifindex;
    bool loopback;
};

#define ZS_GID_MAX 32

int zs_gids(const struct zs_gid **table); /* number of entries; the table is made once */
bool zs_gid_find(const union ibv_gid *gid, uint32_t *index);
enum ibv_mtu zs_active_mtu(void);
void zs_device_attr(struct ibv_device_attr *attr);
int zs_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
                       struct ibv_device_attr_ex *attr, size_t size);
int zs_query_port_len(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t len);
uint64_t zs_node_guid(void); /* network order */
const char *zs_env_addr(void);

/* --- memory (memory.c) -------------------------------------------------------------------------------------------- */

enum zs_owner { ZS_OWNER_MR, ZS_OWNER_MW };

struct zs_qp;
struct zs_wqe;

struct zs_mr {
    enum zs_owner kind; /* first: what owns a slot of the table */
    struct ibv_mr mr;
    uint32_t slot;
    size_t pinned; /* bytes charged */
    uint32_t windows; /* bound to it; under the table's lock */
};

enum { ZS_HAZARD_SRC, ZS_HAZARD_DST, ZS_HAZARDS };

/* Device thread only. Checks [va, va+length) of `key` against PD and access and holds the region: until zs_mr_release()
 * ibv_dereg_mr() does not return. NULL if any check fails. Length 0 must not be asked. */
/* The table of struct zs_mr_slot (wire.h): slots are never unmapped, and the device reads them without a lock. */
const void *zs_mr_table(void);
void *zs_mr_hold(int hazard, const struct zs_pd *pd, uint32_t lkey, uint64_t va, uint64_t length, uint32_t access);
/* The same for a peer's request that came to `qp`. */
void *zs_mr_hold_remote(int hazard, const struct zs_qp *qp, uint32_t rkey, uint64_t va, uint64_t length, uint32_t access);
void zs_mr_release(int hazard);
struct ibv_mr *zs_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access);
int zs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n);
/* window.c */
struct ibv_mw *zs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int zs_dealloc_mw(struct ibv_mw *mw);
int zs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int zs_window_fill(struct zs_qp *qp, struct zs_wqe *w, const struct ibv_mw *mw, uint32_t rkey,
                   const struct ibv_mw_bind_info *info);
void zs_window_run(struct zs_qp *qp, struct zs_wqe *w); /* device thread: BIND_MW and LOCAL_INV, when they are the oldest */
bool zs_window_invalidate(const struct zs_qp *qp, uint32_t rkey); /* false if qp may not */
void zs_windows_forget_qp(const struct zs_qp *qp);

void zs_memory_fork_prepare(void);
void zs_memory_fork_done(bool child);

/* --- completion queues (verbs_cq.c, cq_ex.c, channel.c) ----------------------------------------------------------- */

struct zs_cqe {
    uint64_t wr_id;
    struct zs_qp *qp;
    uint32_t status;
    uint32_t opcode;
    uint32_t byte_len;
    uint32_t imm;
    uint32_t wc_flags;
    uint32_t qp_num;
    uint32_t src_qp;
    uint32_t queue_next; /* send queue or receive queue slots before this one are free once this CQE was polled */
    bool is_send;
    bool is_srq;
};

struct zs_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex;
    };
    struct zs_cqe *ring;
    uint32_t mask;
    _Atomic uint32_t head; /* consumers, under lock */
    _Atomic uint32_t tail; /* device thread */
    _Atomic uint32_t empty_polls;
    _Atomic int armed;     /* 0, 1 any completion, 2 solicited or error */
    zs_spin lock;
    bool overrun;
    uint32_t users; /* QPs, under dev.lock */
    struct zs_list send_qps, recv_qps; /* whom a CQ error concerns */
    /* under the channel's lock */
    struct zs_list pending_link;
    uint32_t pending;
    uint32_t comp_events_given;
    uint32_t async_events_given;
};

struct zs_channel {
    struct ibv_comp_channel ch;
    pthread_mutex_t lock;
    struct zs_list pending; /* CQs with events not yet fetched */
};

void zs_cq_push(struct zs_cq *cq, const struct zs_cqe *e, bool solicited); /* device thread, dev.lock held */
void zs_cq_purge(struct zs_cq *cq, struct zs_qp *qp);                     /* dev.lock held: forget the QP's CQEs */
bool zs_cq_holds(struct zs_cq *cq, const struct zs_qp *qp);               /* dev.lock held: some are not polled yet */
int zs_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
bool zs_cq_empty(struct zs_cq *cq);                                       /* asked by a poller */
int zs_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void zs_cqe_retire(const struct zs_cqe *e);
void zs_channel_notify(struct zs_cq *cq);
void zs_channel_forget(struct zs_cq *cq);
void zs_cq_ex_setup(struct zs_cq *cq);
struct ibv_cq_ex *zs_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
struct zs_cq *zs_cq_new(struct ibv_context *c, uint32_t cqe, void *cq_context, struct ibv_comp_channel *channel);

static inline struct zs_cq *zs_cq(struct ibv_cq *c)
{
    return zs_container(c, struct zs_cq, cq);
}

/* --- shared receive queues (verbs_srq.c) -------------------------------------------------------------------------- */

struct zs_rwqe {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t length;
};

/* A receive into its place in a ring, with sge_max SGEs at `sges`. 0 or EINVAL. */
static inline int zs_rwqe_fill(struct zs_rwqe *r, struct ibv_sge *sges, const struct ibv_recv_wr *wr, uint32_t sge_max)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sge_max)
        return EINVAL;
    *r = (struct zs_rwqe){.wr_id = wr->wr_id, .num_sge = (uint32_t)wr->num_sge};
    for (uint32_t i = 0; i < r->num_sge; i++) {
        sges[i] = wr->sg_list[i];
        r->length += sges[i].length;
    }
    return 0;
}

struct zs_srq {
    struct ibv_srq srq;
    struct zs_rwqe *ring;
    struct ibv_sge *sges;
    uint32_t size, mask, max_sge;
    _Atomic uint32_t head; /* device thread */
    _Atomic uint32_t tail; /* producers, under lock */
    _Atomic uint32_t limit;
    zs_spin lock;
    uint32_t number;
    uint32_t users;
    uint32_t async_events_given;
};

static inline struct zs_srq *zs_srq(struct ibv_srq *s)
{
    return zs_container(s, struct zs_srq, srq);
}

int zs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int zs_get_srq_num(struct ibv_srq *srq, uint32_t *num);

/* --- queue pairs (verbs_qp.c, qp_state.c, post.c, post_ex.c, requester.c, responder.c, local.c) -------------------- */

struct zs_wqe {
    uint64_t wr_id;
    uint64_t remote_addr;
    uint64_t compare_add;
    uint64_t swap;
    uint32_t rkey;
    uint32_t imm;
    uint32_t length;
    uint32_t psn;
    uint16_t num_sge;
    uint8_t opcode; /* enum ibv_wr_opcode */
    uint8_t flags;  /* enum ibv_send_flags */
    bool signaled;
    bool sent; /* psn assigned */
    bool no_direct;
    uint8_t status;
    bool model_due;    /* model.c: model_ns is when it may start, no longer when it was posted */
    uint64_t model_ns;
};

static inline enum zs_frame_op zs_frame_op_of(const struct zs_wqe *w)
{
    switch (w->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return ZS_OP_WRITE;
    case IBV_WR_RDMA_READ:
        return ZS_OP_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return ZS_OP_CMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return ZS_OP_FETCH_ADD;
    default:
        return ZS_OP_SEND;
    }
}

/* A position in a list of SGEs. inline_data stands for the list when it is set. */
struct zs_cursor {
    const struct ibv_sge *sge;
    const uint8_t *inline_data;
    uint32_t num_sge;
    uint32_t index;
    uint32_t at; /* offset in sge[index], or in inline_data */
};

/* An answer that the responder owes: READs and atomics, in order. */
struct zs_answer {
    uint8_t op; /* enum zs_frame_op of the request */
    uint32_t psn;
    uint32_t rkey;
    uint32_t total;
    uint32_t offset;
    uint64_t va;
    uint64_t value;
};

enum zs_wait { ZS_WAIT_NONE, ZS_WAIT_RNR, ZS_WAIT_RETRY, ZS_WAIT_LINK };

struct zs_link;
struct zs_id;

struct zs_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex qp_ex;
    };
    struct zs_pd *pd;
    struct zs_cq *send_cq, *recv_cq;
    struct zs_srq *srq;
    struct zs_list send_cq_link, recv_cq_link;
    bool extended;
    bool sig_all;
    uint64_t send_ops;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr; /* as set by ibv_modify_qp */
    _Atomic int state;       /* enum ibv_qp_state; written under dev.lock */
    uint32_t async_events_given;
    struct zs_id *cm_id; /* the connection that owns it */
    bool established; /* COMM_EST seen */

    /* Send queue. Slots [free, tail) are in use: free moves when a CQE is polled, ack when work ends. */
    zs_spin sq_lock;
    struct zs_wqe *sq;
    struct ibv_sge *sq_sges;
    uint8_t *sq_inline;
    uint32_t sq_mask, sq_size, sq_sge_max, inline_max;
    _Atomic uint32_t sq_tail;
    _Atomic uint32_t sq_free;
    uint32_t sq_ack;  /* oldest not complete */
    uint32_t sq_next; /* next to be sent, or being sent */

    /* post_ex.c, under sq_lock between wr_start and wr_complete */
    uint32_t ex_tail;
    int ex_error;
    struct zs_wqe *ex_cur;

    /* Receive queue */
    zs_spin rq_lock;
    struct zs_rwqe *rq;
    struct ibv_sge *rq_sges;
    uint32_t rq_mask, rq_size, rq_sge_max;
    _Atomic uint32_t rq_tail;
    _Atomic uint32_t rq_free;
    uint32_t rq_head;

    /* Doorbell */
    _Atomic int rung;
    struct zs_qp *bell_next;
    struct zs_list ready_link; /* dev.ready, or link->waiting */

    /* Requester, device thread */
    struct zs_link *link;
    struct zs_list link_qps; /* among link->qps */
    uint32_t psn;            /* of the next message */
    uint32_t send_off;       /* bytes of sq[sq_next] already sent */
    uint32_t recv_off;       /* bytes of the READ at sq_ack already received */
    uint32_t rd_outstanding;
    bool send_failed; /* sq[sq_next] has a local error; it completes when its turn comes */
    enum zs_wait wait;
    uint8_t retries_left, rnr_left;
    uint64_t progress_ns;
    struct zs_timer timer;
    uint64_t peer_instance;
    uint64_t direct_slot;             /* where the peer shows its QP; 0: not looked up yet */
    struct zs_qp_slot direct_qp;      /* as last seen */
    struct zs_mr_slot direct_mr;
    bool no_direct; /* for good */
    bool peer_here; /* the destination is in this process: local.c, no link */
    bool sq_drained_told;
    struct zs_timer model_timer; /* model.c */
    uint64_t *model_reads;       /* when the last READs end, a ring */
    uint32_t model_read;

    /* Responder, device thread */
    struct zs_link *rlink; /* where requests came from last */
    struct zs_list rlink_qps;
    uint32_t epsn;
    uint32_t msg_off;  /* bytes of the message in progress already placed */
    bool msg_active;
    bool nak_sent; /* ignoring requests until the one that was refused comes again */
    bool ack_due;
    bool recv_held;
    struct zs_rwqe recv;
    struct ibv_sge recv_sge[ZS_MAX_SGE];
    struct zs_cursor recv_at;
    uint32_t recv_queue_next;
    uint8_t nak_code; /* to be sent after the answers before it */
    uint32_t nak_psn;
    uint8_t nak_timer;
    struct zs_answer answers[ZS_MAX_RD_ATOMIC + 1];
    uint32_t ans_head, ans_tail;
};

static inline struct zs_qp *zs_qp(struct ibv_qp *q)
{
    return zs_container(q, struct zs_qp, qp);
}

static inline int zs_qp_state(struct zs_qp *qp)
{
    return atomic_load_explicit(&qp->state, memory_order_relaxed);
}

/* qp_state.c; dev.lock held */
int zs_qp_modify(struct zs_qp *qp, const struct ibv_qp_attr *attr, int mask);
void zs_qp_set_state(struct zs_qp *qp, enum ibv_qp_state state);
void zs_qp_error(struct zs_qp *qp, enum ibv_event_type event, bool tell); /* to ERR; flushing follows from the device thread */
uint64_t zs_rnr_ns(unsigned int code);

/* verbs_qp.c */
struct ibv_qp *zs_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
struct zs_qp *zs_qp_by_num(uint32_t qpn);

/* post.c, post_ex.c */
int zs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int zs_post_bind(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad); /* a window of type 1 */
int zs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void zs_qp_ex_setup(struct zs_qp *qp);
int zs_fill_inline(struct zs_qp *qp, struct zs_wqe *w, uint8_t *to, const void *from, size_t length);

static inline struct ibv_sge *zs_wqe_sges(struct zs_qp *qp, const struct zs_wqe *w)
{
    return qp->sq_sges + (size_t)(w - qp->sq) * qp->sq_sge_max;
}

static inline uint8_t *zs_wqe_inline(struct zs_qp *qp, const struct zs_wqe *w)
{
    return qp->sq_inline + (size_t)(w - qp->sq) * qp->inline_max;
}

static inline bool zs_wqe_is_read(const struct zs_wqe *w) /* is answered with data: READs and atomics */
{
    return w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool zs_wqe_is_local(const struct zs_wqe *w) /* nothing of it travels */
{
    return w->opcode == IBV_WR_BIND_MW || w->opcode == IBV_WR_LOCAL_INV;
}

void zs_cursor_start(struct zs_cursor *c, struct zs_qp *qp, const struct zs_wqe *w, uint32_t offset);

/* requester.c; device thread, dev.lock held. Returns true if more can be done at once. */
bool zs_requester_run(struct zs_qp *qp);
void zs_requester_frame(struct zs_link *l, struct zs_qp *qp, const struct zs_frame *f);
void zs_requester_frame_end(struct zs_link *l);
void zs_requester_place_failed(struct zs_qp *qp);
void zs_requester_peer_is(struct zs_qp *qp, uint64_t instance); /* the process at the other end has said who it is */
void zs_requester_link_lost(struct zs_qp *qp);
void zs_requester_complete(struct zs_qp *qp, struct zs_wqe *w, enum ibv_wc_status status);
void zs_requester_fail(struct zs_qp *qp, struct zs_wqe *w, enum ibv_wc_status status);
bool zs_requester_rnr(struct zs_qp *qp, unsigned int timer_code);
bool zs_requester_retry(struct zs_qp *qp, uint64_t pause_ns);
enum ibv_wc_status zs_nak_status(enum zs_nak nak);
void zs_flush(struct zs_qp *qp);
bool zs_local_run(struct zs_qp *qp); /* local.c: the peer is in this process */

/* direct.c: READs from a process on this host, without its help, and the payload of what it SENDs and WRITEs */
void zs_direct_publish(const struct zs_qp *qp); /* what others may see of it; dev.lock held */
void zs_direct_retract(const struct zs_qp *qp);
void zs_direct_hello(struct zs_hello *h);
void zs_direct_peer(struct zs_link *l, const struct zs_hello *h); /* may its memory be read? */
bool zs_direct_possible(const struct zs_qp *qp, const struct zs_wqe *w);
unsigned int zs_direct_read_batch(struct zs_qp *qp, uint32_t tail); /* how many from sq_ack on are done */
int64_t zs_direct_read(struct zs_qp *qp, struct zs_wqe *w); /* bytes moved; -1: another way has to be taken */
bool zs_direct_offer(const struct zs_qp *qp, const struct zs_wqe *w); /* may the peer fetch its payload? */
/* The next n bytes of the payload of l->frame to `to`. False: not there, or not permitted. */
bool zs_direct_fetch(struct zs_link *l, void *to, size_t n);

/* responder.c; device thread, dev.lock held */
enum zs_nak zs_respond_check(struct zs_qp *qp, enum zs_frame_op op, uint32_t rkey, uint64_t va, uint32_t length);
enum zs_nak zs_respond_take_recv(struct zs_qp *qp);
enum zs_nak zs_respond_atomic(struct zs_qp *qp, enum zs_frame_op op, uint32_t rkey, uint64_t va, uint64_t a, uint64_t b,
                              uint64_t *found);
void zs_respond_recv_done(struct zs_qp *qp, enum ibv_wc_status status, enum ibv_wc_opcode opcode, uint32_t length,
                          uint32_t imm, unsigned int wc_flags, bool solicited);
void zs_respond_failed(struct zs_qp *qp, enum zs_nak nak); /* completes a held receive with the error, QP to ERR */
bool zs_respond_invalidate(struct zs_qp *qp, uint32_t rkey);
void zs_respond_established(struct zs_qp *qp);
bool zs_responder_run(struct zs_qp *qp);
/* A request frame came in: decides where its payload goes. */
void zs_responder_frame(struct zs_link *l, struct zs_qp *qp, const struct zs_frame *f);
void zs_responder_frame_end(struct zs_link *l);
void zs_responder_place_failed(struct zs_qp *qp, const struct zs_frame *f);
void zs_responder_fetch_failed(struct zs_qp *qp, const struct zs_frame *f, bool for_good);

/* copy.c; device thread */
/* The next contiguous run of the SGE list under a hazard: NULL when a key check fails (or at the end: *got = 0). */
void *zs_cursor_hold(struct zs_cursor *c, int hazard, const struct zs_pd *pd, uint32_t access, size_t want, size_t *got);
void zs_cursor_skip(struct zs_cursor *c, size_t bytes);

/* --- links (link.c, link_rx.c) -------------------------------------------------------------------------------------- */

enum zs_link_state { ZS_LINK_CONNECTING, ZS_LINK_UP };

struct zs_link_key {
    uint8_t addr[16];
    uint32_t scope;
    uint32_t port;
};

/* What the payload of the frame that is coming in is for. */
enum zs_place { ZS_PLACE_NONE, ZS_PLACE_RECV, ZS_PLACE_WRITE, ZS_PLACE_READ };

struct zs_link {
    struct zs_source src;
    struct zs_list all; /* dev.links */
    struct zs_list dirty_link;
    struct zs_list more_link; /* dev.more: frames are left in rx */
    enum zs_link_state state;
    bool outgoing;
    bool local;  /* a Unix socket: the peer is on this host */
    bool broken; /* a write failed; taken down at the end of the turn, not under the feet of whoever sends */
    bool hello_seen;
    bool no_pull; /* the peer cannot fetch payload from our memory */
    struct zs_link_key key;
    uint64_t peer_instance;
    uint32_t peer_pid; /* from the kernel; 0: not on this host, or not to be read */
    struct zs_hello peer;
    uint64_t rx_progress_ns; /* bytes came, or many went */
    int tx_queued;           /* in the socket, at the last look */
    struct zs_list qps;     /* requesters on an outgoing link, responders on an incoming one */
    struct zs_list waiting; /* QPs that wait for room to send */
    struct zs_timer timer;  /* deadline for the connection and the hello */

    uint8_t *tx;
    uint32_t tx_head, tx_tail;

    uint8_t *rx;
    uint32_t rx_head, rx_tail;
    bool in_frame;
    struct zs_frame frame;
    uint32_t frame_left;
    enum zs_place place;
    struct zs_qp *place_qp;
    struct zs_cursor place_at;
    uint32_t place_off;
    uint32_t pulled; /* bytes fetched in this turn */
};

int zs_link_get(struct zs_qp *qp); /* attach qp->link for its destination; 0 or errno */
void zs_link_detach(struct zs_qp *qp);
bool zs_link_room(const struct zs_link *l);
void zs_link_wait(struct zs_link *l, struct zs_qp *qp);
/* Queue a frame and `length` bytes of payload at `data`, which are sent or copied before the call returns. */
bool zs_link_send(struct zs_link *l, const struct zs_frame *f, const void *data, size_t length); /* false: data is gone */
void zs_link_flush_dirty(void);
void zs_link_flush_answers(struct zs_qp *qp);
void zs_link_accept(int fd, bool local, const struct zs_hello *hello);
bool zs_link_receive(struct zs_link *l); /* link_rx.c: what has come in. False: take the link down */
void zs_link_more(struct zs_link *l);    /* there is more in rx than one turn should take */
bool zs_links_go_on(void);               /* and that is taken; true if there was any */

/* listen.c: the sockets that QP numbers point to, and new streams until their hello has come */
int zs_listen_start(void);
uint16_t zs_listen_port(unsigned int index); /* 0 if it cannot be had */
bool zs_is_our_port(uint16_t port);
void zs_stream_accept(int listen_fd, bool local); /* take what waits there; a hello decides who gets the stream */

/* stream.c: addresses, sockets, descriptors */
struct zs_addr {
    uint8_t ip[16]; /* IPv6 or v4-mapped */
    uint32_t scope;
};

int zs_stream_connect(const struct zs_addr *to, uint16_t port, const char *unix_name, bool *local); /* fd or -errno */
int zs_tcp_listen(const struct zs_addr *at, uint16_t *port, int backlog); /* fd or -errno; port 0: any */
int zs_unix_listen(const char *name, int backlog);
void zs_unix_name(char to[64], const char *what, uint16_t port);
void zs_hello_fill(struct zs_hello *h, enum zs_kind kind);
bool zs_hello_valid(const struct zs_hello *h);
bool zs_addr_is_local(const uint8_t ip[16]);
bool zs_addr_is_v4(const uint8_t ip[16]);
bool zs_addr_is_any(const uint8_t ip[16]);
void zs_fd_track(int fd);
void zs_fd_untrack(int fd);
void zs_fds_close_in_child(void);

/* --- the device (device.c) -------------------------------------------------------------------------------------------- */

struct zs_dev {
    pthread_mutex_t lock, gate;
    bool running;
    bool forked;
    pthread_t thread;
    int epoll_fd, wake_fd;
    _Atomic int asleep;
    _Atomic(struct zs_qp *) bells;
    struct zs_list ready;
    struct zs_list timers;
    uint64_t next_timer_ns, sleep_until_ns; /* the second of the device thread while it is asleep */
    struct zs_source *dead;
    struct zs_list links, dirty, more;
    struct zs_list contexts;
    uint64_t instance;
    uint64_t spin_ns;
    bool no_direct;   /* ZCSOFT_TRANSPORT=stream|unix|tcp: nobody's memory is read */
    bool no_shortcut; /* ZCSOFT_TRANSPORT=direct|unix|tcp: links even within the process, for tests */
    bool no_unix;     /* ZCSOFT_TRANSPORT=tcp */
    uint32_t sources;
    struct zs_qp **qps; /* [256 * ports] */
    uint32_t qp_slots, qp_count, qp_hint;
    uint32_t srq_numbers;
};

extern struct zs_dev zs_dev;

void zs_lock(void);
void zs_unlock(void);   /* wakes the device thread if there is something for it */
int zs_dev_start(void); /* the thread, once; 0 or errno. dev.lock held */
void zs_ring(struct zs_qp *qp);
void zs_ready(struct zs_qp *qp); /* dev.lock held */
void zs_unready(struct zs_qp *qp);

/* --- rdma_cm (cm*.c) ---------------------------------------------------------------------------------------------------- */

void zs_cm_accept(int fd, bool local, const struct zs_hello *hello); /* takes over fd */
void zs_cm_forget_qp(struct zs_qp *qp);                               /* it is being destroyed */

#endif
