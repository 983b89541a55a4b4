/* The order and the budget of a sweep, against a world that is made up: what a run of it gives is computed, not measured. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* cmocka wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "clock.h"
#include "sweep_json.h"
#include "sweeping.h"

/* Copying costs 20 us and 1 us a KiB, registering 100 us and 0.5 us a KiB: they cross at 160 KiB. */
static struct {
    unsigned seed;
    uint64_t region;
    int calls, cancel_at, peer_lost_at;
    double noise;
    atomic_bool cancel;
    int too_short;          /* attempts at 1 MiB whose window held no request */
    bool order[4096];       /* did the size of a call differ from that of the one before */
    uint64_t last_size;
} world;

static double cost_us(const struct zc_run_options *options)
{
    const double kib = (double)options->size_bytes / 1024;
    const double noise = 1 + world.noise * ((double)rand_r(&world.seed) / RAND_MAX - 0.5);
    return (zc_strategy_infos[options->strategy].memory == ZC_MEMORY_STAGING ? 20 + kib : 100 + kib / 2) * noise;
}

static int fails(struct zc_result *result, enum zc_error_kind kind, int errnum, const char *field, const char *message)
{
    result->state = kind == ZC_ERR_CANCELLED ? ZC_RUN_CANCELLED : ZC_RUN_FAILED;
    return zc_error_set(&result->error, kind, errnum, field, "%s", message);
}

static int made_up(const struct zc_measure_params *params, struct zc_result *result)
{
    const struct zc_run_options *const o = &params->options;
    world.order[world.calls % 4096] = o->size_bytes != world.last_size;
    world.last_size = o->size_bytes;
    if (++world.calls == world.cancel_at)
        atomic_store(&world.cancel, true);
    if (params->cancel && atomic_load(params->cancel))
        return fails(result, ZC_ERR_CANCELLED, -ECANCELED, NULL, "cancelled");
    if (world.calls == world.peer_lost_at)
        return fails(result, ZC_ERR_PEER, -ENOTCONN, NULL, "the peer is gone");
    result->peer.region_bytes = world.region;
    snprintf(result->environment.host, sizeof result->environment.host, "made-up");
    if (o->size_bytes > world.region)
        return fails(result, ZC_ERR_INVALID, -EINVAL, "size", "too large");
    if (o->size_bytes == 1 << 20 && world.too_short > 0) {
        world.too_short--;
        return fails(result, ZC_ERR_UNMEASURED, -ENODATA, "measure", "nothing completed");
    }
    usleep(500);
    const double us = cost_us(o);
    result->throughput.measured = true;
    result->throughput.bytes = o->size_bytes;
    result->throughput.requests = 1;
    result->throughput.duration_ns = (uint64_t)(us * 1000);
    result->available.count = 10000;
    result->available.p50_ns = (uint64_t)(us * 1000);
    result->available.p99_ns = (uint64_t)(us * 1100);
    result->cost.measured = true;
    result->cost.bytes = o->size_bytes;
    result->cost.cpu_user_ns = (uint64_t)(us * 500);
    return 0;
}

static void plan(struct zc_sweep *sweep, const char *json)
{
    struct zc_error err = { 0 };
    json_t *const params = json_loads(json, 0, NULL);
    memset(&world, 0, sizeof world);
    world.seed = 3;
    world.region = UINT64_C(1) << 40;
    world.noise = 0.04;
    zc_sweep_init(sweep);
    if (zc_sweep_options_from_json(params, &sweep->options, &err) != 0 || zc_sweep_plan(sweep, &err) != 0)
        fail_msg("%s", err.message);
    json_decref(params);
}

static int run(struct zc_sweep *sweep, struct zc_sweep_progress *progress)
{
    const struct zc_sweep_params params = { .cancel = &world.cancel, .cancel_fd = -1, .progress = progress, .measure = made_up };
    return zc_sweep_run(&params, sweep);
}

static const char both[] = "{\"peer\": \"self\", \"strategy\": \"copy_blocking,naive_blocking\", \"size\": \"4K..4M\", \"budget\": 20, \"precision\": 0.001}";

/* The place where the better one changes is narrowed down around where it is, and the document says so. */
static void test_crossover_is_found(void **state)
{
    (void)state;
    struct zc_sweep sweep;
    struct zc_pair pairs[ZC_PAIRS_MAX];
    struct zc_crossover c;
    struct zc_sweep_progress progress = { 0 };
    plan(&sweep, both);
    sweep.options.budget_s = 3;
    assert_int_equal(run(&sweep, &progress), 0);
    assert_int_equal(sweep.state, ZC_RUN_DONE);
    assert_true(sweep.complete);
    assert_true(sweep.elapsed_s < 3.5);
    zc_sweep_pairs(&sweep, pairs);
    zc_sweep_crossover(&sweep, &pairs[0], ZC_METRIC_THROUGHPUT, &c);
    assert_int_equal(c.kind, ZC_CROSSOVER_FOUND);
    assert_int_equal(c.count, 1);
    assert_true(c.crossings[0].low_bytes < 160 * 1024 && c.crossings[0].high_bytes > 160 * 1024);
    assert_true(c.crossings[0].high_bytes < 1.5 * (double)c.crossings[0].low_bytes);
    assert_true(sweep.cells[sweep.cell_count - 1].added);
    for (uint32_t i = 0; i < 22; i++)
        assert_true(sweep.cells[i].trial_count >= 7);
    assert_int_equal(atomic_load(&progress.cells_done), atomic_load(&progress.cells_total));
    zc_sweep_destroy(&sweep);
}

/* Rounds are shuffled: after the coarse pass, which ascends, neighbours in time are seldom neighbours in the plan. */
static void test_random_order(void **state)
{
    (void)state;
    struct zc_sweep sweep;
    plan(&sweep, both);
    sweep.options.budget_s = 1;
    assert_int_equal(run(&sweep, NULL), 0);
    int coarse = 0, rounds = 0;
    for (int i = 0; i < 22; i++)
        coarse += world.order[i];
    for (int i = 22; i < 22 + 6 * 22; i++)
        rounds += world.order[i];
    assert_int_equal(coarse, 11);
    assert_true(rounds > 6 * 22 * 8 / 10);
    zc_sweep_destroy(&sweep);
}

static void test_sizes_beyond_the_region(void **state)
{
    (void)state;
    struct zc_sweep sweep;
    plan(&sweep, both);
    sweep.options.budget_s = 1;
    world.region = 1 << 20;
    assert_int_equal(run(&sweep, NULL), 0);
    assert_int_equal(sweep.clipped.count, 2);
    assert_int_equal(sweep.clipped.values[0], 2 << 20);
    assert_int_equal(sweep.clipped.values[1], 4 << 20);
    for (uint32_t i = 0; i < sweep.cell_count; i++)
        assert_true(sweep.cells[i].options.size_bytes <= 1 << 20);
    zc_sweep_destroy(&sweep);

    plan(&sweep, both);
    world.region = 1024;
    assert_true(run(&sweep, NULL) < 0);
    assert_int_equal(sweep.state, ZC_RUN_FAILED);
    assert_string_equal(sweep.error.field, "size");
    zc_sweep_destroy(&sweep);
}

/* A window that held no request grows; it is no failure. */
static void test_short_windows_grow(void **state)
{
    (void)state;
    struct zc_sweep sweep;
    plan(&sweep, both);
    sweep.options.budget_s = 2;
    world.too_short = 2;
    assert_int_equal(run(&sweep, NULL), 0);
    assert_int_equal(world.too_short, 0);
    for (uint32_t i = 0; i < sweep.cell_count; i++)
        assert_true(sweep.cells[i].trial_count > 0 && sweep.cells[i].error.kind == ZC_ERR_NONE);
    zc_sweep_destroy(&sweep);
}

/* Interrupted, stored, resumed: nothing that was measured is lost or measured again. */
static void test_cancel_and_resume(void **state)
{
    (void)state;
    struct zc_sweep sweep, rest;
    struct zc_error err;
    plan(&sweep, both);
    world.cancel_at = 60;
    assert_int_equal(run(&sweep, NULL), -ECANCELED);
    assert_int_equal(sweep.state, ZC_RUN_CANCELLED);
    assert_false(sweep.complete);
    uint32_t before = 0;
    for (uint32_t i = 0; i < sweep.cell_count; i++)
        before += sweep.cells[i].trial_count;
    assert_int_equal(before, 59);
    json_t *const document = zc_sweep_to_json(&sweep);
    assert_int_equal(zc_sweep_from_json(document, &rest, &err), 0);
    json_decref(document);
    atomic_store(&world.cancel, false);
    world.calls = 0;
    world.cancel_at = 0;
    rest.options.budget_s = rest.elapsed_s + 2;
    assert_int_equal(run(&rest, NULL), 0);
    assert_true(rest.complete);
    uint32_t after = 0;
    for (uint32_t i = 0; i < rest.cell_count; i++)
        after += rest.cells[i].trial_count;
    assert_int_equal(after, 59 + world.calls);
    assert_true(rest.elapsed_s > sweep.elapsed_s);
    zc_sweep_destroy(&rest);
    zc_sweep_destroy(&sweep);
}

static void test_lost_peer(void **state)
{
    (void)state;
    struct zc_sweep sweep;
    plan(&sweep, both);
    world.peer_lost_at = 30;
    assert_int_equal(run(&sweep, NULL), -ENOTCONN);
    assert_int_equal(sweep.state, ZC_RUN_FAILED);
    assert_int_equal(sweep.error.kind, ZC_ERR_PEER);
    assert_int_equal(sweep.cells[0].trial_count > 0, true);
    zc_sweep_destroy(&sweep);
}

static int made_up_probe(const struct zc_probe_params *params, struct zc_probe *probe, struct zc_error *err)
{
    (void)params, (void)err;
    zc_probe_init(probe);
    probe->made = true;
    probe->fit.base_s = 1e-5;
    probe->fit.per_page_s = 2e-7;
    probe->fit.page_bytes = 4096;
    return 0;
}

static int failing_probe(const struct zc_probe_params *params, struct zc_probe *probe, struct zc_error *err)
{
    (void)params, (void)probe;
    return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory");
}

/* The model stands beside the sweep where there is time for it; a probe that fails costs nothing but the model. */
static void test_model(void **state)
{
    (void)state;
    const struct zc_sweep_params params = { .cancel = &world.cancel, .cancel_fd = -1, .measure = made_up, .probe = made_up_probe };
    struct zc_sweep_params without = params;
    struct zc_sweep sweep;
    plan(&sweep, "{\"peer\": \"self\", \"strategy\": \"copy_blocking\", \"size\": \"4K..64K\", \"budget\": 30, \"precision\": 0.5}");
    assert_int_equal(zc_sweep_run(&params, &sweep), 0);
    assert_true(sweep.model.made && sweep.model.register_base_s == 1e-5 && isnan(sweep.model.crossover_bytes));
    assert_true(sweep.elapsed_s < 25);      /* everything is known well enough long before */
    zc_sweep_destroy(&sweep);
    plan(&sweep, both);
    sweep.options.budget_s = 1;
    assert_int_equal(zc_sweep_run(&params, &sweep), 0);
    assert_false(sweep.model.made);
    zc_sweep_destroy(&sweep);
    plan(&sweep, "{\"peer\": \"self\", \"strategy\": \"copy_blocking\", \"size\": 4096, \"budget\": 30, \"precision\": 0.5}");
    without.probe = failing_probe;
    assert_int_equal(zc_sweep_run(&without, &sweep), 0);
    assert_false(sweep.model.made);
    zc_sweep_destroy(&sweep);
}

/* Two that are the same get no number. */
static void test_too_noisy(void **state)
{
    (void)state;
    struct zc_sweep sweep;
    struct zc_pair pairs[ZC_PAIRS_MAX];
    struct zc_crossover c;
    plan(&sweep, "{\"peer\": \"self\", \"strategy\": \"copy_blocking,copy_async\", \"size\": \"4K..64K\", \"budget\": 1}");
    world.noise = 0.5;
    assert_int_equal(run(&sweep, NULL), 0);
    assert_int_equal(zc_sweep_pairs(&sweep, pairs), 1);
    zc_sweep_crossover(&sweep, &pairs[0], ZC_METRIC_THROUGHPUT, &c);
    assert_true(c.kind != ZC_CROSSOVER_FOUND);
    assert_int_equal(c.count, 0);
    zc_sweep_destroy(&sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crossover_is_found), cmocka_unit_test(test_random_order), cmocka_unit_test(test_sizes_beyond_the_region),
        cmocka_unit_test(test_short_windows_grow), cmocka_unit_test(test_cancel_and_resume), cmocka_unit_test(test_lost_peer),
        cmocka_unit_test(test_model), cmocka_unit_test(test_too_noisy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
