/* Filling, linking and posting WRs against a provider that is a function of this test: partial acceptance, odd error values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "post.h"

static struct {
    size_t room;        /* entries that it accepts */
    int refusal;        /* what it answers then */
    bool names_bad;     /* whether it says which entry it refused */
    size_t calls, seen;
    uint64_t ids[64];
} provider;

static int provider_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    (void)qp;
    provider.calls++;
    for (; wr; wr = wr->next) {
        if (provider.room == 0) {
            if (provider.names_bad)
                *bad_wr = wr;
            errno = ENOMEM;
            return provider.refusal;
        }
        provider.room--;
        provider.ids[provider.seen++] = wr->wr_id;
    }
    return 0;
}

static int provider_take_recv(struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    provider.calls++;
    for (; wr; wr = wr->next) {
        if (provider.room == 0) {
            *bad_wr = wr;
            return provider.refusal;
        }
        provider.room--;
        provider.ids[provider.seen++] = wr->wr_id;
    }
    return 0;
}

static int provider_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    (void)qp;
    return provider_take_recv(wr, bad_wr);
}

static int provider_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    (void)srq;
    return provider_take_recv(wr, bad_wr);
}

static struct ibv_context context = {
    .ops = {.post_send = provider_post_send, .post_recv = provider_post_recv, .post_srq_recv = provider_post_srq_recv}};
static struct ibv_qp qp = {.context = &context};
static struct ibv_srq srq = {.context = &context};

static int reset(void **state)
{
    (void)state;
    memset(&provider, 0, sizeof(provider));
    provider.room = 64;
    provider.refusal = ENOMEM;
    provider.names_bad = true;
    return 0;
}

static void make_reads(struct ibv_send_wr *wrs, struct ibv_sge *sges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sges[i] = (struct ibv_sge){.addr = 4096 * i, .length = 4096, .lkey = 5};
        zc_wr_read(&wrs[i], 100 + i, &sges[i], 1, 4096 * i, 9, IBV_SEND_SIGNALED);
    }
    zc_wr_link_send(wrs, count);
}

static void test_every_field_is_set(void **state)
{
    (void)state;
    struct ibv_send_wr wr;
    struct ibv_recv_wr recv;
    struct ibv_sge sges[2];
    memset(&wr, 0xa5, sizeof(wr));
    zc_wr_read(&wr, 7, sges, 2, UINT64_C(0x1122334455667788), 0x99, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    assert_int_equal(wr.wr_id, 7);
    assert_null(wr.next);
    assert_ptr_equal(wr.sg_list, sges);
    assert_int_equal(wr.num_sge, 2);
    assert_int_equal(wr.opcode, IBV_WR_RDMA_READ);
    assert_int_equal(wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    assert_int_equal(wr.wr.rdma.remote_addr, UINT64_C(0x1122334455667788));
    assert_int_equal(wr.wr.rdma.rkey, 0x99);

    memset(&wr, 0xa5, sizeof(wr));
    zc_wr_send(&wr, 8, NULL, 0, IBV_SEND_INLINE);
    assert_int_equal(wr.wr_id, 8);
    assert_null(wr.next);
    assert_null(wr.sg_list);
    assert_int_equal(wr.num_sge, 0);
    assert_int_equal(wr.opcode, IBV_WR_SEND);
    assert_int_equal(wr.send_flags, IBV_SEND_INLINE);

    memset(&recv, 0xa5, sizeof(recv));
    zc_wr_recv(&recv, 9, sges, 1);
    assert_int_equal(recv.wr_id, 9);
    assert_null(recv.next);
    assert_ptr_equal(recv.sg_list, sges);
    assert_int_equal(recv.num_sge, 1);
}

static void test_linking_touches_next_only(void **state)
{
    (void)state;
    struct ibv_send_wr wrs[3], before[3];
    struct ibv_sge sges[3];
    make_reads(wrs, sges, 3);
    memcpy(before, wrs, sizeof(wrs));
    zc_wr_link_send(wrs, 2);
    assert_ptr_equal(wrs[0].next, &wrs[1]);
    assert_null(wrs[1].next);
    before[1].next = NULL;
    assert_memory_equal(wrs, before, sizeof(wrs));
    zc_wr_link_send(wrs, 0);
    assert_memory_equal(wrs, before, sizeof(wrs));
}

static void test_a_batch_is_one_call(void **state)
{
    (void)state;
    struct ibv_send_wr wrs[8], *bad = wrs;
    struct ibv_sge sges[8];
    size_t accepted = 99;
    make_reads(wrs, sges, 8);
    assert_int_equal(zc_post_send(&qp, wrs, &accepted, &bad), 0);
    assert_int_equal(provider.calls, 1);
    assert_int_equal(accepted, 8);
    assert_null(bad);
}

/* What was refused is posted later as it stands, and nothing is lost or sent twice. */
static void test_partial_acceptance(void **state)
{
    (void)state;
    struct ibv_send_wr wrs[8], *bad = NULL;
    struct ibv_sge sges[8];
    size_t accepted = 99;
    make_reads(wrs, sges, 8);
    provider.room = 5;
    assert_int_equal(zc_post_send(&qp, wrs, &accepted, &bad), -ENOMEM);
    assert_int_equal(accepted, 5);
    assert_ptr_equal(bad, &wrs[5]);
    provider.room = 64;
    assert_int_equal(zc_post_send(&qp, bad, &accepted, &bad), 0);
    assert_int_equal(accepted, 3);
    assert_int_equal(provider.seen, 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(provider.ids[i], 100 + i);
}

static void test_refused_at_once(void **state)
{
    (void)state;
    struct ibv_send_wr wrs[2], *bad = NULL;
    struct ibv_sge sges[2];
    size_t accepted = 99;
    make_reads(wrs, sges, 2);
    provider.room = 0;
    assert_int_equal(zc_post_send(&qp, wrs, &accepted, &bad), -ENOMEM);
    assert_int_equal(accepted, 0);
    assert_ptr_equal(bad, &wrs[0]);
    assert_int_equal(zc_post_send(&qp, wrs, NULL, NULL), -ENOMEM);
    assert_int_equal(zc_post_send(&qp, NULL, &accepted, &bad), 0);
    assert_int_equal(accepted, 0);
}

static void test_odd_providers(void **state)
{
    (void)state;
    struct ibv_send_wr wrs[2], *bad = NULL;
    struct ibv_sge sges[2];
    size_t accepted = 99;
    make_reads(wrs, sges, 2);
    provider.room = 0;
    provider.refusal = -1;      /* and errno is ENOMEM */
    assert_int_equal(zc_post_send(&qp, wrs, &accepted, &bad), -ENOMEM);
    provider.refusal = -EINVAL;
    assert_int_equal(zc_post_send(&qp, wrs, &accepted, &bad), -EINVAL);
    provider.names_bad = false;
    assert_int_equal(zc_post_send(&qp, wrs, &accepted, &bad), -EINVAL);
    assert_int_equal(accepted, 0);
    assert_ptr_equal(bad, &wrs[0]);
}

static void test_receive_side(void **state)
{
    (void)state;
    struct ibv_recv_wr wrs[4], *bad = NULL;
    struct ibv_sge sges[4] = {{.length = 64}};
    size_t accepted = 99;
    for (size_t i = 0; i < 4; i++)
        zc_wr_recv(&wrs[i], i, &sges[i], 1);
    zc_wr_link_recv(wrs, 4);
    provider.room = 3;
    assert_int_equal(zc_post_recv(&qp, wrs, &accepted, &bad), -ENOMEM);
    assert_int_equal(accepted, 3);
    assert_ptr_equal(bad, &wrs[3]);
    provider.room = 6;
    assert_int_equal(zc_post_srq_recv(&srq, wrs, &accepted, &bad), 0);
    assert_int_equal(accepted, 4);
    assert_int_equal(zc_post_srq_recv(&srq, wrs, &accepted, &bad), -ENOMEM);
    assert_int_equal(accepted, 2);
    assert_ptr_equal(bad, &wrs[2]);
}

static void test_slots(void **state)
{
    (void)state;
    struct zc_slots slots = {.capacity = 4};
    assert_true(zc_slots_take(&slots, 3));
    assert_false(zc_slots_take(&slots, 2));
    assert_int_equal(zc_slots_free(&slots), 1);
    assert_true(zc_slots_take(&slots, 1));
    assert_false(zc_slots_take(&slots, 1));
    zc_slots_give(&slots, 4);
    assert_int_equal(zc_slots_free(&slots), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_field_is_set, reset),
        cmocka_unit_test_setup(test_linking_touches_next_only, reset),
        cmocka_unit_test_setup(test_a_batch_is_one_call, reset),
        cmocka_unit_test_setup(test_partial_acceptance, reset),
        cmocka_unit_test_setup(test_refused_at_once, reset),
        cmocka_unit_test_setup(test_odd_providers, reset),
        cmocka_unit_test_setup(test_receive_side, reset),
        cmocka_unit_test_setup(test_slots, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
