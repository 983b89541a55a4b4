/* A million WRs and not one call of the allocator: READs, WRITEs, inline SENDs, receives of a QP and of an SRQ, in both families, batch
 * after batch out of static arrays. The program's own malloc family counts the posting thread's calls, the provider's included
 * (daemon/alloc_count.c). POST_COUNT changes the number: an emulated machine has less time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_count.h"
#include "pair.h"

enum { BATCH = 32 };

static struct ibv_send_wr sends[BATCH];
static struct ibv_recv_wr receives[BATCH];
static struct ibv_sge sges[BATCH], to[BATCH];
static uint8_t bytes[BATCH][32];
static size_t posted;

static void wait_for(const struct pair *pair, int side, unsigned count)
{
    struct ibv_wc wcs[BATCH];
    for (unsigned done = 0; done < count;) {
        const int n = zc_poll(&pair->poller[side], BATCH, wcs);
        for (int i = 0; i < n; i++)
            if (wcs[i].status != IBV_WC_SUCCESS)
                fail_msg("%s", ibv_wc_status_str(wcs[i].status));
        done += n > 0 ? (unsigned)n : 0;
    }
}

static void post_sends(const struct pair *pair)
{
    size_t accepted = 0;
    sends[BATCH - 1].send_flags |= IBV_SEND_SIGNALED;
    zc_wr_link_send(sends, BATCH);
    if (zc_sender_post(&pair->sender[0], sends, &accepted, NULL) || accepted != BATCH)
        fail_msg("a batch was refused");
    posted += accepted;
}

static void rdma(const struct pair *pair, bool write)
{
    for (size_t i = 0; i < BATCH; i++) {
        sges[i] = pair_sge(pair, 0, i * 64, 64);
        const uint64_t remote = (uintptr_t)pair->memory[1] + i * 64;
        if (write)
            zc_wr_write(&sends[i], i, &sges[i], 1, remote, pair->mr[1]->rkey, 0);
        else
            zc_wr_read(&sends[i], i, &sges[i], 1, remote, pair->mr[1]->rkey, 0);
    }
    post_sends(pair);
    wait_for(pair, 0, 1);
}

static void message(const struct pair *pair)
{
    size_t accepted = 0;
    for (size_t i = 0; i < BATCH; i++) {
        to[i] = pair_sge(pair, 1, i * 64, 64);
        zc_wr_recv(&receives[i], i, &to[i], 1);
        zc_wr_send_inline(&sends[i], i, &sges[i], bytes[i], sizeof bytes[i], 0);
    }
    zc_wr_link_recv(receives, BATCH);
    if ((pair->srq ? zc_post_srq_recv(pair->srq, receives, &accepted, NULL) : zc_post_recv(pair->qp[1], receives, &accepted, NULL)) ||
        accepted != BATCH)
        fail_msg("receives were refused");
    posted += accepted;
    post_sends(pair);
    wait_for(pair, 0, 1);
    wait_for(pair, 1, BATCH);
}

/* `share` WRs, in equal parts READs, WRITEs, SENDs with as many receives. */
static void family(enum zc_family which, bool srq, size_t share)
{
    struct pair pair;
    pair_open(&pair, &(struct pair_options){.family = which, .inline_bytes = sizeof bytes[0], .srq = srq});
    rdma(&pair, false);     /* what a provider sets up at the first use it may allocate */
    rdma(&pair, true);
    message(&pair);
    const size_t before = posted;
    const uint64_t calls = alloc_count_thread();
    while (posted - before < share) {
        rdma(&pair, false);
        rdma(&pair, true);
        message(&pair);
    }
    assert_int_equal(alloc_count_thread() - calls, 0);
    pair_close(&pair);
}

static void test_no_allocation(void **state)
{
    (void)state;
    if (!alloc_count_thread)
        skip();
    const char *const count = getenv("POST_COUNT");
    const size_t total = count ? strtoul(count, NULL, 10) : 1000000;
    for (enum zc_family which = ZC_FAMILY_BASIC; which <= ZC_FAMILY_EXTENDED; which++)
        for (int srq = 0; srq < 2; srq++)
            family(which, srq, total / 4);
    assert_true(posted >= total);
    printf("%zu WRs posted, 0 calls of the allocator\n", posted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_allocation)};
    return cmocka_run_group_tests_name("million", tests, NULL, NULL);
}
