/* The loop under every window, on pretended verbs: what counts, what is cycled through, how a pass ends - and that none of it
 * calls an allocator. */
#include "fake_rdma.h"

#include "clock.h"
#include "load.h"

/* --- the allocator, counted ------------------------------------------------------------------------------------ */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
static uint64_t allocations;
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *old);
void *malloc(size_t size) { allocations++; return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { allocations++; return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { allocations++; return __libc_realloc(old, size); }
void free(void *old) { allocations++; __libc_free(old); }
#endif

/* --- set-up ---------------------------------------------------------------------------------------------------- */

enum { BUFFERS = 5 };
static struct zc_run_options options;
static struct zc_load load;
static struct zc_pipeline *pipeline;
static atomic_bool cancel;
static _Alignas(4096) uint8_t user[4 << 20];

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    zc_run_options_init(&options);
    options.strategy = ZC_COPY_BLOCKING;
    options.size_bytes = 100000;
    options.mr_size_bytes = 16384;
    options.wait = ZC_WAIT_POLL;
    atomic_store(&cancel, false);
    pipeline = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    zc_pipeline_destroy(pipeline);
    return 0;
}

static void make(bool rotate)
{
    struct zc_error err;
    const struct zc_pipeline_params params = {
        .strategy = &zc_strategies[ZC_COPY_BLOCKING], .options = &options, .depth = 1, .completion = fake_completion(),
        .connection = fake_connection(), .send_slots = 128, .numa_node = -1, .cancel_fd = -1, .cancel = &cancel,
        .idle = zc_load_idle, .idle_arg = &load,
    };
    assert_int_equal(zc_pipeline_create(&params, &pipeline, &err), 0);
    zc_load_init(&load, pipeline, options.size_bytes, user, BUFFERS, FAKE_REGION, rotate);
    load.cancel = &cancel;
    load.tick_interval_ns = 1000000;
}

/* --- what a pass's functions saw ------------------------------------------------------------------------------- */

static uint64_t started, seen, opened;
static uint64_t offsets[1000], places[1000];

static void on_before(struct zc_pass *pass, struct zc_request *request)
{
    (void)pass;
    if (started < 1000) {
        offsets[started] = request->remote_offset;
        places[started] = (uint64_t)(request->user - user);
    }
    started++;
    zc_pattern_poison(request->user, options.size_bytes, request->remote_offset, FAKE_SEED);
    request->submit_ns = zc_now_ns();
}

static void on_opened(struct zc_pass *pass) { (void)pass; opened++; }

static int on_finished(struct zc_pass *pass, const struct zc_request *request)
{
    size_t bad;
    seen++;
    assert_true(request->available_ns > pass->start_ns && request->available_ns <= pass->end_ns);
    assert_true(request->submit_ns <= request->available_ns);
    return zc_pattern_check(request->user, options.size_bytes, request->remote_offset, FAKE_SEED, &bad) ? 0 : -EBADMSG;
}

static struct zc_pass make_pass(uint64_t warmup_ns, uint64_t window_ns, uint64_t limit)
{
    started = seen = opened = 0;
    return (struct zc_pass){.depth = 1, .warmup_ns = warmup_ns, .window_ns = window_ns, .request_limit = limit,
                            .opened = on_opened, .before = on_before, .finished = on_finished};
}

/* --- tests ----------------------------------------------------------------------------------------------------- */

static void test_only_the_window_counts(void **state)
{
    (void)state;
    make(true);
    struct zc_pass pass = make_pass(10000000, 500000000, 0);
    assert_int_equal(zc_load_run(&load, &pass), 0);
    assert_int_equal(pass.end_ns - pass.start_ns, 500000000);
    assert_true(pass.open);
    assert_int_equal(opened, 1);
    assert_int_equal(seen, pass.requests);
    assert_int_equal(pass.bytes, pass.requests * options.size_bytes);
    assert_int_equal(pass.all_requests, started);       /* none is left in flight */
    assert_true(pass.requests > 0 && pass.all_requests > pass.requests);
    assert_int_equal(pass.all_bytes, fake.bytes);
}

static void test_buffers_and_offsets_rotate(void **state)
{
    (void)state;
    make(true);
    struct zc_pass pass = make_pass(0, UINT64_MAX, 200);
    assert_int_equal(zc_load_run(&load, &pass), 0);
    assert_int_equal(pass.requests, 200);
    const uint64_t stride = zc_load_stride(options.size_bytes, 4096);
    assert_int_equal(stride, 102400);
    const uint64_t count = (FAKE_REGION - options.size_bytes) / stride + 1;
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(offsets[i], i % count * stride);
        assert_true(offsets[i] + options.size_bytes <= FAKE_REGION);
        assert_int_equal(places[i], i % BUFFERS * stride);
    }
}

static void test_a_fixed_offset_stays(void **state)
{
    (void)state;
    make(false);
    struct zc_pass pass = make_pass(0, UINT64_MAX, 20);
    assert_int_equal(zc_load_run(&load, &pass), 0);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(offsets[i], 0);
}

static bool all_zero;

static void look_at_pages(struct zc_pass *pass, struct zc_request *request)
{
    (void)pass;
    for (uint64_t i = 0; i < options.size_bytes; i++)
        all_zero &= request->user[i] == 0;
}

static void test_fresh_buffers_were_never_touched(void **state)
{
    (void)state;
    make(true);
    memset(user, 0xff, sizeof user);
    zc_load_fresh(&load, 4096);
    load.time_stages = true;
    assert_int_equal(load.layout.stride_bytes, 102400);
    struct zc_pass pass = make_pass(0, UINT64_MAX, 3 * BUFFERS);
    pass.before = look_at_pages;
    pass.finished = NULL;
    all_zero = true;
    assert_int_equal(zc_load_run(&load, &pass), 0);
    assert_true(all_zero);
    assert_true(load.discard_ns > 0);
    assert_int_equal(load.consume_ns, 0);
}

static void test_every_byte_is_consumed(void **state)
{
    (void)state;
    options.size_bytes = 37;        /* one whole step and a rest */
    make(false);
    load.consume = load.time_stages = true;
    struct zc_pass pass = make_pass(0, UINT64_MAX, 1);
    uint64_t words[4], sum = 0;
    assert_int_equal(zc_load_run(&load, &pass), 0);
    memcpy(words, user, sizeof words);
    for (int i = 0; i < 4; i++)
        sum += words[i];
    for (int i = 32; i < 37; i++)
        sum += user[i];
    assert_true(sum == load.checksum);
    assert_true(load.consume_ns > 0);
}

static void test_a_request_of_the_whole_region(void **state)
{
    (void)state;
    make(true);
    zc_load_init(&load, pipeline, options.size_bytes, user, BUFFERS, options.size_bytes, true);
    struct zc_pass pass = make_pass(0, UINT64_MAX, 3);
    assert_int_equal(zc_load_run(&load, &pass), 0);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(offsets[i], 0);
}

static void test_strides(void **state)
{
    (void)state;
    assert_int_equal(zc_load_stride(1, 4096), 64);
    assert_int_equal(zc_load_stride(64, 4096), 64);
    assert_int_equal(zc_load_stride(65, 4096), 128);
    assert_int_equal(zc_load_stride(4096, 4096), 4096);
    assert_int_equal(zc_load_stride(4097, 4096), 8192);
}

static void test_validation_catches_a_swap_and_a_lost_transfer(void **state)
{
    (void)state;
    make(true);
    fake.swap_at = 20;
    struct zc_pass pass = make_pass(0, UINT64_MAX, 100);
    assert_int_equal(zc_load_run(&load, &pass), -EBADMSG);
    assert_int_equal(seen, 3);      /* 7 chunks a request: the 20th is in the third */

    tear_down(state);
    set_up(state);
    make(true);
    fake.lose_at = 50;              /* the slot still holds another chunk: stale bytes must not validate */
    pass = make_pass(0, UINT64_MAX, 100);
    assert_int_equal(zc_load_run(&load, &pass), -EBADMSG);
    assert_int_equal(seen, 8);
}

static uint64_t ticks, ticked_bytes, ticked_ns;

static void on_tick(void *arg, uint64_t now_ns, uint64_t bytes)
{
    (void)arg;
    assert_true(ticks == 0 || now_ns - ticked_ns >= load.tick_interval_ns);
    ticked_ns = now_ns;
    ticked_bytes += bytes;
    if (++ticks == 5)
        atomic_store(&cancel, true);
}

/* Not more often than every interval, and each byte in one of them; how much later they come is the machine's affair. */
static void test_ticks(void **state)
{
    (void)state;
    make(true);
    load.tick = on_tick;
    ticks = ticked_bytes = 0;
    struct zc_pass pass = make_pass(0, UINT64_C(60000000000), 0);
    const uint64_t begin = zc_now_ns();
    assert_int_equal(zc_load_run(&load, &pass), -ECANCELED);
    assert_int_equal(ticks, 5);
    assert_true(ticked_ns - begin >= 5 * load.tick_interval_ns);
    assert_true(ticked_bytes > 0);
    assert_int_equal(ticked_bytes, pass.all_bytes);
}

static int cancel_at_10(struct zc_pass *pass, const struct zc_request *request)
{
    (void)pass, (void)request;
    if (++seen == 10)
        atomic_store(&cancel, true);
    return 0;
}

static void test_cancel_keeps_what_was_measured(void **state)
{
    (void)state;
    make(true);
    struct zc_pass pass = make_pass(0, UINT64_C(3600000000000), 0);
    pass.finished = cancel_at_10;
    const uint64_t begin = zc_now_ns();
    assert_int_equal(zc_load_run(&load, &pass), -ECANCELED);
    assert_int_equal(pass.requests, 10);
    assert_true(pass.end_ns <= zc_now_ns() && pass.end_ns > pass.start_ns && pass.start_ns >= begin);
}

static void test_cancel_in_the_warm_up_opens_no_window(void **state)
{
    (void)state;
    make(true);
    atomic_store(&cancel, true);
    struct zc_pass pass = make_pass(UINT64_C(3600000000000), 1000000, 0);
    assert_int_equal(zc_load_run(&load, &pass), -ECANCELED);
    assert_false(pass.open);
    assert_int_equal(pass.end_ns, pass.start_ns);
    assert_int_equal(pass.requests, 0);
}

#ifdef COUNTS_ALLOCATIONS
static void on_any_tick(void *arg, uint64_t now_ns, uint64_t bytes) { (void)arg, (void)now_ns, (void)bytes; ticks++; }
#endif

static void test_the_data_path_allocates_nothing(void **state)
{
    (void)state;
#ifdef COUNTS_ALLOCATIONS
    make(true);
    load.tick = on_any_tick;
    for (int wait = ZC_WAIT_POLL; wait <= ZC_WAIT_EVENT; wait++) {
        zc_pipeline_set_wait(pipeline, (enum zc_wait)wait);
        struct zc_pass pass = make_pass(1000000, UINT64_MAX, 500);
        const uint64_t before = allocations;
        const int rc = zc_load_run(&load, &pass);
        const uint64_t after = allocations;
        assert_int_equal(rc, 0);
        assert_int_equal(after, before);
        assert_int_equal(pass.all_requests, 500);
    }
    assert_true(allocations > 0);   /* the counter works: set-up has allocated */
#else
    skip();
#endif
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_only_the_window_counts),
        CASE(test_buffers_and_offsets_rotate),
        CASE(test_a_fixed_offset_stays),
        CASE(test_fresh_buffers_were_never_touched),
        CASE(test_every_byte_is_consumed),
        CASE(test_a_request_of_the_whole_region),
        CASE(test_strides),
        CASE(test_validation_catches_a_swap_and_a_lost_transfer),
        CASE(test_ticks),
        CASE(test_cancel_keeps_what_was_measured),
        CASE(test_cancel_in_the_warm_up_opens_no_window),
        CASE(test_the_data_path_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
