/* --threads: several callers in one run, for real; and how their figures are put together. */
#include "measure_fixture.h"

#include "callers.h"

static void test_three_callers(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(64 << 10);
    options.threads = 3;
    options.validate = ZC_VALIDATE_ALL;
    options.footprint_bytes = 6 << 20;
    assert_done(&result);
    assert_int_equal(result.terms.qps, 3);
    assert_int_equal(result.terms.inflight, 3);
    assert_int_equal(result.terms.buffers, 96);         /* a third of the footprint each */
    assert_true(result.validation.requests >= 3 && !result.validation.failed);
    assert_true(result.available.count >= 3 && result.available.count == result.reclaimed.count);

    const struct zc_throughput *const throughput = &result.throughput;
    assert_true(throughput->measured && throughput->requests >= 3);
    assert_int_equal(throughput->bytes, throughput->requests * options.size_bytes);
    assert_int_equal(throughput->duration_ns, 350000000);
    uint64_t sum = 0;
    for (size_t i = 0; i < throughput->series_length; i++)
        sum += throughput->series_bytes[i];
    assert_int_equal(sum, throughput->bytes);
    assert_true(result.cost.measured && result.cost.bytes == result.cost.requests * options.size_bytes);
#ifdef COUNTS_ALLOCATIONS
    assert_int_equal(result.cost.allocations, 0);
#endif
    assert_int_equal(result.config.threads, 3);
    assert_int_equal(result.config.wait, ZC_WAIT_POLL);     /* the echo is what was asked for */
    zc_result_destroy(&result);
}

static void test_registering_callers(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(64 << 10);
    options.strategy = ZC_NAIVE_BLOCKING;
    options.threads = 2;
    options.buffers = ZC_BUFFERS_FRESH;
    assert_done(&result);
    /* What is in flight when the window opens was registered before. */
    assert_true(result.cost.registrations + options.threads >= result.throughput.requests);
    assert_true(result.phases.register_ns > 0 && result.phases.discard_ns > 0);
    zc_result_destroy(&result);
}

/* Every session that a caller opens counts; when there are too many for the peer, the run says so and nobody waits for anybody. */
static void test_one_too_many(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(4096);
    options.threads = 12;       /* the peer here takes 8 */
    assert_true(run(&result) < 0);
    assert_int_equal(result.state, ZC_RUN_FAILED);
    assert_int_equal(result.error.kind, ZC_ERR_PEER);
    zc_result_destroy(&result);
}

static void test_cancel(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(64 << 10);
    options.threads = 2;
    options.measure_s = 60;
    act_in = ZC_PHASE_THROUGHPUT;
    options.skip_latency = true;
    cancel_after_s = 0.2;
    assert_int_equal(run(&result), -ECANCELED);
    assert_int_equal(result.state, ZC_RUN_CANCELLED);
    assert_true(result.throughput.measured && result.throughput.requests > 0);
    assert_true(zc_now_ns() - cancelled_ns < UINT64_C(2000000000));
    zc_result_destroy(&result);
}

static void test_a_lost_peer(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(64 << 10);
    options.threads = 2;
    options.measure_s = 60;
    options.skip_latency = true;
    act_in = ZC_PHASE_THROUGHPUT;
    stop_peer_after_s = 0.2;
    assert_true(run(&result) < 0);
    assert_int_equal(result.error.kind, ZC_ERR_PEER);
    zc_result_destroy(&result);
}

static void test_merging(void **state)
{
    (void)state;
    struct zc_result a, b;
    zc_result_init(&a);
    zc_result_init(&b);
    a.terms.inflight = 2, b.terms.inflight = 3;
    a.terms.huge_page_bytes = 5;        /* and b's are unknown */
    a.phases = (struct zc_phases){.requests = 1, .post_ns = 100, .wait_ns = 10, .register_ns = NAN, .copy_ns = 7};
    b.phases = (struct zc_phases){.requests = 3, .post_ns = 200, .wait_ns = 10, .register_ns = NAN, .copy_ns = 7};
    b.validation = (struct zc_validation){.mode = ZC_VALIDATE_FIRST, .failed = true, .first_bad_offset = 9, .requests = 1};
    a.cost.measured = b.cost.measured = true;
    a.cost.duration_ns = 5, b.cost.duration_ns = 7;
    a.cost.cpu_user_ns = 1, b.cost.cpu_user_ns = 2;
    a.throughput.measured = true;       /* but not by b */
    zc_callers_merge(&a, &b);
    assert_int_equal(a.terms.inflight, 5);
    assert_true(a.terms.huge_page_bytes == ZC_UNMEASURED);
    assert_int_equal(a.phases.requests, 4);
    assert_true(fabs(a.phases.post_ns - 175) < 1e-9 && isnan(a.phases.register_ns));
    assert_true(a.validation.failed && a.validation.first_bad_offset == 9 && a.validation.requests == 1);
    assert_true(a.cost.measured && a.cost.duration_ns == 7 && a.cost.cpu_user_ns == 3);
    assert_false(a.throughput.measured);
    zc_result_destroy(&a);
    zc_result_destroy(&b);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, start_peer, stop_peer)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_three_callers), CASE(test_registering_callers), CASE(test_one_too_many), CASE(test_cancel), CASE(test_a_lost_peer),
        cmocka_unit_test(test_merging),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
