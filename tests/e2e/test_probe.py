"""zcctl probe: a job of the run queue with a document of its own."""

import json
import signal

import pytest

import harness
from conftest import schema_check
from harness import DEADLINE_S, LONG, wait_until

WHATS = ["register", "deregister", "copy", "read", "qp_create", "qp_destroy", "connect", "disconnect"]


@pytest.fixture(scope="module")
def check():
    return schema_check("probe")


def test_all_of_it(daemon, check):
    before = daemon.objects()
    document = json.loads(daemon.zcctl("--json", "probe").stdout)
    check(document)
    assert document["state"] == "done" and document["config"] == {"peer": "self", "quick": False}
    assert {row["what"] for row in document["rows"]} == set(WHATS)
    for row in document["rows"]:
        assert (row["median_s"] is None) == bool(row["why"]) and (row["trials"] >= 7) == (row["why"] is None), row
        if row["median_s"]:
            assert 0 < row["min_s"] <= row["low_s"] <= row["median_s"] <= row["high_s"] <= row["max_s"]
        # What this host may lack is huge pages; nothing else is left out.
        assert row["why"] is None or row["pages"] in ("2m", "thp"), row
    fit = document["fit"]
    assert fit["base_s"] is not None and fit["per_page_s"] is not None and fit["sizes"] == 7
    assert daemon.call("result.get", {"id": document["id"]}) == document
    shown = daemon.zcctl("results", "show", document["id"]).stdout
    assert "deregister" in shown and "asleep until the event" in shown and "connect a session" in shown
    assert document["id"] in daemon.zcctl("results", "list").stdout
    daemon.wait_objects(before)


def test_quick(daemon, check):
    id = daemon.zcctl("probe", "--quick", "--detach", "--peer", daemon.address).stdout.strip()
    waited = json.loads(daemon.zcctl("--json", "wait", id).stdout)
    check(waited)
    assert waited["id"] == id and waited["config"] == {"peer": daemon.address, "quick": True}
    assert {row["what"] for row in waited["rows"]} == {"register", "deregister", "copy", "read"}
    assert {row["wait"] for row in waited["rows"]} == {None, "poll"}


def test_cancelled(daemon, check):
    """Behind a run in the queue, and at work."""
    before = daemon.objects()
    run = daemon.popen("run", "--strategy", "copy_blocking", "--peer", "self", *LONG)
    daemon.wait_running()
    probe = daemon.popen("--json", "probe")
    wait_until(lambda: any(row["state"] == "queued" and row["strategy"] == "probe" for row in daemon.call("run.list")["runs"]),
               "the probe is queued")
    probe.send_signal(signal.SIGINT)
    queued, _ = probe.communicate(timeout=DEADLINE_S)
    check(json.loads(queued))
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=DEADLINE_S)
    probe = daemon.popen("--json", "probe")
    wait_until(lambda: any(row["phase"] == "probe" and row["elapsed_s"] > 0.3 for row in daemon.call("run.list")["runs"]),
               "the probe is at work")
    probe.send_signal(signal.SIGINT)
    document = json.loads(probe.communicate(timeout=DEADLINE_S)[0])
    assert probe.returncode == 130
    check(document)
    assert document["state"] == "cancelled" and document["error"]["kind"] == "cancelled"
    assert document["rows"][-1]["trials"] == 0
    daemon.wait_objects(before)


def test_refused(daemon):
    done = daemon.zcctl("probe", "--peer", f"{daemon.host}:{harness.free_port()}", status=1)
    assert "nobody listens" in done.stderr and done.stdout == ""
    assert "peer" in daemon.zcctl("probe", "--peer", "no host at all", status=2).stderr
    with daemon.control() as control:
        with pytest.raises(harness.RpcError) as refused:
            control.call("probe.start", {"peer": "self", "quick": 1})
    assert refused.value.code == -32602
