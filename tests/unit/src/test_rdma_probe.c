/* zc_probe_run() for real, against a responder in a thread of this process: every row of the plan has a figure or says why not, and
 * nothing is left behind, however it ends. */
#include "rdma_fixture.h"

#include <math.h>
#include <sys/resource.h>

#include "probe_run.h"

static struct zc_probe probe;
static struct zc_probe_progress progress;
static unsigned wakes;

static int set_up(void **state)
{
    (void)state;
    fixture_start(&fixture);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    return 0;
}

static void on_wake(void *arg)
{
    (void)arg;
    wakes++;
}

static struct zc_probe_params params(bool quick)
{
    return (struct zc_probe_params){ .device = fixture.device, .host = zc_device_info(fixture.device)->address, .port = fixture.port,
                                     .quick = quick, .cancel_fd = -1, .progress = &progress, .wake = on_wake };
}

static void run(const struct zc_probe_params *params, int expected)
{
    const struct fixture_counts before = fixture_count();
    const unsigned descriptors = fixture_descriptors();
    struct zc_error err;
    zc_probe_init(&probe);
    const int rc = zc_probe_run(params, &probe, &err);
    if (rc != expected)
        fail_msg("%d instead of %d: %s", rc, expected, err.message);
    fixture_assert_counts(before);
    assert_true(fixture_wait_sessions(&fixture, 0, 3000));
    assert_int_equal(fixture_descriptors(), descriptors);
    assert_int_equal(probe.made, expected == 0);
}

static unsigned assert_rows(void)
{
    unsigned measured = 0;
    for (uint32_t i = 0; i < probe.row_count; i++) {
        const struct zc_probe_row *const row = &probe.rows[i];
        if (row->why[0]) {
            assert_true(isnan(row->time_s.median) && isnan(row->min_s));
            print_message("    %s of %lu, pages %s: %s\n", zc_probe_what_names[row->is.what], (unsigned long)row->is.size_bytes,
                          zc_pages_names[row->is.pages], row->why);
            continue;
        }
        measured++;
        assert_true(row->time_s.trials >= 7);
        assert_true(row->min_s > 0 && row->min_s <= row->time_s.low && row->time_s.low <= row->time_s.median);
        assert_true(row->time_s.median <= row->time_s.high && row->time_s.high <= row->max_s);
    }
    return measured;
}

static uint32_t rows_of(enum zc_probe_what what)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < probe.row_count; i++)
        count += probe.rows[i].is.what == what;
    return count;
}

static void test_quick(void **state)
{
    (void)state;
    const struct zc_probe_params asked = params(true);
    wakes = 0;
    run(&asked, 0);
    assert_int_equal(assert_rows(), probe.row_count);
    assert_int_equal(rows_of(ZC_PROBE_REGISTER), 7);
    assert_int_equal(rows_of(ZC_PROBE_DEREGISTER), 7);
    assert_int_equal(rows_of(ZC_PROBE_COPY), 7);
    assert_int_equal(rows_of(ZC_PROBE_CONNECT), 0);
    assert_int_equal(probe.fit.sizes, 7);
    assert_int_equal(probe.fit.low_bytes, 4 << 10);
    assert_int_equal(probe.fit.high_bytes, 16 << 20);
    assert_true(probe.fit.base_s >= 0 && probe.fit.per_page_s > 0 && probe.fit.worst_residual >= 0);
    assert_true(zc_probe_copy_s(&probe, 1 << 20) > 0 && zc_probe_read_s(&probe, 1 << 20, false) > 0);
    assert_true(zc_probe_read_s(&probe, 1 << 20, true) > 0);
    assert_true(wakes > 10);
    assert_int_equal(atomic_load(&progress.rows_done), probe.row_count);
    assert_int_equal(atomic_load(&progress.rows), probe.row_count);
    assert_true(probe.started_unix_ns > 0 && probe.finished_unix_ns > probe.started_unix_ns);
    assert_int_equal(probe.peer.region_bytes, FIXTURE_REGION);
    print_message("    %.1f us + %.3f us a page, at worst %.0f %% off, crossover %.0f, %.2f s\n", probe.fit.base_s * 1e6,
                  probe.fit.per_page_s * 1e6, probe.fit.worst_residual * 100, zc_probe_crossover_bytes(&probe),
                  (double)(probe.finished_unix_ns - probe.started_unix_ns) / 1e9);
}

/* The peer takes one session at a time: the probe has it, and the rows of a second one say what the peer said. */
static void test_full(void **state)
{
    (void)state;
    fixture_responder_stop(&fixture);
    fixture_responder_start(&fixture, 1, 2000);
    const struct zc_probe_params asked = params(false);
    run(&asked, 0);
    const unsigned measured = assert_rows();
    assert_true(measured >= 40);
    for (int what = 0; what < ZC_PROBE_WHAT_COUNT; what++)
        assert_true(rows_of((enum zc_probe_what)what) > 0);
    const struct zc_probe_case cold = { .what = ZC_PROBE_REGISTER, .size_bytes = 1 << 20, .cold = true, .threads = 1 };
    assert_true(zc_probe_find(&probe, &cold)->time_s.median > 0);
    const struct zc_probe_case asleep = { .what = ZC_PROBE_READ, .size_bytes = 8, .threads = 1, .inflight = 1, .event = true };
    assert_true(zc_probe_find(&probe, &asleep)->time_s.median > 0);
    assert_true(zc_probe_find(&probe, &(struct zc_probe_case){ .what = ZC_PROBE_QP_CREATE, .threads = 1 })->time_s.median > 0);
    const struct zc_probe_case session = { .what = ZC_PROBE_CONNECT, .threads = 1 };
    assert_non_null(strstr(zc_probe_find(&probe, &session)->why, "refused"));
    print_message("    %u of %u rows in %.2f s\n", measured, probe.row_count,
                  (double)(probe.finished_unix_ns - probe.started_unix_ns) / 1e9);
}

/* Cancelled from its own progress, at different rows. */
static atomic_bool cancelled;
static unsigned cancel_at;

static void cancel_on_wake(void *arg)
{
    eventfd_t *const fd = arg;
    if (++wakes < cancel_at)
        return;
    atomic_store(&cancelled, true);
    eventfd_write((int)*fd, 1);
}

static void test_cancel(void **state)
{
    (void)state;
    static const unsigned places[] = { 1, 17 };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        eventfd_t fd = (eventfd_t)eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        struct zc_probe_params asked = params(false);
        asked.cancel_fd = (int)fd;
        asked.cancel = &cancelled;
        asked.wake = cancel_on_wake;
        asked.wake_arg = &fd;
        atomic_store(&cancelled, false);
        wakes = 0;
        cancel_at = places[i];
        run(&asked, -ECANCELED);
        assert_int_equal(probe.state, ZC_RUN_CANCELLED);
        assert_int_equal(probe.error.kind, ZC_ERR_CANCELLED);
        assert_true(probe.row_count > 0 && isnan(probe.rows[probe.row_count - 1].time_s.median));
        assert_int_equal(isnan(probe.rows[0].time_s.median), i == 0);
        close((int)fd);
    }
}

static void test_no_peer(void **state)
{
    (void)state;
    struct zc_probe_params asked = params(true);
    asked.port = 1;
    run(&asked, -ECONNREFUSED);
    assert_int_equal(probe.error.kind, ZC_ERR_PEER);
    assert_int_equal(probe.state, ZC_RUN_FAILED);
    assert_int_equal(probe.row_count, 0);
    assert_true(isnan(zc_probe_registration_s(&probe, 4096)) && isnan(zc_probe_copy_s(&probe, 4096)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quick, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_peer, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
