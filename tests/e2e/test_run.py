"""The main job: a run, its document and its table."""

import json
import math

import pytest

from harness import LAB, SHORT

SIZES = ((64 << 10) + 1, 1 << 20) if LAB else (1, 4095, 4096, 64 * 1024 + 1, 1 << 20, (3 << 20) + 7)
PERCENTILES = ("min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns")
PHASES = ("register_ns", "post_ns", "wait_ns", "copy_ns", "deregister_ns")


def check_latency(latency):
    """Percentiles rise, and one with fewer than 10 / (1 - p) samples behind it is null."""
    assert latency["count"] > 0
    known = [latency[name] for name in PERCENTILES if latency[name] is not None]
    assert known == sorted(known)
    assert known[0] <= latency["mean_ns"] <= known[-1]
    for name, p in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p95_ns", 0.95), ("p99_ns", 0.99), ("p99_9_ns", 0.999),
                    ("p99_99_ns", 0.9999)):
        assert (latency[name] is not None) == (latency["count"] >= round(10 / (1 - p))), name


def check_throughput(throughput, size):
    assert throughput["requests"] > 0
    assert throughput["bytes"] == throughput["requests"] * size
    seconds = throughput["duration_ns"] / 1e9
    assert math.isclose(throughput["gib_per_s"], throughput["bytes"] / seconds / 2**30, rel_tol=1e-6)
    assert math.isclose(throughput["requests_per_s"], throughput["requests"] / seconds, rel_tol=1e-6)
    assert sum(throughput["series"]) == throughput["bytes"]
    assert len(throughput["series"]) == math.ceil(throughput["duration_ns"] / throughput["series_interval_ns"])


def check_document(document, size, check_schema):
    check_schema(document)
    assert document["state"] == "done" and document["error"] is None
    assert document["strategy"] == "copy_blocking"
    assert document["config"]["size"] == size
    assert document["environment"]["device"]["kind"] == ("rxe" if LAB else "software")
    check_latency(document["latency"]["available"])
    check_latency(document["latency"]["reclaimed"])
    check_throughput(document["throughput"], size)
    cost = document["cost"]
    assert cost["allocations"] == 0
    assert cost["registrations"] == 0
    assert cost["cpu_s_per_gib"] > 0
    phases = document["phases"]
    assert set(PHASES) <= set(phases)
    assert phases["register_ns"] is None and phases["deregister_ns"] is None, "a copy strategy registers nothing"
    assert all(phases[name] > 0 for name in ("post_ns", "copy_ns"))
    assert document["validation"]["state"] == "passed" and document["validation"]["requests"] > 0
    assert (document["notice"] is None) == LAB


@pytest.mark.parametrize("size", SIZES)
def test_document(daemon, check_schema, size):
    document = daemon.run(*SHORT, "--size", str(size), "--validate", "all")
    check_document(document, size, check_schema)


OPTIONS = [("--mr-size", "4096"), ("--mr-size", "100000"), ("--mr-size", "1"), ("--wait", "event"), ("--operations-max", "1"),
           ("--validate", "first")]


@pytest.mark.parametrize("options", [("--wait", "event")] if LAB else OPTIONS, ids=" ".join)
def test_options(daemon, check_schema, options):
    size = 300 if options == ("--mr-size", "1") else 300_001
    check_document(daemon.run(*SHORT, "--size", str(size), *options), size, check_schema)


@pytest.mark.native
def test_skipped_parts_are_null(daemon, check_schema):
    document = daemon.run(*SHORT, "--skip-latency", "--skip-validation")
    check_schema(document)
    assert document["latency"]["available"]["p50_ns"] is None
    assert document["validation"]["state"] == "skipped"
    document = daemon.run(*SHORT, "--skip-throughput")
    check_schema(document)
    assert document["throughput"]["gib_per_s"] is None
    assert document["latency"]["available"]["p50_ns"] > 0


@pytest.mark.native
def test_every_option_is_in_the_document(daemon):
    """The echo of the configuration has defaults too."""
    config = daemon.run(*SHORT)["config"]
    assert config["mr_size"] == 256 * 1024
    assert config["operations_max"] == 64
    assert config["memory_max"] == 64 << 20
    assert config["validate"] == "first"
    assert config["wait"] == "poll"
    assert config["peer"] == "self"


@pytest.mark.native
def test_table(daemon):
    """What a person reads: the figures with their units, the device, and where the document is."""
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT)
    assert done.stderr == ""
    for word in ("copy_blocking", "GiB/s", "p50", "p99", "rxe" if LAB else "software"):
        assert word in done.stdout, done.stdout
    [path] = [word for word in done.stdout.split() if word.startswith(str(daemon.state)) and word.endswith(".json")]
    stored = json.loads(open(path, encoding="utf-8").read())
    assert stored["state"] == "done"
    assert stored["id"] in path
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.native
def test_stored_document_is_the_one_shown(daemon, check_schema):
    document = daemon.run(*SHORT)
    stored = json.loads(daemon.zcctl("--json", "results", "get", document["id"]).stdout)
    assert stored == document
    check_schema(stored)


def test_two_daemons(start, check_schema):
    """A reads from B: what B shows for it, and that both are as before afterwards."""
    a, b = start(), start()
    idle = a.objects(), b.objects()
    document = a.run(*SHORT, peer=b.address)
    check_document(document, 64 * 1024, check_schema)
    assert document["peer"]["port"] == b.call("stats")["listen"]["port"]
    assert b.call("stats")["sessions"]["total"] > 0
    assert a.call("stats")["sessions"]["total"] == 0
    a.wait_objects(idle[0])
    b.wait_objects(idle[1])


@pytest.mark.native
def test_runs_are_queued(daemon):
    """Two clients at once: one run after the other, both done."""
    runs = [daemon.popen("--json", "run", "--strategy", "copy_blocking", "--peer", "self", *SHORT) for _ in range(2)]
    documents = [json.loads(run.communicate()[0]) for run in runs]
    first, second = sorted(documents, key=lambda d: d["started_at"])
    assert first["state"] == second["state"] == "done"
    assert first["finished_at"] <= second["started_at"]
