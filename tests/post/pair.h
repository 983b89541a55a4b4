/* Two connected RC queue pairs of one process, as a program of its own would make them: plain libibverbs, nothing of ours but the
 * descriptions that post.h and poller.h want. For the tests of posting and its bench. What goes wrong ends the program with a line. */
#ifndef ZC_TESTS_POST_PAIR_H
#define ZC_TESTS_POST_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "poller.h"
#include "post.h"

enum { PAIR_MEMORY = 1 << 20, PAIR_DEADLINE_S = 60 };

struct pair_options {
    enum zc_family family;      /* of QPs and CQs; AUTO: extended, with everything that post.h can fill */
    uint64_t ops;               /* 0: those */
    uint32_t send_wr, recv_wr, sge, inline_bytes;   /* 0: 64, 64, 4, none */
    bool srq;                   /* side 1 receives from a shared receive queue */
};

struct pair {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct zc_poller poller[2];
    struct ibv_srq *srq;
    struct ibv_qp *qp[2];
    struct ibv_qp_cap cap;      /* as granted */
    struct zc_sender sender[2];
    uint8_t *memory[2];         /* PAIR_MEMORY bytes each */
    struct ibv_mr *mr[2];
};

void pair_open(struct pair *pair, const struct pair_options *options);
void pair_close(struct pair *pair);
struct ibv_sge pair_sge(const struct pair *pair, int side, size_t offset, uint32_t length);
/* The next completion of a side's CQ. */
struct ibv_wc pair_wait(const struct pair *pair, int side);
void pair_need(bool holds, const char *what);

#endif
