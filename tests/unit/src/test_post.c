/* Filling, linking and posting WRs against a provider that is a function of this test: partial acceptance, odd error values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

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

    memset(&wr, 0xa5, sizeof(wr));
    zc_wr_write_imm(&wr, 8, sges, 1, 0x1000, 0x98, 0x77, IBV_SEND_SIGNALED);
    assert_int_equal(wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(wr.wr.rdma.remote_addr, 0x1000);
    assert_int_equal(wr.wr.rdma.rkey, 0x98);
    assert_int_equal(wr.imm_data, 0x77);

    memset(&wr, 0xa5, sizeof(wr));
    zc_wr_send_inline(&wr, 8, sges, "bytes", 5, IBV_SEND_SOLICITED);
    assert_int_equal(wr.opcode, IBV_WR_SEND);
    assert_int_equal(wr.send_flags, IBV_SEND_INLINE | IBV_SEND_SOLICITED);
    assert_ptr_equal(wr.sg_list, sges);
    assert_int_equal(wr.num_sge, 1);
    assert_int_equal(sges[0].length, 5);

    memset(&wr, 0xa5, sizeof(wr));
    zc_wr_cmp_swap(&wr, 8, sges, 0x2000, 0x97, 1, 2, 0);
    assert_int_equal(wr.opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
    assert_int_equal(wr.wr.atomic.remote_addr, 0x2000);
    assert_int_equal(wr.wr.atomic.rkey, 0x97);
    assert_int_equal(wr.wr.atomic.compare_add, 1);
    assert_int_equal(wr.wr.atomic.swap, 2);
    zc_wr_fetch_add(&wr, 8, sges, 0x2000, 0x97, 3, 0);
    assert_int_equal(wr.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
    assert_int_equal(wr.wr.atomic.compare_add, 3);

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

/* --- the extended family, with a provider that writes down what it is told ------------------------------------------------- */

static struct {
    char calls[64];     /* a letter a call */
    uint64_t ids[8];
    unsigned flags[8];
    size_t built;
    int answer;
} builder;

static void called(char letter)
{
    builder.calls[strlen(builder.calls)] = letter;
}
static void build(struct ibv_qp_ex *ex, char letter)
{
    builder.ids[builder.built] = ex->wr_id;
    builder.flags[builder.built++] = ex->wr_flags;
    called(letter);
}
static void ex_start(struct ibv_qp_ex *ex) { (void)ex; called('('); }
static void ex_abort(struct ibv_qp_ex *ex) { (void)ex; called('!'); }
static int ex_complete(struct ibv_qp_ex *ex)
{
    (void)ex;
    called(')');
    return builder.answer;
}
static void ex_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address) { (void)rkey, (void)address; build(ex, 'r'); }
static void ex_send(struct ibv_qp_ex *ex) { build(ex, 's'); }
static void ex_inv(struct ibv_qp_ex *ex, uint32_t rkey) { (void)rkey; build(ex, 'v'); }
static void ex_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t a, uint32_t n) { (void)ex, (void)lkey, (void)a, (void)n; called('1'); }
static void ex_sges(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list) { (void)ex, (void)list; called(n ? 'n' : '0'); }
static void ex_inline(struct ibv_qp_ex *ex, void *bytes, size_t length) { (void)ex, (void)bytes, (void)length; called('i'); }
static void ex_inlines(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list) { (void)ex, (void)n, (void)list; called('j'); }

static struct ibv_qp_ex extended = {
    .wr_start = ex_start, .wr_abort = ex_abort, .wr_complete = ex_complete, .wr_rdma_read = ex_read, .wr_send = ex_send,
    .wr_local_inv = ex_inv, .wr_set_sge = ex_sge, .wr_set_sge_list = ex_sges, .wr_set_inline_data = ex_inline,
    .wr_set_inline_data_list = ex_inlines,
};
static const struct zc_sender sender = {.qp = &qp, .ex = &extended, .max_inline_bytes = 16, .max_sge = 40};

/* A setter for every operation with data, none for the others; each WR's own id and flags. */
static void test_extended_translation(void **state)
{
    (void)state;
    struct ibv_send_wr wrs[6];
    struct ibv_sge sges[2] = {{.length = 8}, {.length = 8}}, piece;
    size_t accepted = 0;
    memset(&builder, 0, sizeof(builder));
    zc_wr_read(&wrs[0], 10, sges, 2, 0, 0, IBV_SEND_SIGNALED);
    zc_wr_read(&wrs[1], 11, sges, 1, 0, 0, 0);
    zc_wr_send(&wrs[2], 12, NULL, 0, IBV_SEND_FENCE);
    zc_wr_send_inline(&wrs[3], 13, &piece, "x", 1, 0);
    zc_wr_send(&wrs[4], 14, sges, 2, IBV_SEND_INLINE);
    wrs[5] = (struct ibv_send_wr){.wr_id = 15, .opcode = IBV_WR_LOCAL_INV};
    zc_wr_link_send(wrs, 6);
    assert_int_equal(zc_sender_post(&sender, wrs, &accepted, NULL), 0);
    assert_int_equal(accepted, 6);
    assert_string_equal(builder.calls, "(rnr1s0sisjv)");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(builder.ids[i], 10 + i);
        assert_int_equal(builder.flags[i], wrs[i].send_flags);
    }
    assert_int_equal(zc_sender_post(&sender, NULL, &accepted, NULL), 0);
    assert_int_equal(accepted, 0);
    assert_string_equal(builder.calls, "(rnr1s0sisjv)");
}

static void test_extended_refusals(void **state)
{
    (void)state;
    static const struct {
        int answer, error;
    } answers[] = {{ENOMEM, -ENOMEM}, {ENOSPC, -ENOMEM}, {EINVAL, -EINVAL}};
    struct ibv_send_wr wrs[2], *bad = NULL;
    struct ibv_sge sges[40] = {{.length = 8}};
    size_t accepted = 99;
    char text[100];
    make_reads(wrs, sges, 2);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        memset(&builder, 0, sizeof(builder));
        builder.answer = answers[i].answer;
        assert_int_equal(zc_sender_post(&sender, wrs, &accepted, &bad), answers[i].error);
        assert_int_equal(accepted, 0);
        assert_ptr_equal(bad, &wrs[0]);
        assert_string_equal(builder.calls, "(r1r1)");
    }
    wrs[1].opcode = IBV_WR_RDMA_WRITE;      /* no builder */
    memset(&builder, 0, sizeof(builder));
    assert_int_equal(zc_sender_post(&sender, wrs, &accepted, &bad), -EOPNOTSUPP);
    assert_ptr_equal(bad, &wrs[1]);
    assert_string_equal(builder.calls, "(r1!");
    memset(sges, 0, sizeof(sges));
    zc_wr_send(&wrs[1], 5, sges, ZC_INLINE_PIECES_MAX + 1, IBV_SEND_INLINE);
    memset(&builder, 0, sizeof(builder));
    assert_int_equal(zc_sender_post(&sender, wrs, &accepted, &bad), -EINVAL);
    assert_string_equal(builder.calls, "(r1s!");
    assert_string_equal(zc_sender_error_text(&sender, -EINVAL, bad, text, sizeof(text)), "WR 5 was refused: Invalid argument");
    sges[0].length = 17;
    zc_wr_send(&wrs[1], 5, sges, 1, IBV_SEND_INLINE);
    memset(&builder, 0, sizeof(builder));
    assert_int_equal(zc_sender_post(&sender, wrs, &accepted, &bad), -EMSGSIZE);
    assert_string_equal(builder.calls, "(r1s!");
    assert_string_equal(zc_sender_error_text(&sender, -EMSGSIZE, bad, text, sizeof(text)),
                        "WR 5 has 17 inline bytes; the queue pair takes 16");
}

/* What the provider did not take has no slot; `next` is the caller's again, whatever fitted. */
static void test_signaling_with_a_queue_that_is_smaller(void **state)
{
    (void)state;
    const struct zc_sender basic = {.qp = &qp, .max_sge = 1};
    struct ibv_send_wr wrs[8], *bad = NULL;
    struct ibv_sge sges[8];
    struct zc_wr_slot slots[6];
    struct zc_signaling signaling;
    size_t accepted = 99;
    make_reads(wrs, sges, 8);
    for (size_t i = 0; i < 8; i++)
        wrs[i].send_flags = 0;
    zc_signaling_init(&signaling, slots, 6, 4);
    provider.room = 5;
    assert_int_equal(zc_signaling_post(&signaling, &basic, wrs, &accepted, &bad), -ENOMEM);
    assert_int_equal(accepted, 5);
    assert_ptr_equal(bad, &wrs[5]);
    assert_int_equal(signaling.used, 5);
    for (size_t i = 0; i < 7; i++)
        assert_ptr_equal(wrs[i].next, &wrs[i + 1]);
    assert_int_equal(wrs[3].send_flags, IBV_SEND_SIGNALED);
    assert_int_equal(wrs[4].send_flags, 0);
    const struct ibv_wc wc = {.wr_id = 103, .status = IBV_WC_SUCCESS};
    assert_int_equal(zc_signaling_done(&signaling, &wc), 4);
    assert_int_equal(zc_signaling_free(&signaling), 5);
    assert_int_equal(zc_signaling_done(&signaling, &wc), 0);    /* none of the rest is signaled */
    provider.room = 64;
    assert_int_equal(zc_signaling_post(&signaling, &basic, bad, &accepted, &bad), 0);
    assert_int_equal(accepted, 3);
    assert_int_equal(wrs[7].send_flags, IBV_SEND_SIGNALED);     /* 4 to 6 went before it */
    assert_int_equal(zc_signaling_done(&signaling, &wc), 4);
    assert_int_equal(signaling.used, 0);
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
        cmocka_unit_test_setup(test_extended_translation, reset),
        cmocka_unit_test_setup(test_extended_refusals, reset),
        cmocka_unit_test_setup(test_signaling_with_a_queue_that_is_smaller, reset),
        cmocka_unit_test_setup(test_slots, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
