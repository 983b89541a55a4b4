/* zc_measure() for real: against a responder in a thread of this process, over whatever device is there (under ctest the software
 * device; in the lab rxe). */
#include "measure_fixture.h"

static void assert_latency(const struct zc_latency *latency)
{
    assert_true(latency->count > 0);
    assert_true(latency->min_ns > 0 && latency->min_ns <= latency->max_ns);
    assert_true(latency->mean_ns >= (double)latency->min_ns && latency->mean_ns <= (double)latency->max_ns);
    if (latency->p50_ns != ZC_UNMEASURED)
        assert_in_range(latency->p50_ns, latency->min_ns, latency->max_ns);
    assert_int_equal(latency->p99_99_ns == ZC_UNMEASURED, latency->count < 100000);
}

static void test_a_run(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(256 << 10);
    options.mr_size_bytes = 64 << 10;
    assert_done(&result);
    assert_int_equal(result.peer.region_bytes, REGION);
    assert_int_equal(result.validation.requests, 1);
    assert_false(result.validation.failed);
    assert_latency(&result.available);
    assert_latency(&result.reclaimed);

    const struct zc_throughput *const throughput = &result.throughput;
    assert_true(throughput->measured);
    assert_int_equal(throughput->duration_ns, 350000000);
    assert_int_equal(throughput->bytes, throughput->requests * options.size_bytes);
    assert_int_equal(throughput->series_length, 4);
    uint64_t sum = 0;
    for (size_t i = 0; i < throughput->series_length; i++)
        sum += throughput->series_bytes[i];
    assert_int_equal(sum, throughput->bytes);

    assert_int_equal(result.terms.inflight, 1);
    assert_int_equal(result.terms.buffers, 32);
    assert_int_equal(result.terms.footprint_bytes, 8 << 20);
    assert_int_equal(result.terms.chunk_bytes, 64 << 10);
    assert_int_equal(result.terms.chunks, 4);
    assert_true(result.terms.staging_slots >= 1 && result.terms.staging_slots <= 4);
    assert_true(result.terms.outstanding_reads >= 1);

    const struct zc_phases *const phases = &result.phases;
    assert_true(phases->requests > 0 && isnan(phases->register_ns) && isnan(phases->deregister_ns));
    assert_true(phases->post_ns > 0 && phases->copy_ns > 0 && phases->wait_ns >= 0);
    const struct zc_cost *const cost = &result.cost;
    assert_true(cost->measured && cost->requests > 0 && cost->bytes == cost->requests * options.size_bytes);
    assert_int_equal(cost->registrations, 0);
#ifdef COUNTS_ALLOCATIONS
    assert_int_equal(cost->allocations, 0);
#endif
    assert_int_equal(cost->device_cpu_ns == ZC_UNMEASURED, result.environment.device.kind != ZC_DEVICE_SOFTWARE);
    assert_true(result.finished_unix_ns > result.started_unix_ns);
    assert_true(wakes >= 7 && atomic_load(&progress.elapsed_ns) <= atomic_load(&progress.total_ns));
    print_message("    %.3f GiB/s, p50 %.1f us, copy %.1f us, wait %.1f us, post %.1f us, cpu %.3f s/GiB, longest silence %.0f ms\n",
                  (double)throughput->bytes / (double)throughput->duration_ns / 1.073741824, (double)result.available.p50_ns / 1e3,
                  phases->copy_ns / 1e3, phases->wait_ns / 1e3, phases->post_ns / 1e3,
                  (double)(cost->cpu_user_ns + cost->cpu_system_ns) / (double)cost->bytes * 1.073741824, (double)longest_gap_ns / 1e6);
    zc_result_destroy(&result);
}

static void test_fresh_consumed_huge(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(100000);
    options.buffers = ZC_BUFFERS_FRESH;
    options.consume = true;
    options.validate = ZC_VALIDATE_ALL;
    assert_done(&result);
    assert_true(result.phases.discard_ns > 0 && result.phases.consume_ns > 0);
    assert_int_equal(result.terms.page_bytes, 4096);
    assert_int_equal(result.terms.footprint_bytes, result.terms.buffers * 102400);
    zc_result_destroy(&result);

    set_options(100000);
    options.pages = ZC_PAGES_1G;
    options.memory_max_bytes = UINT64_C(1) << 30;
    if (run(&result) < 0) {     /* hardly any machine has some to spare */
        assert_string_equal(result.error.field, "pages");
    } else {
        assert_int_equal(result.terms.page_bytes, 1 << 30);
        assert_int_equal(result.terms.huge_page_bytes, 1 << 30);
    }
    assert_true(isnan(result.phases.discard_ns) && isnan(result.phases.consume_ns));
    zc_result_destroy(&result);
}

static void test_every_byte_of_many_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 4095, 4096, (64 << 10) + 1, 1 << 20, (3 << 20) + 7};
    static const uint64_t chunks[] = {4096, 100000, 256 << 10};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
            struct zc_result result;
            set_options(sizes[s]);
            options.mr_size_bytes = chunks[c];
            options.validate = ZC_VALIDATE_ALL;
            options.warmup_s = 0;
            options.measure_s = 0.05;
            options.footprint_bytes = 4 << 20;
            options.skip_latency = options.skip_throughput = true;
            assert_done(&result);
            assert_true(result.validation.requests >= 1);
            assert_int_equal(result.validation.bytes, result.validation.requests * sizes[s]);
            zc_result_destroy(&result);
        }
}

static void test_event_mode(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(64 << 10);
    options.wait = ZC_WAIT_EVENT;
    options.offset = ZC_OFFSET_FIXED;
    options.validate = ZC_VALIDATE_ALL;
    assert_done(&result);
    assert_latency(&result.available);
    assert_true(result.throughput.measured);
    zc_result_destroy(&result);
}

static void test_skipping(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(4096);
    options.skip_validation = options.skip_latency = true;
    assert_done(&result);
    assert_int_equal(result.validation.requests, 0);
    assert_int_equal(result.available.count, 0);
    assert_true(result.throughput.measured);
    zc_result_destroy(&result);

    set_options(4096);
    options.skip_throughput = true;
    assert_done(&result);
    assert_latency(&result.available);
    assert_false(result.throughput.measured);
    assert_int_equal(result.throughput.series_length, 0);
    zc_result_destroy(&result);
}

static void test_cancel_keeps_a_partial_window(void **state)
{
    (void)state;
    for (int wait = ZC_WAIT_POLL; wait <= ZC_WAIT_EVENT; wait++) {
        struct zc_result result;
        set_options(16 << 10);
        options.wait = wait;
        options.measure_s = 30;
        options.skip_latency = true;
        act_in = ZC_PHASE_THROUGHPUT;
        cancel_after_s = 0.25;
        assert_int_equal(run(&result), -ECANCELED);
        const uint64_t took = zc_now_ns() - cancelled_ns;
        print_message("    released %.1f ms after the cancellation\n", (double)took / 1e6);
        assert_int_equal(result.state, ZC_RUN_CANCELLED);
        assert_int_equal(result.error.kind, ZC_ERR_CANCELLED);
        assert_true(result.throughput.measured);
        assert_in_range(result.throughput.duration_ns, 250000000, 2000000000);
        assert_int_equal(result.throughput.series_length, (result.throughput.duration_ns + 99999999) / 100000000);
        assert_false(result.cost.measured);
        zc_result_destroy(&result);
    }
}

static void test_a_peer_that_goes_away(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(16 << 10);
    options.measure_s = 30;
    act_in = ZC_PHASE_LATENCY;
    stop_peer_after_s = 0.2;
    assert_true(run(&result) < 0);
    assert_int_equal(result.state, ZC_RUN_FAILED);
    assert_int_equal(result.error.kind, ZC_ERR_PEER);
    assert_int_equal(result.available.count, 0);
    zc_result_destroy(&result);
}

/* The rkey that a run reads with becomes invalid under it. The session ends, its run says of what, and the next one has a new rkey. */
static void test_a_region_that_is_withdrawn(void **state)
{
    (void)state;
    struct zc_result result;
    struct zc_error err = {.kind = ZC_ERR_NONE};
    set_options(16 << 10);
    options.measure_s = 30;
    act_in = ZC_PHASE_LATENCY;
    withdraw_after_s = 0.2;
    assert_int_equal(run(&result), -EIO);
    assert_int_equal(result.state, ZC_RUN_FAILED);
    assert_int_equal(result.error.kind, ZC_ERR_PEER);
    assert_non_null(strstr(result.error.message, "failed at the peer: remote access error"));
    zc_result_destroy(&result);
    assert_int_equal(zc_region_offer(region, device, &err), 0);
    withdrawn = false;
    set_options(16 << 10);
    options.validate = ZC_VALIDATE_ALL;
    assert_done(&result);
    assert_int_equal(result.validation.failed, false);
    zc_result_destroy(&result);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(4096);
    const uint16_t port = zc_responder_port(responder);
    stop_peer_now();
    const uint64_t begin = zc_now_ns();
    const uint64_t mrs = atomic_load(&zc_counters.mrs);
    zc_result_init(&result);
    const struct zc_measure_params params = {.device = device, .options = options, .host = zc_device_info(device)->address,
                                             .port = port, .cancel_fd = -1};
    assert_true(zc_measure(&params, &result) < 0);
    assert_int_equal(result.error.kind, ZC_ERR_PEER);
    assert_true(zc_now_ns() - begin < UINT64_C(7000000000));
    assert_int_equal(atomic_load(&zc_counters.mrs), mrs);
    zc_result_destroy(&result);
}

static void test_sizes_that_cannot_be(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(REGION + 1);
    options.memory_max_bytes = 2 * REGION;
    assert_int_equal(run(&result), -EINVAL);
    assert_string_equal(result.error.field, "size");
    assert_string_equal(result.error.message, "size 16777217 is larger than the peer's region of 16777216 bytes");
    zc_result_destroy(&result);

    set_options(REGION);
    options.memory_max_bytes = REGION - 1;
    assert_int_equal(run(&result), -EINVAL);
    assert_string_equal(result.error.field, "size");
    assert_string_equal(result.error.message, "size 16777216 is larger than memory_max 16777215");
    zc_result_destroy(&result);
}

static void test_the_whole_region(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(REGION);
    options.validate = ZC_VALIDATE_ALL;
    options.measure_s = 2;
    options.skip_throughput = true;
    assert_done(&result);
    assert_int_equal(result.terms.buffers, 1);
    zc_result_destroy(&result);
}

static void test_nothing_in_the_window(void **state)
{
    (void)state;
    struct zc_result result;
    set_options(REGION);
    options.warmup_s = 0;
    options.measure_s = 0.0005;
    assert_true(run(&result) < 0);
    assert_int_equal(result.error.kind, ZC_ERR_UNMEASURED);
    assert_int_equal(result.state, ZC_RUN_FAILED);
    assert_true(result.available.p50_ns == ZC_UNMEASURED);
    zc_result_destroy(&result);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, start_peer, stop_peer)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_run),
        CASE(test_fresh_consumed_huge),
        CASE(test_every_byte_of_many_sizes),
        CASE(test_event_mode),
        CASE(test_skipping),
        CASE(test_cancel_keeps_a_partial_window),
        CASE(test_a_peer_that_goes_away),
        CASE(test_a_region_that_is_withdrawn),
        CASE(test_nobody_listens),
        CASE(test_sizes_that_cannot_be),
        CASE(test_the_whole_region),
        CASE(test_nothing_in_the_window),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
