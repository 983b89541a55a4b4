"""Sessions leave nothing behind: the counters of `stats` are what they were, and in the lab the kernel agrees."""

import json
import os
import re
import signal
import subprocess

import pytest

from harness import DEADLINE_S, LAB, LONG, SHORT, one_line, wait_until

RUN = ("run", "--strategy", "copy_blocking", "--peer")


def kernel_objects():
    """What the kernel holds for everybody: {"pd": 1, ...}; empty outside the lab."""
    if not LAB:
        return {}
    shown = subprocess.run(["rdma", "resource", "show"], check=True, capture_output=True, text=True).stdout
    return {kind: int(count) for kind, count in re.findall(r"\b(pd|cq|qp|cm_id|mr|ctx|srq) (\d+)", shown)}


class Idle:
    """The counters before, to be reached again."""

    def __init__(self, *daemons):
        self.daemons = [(daemon, daemon.objects()) for daemon in daemons]
        self.kernel = kernel_objects()

    def again(self):
        for daemon, objects in self.daemons:
            daemon.wait_objects(objects)

    def kernel_again(self):
        wait_until(lambda: kernel_objects() == self.kernel, f"the kernel's objects are {self.kernel} again")


def test_stats_during_a_run(start):
    requester, responder = start(), start()
    idle = Idle(requester, responder)
    assert responder.objects()["sessions"] == 0
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    requester.wait_running()

    stats = responder.call("stats")
    assert stats["sessions"]["open"] == stats["sessions"]["total"] == 1
    [before] = [objects for daemon, objects in idle.daemons if daemon is responder]
    assert stats["objects"]["qps"] > before["qps"]
    assert requester.objects()["mr_bytes"] > 0
    [session] = responder.call("session.list")["sessions"]
    assert session["qps"] == 1
    shown = responder.zcctl("sessions").stdout
    assert requester.host in shown
    assert responder.zcctl("stats").stdout

    zcctl.send_signal(signal.SIGINT)
    zcctl.communicate(timeout=DEADLINE_S)
    assert zcctl.returncode == 130
    idle.again()
    idle.kernel_again()
    assert responder.call("stats")["sessions"]["total"] == 1


def test_requester_killed(start):
    """The daemon that reads dies without a word; the one that was read from notices and works on."""
    responder = start()
    idle = Idle(responder)
    requester = start()
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    responder.wait_busy()
    requester.wait_running()
    requester.kill()
    assert zcctl.wait(DEADLINE_S) == 3
    zcctl.communicate()
    idle.again()
    idle.kernel_again()
    responder.serves()


def test_responder_killed(start):
    """The run fails with its reason, the daemon that ran it works on."""
    requester = start()
    idle = Idle(requester)
    responder = start()
    zcctl = requester.popen("--json", *RUN, responder.address, *LONG)
    responder.wait_busy()
    requester.wait_running()
    address = responder.address
    responder.kill()
    output, errors = zcctl.communicate(timeout=2 * DEADLINE_S)
    assert zcctl.returncode == 1
    assert address in one_line(errors) or "peer" in one_line(errors)
    document = json.loads(output)
    assert document["state"] == "failed" and document["error"]["kind"] == "peer"
    idle.again()
    idle.kernel_again()
    requester.serves()


def test_responder_stops(start):
    """SIGTERM of the responder: its sessions hear BYE, it exits 0 in spite of them."""
    requester, responder = start(), start()
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    requester.wait_running()
    responder.stop()
    _, errors = zcctl.communicate(timeout=2 * DEADLINE_S)
    assert zcctl.returncode == 1
    one_line(errors)
    requester.serves()


def test_many_deaths(start, peer):
    """Sessions that are killed one after another and at the same time: no growth."""
    responder = start()
    idle = Idle(responder)
    host, port = responder.address.rsplit(":", 1)
    count = 3 if LAB else 20
    for _ in range(count):
        each = peer("connect", host, port, "hold")
        each.line("welcome")
        each.stop()
    together = [peer("connect", host, port, "hold") for _ in range(count)]
    for each in together:
        each.line("welcome")
    assert responder.call("stats")["sessions"]["open"] >= count
    for each in together:
        each.stop()
    idle.again()
    assert responder.call("stats")["sessions"]["total"] == 2 * count
    responder.serves()


def test_close_a_session(start, peer):
    """session.close ends it for both sides."""
    responder = start()
    idle = Idle(responder)
    host, port = responder.address.rsplit(":", 1)
    stranger = peer("connect", host, port, "hold")
    stranger.line("welcome")
    [session] = responder.call("session.list")["sessions"]
    responder.call("session.close", {"id": session["id"]})
    stranger.line("disconnected")
    idle.again()


def test_repeated_runs(start):
    """Neither descriptors nor registered memory grow."""
    daemon = start()
    daemon.serves()

    def descriptors():
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    idle, before = Idle(daemon), descriptors()
    for _ in range(2 if LAB else 5):
        daemon.run(*SHORT, "--skip-latency")
    idle.again()
    wait_until(lambda: descriptors() <= before, f"no more than {before} descriptors")


@pytest.mark.skipif(not LAB, reason="the kernel's own objects: only on rxe")
def test_kernel_is_idle_after_a_stop(new):
    before = kernel_objects()
    daemon = new().start()
    daemon.serves()
    daemon.stop()
    wait_until(lambda: kernel_objects() == before, f"{before} again")
