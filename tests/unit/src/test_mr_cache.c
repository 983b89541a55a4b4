/* The registration cache on pretended verbs: what is found, what makes room, what is forgotten, and that no MR is used or left behind
 * that should not be. */
#include "fake_rdma.h"

#include "mr_cache.h"
#include "mr_index.h"

enum { PAGE = 4096, PAGES = 256 };
static uint8_t *memory;                 /* never touched: nothing is read into it here */
static struct zc_mr_cache *cache;

static uint8_t *at(uint64_t page)
{
    return memory + page * PAGE;
}

static void open_cache(uint64_t max_bytes, uint32_t max_entries)
{
    const struct zc_mr_cache_params params = {.access = IBV_ACCESS_LOCAL_WRITE, .max_bytes = max_bytes, .max_entries = max_entries};
    struct zc_error err;
    fake_reset();
    if (!memory)
        memory = aligned_alloc(PAGE, PAGES * PAGE);
    assert_int_equal(zc_mr_cache_create(&params, &cache, &err), 0);
}

static struct zc_mr_cache_stats stats(void)
{
    struct zc_mr_cache_stats now;
    zc_mr_cache_stats(cache, &now);
    return now;
}

static void close_cache(void)
{
    assert_int_equal(stats().entries, fake.mrs);
    zc_mr_cache_destroy(cache);
    assert_int_equal(fake.mrs, 0);
}

static struct zc_mr_entry *get(uint8_t *address, uint64_t length)
{
    struct zc_mr_entry *entry = NULL;
    struct zc_error err;
    if (zc_mr_cache_get(cache, address, length, &entry, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(zc_mr_entry_lkey(entry), FAKE_LKEY);
    assert_true(fake_is_registered((uintptr_t)address, length));
    return entry;
}

static void use(uint8_t *address, uint64_t length)
{
    assert_int_equal(zc_mr_cache_put(cache, get(address, length)), 0);
}

static void test_hits_and_misses(void **state)
{
    (void)state;
    open_cache(UINT64_MAX, 64);
    assert_null(zc_mr_cache_find(cache, at(0), 1));
    use(at(0) + 10, 2 * PAGE);          /* pages 0 to 2 */
    assert_int_equal(stats().bytes, 3 * PAGE);
    use(at(0) + 10, 2 * PAGE);
    use(at(0), 3 * PAGE);
    use(at(1) + 7, 1);
    struct zc_mr_entry *const found = zc_mr_cache_find(cache, at(2), PAGE);
    assert_non_null(found);
    assert_int_equal(zc_mr_cache_put(cache, found), 0);
    assert_int_equal(stats().hits, 4);
    assert_int_equal(stats().misses, 1);

    use(at(2), 2 * PAGE);               /* reaches beyond it: another one, and both stay */
    assert_int_equal(stats().misses, 2);
    assert_int_equal(stats().bytes, 5 * PAGE);
    use(at(0), 3 * PAGE);
    use(at(3), PAGE);
    use(at(1), 3 * PAGE);               /* in neither */
    assert_int_equal(stats().hits, 6);
    assert_int_equal(stats().misses, 3);
    assert_int_equal(fake.registers, 3);
    assert_int_equal(fake.deregisters, 0);
    close_cache();
}

static void test_the_oldest_makes_room(void **state)
{
    (void)state;
    open_cache(4 * PAGE, 64);
    for (uint64_t i = 0; i < 4; i++)
        use(at(2 * i), PAGE);
    use(at(0), PAGE);                   /* now the one at 2 is the oldest */
    use(at(20), PAGE);
    assert_int_equal(stats().evictions, 1);
    assert_null(zc_mr_cache_find(cache, at(2), PAGE));
    use(at(0), PAGE);
    use(at(30), 3 * PAGE);              /* three go for it, and the one that was used last stays */
    assert_int_equal(stats().evictions, 4);
    assert_int_equal(stats().bytes, 4 * PAGE);
    use(at(0), PAGE);
    assert_int_equal(stats().misses, 6);
    close_cache();
}

/* What is in use may exceed the limit, and only as long as it is. */
static void test_limit_while_in_use(void **state)
{
    (void)state;
    open_cache(2 * PAGE, 64);
    struct zc_mr_entry *const one = get(at(0), 2 * PAGE), *const two = get(at(4), 2 * PAGE);
    assert_int_equal(stats().bytes, 4 * PAGE);
    assert_int_equal(zc_mr_cache_put(cache, one), 0);
    assert_int_equal(stats().bytes, 2 * PAGE);
    assert_int_equal(zc_mr_cache_put(cache, two), 0);
    assert_int_equal(stats().bytes, 2 * PAGE);
    use(at(10), 5 * PAGE);              /* more than fits is not kept */
    assert_int_equal(stats().bytes, 0);
    close_cache();
}

static void test_records(void **state)
{
    struct zc_mr_entry *entries[3];
    struct zc_error err;
    (void)state;
    open_cache(UINT64_MAX, 3);
    for (uint64_t i = 0; i < 10; i++)
        use(at(i), PAGE);
    assert_int_equal(stats().entries, 3);
    assert_int_equal(stats().evictions, 7);
    for (uint64_t i = 0; i < 3; i++)
        entries[i] = get(at(20 + i), PAGE);
    assert_int_equal(zc_mr_cache_get(cache, at(40), PAGE, &entries[0], &err), -ENOBUFS);
    assert_non_null(strstr(err.message, "more than 3 cached registrations"));
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(zc_mr_cache_put(cache, entries[i]), 0);
    close_cache();
}

static void test_forget(void **state)
{
    (void)state;
    open_cache(UINT64_MAX, 64);
    use(at(0), 2 * PAGE);
    use(at(1), 2 * PAGE);
    use(at(5), PAGE);
    struct zc_mr_entry *const used = get(at(8), PAGE);
    assert_int_equal(zc_mr_cache_forget(cache, at(2), 0), 0);      /* nothing */
    assert_int_equal(zc_mr_cache_forget(cache, at(3), 2 * PAGE), 0);
    assert_int_equal(stats().forgotten, 0);
    assert_int_equal(zc_mr_cache_forget(cache, at(1) + 100, 1), 0);
    assert_int_equal(stats().forgotten, 2);
    assert_int_equal(fake.mrs, 2);      /* gone before it returned */
    assert_int_equal(zc_mr_cache_forget(cache, at(8), PAGE), 0);
    assert_int_equal(fake.mrs, 2);
    assert_null(zc_mr_cache_find(cache, at(8), PAGE));
    struct zc_mr_entry *const again = get(at(8), PAGE);
    assert_ptr_not_equal(again, used);
    assert_int_equal(zc_mr_cache_put(cache, used), 0);
    assert_int_equal(fake.mrs, 2);
    assert_int_equal(zc_mr_cache_put(cache, again), 0);
    use(at(5), PAGE);
    assert_int_equal(stats().hits, 1);
    close_cache();
}

static void forget_it(void)
{
    assert_int_equal(zc_mr_cache_forget(cache, at(1), PAGE), 0);
}

/* Another thread gives memory back while pages around it are being registered: that MR serves once. */
static void test_forget_while_registering(void **state)
{
    (void)state;
    open_cache(UINT64_MAX, 64);
    fake.registering = forget_it;
    use(at(0), 2 * PAGE);
    fake.registering = NULL;
    assert_int_equal(fake.mrs, 0);
    use(at(0), 2 * PAGE);
    assert_int_equal(stats().misses, 2);
    close_cache();
}

static void test_failures(void **state)
{
    struct zc_mr_entry *entry = NULL;
    struct zc_error err;
    (void)state;
    open_cache(2 * PAGE, 64);
    fake.fail_register_at = 2;
    use(at(0), PAGE);
    assert_int_equal(zc_mr_cache_get(cache, at(3), PAGE, &entry, &err), -ENOMEM);
    assert_int_equal(stats().bytes, PAGE);
    use(at(3), PAGE);
    fake.fail_deregister_at = 1;
    assert_int_equal(zc_mr_cache_get(cache, at(6), PAGE, &entry, &err), -EBUSY);
    assert_non_null(strstr(err.message, "deregistering cached memory failed"));
    assert_null(entry);
    assert_null(zc_mr_cache_find(cache, at(0), PAGE));     /* it is not trusted any more, but counted */
    assert_int_equal(stats().entries, 2);
    close_cache();
}

/* The index against looking at every interval. */
static void test_index(void **state)
{
    enum { NODES = 200, ROUNDS = 20000, SPAN = 400 };
    static struct zc_mr_node nodes[NODES];
    static bool in[NODES];
    struct zc_mr_index index = RB_INITIALIZER(&index);
    uint64_t seed = 1, found = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t random = seed >> 33;
        struct zc_mr_node *const node = &nodes[random % NODES];
        if (in[node - nodes]) {
            zc_mr_index_remove(&index, node);
            in[node - nodes] = false;
        } else {
            node->first = random / NODES % SPAN;
            node->end = node->first + 1 + random / NODES / SPAN % 40;
            in[node - nodes] = zc_mr_index_add(&index, node);
        }
        const uintptr_t first = random / 7 % SPAN, end = first + 1 + random / 11 % 20;
        bool covered = false, touched = false;
        for (int i = 0; i < NODES; i++) {
            covered |= in[i] && nodes[i].first <= first && nodes[i].end >= end;
            touched |= in[i] && nodes[i].first < end && nodes[i].end > first;
        }
        const struct zc_mr_node *const covering = zc_mr_index_covering(&index, first, end);
        const struct zc_mr_node *const touching = zc_mr_index_touching(&index, first, end);
        assert_int_equal(covering != NULL, covered);
        assert_int_equal(touching != NULL, touched);
        assert_true(!covering || (covering->first <= first && covering->end >= end));
        assert_true(!touching || (touching->first < end && touching->end > first));
        found += covered;
    }
    assert_in_range(found, ROUNDS / 20, ROUNDS - ROUNDS / 20);     /* both answers were tried */
}

static void *read_and_forget(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    for (int round = 0; round < 4000; round++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t page = (seed >> 40) % 64, length = 1 + (seed >> 33) % (3 * PAGE);
        struct zc_mr_entry *entry;
        struct zc_error err;
        if (seed >> 60 == 0)
            assert_int_equal(zc_mr_cache_forget(cache, at(page), length), 0);
        else if (zc_mr_cache_get(cache, at(page), length, &entry, &err) == 0)
            assert_int_equal(zc_mr_cache_put(cache, entry), 0);
        else
            fail_msg("%s", err.message);
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    (void)state;
    open_cache(40 * PAGE, 24);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_and_forget, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const struct zc_mr_cache_stats now = stats();
    assert_true(now.hits > 0 && now.misses > 0 && now.evictions > 0 && now.forgotten > 0);
    assert_true(now.bytes <= 40 * PAGE && now.entries <= 24);
    assert_int_equal(fake.registers - fake.deregisters, now.entries);
    close_cache();
}

static int release(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_and_misses),
        cmocka_unit_test(test_the_oldest_makes_room),
        cmocka_unit_test(test_limit_while_in_use),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_forget_while_registering),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
