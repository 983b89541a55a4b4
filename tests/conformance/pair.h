/* Two queue pairs of one process connected to each other, a buffer for each, and the few things that every check does
 * with them. Side 0 asks (requester), side 1 answers (responder). */
#ifndef ZC_CONFORMANCE_PAIR_H
#define ZC_CONFORMANCE_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

#define WAIT_MS 8000 /* for what must come; a check as a whole has longer (main.c) */
#define QUIET_MS 300 /* for what must not come */

enum { ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct pair_options {
    struct ibv_qp_cap cap;
    int cqe;
    bool sig_all, srq, channel, unconnected;
    uint64_t send_ops; /* not 0: an extended queue pair */
    unsigned int qp_access[2], mr_access[2];
    uint8_t rd_atomic, timeout, retry_cnt, rnr_retry, min_rnr_timer;
    size_t size; /* of each buffer */
};
extern const struct pair_options pair_defaults;

struct buffer {
    uint8_t *p;
    size_t size;
    struct ibv_mr *mr;
};

struct pair {
    struct pair_options opt;
    struct ibv_context *ctx;
    struct ibv_device_attr dev;
    union ibv_gid gid;
    uint8_t gid_index;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq[2]; /* both queues of the side */
    struct ibv_srq *srq;  /* side 1 */
    struct ibv_qp *qp[2];
    struct buffer buf[2];
};

void pair_open(struct pair *p, const struct pair_options *opt); /* NULL: pair_defaults */
void pair_device(struct pair *p);                               /* the device and a PD only */
struct buffer pair_buffer(struct ibv_pd *pd, size_t size, unsigned int access);
struct ibv_qp *pair_qp(struct pair *p, int side); /* one more like qp[side] */
void pair_walk(struct pair *p, struct ibv_qp *qp, struct ibv_qp *peer, enum ibv_qp_state to); /* from RESET */
struct ibv_qp_attr pair_attr(struct pair *p, struct ibv_qp *qp, struct ibv_qp *peer, enum ibv_qp_state to, int *mask);
union ibv_gid pair_gid(struct ibv_context *ctx, uint8_t *index); /* the first for IPv4, or else GID 0 */

enum ibv_qp_state state_of(struct ibv_qp *qp);
enum ibv_qp_state wait_state(struct ibv_qp *qp, enum ibv_qp_state state); /* the state it has in the end */
int to_state(struct ibv_qp *qp, enum ibv_qp_state state);                 /* ibv_modify_qp() with the state alone */

bool next_wc(struct ibv_cq *cq, struct ibv_wc *wc, int ms);
const char *outcome(struct ibv_cq *cq, uint64_t wr_id); /* status of the next completion, which must be wr_id's */
bool quiet(struct ibv_cq *cq);                          /* no completion for QUIET_MS */
/* Takes n completions with wr_id from `first` up: "4 ok" or "2 ok 2 WR_FLUSH_ERR", or what is wrong with them. */
const char *tally(struct ibv_cq *cq, uint64_t first, int n);
/* The type of the next asynchronous event, NULL if none comes in time; acknowledged. */
const char *async_event(struct ibv_context *ctx, int ms, void **element);

void fill(struct buffer *b, uint8_t seed);
bool filled(const uint8_t *p, size_t n, uint8_t seed, size_t from); /* p holds what fill() puts at offset from */

struct ibv_sge sge(const struct buffer *b, size_t at, uint32_t length);
int post(struct ibv_qp *qp, struct ibv_send_wr wr); /* signaled; a wrong bad_wr is said */
int post_rdma(struct pair *p, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t length); /* side 0, offset 0 to offset 0 */
int post_send(struct pair *p, uint64_t wr_id, uint32_t length);
int post_recv(struct pair *p, int side, uint64_t wr_id, uint32_t length);
void pause_ms(int ms);
uint64_t now_ms(void);

#endif
