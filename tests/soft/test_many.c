/* Many queue pairs: 1,024 in one process, every one of them with READs in flight at the same time. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { QPS = 1024, READS = 4, LENGTH = 64, SEED = 7 };

static struct ibv_qp *create(struct rig *r)
{
    struct ibv_qp_init_attr a = {
        .send_cq = r->cq[0],
        .recv_cq = r->cq[0],
        .cap = {.max_send_wr = READS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    struct ibv_qp *qp = ibv_create_qp(r->pd, &a);
    assert_non_null(qp);
    return qp;
}

/* Each queue pair has its own place in both buffers: bytes that take a wrong way end up in a wrong place. */
static void post_all(struct ibv_qp **qp, const struct buffer *to, const struct buffer *from)
{
    for (uint32_t n = 0; n < READS; n++)
        for (uint32_t i = 0; i < QPS; i++) {
            size_t at = ((size_t)i * READS + n) * LENGTH;
            assert_int_equal(post_rdma(qp[i], IBV_WR_RDMA_READ, i, to->p + at, LENGTH, to->mr->lkey, from->p + at, from->mr->rkey), 0);
        }
}

static void reap_all(struct rig *r)
{
    uint32_t *seen = calloc(QPS, sizeof *seen);
    assert_non_null(seen);
    for (uint32_t n = 0; n < QPS * READS; n++) {
        struct ibv_wc wc = rig_wait(r->cq[0]);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_true(wc.wr_id < QPS);
        seen[wc.wr_id]++;
    }
    for (uint32_t i = 0; i < QPS; i++)
        assert_int_equal(seen[i], READS);
    free(seen);
}

static void one_process(void **state)
{
    (void)state;
    struct rig r;
    static struct ibv_qp *qp[QPS];
    rig_open(&r, &(struct rig_options){.cqe = QPS * READS, .connect_nothing = true});
    for (int i = 0; i < QPS; i++)
        qp[i] = create(&r);
    for (int i = 0; i < QPS; i++)
        rig_connect(&r, qp[i], qp[i ^ 1], 0);
    struct buffer from = rig_buffer(&r, (size_t)QPS * READS * LENGTH, RIG_ALL), to = rig_buffer(&r, from.size, RIG_ALL);
    fill(&from, SEED);
    memset(to.p, 0, to.size);
    post_all(qp, &to, &from);
    reap_all(&r);
    assert_memory_equal(to.p, from.p, from.size);
    for (int i = 0; i < QPS; i++)
        assert_int_equal(ibv_destroy_qp(qp[i]), 0);
    rig_free(&to);
    rig_free(&from);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
