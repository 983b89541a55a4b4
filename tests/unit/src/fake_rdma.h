/* A pretended peer for tests of the pipeline: verbs whose post_send and poll_cq are functions of the test, behind stand-ins for
 * completion.h, connection.h and memory.h (defining all of them here keeps the real ones out of the program). READs are carried out
 * in order, `delay` polls after they were posted, from a local region. */
#ifndef FAKE_RDMA_H
#define FAKE_RDMA_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "completion.h"
#include "connection.h"
#include "memory.h"
#include "pattern.h"
#include "result.h"

enum { FAKE_QPS = 4, FAKE_QUEUE = 1024, FAKE_MRS = 4096, FAKE_REGION = 8 << 20, FAKE_LKEY = 0x1d, FAKE_RKEY = 0x2d };
static const uint64_t FAKE_ADDRESS = UINT64_C(0x7000000000), FAKE_SEED = 99;

struct fake_read {
    uint64_t wr_id, remote_offset, local;
    uint32_t length, qp;
};

static struct fake {
    /* Set by the test. */
    uint32_t qps, outstanding;
    uint64_t max_read_bytes;
    uint32_t delay;                 /* polls between post and completion */
    uint32_t most_per_poll;         /* completions that one poll gives at most */
    uint64_t fail_at, swap_at, lose_at, unknown_at; /* the n-th READ, from 1; 0: none */
    enum ibv_wc_status fail_status;
    uint64_t fail_register_at, fail_deregister_at;  /* the n-th call, from 1; 0: none */
    void (*registering)(void);      /* called in each ibv_reg_mr; NULL: nothing */
    bool stuck;                     /* nothing completes */
    bool peer_gone;
    uint64_t gone_after_checks;
    int post_error;
    /* Observed. */
    uint64_t posted, completed, doorbells, polls, waits, rearms, checks, bytes;
    uint32_t in_flight[FAKE_QPS], max_in_flight[FAKE_QPS], max_list;
    uint64_t lengths[FAKE_QUEUE], offsets[FAKE_QUEUE];  /* of the first READs */
    uint64_t mrs, buffers;          /* alive */
    uint64_t registers, deregisters, max_mrs;
    uint64_t flying_at_register[FAKE_QUEUE];    /* READs in flight when the n-th registration was made */
    atomic_uint flying;
    /* Its own. */
    struct fake_read queue[FAKE_QUEUE];
    uint64_t ready_at[FAKE_QUEUE];  /* in polls */
    bool armed;
    struct ibv_context context;
    struct ibv_qp qp[FAKE_QPS];
    struct zc_sender sender[FAKE_QPS];
    struct ibv_cq cq;
    struct ibv_mr *mr[FAKE_MRS];
    int event_fd;
    struct zc_remote remote;
} fake;
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;    /* registrations come from any thread */
static uint8_t fake_region[FAKE_REGION];

/* Only registered memory may be named by a READ, from its posting to its completion. */
static inline bool fake_is_registered(uint64_t address, uint64_t length)
{
    bool found = false;
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < FAKE_MRS && !found; i++)
        found = fake.mr[i] && (uintptr_t)fake.mr[i]->addr <= address && address + length <= (uintptr_t)fake.mr[i]->addr + fake.mr[i]->length;
    pthread_mutex_unlock(&fake_lock);
    return found;
}

static inline uint32_t fake_total_in_flight(void)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < FAKE_QPS; i++)
        total += fake.in_flight[i];
    return total;
}

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    uint32_t list = 0;
    const uint32_t index = (uint32_t)(qp - fake.qp);
    fake.doorbells++;
    for (; wr; wr = wr->next, list++) {
        if (fake.post_error || wr->opcode != IBV_WR_RDMA_READ || wr->num_sge != 1 || !(wr->send_flags & IBV_SEND_SIGNALED) ||
            wr->wr.rdma.rkey != FAKE_RKEY || wr->sg_list->lkey != FAKE_LKEY) {
            *bad_wr = wr;
            return fake.post_error ? fake.post_error : EINVAL;
        }
        const uint64_t at = fake.posted % FAKE_QUEUE;
        assert_true(fake.posted - fake.completed < FAKE_QUEUE);
        fake.queue[at] = (struct fake_read){wr->wr_id, wr->wr.rdma.remote_addr - FAKE_ADDRESS, wr->sg_list->addr,
                                            wr->sg_list->length, index};
        fake.ready_at[at] = fake.polls + fake.delay;
        assert_true(fake_is_registered(wr->sg_list->addr, wr->sg_list->length));
        assert_true(fake.queue[at].remote_offset + fake.queue[at].length <= FAKE_REGION);
        if (fake.posted < FAKE_QUEUE) {
            fake.lengths[fake.posted] = wr->sg_list->length;
            fake.offsets[fake.posted] = fake.queue[at].remote_offset;
        }
        fake.posted++;
        atomic_fetch_add(&fake.flying, 1);
        if (++fake.in_flight[index] > fake.max_in_flight[index])
            fake.max_in_flight[index] = fake.in_flight[index];
    }
    if (list > fake.max_list)
        fake.max_list = list;
    return 0;
}

static void fake_carry_out(const struct fake_read *read, uint64_t number)
{
    uint64_t offset = read->remote_offset;
    if (number == fake.swap_at)             /* this READ's bytes and the next one's change places */
        offset += read->length;
    else if (fake.swap_at && number == fake.swap_at + 1)
        offset -= read->length;
    if (number != fake.lose_at)             /* a device that reports success and has moved nothing */
        memcpy((void *)(uintptr_t)read->local, fake_region + offset, read->length);
    fake.bytes += read->length;
}

static int fake_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
    (void)cq;
    int count = 0;
    fake.polls++;
    while (!fake.stuck && count < max && (uint32_t)count < fake.most_per_poll && fake.completed < fake.posted &&
           fake.polls > fake.ready_at[fake.completed % FAKE_QUEUE]) {
        const struct fake_read *const read = &fake.queue[fake.completed++ % FAKE_QUEUE];
        memset(&wcs[count], 0xcc, sizeof wcs[count]);   /* what is not valid must not be read */
        wcs[count].wr_id = fake.completed == fake.unknown_at ? 12345 : read->wr_id;
        wcs[count].status = fake.completed == fake.fail_at ? fake.fail_status : IBV_WC_SUCCESS;
        fake.in_flight[read->qp]--;
        atomic_fetch_sub(&fake.flying, 1);
        assert_true(fake_is_registered(read->local, read->length));
        if (wcs[count].status == IBV_WC_SUCCESS)
            fake_carry_out(read, fake.completed);
        count++;
    }
    return count;
}

static void fake_reset(void)
{
    if (fake.event_fd > 0)
        close(fake.event_fd);
    memset(&fake, 0, sizeof fake);
    fake.event_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);     /* always readable: time goes on with each look */
    fake.qps = 1;
    fake.outstanding = 16;
    fake.max_read_bytes = INT32_MAX;
    fake.delay = 3;
    fake.most_per_poll = UINT32_MAX;
    fake.context.ops.post_send = fake_post_send;
    fake.context.ops.poll_cq = fake_poll_cq;
    fake.cq.context = &fake.context;
    for (uint32_t i = 0; i < FAKE_QPS; i++)
        fake.qp[i].context = &fake.context;
    fake.remote = (struct zc_remote){.address = FAKE_ADDRESS, .size_bytes = FAKE_REGION, .pattern_seed = FAKE_SEED};
    static bool filled;             /* nothing ever writes there again */
    if (!filled)
        zc_pattern_fill(fake_region, FAKE_REGION, 0, FAKE_SEED);
    filled = true;
}

static inline struct zc_completion *fake_completion(void) { return (struct zc_completion *)&fake.cq; }
static inline struct zc_connection *fake_connection(void) { return (struct zc_connection *)&fake; }

/* completion.h */
int zc_completion_create_family(const struct zc_device *device, int cqe, enum zc_family family, struct zc_completion **completion,
                                struct zc_error *err)
{
    (void)device, (void)cqe, (void)family, (void)completion, (void)err;
    return -ENOTSUP;
}
int zc_completion_create(const struct zc_device *device, int cqe, struct zc_completion **completion, struct zc_error *err)
{
    return zc_completion_create_family(device, cqe, ZC_FAMILY_BASIC, completion, err);
}
void zc_completion_destroy(struct zc_completion *completion) { (void)completion; }
struct ibv_cq *zc_completion_cq(const struct zc_completion *completion) { (void)completion; return &fake.cq; }
enum zc_family zc_completion_family(const struct zc_completion *completion) { (void)completion; return ZC_FAMILY_BASIC; }
int zc_completion_fd(const struct zc_completion *completion) { (void)completion; return fake.event_fd; }
int zc_completion_poll(struct zc_completion *completion, int max, struct ibv_wc *wcs)
{
    (void)completion;
    return ibv_poll_cq(&fake.cq, max, wcs);
}
int zc_completion_rearm(struct zc_completion *completion)
{
    (void)completion;
    fake.rearms++;
    fake.armed = true;
    return 0;
}
/* The event comes for what completes after arming; time goes on while sleeping. */
int zc_completion_wait(struct zc_completion *completion, int wake_fd, uint64_t deadline_ns)
{
    (void)completion, (void)wake_fd, (void)deadline_ns;
    assert_true(fake.armed);
    fake.armed = false;
    fake.waits++;
    fake.polls += fake.delay;
    return fake.posted > fake.completed;
}

/* connection.h */
int zc_connection_open(const struct zc_device *device, const struct zc_connection_params *params, struct zc_connection **connection,
                       struct zc_error *err)
{
    (void)device, (void)params, (void)connection, (void)err;
    return -ENOTSUP;
}
void zc_connection_close(struct zc_connection *connection) { (void)connection; }
const struct zc_remote *zc_connection_remote(const struct zc_connection *connection) { (void)connection; return &fake.remote; }
struct ibv_qp *zc_connection_qp(const struct zc_connection *connection, uint32_t index) { (void)connection; return &fake.qp[index]; }
const struct zc_sender *zc_connection_sender(const struct zc_connection *connection, uint32_t index)
{
    (void)connection;
    fake.sender[index] = (struct zc_sender){.qp = &fake.qp[index], .max_sge = 1};
    return &fake.sender[index];
}
uint32_t zc_connection_rkey(const struct zc_connection *connection, uint32_t index) { (void)connection, (void)index; return FAKE_RKEY; }
void zc_connection_keep(struct zc_connection *connection, uint64_t now_ns) { (void)connection, (void)now_ns; }
uint32_t zc_connection_qp_count(const struct zc_connection *connection) { (void)connection; return fake.qps; }
uint32_t zc_connection_outstanding_reads(const struct zc_connection *connection) { (void)connection; return fake.outstanding; }
uint64_t zc_connection_max_read_bytes(const struct zc_connection *connection) { (void)connection; return fake.max_read_bytes; }
int zc_connection_check(struct zc_connection *connection, struct zc_error *err)
{
    (void)connection;
    fake.checks++;
    if (fake.peer_gone || (fake.gone_after_checks && fake.checks > fake.gone_after_checks))
        return zc_error_set(err, ZC_ERR_PEER, -ENOTCONN, NULL, "the peer closed the connection");
    return 0;
}
int zc_connection_fd(const struct zc_connection *connection) { (void)connection; return -1; }

/* memory.h */
int zc_buffer_create_pages(size_t length_bytes, enum zc_pages pages, int numa_node, struct zc_buffer *buffer, struct zc_error *err)
{
    (void)pages, (void)err;
    *buffer = (struct zc_buffer){
        .address = aligned_alloc(4096, (length_bytes + 4095) / 4096 * 4096),
        .length_bytes = length_bytes,
        .numa_node = numa_node,
    };
    fake.buffers++;
    return 0;
}
void zc_buffer_destroy(struct zc_buffer *buffer)
{
    if (buffer->address)
        fake.buffers--;
    free(buffer->address);
    buffer->address = NULL;
}
uint64_t zc_buffer_huge_bytes(const struct zc_buffer *buffer) { (void)buffer; return 0; }
int zc_mr_register(const struct zc_device *device, void *address, size_t length_bytes, int access, const char *what,
                   struct ibv_mr **mr, struct zc_error *err)
{
    (void)device, (void)what;
    assert_int_equal(access & ~IBV_ACCESS_ON_DEMAND, IBV_ACCESS_LOCAL_WRITE);
    if (fake.registering)
        fake.registering();
    pthread_mutex_lock(&fake_lock);
    const uint64_t number = ++fake.registers;
    if (number <= FAKE_QUEUE)
        fake.flying_at_register[number - 1] = atomic_load(&fake.flying);
    size_t at = 0;
    while (fake.mr[at])
        at++;
    if (number != fake.fail_register_at) {
        *mr = fake.mr[at] = calloc(1, sizeof **mr);
        **mr = (struct ibv_mr){.addr = address, .length = length_bytes, .lkey = FAKE_LKEY};
        fake.mrs++;
        fake.max_mrs = fake.mrs > fake.max_mrs ? fake.mrs : fake.max_mrs;
    }
    pthread_mutex_unlock(&fake_lock);
    if (number == fake.fail_register_at)
        return zc_error_set(err, ZC_ERR_MEMLOCK, -ENOMEM, NULL, "cannot register");
    return 0;
}
int zc_mr_deregister(struct ibv_mr *mr)
{
    if (!mr)
        return 0;
    pthread_mutex_lock(&fake_lock);
    const bool fails = ++fake.deregisters == fake.fail_deregister_at;
    size_t at = 0;
    while (fake.mr[at] != mr)
        at++;
    if (!fails) {
        fake.mr[at] = NULL;
        fake.mrs--;
        free(mr);
    }
    pthread_mutex_unlock(&fake_lock);
    return fails ? -EBUSY : 0;
}

#endif
