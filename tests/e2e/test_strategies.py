"""Every strategy through the whole path: every byte verified, figures where its parts make some, nothing left behind."""

import json
import os
import pathlib
import re

import pytest

from conftest import finish
from harness import LAB, SHORT, SOFT, Daemon, wait_until

# Size, requests in flight, QPs, pieces, alignment. The products: tests/unit/src/test_rdma_strategies.c and test_strategies.c.
CASES = ((64 * 1024 + 1, 2, 4, 3, 1),) if LAB else ((1, 1, 1, 1, 0), (4096, 64, 1, 5, 1), (64 * 1024 + 1, 2, 4, 3, 0),
                                                    ((3 << 20) + 7, 4, 4, 1, 64), (64 << 20, 1, 1, 1, 0))
MEASURE = ("--warmup", "0", "--memory-max", "128M", "--footprint", "1M", "--skip-latency", "--validate", "all", "--measure")

THRESHOLD = "10000"
STRATEGIES = {  # what it is made of, and options that only such a strategy takes
    "copy_blocking": ("staging", ("--mr-size", "30000")),
    "copy_non_blocking": ("staging", ("--mr-size", "30000", "--mr-count", "6", "--concurrency", "2")),
    "copy_async": ("staging", ("--mr-size", "30000", "--concurrency", "2")),
    "naive_blocking": ("register", ()),
    "naive_non_blocking": ("register", ("--concurrency-reg", "2", "--concurrency-dereg", "2")),
    "naive_async": ("register", ("--concurrency", "2")),
    "pipeline_blocking": ("register", ("--chunk-size", "30000")),
    "pipeline_non_blocking": ("register", ("--chunk-size", "30000", "--concurrency-reg", "2", "--concurrency-dereg", "2")),
    "pipeline_async": ("register", ("--chunk-size", "30000", "--concurrency", "2")),
    "ideal_blocking": ("preregistered", ("--chunk-size", "30000")),
    "ideal_non_blocking": ("preregistered", ("--chunk-size", "30000")),
    "cached_blocking": ("cached", ("--chunk-size", "30000", "--cache-max", "1M")),
    "cached_non_blocking": ("cached", ("--chunk-size", "30000", "--cache-max", "1M", "--concurrency-reg", "2")),
    "cached_async": ("cached", ("--chunk-size", "30000", "--cache-max", "1M", "--concurrency", "2")),
    "odp_blocking": ("odp", ("--chunk-size", "30000")),
    "odp_non_blocking": ("odp", ("--chunk-size", "30000")),
    "odp_async": ("odp", ("--chunk-size", "30000")),
    "hybrid_blocking": ("hybrid", ("--threshold", THRESHOLD, "--chunk-size", "30000", "--mr-size", "20000")),
    "hybrid_non_blocking": ("hybrid", ("--threshold", THRESHOLD, "--chunk-size", "30000", "--mr-size", "20000", "--concurrency-reg", "2",
                                       "--concurrency-dereg", "2", "--concurrency", "2")),
    "hybrid_async": ("hybrid", ("--threshold", THRESHOLD, "--chunk-size", "30000", "--mr-size", "20000", "--concurrency", "2")),
}


def run(daemon, strategy, *options):
    done = daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", "self", *options)
    return json.loads(done.stdout)


@pytest.mark.native
def test_list(daemon):
    """What zcctl lists is what there is, and needs no daemon."""
    rows = json.loads(daemon.zcctl("--json", "strategies", "--socket", "/nowhere").stdout)["strategies"]
    assert [row["name"] for row in rows] == list(STRATEGIES)
    for row in rows:
        memory, options = STRATEGIES[row["name"]]
        assert row["memory"] == memory and row["execution"] in row["name"] and row["shows"]
        assert {"--" + name.replace("_", "-") for name in row["options"]} >= set(options[::2])
    assert "copy_async" in daemon.zcctl("strategies").stdout


def has_odp(daemon):
    return next(d for d in json.loads(daemon.zcctl("--json", "devices").stdout)["devices"] if d["in_use"])["odp"]


def skip_without_odp(daemon, strategy):
    if STRATEGIES[strategy][0] == "odp" and not has_odp(daemon):
        pytest.skip("the device has no on-demand paging")


@pytest.fixture(scope="module")
def region_of(module_folder):
    """A daemon whose region is not much larger than a size: validation goes through all of it."""
    daemons = {region: Daemon(module_folder / region, region=region).start() for region in (("128K",) if LAB else ("128K", "4M", "64M"))}
    yield lambda size: daemons["128K" if size <= 128 * 1024 else "4M" if size <= 4 << 20 else "64M"]
    finish(list(daemons.values()))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_byte(region_of, check_schema, strategy):
    memory, options = STRATEGIES[strategy]
    for size, depth, qps, pieces, align in CASES:
        daemon = region_of(size)
        skip_without_odp(daemon, strategy)
        before = daemon.objects()
        part = memory if memory != "hybrid" else "staging" if size < int(THRESHOLD) else "register"
        large = size > 4 << 20
        if large and memory not in ("staging", "register", "preregistered"):
            continue
        chunks = [value + "00" if large and name in ("--chunk-size", "--mr-size") else value for name, value in zip(("", *options), options)]
        window = "0.6" if large or LAB else "0.3" if size > 1 << 20 else "0.1"
        document = run(daemon, strategy, *MEASURE, window, *chunks, "--size", str(size),
                       "--operations-max", str(depth), "--qps", str(qps), "--pieces", str(pieces), "--align", str(align))
        check_schema(document)
        assert document["state"] == "done" and document["strategy"] == strategy
        assert document["validation"]["state"] == "passed"
        assert document["terms"]["qps"] == qps
        one = strategy.endswith("_blocking") and "_non_" not in strategy
        assert document["terms"]["inflight"] == (1 if one else min(depth, (128 << 20) // (-(-size // 4096) * 4096)))
        if strategy.startswith("naive_"):
            assert document["terms"]["chunks"] == pieces, "each piece is registered and read by itself"
        phases = document["phases"]
        assert (phases["copy_ns"] is not None) == (part == "staging")
        assert (phases["register_ns"] is not None) == (phases["deregister_ns"] is not None) == (part in ("register", "cached"))
        cost = document["cost"]
        assert part == "cached" or (cost["registrations"] > 0) == (part == "register")
        assert (cost["cache_hits"] is not None) == (cost["cache_misses"] is not None) == (part == "cached")
        assert part != "cached" or (cost["cache_misses"] == cost["registrations"] and cost["cache_hits"] + cost["cache_misses"] > 0)
        assert document["cost"]["allocations"] == 0
        assert document["cost"]["cpu_s_per_gib"] > 0
        daemon.wait_objects(before)


@pytest.mark.parametrize("strategy", ("cached_blocking", "cached_non_blocking", "cached_async"))
def test_cache(daemon, strategy):
    """Buffers that come back are known; where not all of them fit, the oldest go, and cycling through them knows none; nor does it
    know pages that were given back meanwhile."""
    before = daemon.objects()
    options = (*MEASURE, "0.3", "--warmup", "0.3", "--size", "64K", "--chunk-size", "64K", "--operations-max", "4")
    for extra, known in (((), True), (("--cache-max", "512K"), False), (("--buffers", "fresh"), False)):
        document = run(daemon, strategy, *options, "--footprint", "1M", *extra)
        cost = document["cost"]
        assert document["validation"]["state"] == "passed"
        assert (cost["cache_hits"] > 0) == known == (cost["cache_misses"] == 0)
        assert (cost["cache_evictions"] > 0) == ("--cache-max" in extra)
        assert cost["allocations"] == 0
    daemon.wait_objects(before)
    shown = daemon.zcctl("results", "show", document["id"]).stdout
    assert "cache       0 hits, " in shown and "(0 % hits), 0 evictions" in shown


def test_device_without_odp(daemon):
    if has_odp(daemon):
        pytest.skip("the device has on-demand paging")
    done = daemon.zcctl("--json", "run", "--strategy", "odp_blocking", "--peer", "self", *SHORT, status=1)
    error = json.loads(done.stdout)["error"]
    assert error["field"] == "strategy" and "has no on-demand paging (ODP)" in error["message"]


def test_odp_with_fresh_buffers(daemon):
    """Memory on demand may go away and come back: nothing pins it."""
    if not has_odp(daemon):
        pytest.skip("the device has no on-demand paging")
    document = run(daemon, "odp_blocking", *SHORT, "--skip-latency", "--buffers", "fresh", "--validate", "all")
    assert document["validation"]["state"] == "passed" and document["phases"]["discard_ns"] > 0
    assert document["cost"]["registrations"] == 0


@pytest.mark.native
def test_aliases_and_defaults(daemon):
    for alias, name in (("blocking_ideal", "ideal_blocking"), ("non-blocking-ideal", "ideal_non_blocking")):
        document = run(daemon, alias, *SHORT, "--skip-latency", "--skip-validation")
        assert document["strategy"] == document["config"]["strategy"] == name
        assert document["config"]["chunk_size"] == 512 * 1024
        assert document["config"]["mr_size"] is None
    document = run(daemon, "pipeline_blocking", *SHORT, "--skip-latency")
    assert document["config"]["chunk_size"] == 2 * 1024 * 1024
    assert document["terms"]["chunk_bytes"] == 64 * 1024


@pytest.mark.parametrize("strategy, option, value", (
    ("copy_blocking", "--concurrency", "2"), ("copy_non_blocking", "--chunk-size", "1M"), ("naive_blocking", "--mr-size", "64K"),
    ("naive_blocking", "--chunk-size", "64K"), ("pipeline_async", "--concurrency-reg", "2"), ("copy_async", "--wait", "poll"),
    ("ideal_blocking", "--mr-count", "2")))
@pytest.mark.native
def test_options_of_others_are_refused(daemon, strategy, option, value):
    done = daemon.zcctl("run", "--strategy", strategy, "--peer", "self", "--skip-validation", option, value, status=2)
    assert strategy in done.stderr and option.strip("-").replace("-", "_") in done.stderr


@pytest.mark.native
def test_bad_pieces(daemon):
    for options, words in ((("--size", "4", "--pieces", "5"), "a request of 4 bytes cannot be in 5 pieces"),
                           (("--align", "3"), "align: 3 is not a power of two"), (("--align", "8K"), "above the maximum of 4K"),
                           (("--pieces", "0"), "below the minimum of 1")):
        assert words in daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *options, status=2).stderr


def test_pieces_that_are_fresh_and_consumed(daemon):
    for strategy in ("copy_async", "naive_blocking"):
        document = run(daemon, strategy, *SHORT, "--skip-latency", "--pieces", "4", "--align", "1", "--buffers", "fresh", "--consume",
                       "--validate", "all")
        assert document["validation"]["state"] == "passed" and document["phases"]["consume_ns"] > 0
        shown = daemon.zcctl("results", "show", document["id"]).stdout
        assert "in 4 pieces, aligned to 1 B" in shown


@pytest.mark.native
def test_ideal_wants_a_word_about_validation(daemon):
    for strategy in ("ideal_blocking", "ideal_non_blocking"):
        done = daemon.zcctl("run", "--strategy", strategy, "--peer", "self", status=2)
        assert "skip_validation" in done.stderr and "validate first or all" in done.stderr
        assert run(daemon, strategy, *SHORT, "--skip-latency", "--validate", "first")["validation"]["state"] == "passed"


def held(daemon):
    """Threads and descriptors of the daemon."""
    process = f"/proc/{daemon.process.pid}"
    return len(os.listdir(f"{process}/task")), len(os.listdir(f"{process}/fd"))


def start_run(daemon, strategy, peer):
    run_id = daemon.call("run.start", {"strategy": strategy, "peer": peer, "size": "64K", "warmup": 0.1, "measure": 120,
                                       "memory_max": "64M", "footprint": "1M", "validate": "first"})["id"]
    daemon.wait_running()
    return run_id


@pytest.mark.parametrize("strategy", ("copy_blocking", "pipeline_non_blocking", "naive_async") if LAB else STRATEGIES)
def test_nothing_is_left(daemon, start, strategy):
    """Cancelled in the middle, then the peer killed in the middle: no object, no thread, no descriptor."""
    skip_without_odp(daemon, strategy)
    daemon.serves()                             # what stays after the first run of a process is there
    before, idle = daemon.objects(), held(daemon)
    run_id = start_run(daemon, strategy, "self")
    daemon.call("run.cancel", {"id": run_id})
    assert daemon.call("run.wait", {"id": run_id})["result"]["state"] == "cancelled"
    daemon.wait_objects(before)
    wait_until(lambda: all(now <= then for now, then in zip(held(daemon), idle)), "its threads and descriptors are gone")

    peer = start(region="1M")
    run_id = start_run(daemon, strategy, peer.address)
    peer.kill()
    document = daemon.call("run.wait", {"id": run_id})["result"]
    assert document["state"] == "failed" and document["error"]["kind"] == "peer", document["error"]
    daemon.wait_objects(before)
    wait_until(lambda: all(now <= then for now, then in zip(held(daemon), idle)), "its threads and descriptors are gone")


def locked_kib(daemon):
    status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(re.search(r"^VmLck:\s+(\d+) kB$", status, re.M)[1])


FAULTS = (("ENOMEM", "Cannot allocate memory|RLIMIT_MEMLOCK is "), ("EFAULT", "Bad address"), ("EIO", "Input/output error"))


@pytest.mark.skipif(not SOFT, reason="scripted faults belong to the software device")
def test_a_registration_fails_in_the_middle(start):
    """The run ends with the reason and the number of registrations that it held, lets go of them, and the next one works. Where one thread
    registers, it is known which run meets which fault; several may do some more registrations, and meet a later one."""
    registering = [name for name, (memory, _) in STRATEGIES.items() if memory in ("register", "cached", "hybrid")]
    registering.sort(key=lambda name: name.endswith(("_non_blocking", "_async")))
    script = ",".join(f"reg:{120 * (i + 1)}={FAULTS[i % 3][0]}" for i in range(32))
    peer, daemon = start(region="1M"), start(region="1M", ZCSOFT_FAULTS=script)     # the peer's own registrations are not counted
    before, idle = daemon.objects(), locked_kib(daemon)
    for i, strategy in enumerate(registering):
        one = not strategy.endswith(("_non_blocking", "_async"))
        options = () if strategy.startswith("naive_") else ("--chunk-size", "4K")
        options += ("--threshold", "4K") if strategy.startswith("hybrid_") else ()
        done = daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", peer.address, "--size", "64K", "--warmup", "0",
                            "--measure", "60", "--footprint", "4M", "--memory-max", "64M", "--skip-validation", *options, status=1)
        document = json.loads(done.stdout)
        assert document["state"] == "failed" and document["error"]["kind"] in ("memlock", "resource", "device"), document["error"]
        reasons = FAULTS[i % 3][1] if one else "|".join(words for _, words in FAULTS)
        count = re.match(rf"cannot register .*(?:{reasons}).*; this run held (\d+) registrations$", document["error"]["message"])
        assert count, document["error"]
        if strategy.startswith("cached_"):          # it has let go of none so far
            assert int(count[1]) > (100 if one else 0), document["error"]
        elif one:
            assert int(count[1]) <= (0 if strategy.startswith("naive_") else 16), document["error"]
        daemon.wait_objects(before)
        wait_until(lambda: locked_kib(daemon) <= idle, "what was registered is unlocked")
        if i == 0:
            assert daemon.run(*SHORT, "--skip-latency", peer=peer.address)["state"] == "done"
