/* Every row of the table against pretended verbs: whatever a strategy is made of, each byte arrives once, only registered memory is
 * read into, and nothing is left behind - also when something fails in the middle. */
#include "fake_rdma.h"

#include <dirent.h>

#include "clock.h"
#include "pipeline.h"

enum { DEPTH_MAX = 64, STRIDE = 128 << 10 };

static struct zc_run_options options;
static atomic_bool cancel;
static uint8_t user[FAKE_REGION];
static struct zc_buffer user_buffer = {.address = user, .length_bytes = sizeof user, .mapped_bytes = sizeof user, .numa_node = -1};
static _Thread_local uint64_t thread_allocations;
static uint64_t count_allocations(void) { return thread_allocations; }

static void prepare(int strategy)
{
    fake_reset();
    zc_run_options_init(&options);
    options.strategy = strategy;
    options.size_bytes = 100000;
    options.mr_size_bytes = options.chunk_size_bytes = 16 << 10;
    options.threshold_bytes = 64 << 10;
    atomic_store(&cancel, false);
    memset(user, 0, sizeof user);
}

/* Does a request of this size register, or copy? That of a hybrid does the one or the other. */
static bool copies(void)
{
    const struct zc_memory_ops *const memory = zc_strategies[options.strategy].memory;
    return memory->copies && (!memory->copies_below || options.size_bytes < options.threshold_bytes);
}
static bool registers(void)
{
    return zc_strategies[options.strategy].memory->registers && !copies();
}

static unsigned count_threads(void)
{
    unsigned count = 0;
    DIR *const directory = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* ThreadSanitizer has a thread of its own from the first pthread_create(3) on. */
static unsigned idle_threads;
static void *do_nothing(void *arg)
{
    return arg;
}
static int count_idle_threads(void **state)
{
    pthread_t thread;
    (void)state;
    if (pthread_create(&thread, NULL, do_nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return -1;
    usleep(100000);
    idle_threads = count_threads();
    return 0;
}

static struct zc_pipeline *make_for(uint32_t depth, uint64_t least_bytes)
{
    struct zc_pipeline *pipeline = NULL;
    struct zc_error err;
    const struct zc_strategy *const row = &zc_strategies[options.strategy];
    const struct zc_pipeline_params params = {
        .strategy = row, .options = &options, .depth = row->execution->one_request ? 1 : depth, .completion = fake_completion(),
        .connection = fake_connection(), .send_slots = 128, .user = &user_buffer, .least_bytes = least_bytes, .numa_node = -1, .cancel_fd = -1, .cancel = &cancel,
        .thread_allocations = count_allocations, .stuck_ns = 50000000,
    };
    if (zc_pipeline_create(&params, &pipeline, &err) < 0)
        fail_msg("%s", err.message);
    return pipeline;
}

static struct zc_pipeline *make(uint32_t depth)
{
    return make_for(depth, options.size_bytes);
}

static void unmake(struct zc_pipeline *pipeline)
{
    zc_pipeline_destroy(pipeline);
    assert_int_equal(fake.mrs, 0);
    assert_int_equal(fake.buffers, 0);
    for (unsigned waited = 0; count_threads() > idle_threads && waited < 1000; waited++)
        usleep(1000);               /* a joined thread may stand in /proc for a moment */
    assert_int_equal(count_threads(), idle_threads);
}

static int submit(struct zc_pipeline *pipeline, struct zc_request *request, uint64_t number, uint64_t stride)
{
    request->user = user + (size_t)(request - zc_pipeline_request(pipeline, 0)) * stride;
    request->remote_offset = number * 4093 % (FAKE_REGION - options.size_bytes);
    memset(request->user, 0xee, options.size_bytes);
    return zc_pipeline_submit(pipeline, request);
}

/* Keep `depth` requests in flight until `total` have been read, and look at each. 0 or what the pipeline said. */
static int read_all(struct zc_pipeline *pipeline, uint32_t depth, uint64_t total)
{
    const uint64_t stride = options.size_bytes > STRIDE ? (options.size_bytes + 4095) / 4096 * 4096 : STRIDE;
    uint64_t submitted = 0, reaped = 0;
    if (zc_strategies[options.strategy].execution->one_request)
        depth = 1;
    for (uint32_t i = 0; i < depth && submitted < total; i++) {
        const int rc = submit(pipeline, zc_pipeline_request(pipeline, i), submitted++, stride);
        if (rc < 0)
            return rc;
    }
    while (reaped < total) {
        struct zc_request *done[8];
        const int count = zc_pipeline_reap(pipeline, done, 8);
        if (count < 0)
            return count;
        assert_in_range(count, 1, 8);
        for (int i = 0; i < count; i++, reaped++) {
            if (memcmp(done[i]->user, fake_region + done[i]->remote_offset, options.size_bytes) != 0)
                fail_msg("%s: request %lu has other bytes", zc_strategy_names[options.strategy], (unsigned long)reaped);
            assert_true(done[i]->available_ns > 0 && done[i]->reclaimed_ns >= done[i]->available_ns);
            const int rc = submitted < total ? submit(pipeline, done[i], submitted++, stride) : 0;
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

static void check_use(struct zc_pipeline *pipeline, uint64_t requests)
{
    struct zc_pipeline_use use;
    struct zc_terms terms;
    zc_pipeline_terms(pipeline, &terms);
    zc_pipeline_use(pipeline, true, &use);
    const bool caches = zc_strategy_infos[options.strategy].memory == ZC_MEMORY_CACHED;
    assert_int_equal(use.registrations + use.cache_hits, registers() ? requests * terms.chunks : 0);
    assert_int_equal(use.cache_misses, caches ? use.registrations : 0);
    assert_int_equal(use.allocations, 0);
    assert_int_equal(count_threads(), idle_threads + terms.threads);
}

static void test_every_byte_of_every_strategy(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 4095, (64 << 10) + 1, 1 << 20};
    static const uint32_t depths[] = {1, DEPTH_MAX};
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++)
                for (int variant = 0; variant < 4; variant++) {
                    prepare(strategy);
                    options.size_bytes = sizes[s];
                    options.wait = variant & 1 ? ZC_WAIT_EVENT : ZC_WAIT_POLL;
                    fake.qps = variant & 2 ? FAKE_QPS : 1;
                    fake.outstanding = variant & 2 ? 2 : 16;
                    const uint32_t depth = sizes[s] > STRIDE && depths[d] > 7 ? 7 : depths[d];
                    const uint64_t requests = sizes[s] > STRIDE ? 8 : 80;
                    struct zc_pipeline *const pipeline = make(depth);
                    assert_int_equal(read_all(pipeline, depth, requests), 0);
                    assert_int_equal(fake.posted, fake.completed);
                    check_use(pipeline, requests);
                    unmake(pipeline);
                }
}

static void test_whole_requests_in_several_reads(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        if (zc_strategy_infos[strategy].chunking != ZC_CHUNK_WHOLE)
            continue;
        prepare(strategy);
        fake.max_read_bytes = 7001;
        fake.outstanding = 4;
        struct zc_pipeline *const pipeline = make(4);
        assert_int_equal(read_all(pipeline, 4, 9), 0);
        assert_int_equal(fake.registers, 9);        /* one for the buffer, however many READs */
        assert_int_equal(fake.posted, 9 * 15);
        assert_true(fake.max_in_flight[0] <= 4);
        unmake(pipeline);
    }
}

static void test_naive_blocking_is_strictly_sequential(void **state)
{
    (void)state;
    prepare(ZC_NAIVE_BLOCKING);
    struct zc_pipeline *const pipeline = make(1);
    assert_int_equal(read_all(pipeline, 1, 5), 0);
    assert_int_equal(fake.max_mrs, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(fake.flying_at_register[i], 0);
    unmake(pipeline);
}

static void test_pipeline_blocking_registers_while_reads_fly(void **state)
{
    (void)state;
    for (uint32_t outstanding = 1; outstanding <= 4; outstanding++) {
        prepare(ZC_PIPELINE_BLOCKING);
        fake.outstanding = outstanding;
        struct zc_pipeline *const pipeline = make(1);
        assert_int_equal(read_all(pipeline, 1, 1), 0);
        assert_int_equal(fake.registers, 7);
        assert_int_equal(fake.lengths[6], 100000 - 6 * (16 << 10));
        for (int i = 1; i < 7; i++)
            assert_true(fake.flying_at_register[i] >= 1);
        assert_true(fake.max_mrs <= outstanding + 1);
        unmake(pipeline);
    }
}

static pthread_t caller;
static atomic_uint in_caller, in_others;
static void note_thread(void)
{
    atomic_fetch_add(pthread_equal(pthread_self(), caller) ? &in_caller : &in_others, 1);
}

/* Who registers. That READs are in flight meanwhile depends on the scheduler here; test_pipeline_blocking_... holds it where it does
 * not. */
static void test_threads_register(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        const struct zc_strategy *const row = &zc_strategies[strategy];
        prepare(strategy);
        if (!registers())
            continue;
        options.concurrency = options.concurrency_reg = options.concurrency_dereg = 2;
        caller = pthread_self();
        in_caller = in_others = 0;
        fake.registering = note_thread;
        fake.delay = 50;
        struct zc_pipeline *const pipeline = make(8);
        assert_int_equal(read_all(pipeline, 8, 40), 0);
        const bool blocking = row->info->execution == ZC_EXECUTION_BLOCKING;
        assert_int_equal(blocking ? in_others : in_caller, 0);
        struct zc_terms terms;
        zc_pipeline_terms(pipeline, &terms);
        const bool two_pools = row->info->execution == ZC_EXECUTION_NON_BLOCKING && row->memory->deregisters;
        assert_int_equal(terms.threads, blocking ? 0 : two_pools ? 4 : 2);
        assert_int_equal(fake.mrs, row->memory->deregisters ? 0 : fake.registers);
        unmake(pipeline);
    }
}

static void expect_failure(int strategy, int errnum, enum zc_error_kind kind, const char *part)
{
    struct zc_pipeline *const pipeline = make(8);
    const uint64_t begin = zc_now_ns();
    assert_int_equal(read_all(pipeline, 8, 10000), errnum);
    const struct zc_error *const err = zc_pipeline_error(pipeline);
    assert_int_equal(err->kind, kind);
    if (!strstr(err->message, part))
        fail_msg("%s: %s", zc_strategy_names[strategy], err->message);
    unmake(pipeline);
    assert_true(zc_now_ns() - begin < UINT64_C(5000000000));
}

static void test_failures_of_every_strategy(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++)
        for (int wait = ZC_WAIT_POLL; wait <= ZC_WAIT_EVENT; wait++) {
#define CASE_OF(setting) (prepare(strategy), options.wait = wait, options.cache_max_bytes = 1, setting)
            CASE_OF(fake.fail_at = 20), fake.fail_status = IBV_WC_REM_ACCESS_ERR;
            expect_failure(strategy, -EIO, ZC_ERR_PEER, "remote access error");
            CASE_OF(fake.fail_at = 20), fake.fail_status = IBV_WC_WR_FLUSH_ERR, fake.peer_gone = true;
            expect_failure(strategy, -ENOTCONN, ZC_ERR_PEER, "the peer closed the connection");
            CASE_OF(fake.unknown_at = 9);
            expect_failure(strategy, -EIO, ZC_ERR_INTERNAL, "a completion of no READ in flight");
            CASE_OF(fake.post_error = EINVAL);
            expect_failure(strategy, -EINVAL, ZC_ERR_DEVICE, "posting a READ was refused");
            CASE_OF(fake.stuck = true);
            expect_failure(strategy, -ETIMEDOUT, ZC_ERR_PEER, "no completion for 0.05 s");
            if (!registers())
                continue;
            CASE_OF(fake.fail_register_at = 12);
            expect_failure(strategy, -ENOMEM, ZC_ERR_MEMLOCK, "cannot register; this run held ");
            CASE_OF(fake.fail_deregister_at = 5);
            expect_failure(strategy, -EBUSY, ZC_ERR_DEVICE, "deregistering ");
        }
}

static void cancel_now(void)
{
    if (fake.registers > 6)
        atomic_store(&cancel, true);
}

static void test_cancel_of_every_strategy(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        prepare(strategy);
        fake.stuck = true;
        atomic_store(&cancel, true);
        expect_failure(strategy, -ECANCELED, ZC_ERR_CANCELLED, "cancelled");
        if (!registers())
            continue;
        prepare(strategy);
        options.cache_max_bytes = 1;
        fake.registering = cancel_now;
        expect_failure(strategy, -ECANCELED, ZC_ERR_CANCELLED, "cancelled");
    }
}

/* A slot for each, and no more: --mr-count. */
static void test_slots_as_asked(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        struct zc_terms terms;
        prepare(strategy);
        if (!zc_strategies[strategy].memory->copies)
            continue;
        options.threshold_bytes = UINT64_MAX;
        options.mr_count = 2;
        struct zc_pipeline *const pipeline = make(8);
        zc_pipeline_terms(pipeline, &terms);
        assert_int_equal(terms.staging_slots, 2);
        assert_int_equal(read_all(pipeline, 8, 40), 0);
        assert_true(fake.max_in_flight[0] <= 2);
        unmake(pipeline);
    }
}

/* A request of some length in pieces of some lengths, empty ones too, with gaps between them that nobody may write. */
static void scatter(struct zc_request *request, struct zc_piece *pieces, uint32_t count, uint8_t *memory, uint64_t number)
{
    uint64_t left = 1 + number * 48271 % options.size_bytes;
    memset(memory, 0xee, 4 * STRIDE);
    request->length_bytes = left;
    request->remote_offset = number * 4093 % (FAKE_REGION - options.size_bytes);
    request->pieces = pieces;
    request->piece_count = count;
    for (uint32_t i = 0; i < count; i++) {
        pieces[i].length_bytes = i + 1 == count ? left : left * ((number + i) % 4) / 5;
        pieces[i].address = memory + 1;
        memory += 2 + pieces[i].length_bytes;
        left -= pieces[i].length_bytes;
    }
}

static void assert_gathered(const struct zc_request *request)
{
    uint64_t at = request->remote_offset;
    for (uint32_t i = 0; i < request->piece_count; at += request->pieces[i++].length_bytes) {
        const struct zc_piece *const piece = &request->pieces[i];
        assert_memory_equal(piece->address, fake_region + at, piece->length_bytes);
        assert_true(piece->address[-1] == 0xee && piece->address[piece->length_bytes] == 0xee);
    }
    assert_int_equal(at - request->remote_offset, request->length_bytes);
}

/* Requests of any length and in any number of pieces, as an application has them: below and above the threshold of a hybrid, too. */
static void test_pieces_of_any_length(void **state)
{
    (void)state;
    enum { DEPTH = 4, PIECES = 5 };
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        struct zc_piece pieces[DEPTH][PIECES];
        struct zc_request *done[DEPTH];
        prepare(strategy);
        struct zc_pipeline *const pipeline = make_for(DEPTH, 0);
        const uint32_t depth = zc_strategies[strategy].execution->one_request ? 1 : DEPTH;
        for (uint64_t round = 0; round < 12; round++) {
            for (uint32_t i = 0; i < depth; i++) {
                struct zc_request *const request = zc_pipeline_request(pipeline, i);
                scatter(request, pieces[i], PIECES, user + (size_t)i * 4 * STRIDE, round * 7919 + i);
                assert_int_equal(zc_pipeline_submit(pipeline, request), 0);
            }
            for (uint32_t reaped = 0; reaped < depth;) {
                const int count = zc_pipeline_reap(pipeline, done, DEPTH);
                assert_true(count > 0);
                for (int i = 0; i < count; i++)
                    assert_gathered(done[i]);
                reaped += (uint32_t)count;
            }
        }
        unmake(pipeline);
    }
}

/* What does not fit ends in an error and not in memory of somebody else. */
static void test_pieces_that_do_not_fit(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        prepare(strategy);
        struct zc_pipeline *const pipeline = make_for(1, 0);
        const struct zc_piece piece = {user, 100};
        struct zc_request *const request = zc_pipeline_request(pipeline, 0);
        request->pieces = &piece;
        request->piece_count = 1;
        request->length_bytes = 101;
        assert_int_equal(zc_pipeline_submit(pipeline, request), -EINVAL);
        assert_non_null(strstr(zc_pipeline_error(pipeline)->message, "101 bytes in 1 pieces of 100"));
        assert_int_equal(fake.posted, 0);
        unmake(pipeline);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_of_every_strategy),
        cmocka_unit_test(test_whole_requests_in_several_reads),
        cmocka_unit_test(test_naive_blocking_is_strictly_sequential),
        cmocka_unit_test(test_pipeline_blocking_registers_while_reads_fly),
        cmocka_unit_test(test_threads_register),
        cmocka_unit_test(test_failures_of_every_strategy),
        cmocka_unit_test(test_cancel_of_every_strategy),
        cmocka_unit_test(test_slots_as_asked),
        cmocka_unit_test(test_pieces_of_any_length),
        cmocka_unit_test(test_pieces_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, count_idle_threads, NULL);
}
