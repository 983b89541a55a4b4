/* Two connected queue pairs in one process, and the few things that every test does with them. With
 * ZCSOFT_TRANSPORT=unix or tcp the same two speak over a link, so that one set of tests covers every path. */
#ifndef ZC_TESTS_SOFT_RIG_H
#define ZC_TESTS_SOFT_RIG_H

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RIG_DEADLINE_MS 30000

struct rig_options {
    uint32_t send_wr, recv_wr, sge, inline_bytes;
    int cqe;
    bool sig_all, use_srq, use_channel, extended;
    unsigned int access[2]; /* qp_access_flags; 0: everything */
    uint8_t rd_atomic;      /* 0: 16 */
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer; /* 0: 14, 3, 7, 1 */
    bool connect_nothing;
};

struct rig {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq[2]; /* of qp[0], of qp[1] */
    struct ibv_srq *srq;  /* of qp[1] */
    struct ibv_qp *qp[2];
    struct rig_options opt;
};

struct buffer {
    uint8_t *p;
    size_t size;
    struct ibv_mr *mr;
};

enum { RIG_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

void rig_open(struct rig *r, const struct rig_options *opt); /* opt may be NULL */
void rig_close(struct rig *r);
void rig_connect(struct rig *r, struct ibv_qp *a, struct ibv_qp *b, unsigned int access_a);
struct buffer rig_buffer(struct rig *r, size_t size, unsigned int access);
void rig_free(struct buffer *b);
void fill(struct buffer *b, uint8_t seed);
bool filled(const uint8_t *p, size_t n, uint8_t seed, size_t from);

struct ibv_wc rig_wait(struct ibv_cq *cq);              /* the next completion; fails the test at the deadline */
void rig_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
bool rig_quiet(struct ibv_cq *cq, int ms);              /* nothing comes for so long */
void rig_wait_state(struct ibv_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state rig_state(struct ibv_qp *qp);

int post(struct ibv_qp *qp, struct ibv_send_wr wr);
int post_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, void *local, uint32_t n, uint32_t lkey, void *remote,
              uint32_t rkey);
int post_send(struct ibv_qp *qp, uint64_t id, void *p, uint32_t n, uint32_t lkey, unsigned int flags);
int post_recv(struct ibv_qp *qp, uint64_t id, void *p, uint32_t n, uint32_t lkey);
uint64_t now_ms(void);

#endif
