/* Posting on queue pairs of one's own, in both families: the same program on the software device and, in the lab, on Soft-RoCE. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"

enum { INLINE = 64, DATA = 4096, REMOTE = 64 << 10 };

static const enum zc_family families[] = {ZC_FAMILY_BASIC, ZC_FAMILY_EXTENDED};
#define EACH_FAMILY(family) for (enum zc_family family = ZC_FAMILY_BASIC; family <= ZC_FAMILY_EXTENDED; family++)

static void expect(const struct pair *pair, int side, uint64_t wr_id, enum ibv_wc_status status)
{
    const struct ibv_wc wc = pair_wait(pair, side);
    if (wc.wr_id != wr_id || wc.status != status)
        print_error("wr_id %lu: %s\n", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.status, status);
}

static void nothing_more(const struct pair *pair, int side)
{
    struct ibv_wc wc;
    assert_int_equal(zc_poll(&pair->poller[side], 1, &wc), 0);
}

static void fill(uint8_t *bytes, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static void post_one(const struct pair *pair, struct ibv_send_wr *wr)
{
    size_t accepted = 99;
    struct ibv_send_wr *bad = wr;
    const int rc = zc_sender_post(&pair->sender[0], wr, &accepted, &bad);
    if (rc) {
        char text[160];
        fail_msg("%s", zc_sender_error_text(&pair->sender[0], rc, bad, text, sizeof text));
    }
    assert_null(bad);
    assert_int_equal(accepted, 1);
}

static void receive(const struct pair *pair, struct ibv_recv_wr *list, size_t count)
{
    size_t accepted = 99;
    struct ibv_recv_wr *bad = list;
    assert_int_equal(pair->srq ? zc_post_srq_recv(pair->srq, list, &accepted, &bad) : zc_post_recv(pair->qp[1], list, &accepted, &bad), 0);
    assert_int_equal(accepted, count);
    assert_null(bad);
}

/* --- what is moved --------------------------------------------------------------------------------------------------------- */

/* Soft-RoCE's library miscounts lists in the extended family, and there only. */
static bool takes_lists(const struct pair *pair)
{
    if (pair->sender[0].max_sge < 3)
        assert_true(zc_sender_family(&pair->sender[0]) == ZC_FAMILY_EXTENDED && getenv("ZC_LAB"));
    return pair->sender[0].max_sge >= 3;
}

static void reads_and_writes(const struct pair *pair)
{
    struct ibv_send_wr wr;
    const uint64_t remote = (uintptr_t)pair->memory[1] + REMOTE;
    struct ibv_sge sges[3] = {pair_sge(pair, 0, 0, 1000), pair_sge(pair, 0, 8192, 96), pair_sge(pair, 0, 3000, 1000)};
    fill(pair->memory[1] + REMOTE, DATA, 1);
    zc_wr_read(&wr, 1, sges, 3, remote, pair->mr[1]->rkey, IBV_SEND_SIGNALED);
    if (takes_lists(pair)) {
        post_one(pair, &wr);
        expect(pair, 0, 1, IBV_WC_SUCCESS);
        assert_memory_equal(pair->memory[0], pair->memory[1] + REMOTE, 1000);
        assert_memory_equal(pair->memory[0] + 8192, pair->memory[1] + REMOTE + 1000, 96);
        assert_memory_equal(pair->memory[0] + 3000, pair->memory[1] + REMOTE + 1096, 1000);
    } else {
        assert_int_equal(zc_sender_post(&pair->sender[0], &wr, NULL, NULL), -EINVAL);
    }

    fill(pair->memory[0], DATA, 2);
    sges[0].length = DATA;
    zc_wr_write(&wr, 2, sges, 1, remote, pair->mr[1]->rkey, IBV_SEND_SIGNALED);
    post_one(pair, &wr);
    expect(pair, 0, 2, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[0], pair->memory[1] + REMOTE, DATA);
    zc_wr_read(&wr, 3, NULL, 0, remote, pair->mr[1]->rkey, IBV_SEND_SIGNALED);     /* no bytes at all */
    post_one(pair, &wr);
    expect(pair, 0, 3, IBV_WC_SUCCESS);
}

static void atomics(const struct pair *pair)
{
    struct ibv_send_wr wr;
    struct ibv_sge sge = pair_sge(pair, 0, 0, 8);
    uint64_t *const word = (uint64_t *)(void *)(pair->memory[1] + REMOTE), *const before = (uint64_t *)(void *)pair->memory[0];
    *word = 40;
    zc_wr_fetch_add(&wr, 4, &sge, (uintptr_t)word, pair->mr[1]->rkey, 2, IBV_SEND_SIGNALED);
    post_one(pair, &wr);
    expect(pair, 0, 4, IBV_WC_SUCCESS);
    assert_int_equal(*before, 40);
    assert_int_equal(*word, 42);
    zc_wr_cmp_swap(&wr, 5, &sge, (uintptr_t)word, pair->mr[1]->rkey, 42, 7, IBV_SEND_SIGNALED);
    post_one(pair, &wr);
    expect(pair, 0, 5, IBV_WC_SUCCESS);
    assert_int_equal(*before, 42);
    assert_int_equal(*word, 7);
}

/* Into two pieces of memory each, a batch of receives posted with one call. */
static void messages(const struct pair *pair)
{
    struct ibv_recv_wr receives[4];
    struct ibv_sge to[4][2], from[3];
    struct ibv_send_wr wr;
    uint8_t bytes[INLINE];
    for (size_t i = 0; i < 4; i++) {
        to[i][0] = pair_sge(pair, 1, i * 256, 24);
        to[i][1] = pair_sge(pair, 1, i * 256 + 128, 100);
        zc_wr_recv(&receives[i], 100 + i, to[i], 2);
    }
    zc_wr_link_recv(receives, 4);
    receive(pair, receives, 4);

    fill(pair->memory[0], 64, 3);
    from[0] = pair_sge(pair, 0, 0, 64);
    zc_wr_send(&wr, 6, from, 1, IBV_SEND_SIGNALED);
    post_one(pair, &wr);
    fill(bytes, INLINE, 4);
    zc_wr_send_inline(&wr, 7, &from[0], bytes, INLINE, IBV_SEND_SIGNALED);
    post_one(pair, &wr);
    for (int i = 0; i < 3; i++)     /* the same bytes in pieces */
        from[i] = (struct ibv_sge){.addr = (uintptr_t)bytes + (size_t)i * 20, .length = i == 2 ? 24 : 20};
    if (!takes_lists(pair))
        from[0].length = INLINE;
    zc_wr_send_imm(&wr, 8, from, takes_lists(pair) ? 3 : 1, htonl(0x1234), IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    post_one(pair, &wr);
    zc_wr_write_imm(&wr, 9, NULL, 0, (uintptr_t)pair->memory[1] + REMOTE, pair->mr[1]->rkey, htonl(0x5678), IBV_SEND_SIGNALED);
    post_one(pair, &wr);
    for (uint64_t id = 6; id < 10; id++)
        expect(pair, 0, id, IBV_WC_SUCCESS);

    struct ibv_wc wc[4];
    for (size_t i = 0; i < 4; i++) {
        wc[i] = pair_wait(pair, 1);
        assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
        assert_int_equal(wc[i].wr_id, 100 + i);
        assert_int_equal(wc[i].qp_num, pair->qp[1]->qp_num);
    }
    assert_memory_equal(pair->memory[1], pair->memory[0], 24);
    assert_memory_equal(pair->memory[1] + 128, pair->memory[0] + 24, 40);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(wc[i].byte_len, INLINE);
        assert_memory_equal(pair->memory[1] + i * 256, bytes, 24);
        assert_memory_equal(pair->memory[1] + i * 256 + 128, bytes + 24, 40);
    }
    assert_int_equal(wc[0].opcode, IBV_WC_RECV);
    assert_true(wc[2].wc_flags & IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc[2].imm_data), 0x1234);
    assert_int_equal(wc[3].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(ntohl(wc[3].imm_data), 0x5678);
}

static void test_every_operation(void **state)
{
    (void)state;
    EACH_FAMILY(family)
        for (int srq = 0; srq < 2; srq++) {
            struct pair pair;
            pair_open(&pair, &(struct pair_options){.family = family, .inline_bytes = INLINE, .srq = srq});
            assert_int_equal(zc_sender_family(&pair.sender[0]), family);
            reads_and_writes(&pair);
            atomics(&pair);
            messages(&pair);
            nothing_more(&pair, 0);
            nothing_more(&pair, 1);
            pair_close(&pair);
        }
}

/* --- what is refused ------------------------------------------------------------------------------------------------------- */

enum { MANY = 2048 };
static struct ibv_send_wr wrs[MANY];
static struct ibv_sge sges[MANY];

static void make_reads(const struct pair *pair, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sges[i] = pair_sge(pair, 0, i * 64, 64);
        zc_wr_read(&wrs[i], i, &sges[i], 1, (uintptr_t)pair->memory[1] + i * 64, pair->mr[1]->rkey, IBV_SEND_SIGNALED);
    }
    zc_wr_link_send(wrs, count);
}

/* More than the queue takes: part of it, and the rest later as it stands. */
static void test_full_queue_basic(void **state)
{
    (void)state;
    struct pair pair;
    struct ibv_send_wr *rest = wrs;
    size_t accepted = 0, done = 0;
    pair_open(&pair, &(struct pair_options){.family = ZC_FAMILY_BASIC, .send_wr = 16});
    fill(pair.memory[1], MANY * 64, 5);
    make_reads(&pair, MANY);
    bool refused = false;
    while (rest) {
        const int rc = zc_sender_post(&pair.sender[0], rest, &accepted, &rest);
        refused |= rc == -ENOMEM;
        assert_int_equal(rc, rest ? -ENOMEM : 0);
        assert_true(!rest || rest == &wrs[done + accepted]);
        for (size_t i = 0; i < accepted; i++)
            expect(&pair, 0, done + i, IBV_WC_SUCCESS);
        done += accepted;
    }
    assert_true(refused);
    assert_int_equal(done, MANY);
    assert_memory_equal(pair.memory[0], pair.memory[1], MANY * 64);
    pair_close(&pair);
}

static void test_full_queue_extended(void **state)
{
    (void)state;
    struct pair pair;
    struct ibv_send_wr *bad = NULL;
    size_t accepted = 99;
    pair_open(&pair, &(struct pair_options){.family = ZC_FAMILY_EXTENDED, .send_wr = 16});
    make_reads(&pair, MANY);
    assert_int_equal(zc_sender_post(&pair.sender[0], wrs, &accepted, &bad), -ENOMEM);
    assert_int_equal(accepted, 0);
    assert_ptr_equal(bad, wrs);
    nothing_more(&pair, 0);
    zc_wr_link_send(wrs, 16);
    assert_int_equal(zc_sender_post(&pair.sender[0], wrs, &accepted, &bad), 0);
    assert_int_equal(accepted, 16);
    for (size_t i = 0; i < 16; i++)
        expect(&pair, 0, i, IBV_WC_SUCCESS);
    nothing_more(&pair, 0);
    pair_close(&pair);
}

/* What is known beforehand is refused before anything is posted, and the queue pair is as good as before. */
static void refuse(const struct pair *pair, struct ibv_send_wr *list, int error, const struct ibv_send_wr *blamed, const char *words)
{
    char text[160];
    size_t accepted = 99;
    struct ibv_send_wr *bad = NULL;
    assert_int_equal(zc_sender_post(&pair->sender[0], list, &accepted, &bad), error);
    assert_int_equal(accepted, 0);
    assert_ptr_equal(bad, blamed);
    assert_non_null(strstr(zc_sender_error_text(&pair->sender[0], error, bad, text, sizeof text), words));
    nothing_more(pair, 0);
    make_reads(pair, 1);
    post_one(pair, &wrs[0]);
    expect(pair, 0, 0, IBV_WC_SUCCESS);
    nothing_more(pair, 0);
}

static void test_refused_before_posting(void **state)
{
    (void)state;
    static uint8_t bytes[64 << 10];
    EACH_FAMILY(family) {
        struct pair pair;
        char limit[64];
        pair_open(&pair, &(struct pair_options){.family = family, .inline_bytes = INLINE});
        const uint32_t most = pair.sender[0].max_inline_bytes;
        assert_true(most >= INLINE && most < sizeof bytes);

        make_reads(&pair, 3);
        zc_wr_send_inline(&wrs[1], 1, &sges[1], bytes, most + 1, IBV_SEND_SIGNALED);
        wrs[1].next = &wrs[2];
        snprintf(limit, sizeof limit, "takes %u", most);
        refuse(&pair, wrs, -EMSGSIZE, &wrs[1], limit);

        make_reads(&pair, 3);
        struct ibv_sge pieces[] = {{.addr = (uintptr_t)bytes, .length = most}, {.addr = (uintptr_t)bytes, .length = 1}};
        zc_wr_write(&wrs[2], 2, pieces, 2, (uintptr_t)pair.memory[1], pair.mr[1]->rkey, IBV_SEND_INLINE);
        refuse(&pair, wrs, takes_lists(&pair) ? -EMSGSIZE : -EINVAL, &wrs[2], "the queue pair takes");

        make_reads(&pair, 2);
        wrs[1].num_sge = (int)pair.sender[0].max_sge + 1;
        refuse(&pair, wrs, -EINVAL, &wrs[1], "SGEs");
        make_reads(&pair, 2);
        wrs[1].num_sge = -1;
        refuse(&pair, wrs, -EINVAL, &wrs[1], "SGEs");
        pair_close(&pair);
    }
}

/* The extended family is aborted in the middle: the READ before it is not carried out. */
static void test_operation_not_asked_for(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, &(struct pair_options){.family = ZC_FAMILY_EXTENDED, .ops = IBV_QP_EX_WITH_RDMA_READ});
    memset(pair.memory[0], 0xaa, 64);
    memset(pair.memory[1], 0xbb, 64);
    make_reads(&pair, 2);
    sges[1] = pair_sge(&pair, 0, 0, 64);
    zc_wr_send(&wrs[1], 1, &sges[1], 1, IBV_SEND_SIGNALED);
    size_t accepted = 99;
    struct ibv_send_wr *bad = NULL;
    assert_int_equal(zc_sender_post(&pair.sender[0], wrs, &accepted, &bad), -EOPNOTSUPP);
    assert_int_equal(accepted, 0);
    assert_ptr_equal(bad, &wrs[1]);
    assert_int_equal(pair.memory[0][0], 0xaa);
    refuse(&pair, wrs, -EOPNOTSUPP, &wrs[1], "not created for");
    wrs[0].opcode = IBV_WR_TSO;
    refuse(&pair, wrs, -EOPNOTSUPP, &wrs[0], "not created for");
    pair_close(&pair);
}

static void test_receives_that_do_not_fit(void **state)
{
    (void)state;
    struct pair pair;
    struct ibv_recv_wr receives[8], *bad = NULL;
    struct ibv_sge to = {.length = 0};
    size_t accepted = 99;
    for (int srq = 0; srq < 2; srq++) {
        pair_open(&pair, &(struct pair_options){.family = ZC_FAMILY_BASIC, .srq = srq});
        for (size_t i = 0; i < 8; i++)
            zc_wr_recv(&receives[i], i, &to, i == 5 ? 99 : 0);      /* SGEs that no queue takes */
        zc_wr_link_recv(receives, 8);
        const int rc = srq ? zc_post_srq_recv(pair.srq, receives, &accepted, &bad) : zc_post_recv(pair.qp[1], receives, &accepted, &bad);
        assert_int_equal(rc, -EINVAL);
        assert_int_equal(accepted, 5);
        assert_ptr_equal(bad, &receives[5]);
        pair_close(&pair);
    }
}

/* Asked for more completions than there are, again and again: none comes twice, none is made up. */
static void test_polling_for_more_than_there_is(void **state)
{
    (void)state;
    EACH_FAMILY(family) {
        struct pair pair;
        struct ibv_wc wcs[16];
        pair_open(&pair, &(struct pair_options){.family = family});
        for (uint64_t round = 0; round < 50; round++) {
            unsigned seen = 0;
            make_reads(&pair, 5);
            for (size_t i = 0; i < 5; i++)
                wrs[i].wr_id = round * 5 + i + 1;
            assert_int_equal(zc_sender_post(&pair.sender[0], wrs, NULL, NULL), 0);
            while (seen < 5) {
                const int count = zc_poll(&pair.poller[0], 16, wcs);
                assert_in_range(count, 0, 5 - seen);
                for (int i = 0; i < count; i++, seen++) {
                    assert_int_equal(wcs[i].wr_id, round * 5 + seen + 1);
                    assert_int_equal(wcs[i].status, IBV_WC_SUCCESS);
                }
            }
            assert_int_equal(zc_poll(&pair.poller[0], 16, wcs), 0);
        }
        pair_close(&pair);
    }
}

/* --- which family ---------------------------------------------------------------------------------------------------------- */

static void test_family_is_decided_once(void **state)
{
    (void)state;
    struct pair pair;
    struct zc_sender sender;
    pair_open(&pair, &(struct pair_options){.family = ZC_FAMILY_BASIC});
    assert_int_equal(zc_sender_init(&sender, pair.qp[0], ZC_FAMILY_EXTENDED, IBV_QP_EX_WITH_SEND), -EOPNOTSUPP);
    assert_int_equal(zc_sender_init(&sender, pair.qp[0], ZC_FAMILY_AUTO, IBV_QP_EX_WITH_SEND), 0);
    assert_int_equal(zc_sender_family(&sender), ZC_FAMILY_BASIC);
    pair_close(&pair);

    pair_open(&pair, &(struct pair_options){.family = ZC_FAMILY_EXTENDED, .ops = IBV_QP_EX_WITH_RDMA_READ, .sge = 1});
    assert_int_equal(zc_sender_init(&sender, pair.qp[0], ZC_FAMILY_AUTO, IBV_QP_EX_WITH_RDMA_READ), 0);
    assert_int_equal(zc_sender_family(&sender), ZC_FAMILY_EXTENDED);
    assert_int_equal(zc_sender_init(&sender, pair.qp[0], ZC_FAMILY_AUTO, IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND), 0);
    assert_int_equal(zc_sender_family(&sender), ZC_FAMILY_BASIC);
    assert_int_equal(zc_sender_init(&sender, pair.qp[0], ZC_FAMILY_EXTENDED, IBV_QP_EX_WITH_SEND), -EOPNOTSUPP);
    assert_int_equal(zc_sender_init(&sender, pair.qp[0], ZC_FAMILY_EXTENDED, IBV_QP_EX_WITH_TSO), -EOPNOTSUPP);
    assert_int_equal(zc_sender_init(&sender, pair.qp[0], ZC_FAMILY_BASIC, 0), 0);
    assert_int_equal(zc_sender_family(&sender), ZC_FAMILY_BASIC);
    pair_close(&pair);
}

/* --- selective signaling --------------------------------------------------------------------------------------------------- */

/* The caller signals nothing, and 2,000 READs go through a queue of 16. */
static void test_signaling_never_wedges(void **state)
{
    (void)state;
    enum { CAPACITY = 16, ROUNDS = 200, LIST = 10 };
    for (size_t f = 0; f < 2; f++) {
        struct pair pair;
        struct zc_wr_slot slots[CAPACITY];
        struct zc_signaling signaling;
        size_t posted = 0, freed = 0, completions = 0;
        pair_open(&pair, &(struct pair_options){.family = families[f], .send_wr = CAPACITY});
        zc_signaling_init(&signaling, slots, CAPACITY, 5);
        for (int round = 0; round < ROUNDS; round++) {
            make_reads(&pair, LIST);
            for (size_t i = 0; i < LIST; i++)
                wrs[i].send_flags = 0;
            struct ibv_send_wr *rest = wrs;
            while (rest) {
                size_t accepted = 0;
                const int rc = zc_signaling_post(&signaling, &pair.sender[0], rest, &accepted, &rest);
                assert_int_equal(rc, rest ? -ENOMEM : 0);
                posted += accepted;
                assert_int_equal(posted - freed, signaling.used);
                assert_true(signaling.used <= CAPACITY);
                if (!rest)
                    break;
                const struct ibv_wc wc = pair_wait(&pair, 0);
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                freed += zc_signaling_done(&signaling, &wc);
                completions++;
                assert_int_equal(freed, completions * 5);       /* each frees itself and the four before it */
            }
        }
        assert_int_equal(posted, ROUNDS * LIST);
        pair_close(&pair);
    }
}

/* A failure in a row of unsignaled WRs: it frees what stands before it, the flushed ones free themselves, nothing is left. */
static void test_signaling_after_a_failure(void **state)
{
    (void)state;
    enum { CAPACITY = 16, LIST = 8, FAILS = 3 };
    for (size_t f = 0; f < 2; f++) {
        struct pair pair;
        struct zc_wr_slot slots[CAPACITY];
        struct zc_signaling signaling;
        pair_open(&pair, &(struct pair_options){.family = families[f], .send_wr = CAPACITY});
        zc_signaling_init(&signaling, slots, CAPACITY, CAPACITY);
        make_reads(&pair, LIST);
        for (size_t i = 0; i < LIST; i++)
            wrs[i].send_flags = i + 1 == LIST ? IBV_SEND_SIGNALED : 0;
        sges[FAILS].lkey ^= 0x5a5a5a;
        assert_int_equal(zc_signaling_post(&signaling, &pair.sender[0], wrs, NULL, NULL), 0);
        assert_int_equal(signaling.used, LIST);
        struct ibv_wc wc = pair_wait(&pair, 0);
        assert_int_equal(wc.wr_id, FAILS);
        assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
        assert_int_equal(zc_signaling_done(&signaling, &wc), FAILS + 1);
        while (signaling.used > 0) {
            wc = pair_wait(&pair, 0);
            assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
            assert_int_equal(zc_signaling_done(&signaling, &wc), 1);
        }
        nothing_more(&pair, 0);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation), cmocka_unit_test(test_full_queue_basic), cmocka_unit_test(test_full_queue_extended),
        cmocka_unit_test(test_refused_before_posting), cmocka_unit_test(test_operation_not_asked_for),
        cmocka_unit_test(test_receives_that_do_not_fit), cmocka_unit_test(test_polling_for_more_than_there_is),
        cmocka_unit_test(test_family_is_decided_once),
        cmocka_unit_test(test_signaling_never_wedges), cmocka_unit_test(test_signaling_after_a_failure),
    };
    return cmocka_run_group_tests_name("families", tests, NULL, NULL);
}
