/* What the engine itself does for a chunk and a request, to be counted by callgrind: the loop, the pipeline and the strategy on the pretended
 * verbs of the unit tests, whose READs have completed at the next poll, so that nothing is counted that only waits.
 *   bench_engine STRATEGY SIZE CHUNK REQUESTS */
#include "../unit/src/fake_rdma.h"

#include <stdio.h>

#include "load.h"
#include "options.h"

enum { BUFFERS = 4 };

static int strategy_of(const char *name)
{
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        if (strcmp(name, zc_strategy_names[i]) == 0)
            return i;
    return -1;
}

int main(int argc, char **argv)
{
    static struct zc_run_options options;
    static struct zc_load load;
    struct zc_pipeline *pipeline;
    struct zc_error err;
    if (argc != 5 || strategy_of(argv[1]) < 0)
        return fputs("usage: bench_engine STRATEGY SIZE CHUNK REQUESTS\n", stderr), 2;
    fake_reset();
    fake.delay = 0;
    zc_run_options_init(&options);
    options.strategy = strategy_of(argv[1]);
    options.size_bytes = strtoull(argv[2], NULL, 10);
    options.mr_size_bytes = options.chunk_size_bytes = strtoull(argv[3], NULL, 10);
    options.wait = ZC_WAIT_POLL;
    uint8_t *const user = aligned_alloc(4096, BUFFERS * zc_load_stride(options.size_bytes, 4096));
    struct zc_buffer buffer = {.address = user, .length_bytes = BUFFERS * zc_load_stride(options.size_bytes, 4096)};
    const struct zc_pipeline_params params = {
        .strategy = &zc_strategies[options.strategy], .options = &options, .depth = 1, .completion = fake_completion(),
        .connection = fake_connection(), .send_slots = 128, .numa_node = -1, .cancel_fd = -1, .user = &buffer,
        .least_bytes = options.size_bytes, .idle = zc_load_idle, .idle_arg = &load,
    };
    if (!user || zc_pipeline_create(&params, &pipeline, &err) < 0)
        return fprintf(stderr, "bench: %s\n", user ? err.message : "no memory"), 1;
    zc_load_init(&load, pipeline, options.size_bytes, user, BUFFERS, FAKE_REGION, true);
    load.tick_interval_ns = UINT64_C(100000000);
    struct zc_pass pass = {.depth = 1, .window_ns = UINT64_MAX, .request_limit = strtoull(argv[4], NULL, 10)};
    const int rc = zc_load_run(&load, &pass);
    zc_pipeline_destroy(pipeline);
    free(user);
    return rc < 0 || pass.all_requests != pass.request_limit;
}
