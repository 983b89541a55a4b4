/* Taking completions from extended CQs of both manners: one whose poll goes on after ibv_next_poll() found nothing, and librxe's, which
 * has ended it then, and whose ibv_end_poll() takes another entry in any case. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "poller.h"

enum { ENTRIES = 64 };

/* The first member of an extended CQ is what the reader sees of the current entry. */
struct fake {
    struct ibv_cq_ex ex;
    uint32_t consumer, producer, current;   /* free-running */
    bool open;                              /* between start and end */
    bool rxe;
};

static struct fake *fake_of(struct ibv_cq_ex *ex)
{
    return (struct fake *)ex;
}

static void show(struct fake *fake)
{
    fake->ex.wr_id = fake->current < fake->producer ? 100 + fake->current : 0;
    fake->ex.status = IBV_WC_SUCCESS;
}

static int start(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct fake *const fake = fake_of(ex);
    (void)attr;
    assert_false(fake->open);
    if (fake->consumer == fake->producer)
        return ENOENT;
    fake->open = true;
    fake->current = fake->consumer;
    show(fake);
    return 0;
}

static int next(struct ibv_cq_ex *ex)
{
    struct fake *const fake = fake_of(ex);
    assert_true(fake->open);
    if (++fake->current == fake->producer) {
        if (fake->rxe) {
            fake->consumer = fake->current;
            fake->open = false;
        }
        return ENOENT;
    }
    show(fake);
    return 0;
}

static void end(struct ibv_cq_ex *ex)
{
    struct fake *const fake = fake_of(ex);
    if (fake->rxe)
        fake->consumer = fake->current + 1;
    else
        fake->consumer = fake->current < fake->producer ? fake->current + 1 : fake->current;
    fake->open = false;
}

static enum ibv_wc_opcode opcode(struct ibv_cq_ex *ex)
{
    (void)ex;
    return IBV_WC_RDMA_READ;
}

static unsigned flags(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

static uint32_t nothing(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

static struct fake make(bool rxe)
{
    return (struct fake){ .ex = { .start_poll = start, .next_poll = next, .end_poll = end, .read_opcode = opcode, .read_wc_flags = flags,
                                  .read_vendor_err = nothing }, .rxe = rxe };
}

static void take(bool rxe)
{
    struct fake fake = make(rxe);
    const struct zc_poller poller = { .ex = &fake.ex };
    struct ibv_wc wcs[8];
    uint64_t expected = 100;
    for (uint32_t more = 0; more < ENTRIES; more++) {
        fake.producer += more % 11;
        for (int count; (count = zc_poll(&poller, 8, wcs)) > 0;)
            for (int i = 0; i < count; i++)
                assert_int_equal(wcs[i].wr_id, expected++);
        assert_int_equal(fake.consumer, fake.producer);
        assert_false(fake.open);
    }
    assert_int_equal(expected, 100 + fake.producer);
}

static void test_each_once(void **state)
{
    (void)state;
    take(false);
}

static void test_each_once_on_rxe(void **state)
{
    (void)state;
    take(true);
}

static void test_no_more_than_asked(void **state)
{
    (void)state;
    struct fake fake = make(true);
    const struct zc_poller poller = { .ex = &fake.ex };
    struct ibv_wc wcs[4];
    fake.producer = 5;
    assert_int_equal(zc_poll(&poller, 0, wcs), 0);
    assert_int_equal(zc_poll(&poller, 4, wcs), 4);
    assert_int_equal(zc_poll(&poller, 4, wcs), 1);
    assert_int_equal(wcs[0].wr_id, 104);
    assert_int_equal(zc_poll(&poller, 4, wcs), 0);
}

static int broken(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    (void)ex, (void)attr;
    return EIO;
}

static void test_error(void **state)
{
    (void)state;
    struct fake fake = make(false);
    const struct zc_poller poller = { .ex = &fake.ex };
    struct ibv_wc wcs[4];
    fake.ex.start_poll = broken;
    assert_int_equal(zc_poll(&poller, 4, wcs), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once), cmocka_unit_test(test_each_once_on_rxe), cmocka_unit_test(test_no_more_than_asked),
        cmocka_unit_test(test_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
