/* Who reads inline bytes, and when. The provider's functions are wrapped: outside of them the page with the bytes is inaccessible, so
 * that a reader besides the provider - a copy of ours, or the device later - ends the test with SIGSEGV; and the addresses that the
 * provider gets are the caller's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "pair.h"

enum { LENGTH = 48, PAGE = 4096 };

static struct pair pair;
static uint8_t *page;
static const struct ibv_send_wr *posted_wr;     /* what the caller has posted */
static struct {
    bool change_before, change_after;           /* within the provider's function: before it reads, after it has read */
    unsigned calls;
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
    void (*set_inline)(struct ibv_qp_ex *ex, void *address, size_t length);
    void (*set_inline_list)(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list);
} provider;

static void set_page(int protection)
{
    assert_int_equal(mprotect(page, PAGE, protection), 0);
}

static void enter(void)
{
    provider.calls++;
    set_page(PROT_READ | PROT_WRITE);
    if (provider.change_before)
        memset(page, 'n', LENGTH);
}

static void leave(void)
{
    if (provider.change_after)
        memset(page, 'x', LENGTH);
    set_page(PROT_NONE);
}

static int watched_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    assert_ptr_equal(wr, posted_wr);            /* the caller's WR, SGEs and bytes: nothing was rebuilt */
    assert_ptr_equal(wr->sg_list, posted_wr->sg_list);
    assert_int_equal(wr->sg_list[0].addr, (uintptr_t)page);
    enter();
    const int rc = provider.post_send(qp, wr, bad);
    leave();
    return rc;
}

static void watched_set_inline(struct ibv_qp_ex *ex, void *address, size_t length)
{
    assert_ptr_equal(address, page);
    assert_int_equal(length, LENGTH);
    enter();
    provider.set_inline(ex, address, length);
    leave();
}

static void watched_set_inline_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list)
{
    assert_int_equal(count, 2);
    assert_ptr_equal(list[0].addr, page);
    assert_ptr_equal(list[1].addr, page + LENGTH / 2);
    enter();
    provider.set_inline_list(ex, count, list);
    leave();
}

static void open_watched(enum zc_family family)
{
    pair_open(&pair, &(struct pair_options){.family = family, .inline_bytes = LENGTH});
    memset(&provider, 0, sizeof provider);
    struct ibv_qp_ex *const ex = pair.sender[0].ex;
    if (ex) {
        provider.set_inline = ex->wr_set_inline_data;
        provider.set_inline_list = ex->wr_set_inline_data_list;
        ex->wr_set_inline_data = watched_set_inline;
        ex->wr_set_inline_data_list = watched_set_inline_list;
    } else {
        provider.post_send = pair.context->ops.post_send;
        pair.context->ops.post_send = watched_post_send;
    }
}

/* Send the page's bytes in `pieces`, and look at what arrives. */
static void send_and_expect(int pieces, bool change_before, bool change_after, char expected)
{
    struct ibv_sge to = pair_sge(&pair, 1, 0, LENGTH), from[2];
    struct ibv_recv_wr receive;
    struct ibv_send_wr wr;
    uint8_t wanted[LENGTH];
    zc_wr_recv(&receive, 1, &to, 1);
    assert_int_equal(zc_post_recv(pair.qp[1], &receive, NULL, NULL), 0);
    provider.change_before = change_before;
    provider.change_after = change_after;
    provider.calls = 0;
    set_page(PROT_READ | PROT_WRITE);
    memset(page, 'o', LENGTH);
    if (pieces == 1) {
        zc_wr_send_inline(&wr, 2, from, page, LENGTH, IBV_SEND_SIGNALED);
    } else {
        from[0] = (struct ibv_sge){.addr = (uintptr_t)page, .length = LENGTH / 2};
        from[1] = (struct ibv_sge){.addr = (uintptr_t)page + LENGTH / 2, .length = LENGTH / 2};
        zc_wr_send(&wr, 2, from, 2, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    }
    posted_wr = &wr;
    set_page(PROT_NONE);                        /* until the provider is asked, and again when it has answered */
    assert_int_equal(zc_sender_post(&pair.sender[0], &wr, NULL, NULL), 0);
    assert_int_equal(provider.calls, 1);
    memset(&wr, 0xee, sizeof wr);               /* the caller's again */
    memset(from, 0xee, sizeof from);
    assert_int_equal(pair_wait(&pair, 0).status, IBV_WC_SUCCESS);
    const struct ibv_wc wc = pair_wait(&pair, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, LENGTH);
    memset(wanted, expected, LENGTH);
    assert_memory_equal(pair.memory[1], wanted, LENGTH);
}

static void test_family(enum zc_family family)
{
    open_watched(family);
    for (int pieces = 1; pieces <= 2 && (uint32_t)pieces <= pair.sender[0].max_sge; pieces++) {
        send_and_expect(pieces, false, false, 'o');
        send_and_expect(pieces, true, false, 'n');      /* changed before the provider reads: the new ones */
        send_and_expect(pieces, false, true, 'o');      /* changed as soon as it has read: the old ones */
    }
    if (!pair.sender[0].ex)
        pair.context->ops.post_send = provider.post_send;
    pair_close(&pair);
}

static void test_basic(void **state)
{
    (void)state;
    test_family(ZC_FAMILY_BASIC);
}

static void test_extended(void **state)
{
    (void)state;
    test_family(ZC_FAMILY_EXTENDED);
}

static int make_page(void **state)
{
    (void)state;
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_basic), cmocka_unit_test(test_extended)};
    return cmocka_run_group_tests_name("inline", tests, make_page, NULL);
}
