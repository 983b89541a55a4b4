"""zcctl doctor on the host that the tests run on: every check has its row, the exit status says whether something is bad."""

import json

import jsonschema
import pytest

from conftest import schema_check
from harness import LONG, SOURCE, free_port, wait_until

CHECKS = ["device", "port", "memlock", "rate", "pcie", "mtu", "rd_atomic", "relaxed_ordering", "odp", "iommu", "others", "numa", "cores",
          "governor", "idle_states", "clock", "huge_pages", "thp", "fork_safe", "hugepages_safe", "peer"]
PEER_CHECKS = ["peer_mtu", "peer_gid", "peer_reads"]
RUN = ("run", "--strategy", "copy_blocking", "--peer")
CHECK = schema_check("doctor")


def examine(daemon, *arguments):
    done = daemon.zcctl("doctor", "--json", *arguments, status=None)
    answer = json.loads(done.stdout)
    CHECK(answer)
    rows = {row["id"]: row for row in answer["findings"]}
    assert len(rows) == len(answer["findings"])
    assert done.returncode == int(any(row["level"] == "bad" for row in rows.values()))
    return answer, rows


@pytest.mark.native
def test_schema(daemon):
    """It names every check that there is, and no other; a finding that is bad wants a fix."""
    schema = json.loads((SOURCE / "proto" / "doctor.schema.json").read_text())
    assert schema["properties"]["findings"]["items"]["properties"]["id"]["enum"] == CHECKS + PEER_CHECKS
    answer, _ = examine(daemon, "--peer", "self")
    for member in answer:
        with pytest.raises(jsonschema.ValidationError):
            CHECK({name: value for name, value in answer.items() if name != member})
    bad = {**answer["findings"][0], "level": "bad", "fix": None}
    with pytest.raises(jsonschema.ValidationError):
        CHECK({**answer, "findings": [bad]})


def test_this_host(daemon):
    answer, rows = examine(daemon)
    assert list(rows) == CHECKS
    assert answer["peer"] is None and rows["peer"]["level"] == "unknown"
    assert rows["port"]["level"] == "ok" and answer["device"] in rows["port"]["finding"]
    assert rows["device"]["level"] == "warn"        # software device or Soft-RoCE
    text = daemon.zcctl("doctor", status=None).stdout
    assert all(f" {check} " in text for check in CHECKS)
    assert text.splitlines()[-1].endswith(" ok")


def test_peers(daemon):
    answer, rows = examine(daemon, "--peer", "self")
    assert list(rows) == CHECKS + PEER_CHECKS
    assert answer["peer"] == "self" and rows["peer"]["level"] == "note"
    assert rows["peer_mtu"]["level"] == "ok" and "both ports have an MTU of 4096" in rows["peer_mtu"]["finding"]
    assert rows["peer_gid"]["level"] == "ok"
    _, rows = examine(daemon, "--peer", f"{daemon.host}:{free_port()}")
    assert list(rows) == CHECKS
    assert rows["peer"]["level"] == "bad" and "nobody listens" in rows["peer"]["finding"]
    assert "peer" in daemon.zcctl("doctor", "--peer", "no host at all", status=2).stderr


@pytest.mark.native
def test_another_mtu(daemon, start):
    """The peer tells its own; the path's says nothing of it, because each side sends packets of the requester's size."""
    small = start(ZCSOFT_MTU="1024")
    for here, there, words in ((daemon, small, "an MTU of 1024 bytes, this one 4096"), (small, daemon, "an MTU of 4096 bytes, this one 1024")):
        _, rows = examine(here, "--peer", there.address)
        assert rows["peer_mtu"]["level"] == "warn" and words in rows["peer_mtu"]["finding"]


@pytest.mark.native
def test_environment(start):
    daemon = start(RDMAV_HUGEPAGES_SAFE="1")
    _, rows = examine(daemon)
    assert rows["hugepages_safe"]["level"] == "warn"
    assert rows["fork_safe"]["level"] == "ok"


@pytest.mark.native
def test_other_users(start):
    """What our own sides do is told from what others do."""
    requester, responder = start(), start()
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    requester.wait_running()
    _, rows = examine(responder)
    assert rows["others"]["level"] == "warn" and "1 session of" in rows["others"]["finding"]
    _, rows = examine(requester)
    assert rows["others"]["level"] == "unknown" and "run of our own" in rows["others"]["finding"]
    zcctl.terminate()
    assert zcctl.wait(20) == 130
    wait_until(lambda: responder.objects()["sessions"] == 0, "the session has ended")


@pytest.mark.native
def test_stopped_meanwhile(start, peer):
    """A daemon that stops does not wait for a peer that never answers."""
    daemon = start()
    port = peer("listen", 0, "silent").line(r"listening (\d+)")[1]
    zcctl = daemon.popen("doctor", "--peer", f"{daemon.host}:{port}")
    wait_until(lambda: daemon.call("stats")["objects"]["cm_ids"] > 1, "the peer is being asked")
    daemon.process.terminate()
    assert daemon.process.wait(10) == 0
    zcctl.communicate(timeout=10)
    assert zcctl.returncode in (1, 3)
