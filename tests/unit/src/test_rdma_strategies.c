/* zc_measure() with every strategy on a real device: every byte verified for sizes and chunks that do and do not divide each other,
 * several QPs and depths; nothing allocated between requests; nothing left behind, also when a run is cut short. */
#include "measure_fixture.h"

#include <dirent.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static unsigned count_entries(const char *path)
{
    unsigned count = 0;
    DIR *const directory = opendir(path);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* Threads, descriptors and registered bytes before and after a run. A joined thread may stand in /proc for a moment, and what the other
 * end of a connection releases comes a moment later. */
struct left {
    unsigned threads, descriptors;
    uint64_t mr_bytes, mrs, qps, cm_ids;
};
static struct left look_now(void)
{
    return (struct left){count_entries("/proc/self/task"), count_entries("/proc/self/fd"), zc_counters.mr_bytes, zc_counters.mrs,
                         zc_counters.qps, zc_counters.cm_ids};
}

/* When the responder has no session any more. */
static struct left look(void)
{
    for (unsigned waited = 0; zc_counters.qps > 0 && waited < 5000; waited++)
        usleep(1000);
    assert_int_equal(zc_counters.qps, 0);
    usleep(2000);
    return look_now();
}

static void assert_nothing_left(struct left before)
{
    struct left now = look_now();
    for (unsigned waited = 0; memcmp(&now, &before, sizeof now) != 0 && waited < 2000; waited++) {
        usleep(1000);
        now = look_now();
    }
    assert_int_equal(now.threads, before.threads);
    assert_true(now.descriptors <= before.descriptors);     /* the other end of an earlier session may just have been closing its own */
    assert_int_equal(now.mr_bytes, before.mr_bytes);
    assert_int_equal(now.mrs, before.mrs);
    assert_int_equal(now.qps, before.qps);
    assert_int_equal(now.cm_ids, before.cm_ids);
}

static void set_strategy(int strategy, uint64_t size)
{
    set_options(size);
    options.strategy = strategy;
    options.warmup_s = 0;
    options.chunk_size_bytes = 100000;
    options.mr_size_bytes = 64 << 10;
    options.threshold_bytes = 64 << 10;
}

/* The first run of a process makes what stays: hwloc's topology, the software device's thread. */
static int warm_up(void **state)
{
    struct zc_result result;
    if (start_peer(state) != 0)
        return -1;
    set_strategy(ZC_COPY_BLOCKING, 4096);
    options.measure_s = 0.3;
    options.skip_latency = true;
    assert_done(&result);
    zc_result_destroy(&result);
    return 0;
}

/* A region just large enough: validation goes through all of it, byte for byte. */
static void use_region(void **state, uint64_t bytes)
{
    struct zc_error err;
    stop_peer_now();
    zc_region_destroy(region);
    assert_int_equal(zc_region_create(device, bytes, 4711, &region, &err), 0);
    assert_int_equal(start_peer(state), 0);
}

/* Both ways to wait. */
struct variant {
    uint64_t qps, depth, threads;
    enum zc_wait wait;
};
static const struct variant variants[] = {{1, 1, 1, ZC_WAIT_POLL}, {4, 2, 2, ZC_WAIT_POLL}, {1, 64, 2, ZC_WAIT_EVENT}};

static void check_every_byte(int strategy, uint64_t size, const struct variant *variant)
{
    struct zc_result result;
    const struct left before = look();
    set_strategy(strategy, size);
    options.validate = ZC_VALIDATE_ALL;
    options.measure_s = 0.002;
    options.footprint_bytes = 1 << 20;
    options.skip_latency = options.skip_throughput = true;
    options.qps = variant->qps;
    options.operations_max = variant->depth;
    options.concurrency = options.concurrency_reg = options.concurrency_dereg = variant->threads;
    options.wait = variant->wait;
    assert_done(&result);
    assert_int_equal(result.terms.qps, variant->qps);
    assert_int_equal(result.validation.bytes, result.validation.requests * size);
    assert_true(result.validation.requests >= 1 && !result.validation.failed);
    zc_result_destroy(&result);
    assert_nothing_left(before);
}

/* The last and largest in every way, the others in one each. */
static void walk_sizes(const uint64_t *sizes, size_t count)
{
    const size_t ways = sizeof variants / sizeof variants[0];
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++)
        for (size_t s = 0; s < count; s++)
            for (size_t v = 0; v < ways; v++)
                if (s == count - 1 || (s + (size_t)strategy) % ways == v)
                    check_every_byte(strategy, sizes[s], &variants[v]);
}

static void test_every_byte(void **state)
{
    static const uint64_t small[] = {1, 4095, 4096, (64 << 10) + 1}, large[] = {1 << 20, (3 << 20) + 7};
    use_region(state, 128 << 10);
    walk_sizes(small, sizeof small / sizeof small[0]);
    use_region(state, 4 << 20);
    walk_sizes(large, sizeof large / sizeof large[0]);
    use_region(state, REGION);
}

static void check_figures(int strategy, const struct zc_result *result)
{
    const struct zc_memory_ops *const memory = zc_strategies[strategy].memory;
    const bool copies = memory->copies && !memory->copies_below;
    const struct zc_cost *const cost = &result->cost;
    assert_true(result->throughput.measured && cost->measured);
    assert_int_equal(result->terms.inflight, zc_strategies[strategy].execution->one_request ? 1 : 16);
    assert_true(result->available.count > 0 && result->reclaimed.min_ns >= result->available.min_ns);
    assert_true(cost->cpu_user_ns + cost->cpu_system_ns > 0);
    if (memory->registers)  /* what is in flight when the window opens and closes makes the difference */
        assert_true(cost->registrations + (cost->cache_hits != ZC_UNMEASURED ? cost->cache_hits : 0) + 64 >=
                    result->throughput.requests * result->terms.chunks);
    else
        assert_int_equal(cost->registrations, 0);
    assert_int_equal(isnan(result->phases.register_ns), !memory->registers);
    assert_int_equal(isnan(result->phases.deregister_ns), !memory->registers);
    assert_int_equal(isnan(result->phases.copy_ns), !copies);
    assert_true(!memory->registers || (result->phases.register_ns > 0 && result->phases.deregister_ns > 0));
    assert_true(!copies || result->phases.copy_ns > 0);
#ifdef COUNTS_ALLOCATIONS
    assert_int_equal(cost->allocations, 0);
#endif
    print_message("    %-22s %6.2f GiB/s, p50 %7.1f us, cpu %6.3f s/GiB, %lu registrations, allocations %lu and %lu\n",
                  zc_strategy_names[strategy], (double)result->throughput.bytes / (double)result->throughput.duration_ns / 1.073741824,
                  (double)result->available.p50_ns / 1e3,
                  (double)(cost->cpu_user_ns + cost->cpu_system_ns) / (double)cost->bytes * 1.073741824,
                  (unsigned long)cost->registrations, (unsigned long)cost->allocations, (unsigned long)cost->registering_allocations);
}

static void test_figures(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        struct zc_result result;
        set_strategy(strategy, 256 << 10);
        options.warmup_s = 0.02;
        options.measure_s = 0.2;
        options.operations_max = 16;
        assert_done(&result);
        check_figures(strategy, &result);
        zc_result_destroy(&result);
    }
}

static void test_cancel_and_peer_loss(void **state)
{
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++)
        for (int lose_peer = 0; lose_peer < 2; lose_peer++) {
            struct zc_result result;
            const struct left before = look();
            set_strategy(strategy, 256 << 10);
            options.measure_s = 30;
            options.skip_latency = true;
            act_in = ZC_PHASE_THROUGHPUT;
            cancel_after_s = lose_peer ? 0 : 0.05;
            stop_peer_after_s = lose_peer ? 0.05 : 0;
            const uint64_t begin = zc_now_ns();
            assert_true(run(&result) < 0);
            assert_int_equal(result.error.kind, lose_peer ? ZC_ERR_PEER : ZC_ERR_CANCELLED);
            assert_true(zc_now_ns() - begin < UINT64_C(10000000000));
            zc_result_destroy(&result);
            if (!responder)
                assert_int_equal(start_peer(state), 0);
            assert_nothing_left(before);
        }
}

/* Who has CAP_IPC_LOCK is not limited: give it up, or take it back. Threads inherit it from their creator. */
static void limit_locking(bool on)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    const uint32_t bit = UINT32_C(1) << CAP_IPC_LOCK % 32;
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective = on ? data[0].effective & ~bit : data[0].effective | (data[0].permitted & bit);
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* One thread that registers knows what it holds. Of several, others may be about to count what they registered or deregistered when one
 * meets the limit. */
static void assert_held(const struct zc_result *result, uint64_t held)
{
    const char *const found = strstr(result->error.message, "this run held ");
    uint64_t number;
    char rest[16];
    assert_non_null(found);
    assert_int_equal(sscanf(found, "this run held %" SCNu64 " %15s", &number, rest), 2);
    assert_string_equal(rest, "registrations");
    if (zc_strategies[options.strategy].execution->kind == ZC_EXECUTION_BLOCKING || held == 0)
        assert_int_equal(number, held);
    else
        assert_in_range(number, 0, 16);
}

/* The limit counts all that is registered, so it is reached while registrations are held. A small region, because the hard limit may be
 * as low as 8 MiB. */
static void test_memlock_in_the_middle(void **state)
{
    struct rlimit limit, low;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    use_region(state, 2 << 20);
    for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
        struct zc_result result;
        const struct left before = look();
        if (!zc_strategies[strategy].memory->registers)
            continue;
        set_strategy(strategy, 2 << 20);
        options.chunk_size_bytes = 512 << 10;
        options.skip_latency = true;
        options.qps = 4;
        low = (struct rlimit){zc_counters.mr_bytes + (5 << 20) / 4, limit.rlim_max};
        if (setrlimit(RLIMIT_MEMLOCK, &low) != 0)
            skip();
        limit_locking(true);
        const int rc = run(&result);
        limit_locking(false);
        setrlimit(RLIMIT_MEMLOCK, &limit);
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(result.error.kind, ZC_ERR_MEMLOCK);
        assert_non_null(strstr(result.error.message, "RLIMIT_MEMLOCK"));
        assert_held(&result, zc_strategy_infos[strategy].chunking == ZC_CHUNK_WHOLE ? 0 : 2);
        zc_result_destroy(&result);
        assert_nothing_left(before);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, warm_up, stop_peer)
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_every_byte),
        CASE(test_figures),
        CASE(test_cancel_and_peer_loss),
        CASE(test_memlock_in_the_middle),   /* last: it leaves a smaller region */
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
