"""--logging: each stage of each chunk, from the run to a file that trace viewers open."""

import collections
import json

import pytest

from harness import LAB, RpcError, SHORT, one_line

COPY = ("submitted", "posted", "completed", "copied", "reclaimed")
REGISTER = ("submitted", "registered", "posted", "completed", "deregistered", "reclaimed")
IDEAL = ("submitted", "posted", "completed", "reclaimed")


def logged(daemon, strategy, *options):
    return json.loads(daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", "self", *SHORT, "--skip-latency", "--validate",
                                   "first", "--logging", *options).stdout)


def events_of(daemon, folder, document):
    """What the viewer gets: by way of zcctl."""
    path = folder / "trace.json"
    daemon.zcctl("results", "trace", document["id"], "-o", path)
    trace = json.loads(path.read_text(encoding="utf-8"))
    assert path.read_text() == open(document["trace"]["path"], encoding="utf-8").read()
    return trace["traceEvents"]


STRATEGIES = (("copy_blocking", COPY), ("pipeline_async", REGISTER), ("naive_blocking", REGISTER), ("pipeline_blocking", REGISTER),
              ("ideal_blocking", IDEAL), ("copy_non_blocking", COPY), ("naive_non_blocking", REGISTER))


@pytest.mark.parametrize("strategy, stages", STRATEGIES[:2] if LAB else STRATEGIES, ids=lambda v: v if isinstance(v, str) else "")
def test_stages(daemon, folder, check_schema, strategy, stages):
    chunks = ("--mr-size", "16K", "--operations-max", "4") if "copy" in strategy else () if "naive" in strategy else ("--chunk-size", "16K")
    document = logged(daemon, strategy, *chunks)
    check_schema(document)
    summary = document["trace"]
    assert summary["window"] == "throughput" and summary["records"] > 0 and summary["threads"] >= 1
    assert summary["record_ns"] > 0
    assert document["cost"]["allocations"] == 0, "recording allocates nothing"
    events = events_of(daemon, folder, document)
    recorded = [e for e in events if e["ph"] in "Xi"]
    assert len(recorded) == summary["records"]
    assert {e["name"] for e in recorded} == set(stages)
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in recorded} == set(tracks) and all(tracks.values())
    if not strategy.endswith("_blocking") or "non_blocking" in strategy:
        assert len(tracks) > 1, "the long stages are on tracks of their own"
        own = {e["name"] for e in recorded if not tracks[e["tid"]].startswith("zc-run")}
        assert own <= {"registered", "copied", "deregistered"} and own

    # A request that is there from its beginning to its end has every stage of every chunk, in order, with nothing beyond the window.
    requests = collections.defaultdict(list)
    for event in recorded:
        requests[event["args"]["request"]].append(event)
    whole = [r for r in requests.values() if {"submitted", "reclaimed"} <= {e["name"] for e in r}]
    assert whole
    for events in whole[:50]:
        per_chunk = collections.defaultdict(dict)
        for event in events:
            per_chunk[event["args"]["chunk"]][event["name"]] = event
        assert len(per_chunk) == (1 if "naive" in strategy else 4)
        for number, chunk in per_chunk.items():
            assert set(chunk) >= set(stages) - {"submitted", "reclaimed"}, number
            order = [chunk[name]["ts"] for name in stages if name in chunk and name not in ("submitted", "reclaimed")]
            assert order == sorted(order)
        assert sum(c["posted"]["args"]["bytes"] for c in per_chunk.values()) == 64 * 1024


@pytest.mark.native
def test_without_it(daemon):
    document = daemon.run(*SHORT, "--skip-latency")
    assert document["trace"] is None and document["config"]["logging"] is False
    done = daemon.zcctl("results", "trace", document["id"], status=1)
    assert "without logging" in one_line(done.stderr)


@pytest.mark.native
def test_latency_window(daemon):
    document = daemon.run(*SHORT, "--skip-throughput", "--logging")
    assert document["trace"]["window"] == "latency" and document["trace"]["records"] > 0


def test_several_callers(daemon, folder, check_schema):
    """All of them record, each in tracks of its own, and its requests are told from those of the others."""
    document = logged(daemon, "copy_non_blocking", "--threads", "3", "--mr-size", "16K", "--operations-max", "4", "--concurrency", "1")
    check_schema(document)
    assert document["trace"]["threads"] == 6 and document["cost"]["allocations"] == 0
    events = events_of(daemon, folder, document)
    recorded = [e for e in events if e["ph"] in "Xi"]
    assert len(recorded) == document["trace"]["records"]
    tracks = collections.defaultdict(set)
    for event in recorded:
        tracks[event["tid"]].add(event["args"]["caller"])
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(min(callers) for callers in tracks.values()) == [0, 0, 1, 1, 2, 2]
    for track, callers in tracks.items():
        assert len(callers) == 1 and names[track].endswith(f", caller {min(callers)}")
    for caller in range(3):
        assert {e["name"] for e in recorded if e["args"]["caller"] == caller} == set(COPY)


@pytest.mark.native
def test_pieces(daemon, folder):
    """Each reply stays below a line's 1 MiB, and the pieces are the file."""
    document = logged(daemon, "copy_blocking", "--size", "256", "--mr-size", "64", "--measure", "0.2")
    text, offset, pieces = "", 0, 0
    while offset is not None:
        piece = daemon.call("result.trace", {"id": document["id"], "offset": offset})
        assert len(json.dumps(piece)) < 1 << 20
        text, offset, pieces = text + piece["text"], piece["next"], pieces + 1
    assert len(text) == piece["size"] and text == open(document["trace"]["path"], encoding="utf-8").read()
    assert pieces > 1, "the test wants more than one"
    assert json.loads(daemon.zcctl("results", "trace", document["id"]).stdout) == json.loads(text)


@pytest.mark.native
def test_table(daemon):
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--logging")
    assert "zcctl results trace" in done.stdout and "records of 1 thread" in done.stdout, done.stdout


@pytest.mark.native
def test_deleted_with_its_result(daemon):
    document = logged(daemon, "copy_blocking")
    daemon.zcctl("results", "delete", document["id"])
    assert not list((daemon.state / "traces").glob(f"{document['id']}*"))
    with pytest.raises(RpcError) as error:
        daemon.call("result.trace", {"id": document["id"]})
    assert error.value.code == -32001
    with pytest.raises(RpcError) as error:
        daemon.call("result.trace", {"id": "../../etc/passwd"})
    assert error.value.data["field"] == "id"


@pytest.mark.native
def test_trace_that_cannot_be_stored(start):
    """The run says so before it measures anything."""
    daemon = start()
    (daemon.state / "traces").write_text("not a folder")
    done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", "self", *SHORT, "--logging", status=1)
    assert "traces cannot be stored" in one_line(done.stderr)
    daemon.serves()
