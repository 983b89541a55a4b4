/* Reads a place of a zcrdmad's region into memory of its own, in three pieces, with a strategy by its name, and twice: a cache knows the
 * memory then.   cc -o strategies strategies.c $(pkg-config --cflags --libs zcrdma) && ./strategies HOST PORT STRATEGY */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zcrdma/zc.h>

enum { PIECES = 3, BYTES = 100000, SLOTS = 16, OFFSET = 4711 };

static int fail(const char *why)
{
    fprintf(stderr, "strategies: %s\n", why);
    return 1;
}

static int read_once(struct zc_pipeline *pipeline, const struct zc_piece *pieces, uint64_t seed)
{
    struct zc_request *request = zc_pipeline_request(pipeline, 0), *done;
    size_t wrong;
    request->pieces = pieces;
    request->piece_count = PIECES;
    request->remote_offset = OFFSET;
    if (zc_pipeline_submit(pipeline, request) < 0 || zc_pipeline_reap(pipeline, &done, 1) < 0)
        return fail(zc_pipeline_error(pipeline)->message);
    uint64_t offset = OFFSET;
    for (int i = 0; i < PIECES; offset += pieces[i++].length_bytes)
        if (!zc_pattern_check(pieces[i].address, pieces[i].length_bytes, offset, seed, &wrong))
            return fail("these are not the peer's bytes");
    return 0;
}

static int read_twice(struct zc_pipeline_params *params, struct zc_error *error)
{
    struct zc_piece pieces[PIECES];
    struct zc_pipeline *pipeline;
    struct zc_pipeline_use use;
    const uint64_t seed = zc_connection_remote(params->connection)->pattern_seed;
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct zc_piece){(uint8_t *)params->user->address + i * 2 * BYTES, BYTES / PIECES + (i == 0 ? BYTES % PIECES : 0)};
    if (zc_pipeline_create(params, &pipeline, error) < 0)
        return fail(error->message);
    int rc = read_once(pipeline, pieces, seed);
    for (int i = 0; i < PIECES; i++)
        memset(pieces[i].address, 0, pieces[i].length_bytes);
    if (rc == 0)
        rc = read_once(pipeline, pieces, seed);
    zc_pipeline_use(pipeline, false, &use);
    if (rc == 0)
        printf("%s: %d bytes twice, %d registrations, %d of them known\n", params->strategy->info->name, BYTES, (int)use.registrations,
               use.caches ? (int)use.cache_hits : 0);
    zc_connection_close(params->connection);    /* before the memory that a READ might still write to */
    zc_pipeline_destroy(pipeline);
    return rc;
}

int main(int argc, char **argv)
{
    struct zc_error error = {.message = "usage: strategies HOST PORT STRATEGY"};
    struct zc_run_options options;
    struct zc_device *device = NULL;
    struct zc_buffer user = {.address = NULL};
    const int strategy = argc == 4 ? zc_strategy_find(argv[3]) : -1;
    struct zc_connection_params peer = {.qps = 1, .send_slots = SLOTS, .timeout_ms = 5000, .cancel_fd = -1};
    struct zc_pipeline_params params = {.options = &options, .depth = 1, .send_slots = SLOTS, .user = &user, .numa_node = -1,
                                        .cancel_fd = -1};
    zc_run_options_init(&options);
    options.size_bytes = BYTES;                 /* of the largest request */
    options.pieces = PIECES;
    options.chunk_size_bytes = options.mr_size_bytes = options.threshold_bytes = 64 << 10;
    int rc = strategy < 0 || zc_device_open(NULL, &device, &error) || zc_completion_create(device, 2 * SLOTS, &params.completion, &error) ||
             zc_buffer_create(PIECES * 2 * BYTES, -1, &user, &error);
    if (rc == 0) {
        peer.host = argv[1], peer.port = (uint16_t)atoi(argv[2]), peer.completion = params.completion;
        rc = zc_connection_open(device, &peer, &params.connection, &error);
    }
    params.strategy = &zc_strategies[strategy < 0 ? 0 : strategy];
    params.device = device;
    rc = rc ? fail(error.message) : read_twice(&params, &error);
    zc_buffer_destroy(&user);
    zc_completion_destroy(params.completion);
    zc_device_close(device);
    return rc;
}
