"""Sweeps: cells, intervals, crossovers, advice; clipped, interrupted and resumed, refused."""

import json
import signal
import statistics

import pytest

import harness
from conftest import schema_check
from harness import SHORT, one_line

QUICK = ("--peer", "self", "--strategy", "copy_blocking,naive_blocking,ideal_blocking", "--size", "4K,64K,1M", "--footprint", "16M", "--memory-max", "32M")


@pytest.fixture(scope="module")
def check():
    return schema_check("sweep")


def sweep(daemon, *options, **keywords):
    return json.loads(daemon.zcctl("--json", "sweep", *options, **keywords).stdout)


def test_document_and_advice(daemon, check, folder):
    document = sweep(daemon, *QUICK, "--qps", "1,2", "--budget", "6s", "--trials", "6")
    check(document)
    assert document["state"] == "done" and document["error"] is None
    asked = [c for c in document["cells"] if not c["added"]]
    assert {(c["strategy"], c["size"], c["qps"]) for c in asked} == {
        (s, size, qps) for s in ("copy_blocking", "naive_blocking", "ideal_blocking") for size in (4096, 65536, 1 << 20) for qps in (1, 2)}
    for cell in document["cells"]:
        trials = cell["trials"]["gib_per_s"]
        assert trials and cell["gib_per_s"]["trials"] == len(trials)
        assert cell["gib_per_s"]["median"] == pytest.approx(statistics.median(trials), rel=1e-5)
        assert (cell["gib_per_s"]["low"] is None) == (len(trials) < 6)
    assert {c["metric"] for c in document["crossovers"]} == {"gib_per_s", "p50_ns", "p99_ns", "cpu_s_per_gib"}
    assert json.loads(daemon.zcctl("--json", "results", "get", document["id"]).stdout) == document
    row = next(r for r in daemon.call("result.list")["results"] if r["id"] == document["id"])
    assert row["strategy"] == "sweep" and row["size"] is None

    screen = daemon.zcctl("results", "show", document["id"]).stdout
    assert "best copy" in screen and "1 MiB" in screen and "zcctl run --strategy" in screen and "\n  median latency  " in screen
    assert max(map(len, screen.splitlines())) <= 100
    advice = json.loads(daemon.zcctl("--json", "recommend", document["id"], "--goal", "cpu", "--size", "64K").stdout)
    assert 2 <= len(advice["sentences"]) <= 6 and advice["metric"] == "cpu_s_per_gib"
    words = advice["command"].split()
    assert words[:2] == ["zcctl", "run"] and words[words.index("--size") + 1] == "64K"
    daemon.zcctl(*words[1:], "--warmup", "0", "--measure", "0.1")      # it is a command that works
    (folder / "sweep.json").write_text(json.dumps(document))
    for name in (document["id"], folder / "sweep.json"):
        elsewhere = () if name == document["id"] else ("--socket", "/nowhere")     # a file needs no daemon
        assert json.loads(daemon.zcctl("--json", "recommend", name, "--goal", "cpu", "--size", "64K", *elsewhere).stdout) == advice
        assert "goal" in one_line(daemon.zcctl("recommend", name, "--goal", "fame", *elsewhere, status=2).stderr)


def test_sizes_beyond_the_region(start, check):
    small = start(region="1M")
    done = small.zcctl("sweep", "--peer", "self", "--strategy", "copy_blocking", "--size", "512K..4M", "--budget", "1s", "--footprint", "8M")
    assert "left out, larger than the peer's region of 1 MiB: 2 MiB 4 MiB" in done.stdout


def test_interrupted_and_resumed(daemon, check):
    process = daemon.popen("--json", "sweep", *QUICK, "--budget", "14s", "--trials", "24")
    harness.wait_until(lambda: any(r["elapsed_s"] > 0.5 for r in daemon.call("run.list")["runs"]), "half a second of trials")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    partial = json.loads(out)
    check(partial)
    assert partial["state"] == "cancelled" and not partial["complete"]
    before = sum(len(c["trials"]["gib_per_s"]) for c in partial["cells"])
    assert before > 0

    document = sweep(daemon, "--resume", partial["id"], "--budget", "3s")
    check(document)
    assert document["id"] != partial["id"] and document["state"] == "done"
    for old, new in zip(partial["cells"], document["cells"]):
        assert (old["strategy"], old["size"]) == (new["strategy"], new["size"])
        kept = old["trials"]["gib_per_s"]
        assert new["trials"]["gib_per_s"][:len(kept)] == kept
    assert sum(len(c["trials"]["gib_per_s"]) for c in document["cells"]) > before
    assert "goes on with the options" in one_line(daemon.zcctl("sweep", "--resume", partial["id"], "--qps", "2", status=2).stderr)


@pytest.mark.parametrize("options, word", [
    (("--strategy", "all", "--size", "4K"), "peer"),
    (("--peer", "self", "--size", "4K"), "strategy"),
    (("--peer", "self", "--strategy", "all"), "size"),
    (("--peer", "self", "--strategy", "copy_bloking", "--size", "4K"), "did you mean copy_blocking"),
    (("--peer", "self", "--strategy", "all", "--size", "4K..1K"), "ends before it begins"),
    (("--peer", "self", "--strategy", "all", "--size", "4K", "--budget", "soon"), "5m"),
    (("--peer", "self", "--strategy", "all", "--size", "4K", "--measure", "3"), "unknown option"),
    (("--resume", "20200101T000000Z-sweep-0000"), "20200101T000000Z-sweep-0000"),
])
def test_refused(daemon, options, word):
    done = daemon.zcctl("sweep", *options, status=None)
    assert done.returncode in (1, 2) and word in one_line(done.stderr)


SIZES = [16384, 32768, 65536, 131072]


def stored(daemon, identifier, copy, zero_copy):
    """The document of a sweep that says what it is told to: GiB/s at each of SIZES, give or take a tenth of a percent."""
    def cell(strategy, size, rate):
        figures = [rate * (1 + 0.001 * trial) for trial in range(7)]
        return {"strategy": strategy, "size": size, "trials": {"gib_per_s": figures, "p50_ns": [], "p99_ns": [], "cpu_s_per_gib": []}}
    document = {"id": identifier, "kind": "sweep", "schema_version": 1,
                "config": {"peer": "self", "strategy": ["copy_blocking", "naive_blocking"], "size": SIZES, "trials": 7},
                "cells": [cell(name, size, rate) for name, rates in (("copy_blocking", copy), ("naive_blocking", zero_copy))
                          for size, rate in zip(SIZES, rates)]}
    (daemon.state / "results" / f"{identifier}.json").write_text(json.dumps(document))
    return identifier


def hybrid(daemon, identifier, *options, **keywords):
    return daemon.zcctl("--json", "run", "--strategy", "hybrid_blocking", "--peer", "self", *SHORT, "--skip-latency", "--threshold",
                        f"sweep:{identifier}", *options, **keywords)


def test_threshold_of_a_sweep(daemon, check_schema):
    """The smallest size at which registering was known to be faster: below it is copied. The sizes between are not decided."""
    identifier = stored(daemon, "20260102T030405Z-sweep-0001", copy=[2, 2, 1, 1], zero_copy=[1, 2, 1, 2])
    for size, copies in ((131071, True), (131072, False)):
        document = json.loads(hybrid(daemon, identifier, "--size", str(size)).stdout)
        check_schema(document)
        assert document["config"]["threshold"] == 131072 and document["terms"]["threshold_sweep"] == identifier
        assert document["validation"]["state"] == "passed"
        assert (document["phases"]["copy_ns"] is not None) == (document["phases"]["register_ns"] is None) == copies
        assert (document["cost"]["registrations"] == 0) == copies
    screen = daemon.zcctl("results", "show", document["id"]).stdout
    assert "threshold   128 KiB: smaller requests are copied" in screen and f"from sweep {identifier}" in screen
    assert "threshold" not in daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--skip-latency").stdout


@pytest.mark.native
def test_no_threshold_in_a_sweep(daemon):
    """Every reason why there is no number, told before anything runs."""
    run = daemon.run(*SHORT, "--skip-latency")["id"]
    (daemon.state / "results" / "20260102T030405Z-sweep-0004.json").write_text("{")
    before = daemon.call("result.list")["results"]
    for identifier, words, status in (
            (stored(daemon, "20260102T030405Z-sweep-0002", [2, 2, 2, 2], [1, 1, 1, 1]), "no crossover: copying wins", 2),
            (stored(daemon, "20260102T030405Z-sweep-0003", [1, 1, 1, 1], [1, 1, 1, 1]), "too noisy", 2),
            ("20260102T030405Z-sweep-0004", "20260102T030405Z-sweep-0004 is unreadable: not JSON", 1),
            ("20260102T030405Z-sweep-0005", "no run or result 20260102T030405Z-sweep-0005", 1),
            (run, "not of a sweep", 2), ("yesterday", "yesterday", 2)):
        error = one_line(hybrid(daemon, identifier, status=status).stderr)
        assert "threshold: " in error and words in error
    for options, words in ((("--threshold", "yesterday"), "nor sweep:ID"), (("--strategy", "copy_blocking"), "does not take it")):
        assert words in one_line(hybrid(daemon, run, *options, status=2).stderr)
    with pytest.raises(harness.RpcError) as caught:
        daemon.call("run.start", {"strategy": "hybrid_async", "peer": "self", "threshold": "sweep:20260102T030405Z-sweep-0005"})
    assert caught.value.code == -32001 and caught.value.data["field"] == "threshold"
    assert {row["id"] for row in daemon.call("result.list")["results"]} >= {row["id"] for row in before}
    assert daemon.call("run.list")["runs"] == []
