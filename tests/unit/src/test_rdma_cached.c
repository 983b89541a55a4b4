/* A cached strategy on a real device, and memory that goes and comes back at the same address: what is read is in the new pages. */
#include "rdma_fixture.h"

#include <sys/mman.h>

#include "pipeline.h"

enum { BYTES = 64 << 10, ROUNDS = 4 };

static void read_into(struct zc_pipeline *pipeline, uint8_t *memory, uint64_t offset)
{
    struct zc_request *const request = zc_pipeline_request(pipeline, 0), *done;
    size_t bad;
    request->user = memory;
    request->remote_offset = offset;
    if (zc_pipeline_submit(pipeline, request) < 0 || zc_pipeline_reap(pipeline, &done, 1) != 1)
        fail_msg("%s", zc_pipeline_error(pipeline)->message);
    assert_true(zc_pattern_check(memory, BYTES, offset, FIXTURE_SEED, &bad));
}

static uint8_t *map_at(void *address)
{
    uint8_t *const memory = mmap(address, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (address ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static void test_unmapped_and_mapped_again(void **state)
{
    (void)state;
    struct fixture f;
    struct reader reader;
    struct zc_error err;
    struct zc_run_options options;
    struct zc_pipeline *pipeline;
    struct zc_pipeline_use use;
    fixture_start(&f);
    const struct fixture_counts before = fixture_count();
    assert_int_equal(reader_connect(&f, zc_device_info(f.device)->address, f.port, 1, -1, FIXTURE_TIMEOUT_MS, &reader, &err), 0);
    zc_run_options_init(&options);
    options.size_bytes = BYTES;
    const struct zc_pipeline_params params = {
        .strategy = &zc_strategies[ZC_CACHED_BLOCKING], .options = &options, .depth = 1, .device = f.device, .numa_node = -1,
        .completion = reader.completion, .connection = reader.connection, .send_slots = 16, .cancel_fd = -1,
    };
    assert_int_equal(zc_pipeline_create(&params, &pipeline, &err), 0);

    uint8_t *memory = map_at(NULL);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        read_into(pipeline, memory, round * 3 * BYTES);
        read_into(pipeline, memory, round * 3 * BYTES + 1);
        assert_int_equal(zc_pipeline_forget(pipeline, memory, BYTES), 0);
        assert_int_equal(munmap(memory, BYTES), 0);
        memory = map_at(memory);
    }
    zc_pipeline_use(pipeline, false, &use);
    assert_int_equal(use.cache_hits, ROUNDS);
    assert_int_equal(use.cache_misses, ROUNDS);
    zc_connection_close(reader.connection);
    zc_pipeline_destroy(pipeline);
    zc_completion_destroy(reader.completion);
    munmap(memory, BYTES);
    fixture_assert_counts(before);
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unmapped_and_mapped_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
