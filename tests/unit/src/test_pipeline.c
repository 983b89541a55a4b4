/* The pipeline and the blocking execution against pretended verbs: order, overlap, limits, failures. */
#include "fake_rdma.h"

#include "clock.h"
#include "pipeline.h"

static struct zc_run_options options;
static atomic_bool cancel;
static uint64_t stuck_ns;
static uint8_t user[FAKE_REGION];

/* The row under test, with an after() that looks at what is in flight while it runs. */
static struct zc_memory_ops watched_memory;
static struct zc_strategy watched;
static uint32_t flying_during_after[FAKE_QUEUE];
static uint32_t afters;
static bool cancel_in_after;

static int watched_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    if (afters < FAKE_QUEUE)
        flying_during_after[afters] = fake_total_in_flight();
    afters++;
    if (cancel_in_after)
        atomic_store(&cancel, true);
    return zc_strategies[ZC_COPY_BLOCKING].memory->after(pipeline, chunk);
}

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    zc_run_options_init(&options);
    options.strategy = ZC_COPY_BLOCKING;
    options.size_bytes = 1 << 20;
    options.mr_size_bytes = 64 << 10;
    options.wait = ZC_WAIT_POLL;
    atomic_store(&cancel, false);
    stuck_ns = UINT64_C(60000000000);   /* longer than a busy machine keeps a thread waiting */
    watched_memory = *zc_strategies[ZC_COPY_BLOCKING].memory;
    watched_memory.after = watched_after;
    watched = zc_strategies[ZC_COPY_BLOCKING];
    watched.memory = &watched_memory;
    afters = 0;
    cancel_in_after = false;
    memset(user, 0, sizeof user);
    return 0;
}

static struct zc_pipeline *make(void)
{
    struct zc_pipeline *pipeline = NULL;
    struct zc_error err;
    const struct zc_pipeline_params params = {
        .strategy = &watched, .options = &options, .depth = 1, .completion = fake_completion(), .connection = fake_connection(),
        .send_slots = 128, .numa_node = -1, .cancel_fd = -1, .cancel = &cancel, .stuck_ns = stuck_ns,
    };
    assert_int_equal(zc_pipeline_create(&params, &pipeline, &err), 0);
    return pipeline;
}

static void unmake(struct zc_pipeline *pipeline)
{
    zc_pipeline_destroy(pipeline);
    assert_int_equal(fake.mrs, 0);
    assert_int_equal(fake.buffers, 0);
}

static int read_once(struct zc_pipeline *pipeline, uint64_t remote_offset)
{
    struct zc_request *const request = zc_pipeline_request(pipeline, 0), *done = NULL;
    request->user = user;
    request->remote_offset = remote_offset;
    int rc = zc_pipeline_submit(pipeline, request);
    if (rc == 0)
        rc = zc_pipeline_reap(pipeline, &done, 1);
    if (rc > 0)
        assert_ptr_equal(done, request);
    return rc;
}

static void assert_read(struct zc_pipeline *pipeline, uint64_t remote_offset)
{
    size_t bad = 0;
    assert_int_equal(read_once(pipeline, remote_offset), 1);
    assert_true(zc_pattern_check(user, options.size_bytes, remote_offset, FAKE_SEED, &bad));
}

/* Sizes and chunks that do and do not divide each other; the last chunk is short, and nothing beyond the request is written. */
static void test_every_byte_arrives(void **state)
{
    static const uint64_t sizes[] = {1, 7, 4095, 4096, (64 << 10) + 1, 1 << 20, 3 * (1 << 20) + 7};
    static const uint64_t chunks[] = {1 << 10, 4096, 5000, 64 << 10, 256 << 10, 1 << 30};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++)
            for (uint32_t qps = 1; qps <= FAKE_QPS; qps += 3) {
                set_up(state);
                fake.qps = qps;
                options.size_bytes = sizes[s];
                options.mr_size_bytes = chunks[c];
                struct zc_pipeline *const pipeline = make();
                assert_read(pipeline, 4096 + 5);
                assert_read(pipeline, 0);
                assert_int_equal(user[sizes[s]], 0);
                const uint64_t per_request = (sizes[s] + chunks[c] - 1) / chunks[c];
                assert_int_equal(fake.posted, 2 * per_request);
                assert_int_equal(fake.bytes, 2 * sizes[s]);
                unmake(pipeline);
            }
}

static void test_chunks_go_in_order_and_the_last_is_short(void **state)
{
    (void)state;
    options.size_bytes = (3 * 64 << 10) + 100;
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 8192);
    assert_int_equal(fake.posted, 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(fake.offsets[i], 8192 + i * (64 << 10));
        assert_int_equal(fake.lengths[i], i < 3 ? 64 << 10 : 100);
    }
    struct zc_terms terms;
    zc_pipeline_terms(pipeline, &terms);
    assert_int_equal(terms.chunk_bytes, 64 << 10);
    assert_int_equal(terms.chunks, 4);
    assert_int_equal(terms.qps, 1);
    assert_int_equal(terms.outstanding_reads, 16);
    unmake(pipeline);
}

/* While a chunk is copied, another is in flight - as long as there is one left to fly. */
static void test_copies_overlap_reads(void **state)
{
    (void)state;
    options.size_bytes = 4 << 20;
    options.mr_size_bytes = 64 << 10;
    fake.delay = 1;
    fake.most_per_poll = 1;
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 0);
    assert_int_equal(afters, 64);
    for (uint32_t i = 0; i + 2 < afters; i++)   /* the last two have landed both */
        assert_true(flying_during_after[i] >= 1);
    assert_true(fake.max_in_flight[0] >= 4);
    unmake(pipeline);
}

/* Even when everything has landed at once, the wire is given new work before the copying begins. */
static void test_refill_comes_before_copying(void **state)
{
    (void)state;
    options.size_bytes = 4 << 20;
    fake.outstanding = 4;
    fake.delay = 0;
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 0);
    for (uint32_t i = 0; i + 5 < afters; i++)
        assert_true(flying_during_after[i] >= 1);
    unmake(pipeline);
}

static void test_one_doorbell_for_all_that_may_fly(void **state)
{
    (void)state;
    options.size_bytes = 512 << 10;     /* 8 chunks, all at once */
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 0);
    assert_int_equal(fake.doorbells, 1);
    assert_int_equal(fake.max_list, 8);
    unmake(pipeline);
}

static void test_outstanding_reads_are_respected(void **state)
{
    for (uint32_t outstanding = 1; outstanding <= 5; outstanding++)
        for (uint32_t qps = 1; qps <= FAKE_QPS; qps++) {
            set_up(state);
            fake.outstanding = outstanding;
            fake.qps = qps;
            options.size_bytes = 4 << 20;
            options.mr_size_bytes = 16 << 10;
            struct zc_pipeline *const pipeline = make();
            assert_read(pipeline, 0);
            for (uint32_t i = 0; i < qps; i++)
                assert_int_equal(fake.max_in_flight[i], outstanding);
            unmake(pipeline);
        }
}

static void test_one_read_carries_no_more_than_the_port_allows(void **state)
{
    (void)state;
    fake.max_read_bytes = 10000;
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 0);
    for (uint64_t i = 0; i < fake.posted; i++)
        assert_true(fake.lengths[i] <= 10000);
    unmake(pipeline);
}

static void test_a_swapped_chunk_is_caught(void **state)
{
    (void)state;
    size_t bad = 0;
    fake.swap_at = 3;
    struct zc_pipeline *const pipeline = make();
    assert_int_equal(read_once(pipeline, 0), 1);
    assert_false(zc_pattern_check(user, options.size_bytes, 0, FAKE_SEED, &bad));
    assert_int_equal(bad, 2 * (64 << 10));
    unmake(pipeline);
}

static void assert_failure(int errnum, enum zc_error_kind kind, const char *message)
{
    struct zc_pipeline *const pipeline = make();
    assert_int_equal(read_once(pipeline, 4096), errnum);
    const struct zc_error *const err = zc_pipeline_error(pipeline);
    assert_int_equal(err->kind, kind);
    assert_int_equal(err->errnum, errnum);
    assert_string_equal(err->message, message);
    unmake(pipeline);       /* with READs in flight */
}

static void test_a_failed_completion_names_its_read(void **state)
{
    (void)state;
    fake.fail_at = 2;
    fake.fail_status = IBV_WC_REM_ACCESS_ERR;
    assert_failure(-EIO, ZC_ERR_PEER, "READ of 65536 bytes at offset 69632 failed at the peer: remote access error (IBV_WC_REM_ACCESS_ERR)");
}

static void test_a_local_failure_is_the_devices(void **state)
{
    (void)state;
    fake.fail_at = 1;
    fake.fail_status = IBV_WC_LOC_PROT_ERR;
    assert_failure(-EIO, ZC_ERR_DEVICE, "READ of 65536 bytes at offset 4096 failed: local protection error (IBV_WC_LOC_PROT_ERR)");
}

static void test_a_flush_says_that_the_peer_has_gone(void **state)
{
    (void)state;
    fake.fail_at = 2;
    fake.fail_status = IBV_WC_WR_FLUSH_ERR;
    fake.peer_gone = true;
    assert_failure(-ENOTCONN, ZC_ERR_PEER, "the peer closed the connection");
}

static void test_a_lost_peer_is_noticed_while_polling(void **state)
{
    (void)state;
    fake.delay = UINT32_MAX;
    fake.gone_after_checks = 1;
    assert_failure(-ENOTCONN, ZC_ERR_PEER, "the peer closed the connection");
}

static void test_a_stuck_request_has_a_deadline(void **state)
{
    (void)state;
    fake.delay = UINT32_MAX;
    stuck_ns = 20000000;
    assert_failure(-ETIMEDOUT, ZC_ERR_PEER, "no completion for 0.02 s with 16 READs in flight");
}

static void test_a_refused_post_is_an_error(void **state)
{
    (void)state;
    fake.post_error = ENOMEM;
    assert_failure(-ENOMEM, ZC_ERR_DEVICE, "posting a READ was refused: Cannot allocate memory");
}

static void test_an_unknown_completion_is_an_error(void **state)
{
    (void)state;
    fake.unknown_at = 2;
    assert_failure(-EIO, ZC_ERR_INTERNAL, "a completion of no READ in flight: wr_id 12345");
}

static void test_cancel_while_copying(void **state)
{
    (void)state;
    cancel_in_after = true;
    assert_failure(-ECANCELED, ZC_ERR_CANCELLED, "cancelled");
    assert_int_equal(afters, 1);
}

static void test_cancel_while_waiting(void **state)
{
    (void)state;
    fake.delay = UINT32_MAX;
    atomic_store(&cancel, true);
    assert_failure(-ECANCELED, ZC_ERR_CANCELLED, "cancelled");
}

/* Sleeping: armed before each sleep, and what completed before arming is found without an event. */
static void test_event_mode_sleeps(void **state)
{
    (void)state;
    options.wait = ZC_WAIT_EVENT;
    fake.delay = 5;
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 0);
    assert_true(fake.waits >= 1);
    assert_true(fake.rearms >= fake.waits);
    const uint64_t waits = fake.waits;
    zc_pipeline_set_wait(pipeline, ZC_WAIT_POLL);
    assert_read(pipeline, 4096);
    assert_int_equal(fake.waits, waits);
    unmake(pipeline);
}

static void test_no_sleep_for_what_landed_before_arming(void **state)
{
    (void)state;
    options.wait = ZC_WAIT_EVENT;
    options.size_bytes = options.mr_size_bytes;
    fake.delay = 2;     /* not there at the polls before arming, there at the one behind it */
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 0);
    assert_int_equal(fake.waits, 0);
    assert_int_equal(fake.rearms, 1);
    unmake(pipeline);
}

static void test_stages_add_up(void **state)
{
    (void)state;
    fake.delay = 1000;
    struct zc_pipeline *const pipeline = make();
    assert_read(pipeline, 0);
    assert_int_equal(zc_pipeline_stage_ns(pipeline, ZC_STAGE_WAIT), 0);
    const uint64_t begin = zc_now_ns();
    zc_pipeline_time_stages(pipeline, true);
    assert_read(pipeline, 0);
    const uint64_t end = zc_now_ns();
    uint64_t sum = 0;
    for (int i = 0; i < ZC_STAGE_COUNT; i++)
        sum += zc_pipeline_stage_ns(pipeline, (enum zc_stage)i);
    assert_true(zc_pipeline_stage_ns(pipeline, ZC_STAGE_WAIT) > 0);
    assert_true(zc_pipeline_stage_ns(pipeline, ZC_STAGE_AFTER) > 0);
    assert_true(sum > 0 && sum <= end - begin);
    zc_pipeline_time_stages(pipeline, false);
    unmake(pipeline);
}

static void test_request_times(void **state)
{
    (void)state;
    struct zc_pipeline *const pipeline = make();
    const uint64_t begin = zc_now_ns();
    assert_read(pipeline, 0);
    const struct zc_request *const request = zc_pipeline_request(pipeline, 0);
    assert_true(request->available_ns >= begin && request->available_ns <= zc_now_ns());
    assert_int_equal(request->reclaimed_ns, request->available_ns);
    unmake(pipeline);
}

/* The names in proto and the rows here are one table in two places. */
static void test_rows_and_names_agree(void **state)
{
    (void)state;
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++) {
        const struct zc_strategy *const row = &zc_strategies[i];
        assert_int_equal(row->id, i);
        assert_non_null(zc_strategy_names[i]);
        assert_ptr_equal(row->info, &zc_strategy_infos[i]);
        assert_string_equal(row->info->name, zc_strategy_names[i]);
        assert_int_equal(row->memory->kind, row->info->memory);
        assert_int_equal(row->execution->kind, row->info->execution);
        assert_non_null(strstr(zc_strategy_names[i], zc_execution_names[row->execution->kind]));
        assert_true(row->memory->setup && row->memory->teardown && row->memory->before && row->memory->after);
        assert_true(row->execution->submit && row->execution->reap);
        assert_true(row->info->shows && row->info->shows[0]);
    }
    assert_null(zc_strategy_names[ZC_STRATEGY_COUNT]);
}

#define CASE(f) cmocka_unit_test_setup(f, set_up)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_every_byte_arrives),
        CASE(test_chunks_go_in_order_and_the_last_is_short),
        CASE(test_copies_overlap_reads),
        CASE(test_refill_comes_before_copying),
        CASE(test_one_doorbell_for_all_that_may_fly),
        CASE(test_outstanding_reads_are_respected),
        CASE(test_one_read_carries_no_more_than_the_port_allows),
        CASE(test_a_swapped_chunk_is_caught),
        CASE(test_a_failed_completion_names_its_read),
        CASE(test_a_local_failure_is_the_devices),
        CASE(test_a_flush_says_that_the_peer_has_gone),
        CASE(test_a_lost_peer_is_noticed_while_polling),
        CASE(test_a_stuck_request_has_a_deadline),
        CASE(test_a_refused_post_is_an_error),
        CASE(test_an_unknown_completion_is_an_error),
        CASE(test_cancel_while_copying),
        CASE(test_cancel_while_waiting),
        CASE(test_event_mode_sleeps),
        CASE(test_no_sleep_for_what_landed_before_arming),
        CASE(test_stages_add_up),
        CASE(test_request_times),
        CASE(test_rows_and_names_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
