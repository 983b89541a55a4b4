"""The device and its link under running daemons, on the kernel's Soft-RoCE: the link goes down, the device is taken away and comes back.
Nothing hangs, nothing is left, whoever waits is told why."""

import json
import re
import subprocess

import pytest

from harness import DEADLINE_S, LAB, LONG, SHORT, one_line, wait_until
from test_sessions import Idle

pytestmark = pytest.mark.skipif(not LAB, reason="takes the lab's own device away")

RUN = ("run", "--strategy", "pipeline_non_blocking", "--peer")
SMALL = ("--footprint", "1M", "--skip-latency")
IMPATIENT = ("--keepalive-interval", 1)


def ip_link(state):
    subprocess.run(["ip", "link", "set", "d0", state], check=True)


def add_device():
    subprocess.run(["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "d0"], check=True)


def devices():
    return subprocess.run(["rdma", "link", "show"], check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def as_it_was():
    """The link up and a device that connects, for the tests that follow."""
    yield
    ip_link("up")
    subprocess.run(["rdma", "link", "delete", "rxe0"], timeout=DEADLINE_S, stderr=subprocess.DEVNULL)
    add_device()


class Removal:
    """`rdma link delete`: it ends when nobody has the device open any more."""

    def __init__(self, name="rxe0"):
        self.name = name
        self.process = subprocess.Popen(["rdma", "link", "delete", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def done(self):
        output, _ = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0, output
        assert self.name not in devices()


def present(daemon):
    return daemon.call("stats")["device_present"]


def comes_back(*daemons):
    add_device()
    for daemon in daemons:
        wait_until(lambda daemon=daemon: present(daemon), f"the device is back; it said: {daemon.said()}")


def ends(zcctl, pattern):
    """The one line that a run fails with."""
    _, errors = zcctl.communicate(timeout=DEADLINE_S)
    assert zcctl.returncode == 1
    assert re.search(pattern, one_line(errors)), errors


def test_link_down_and_up(start):
    """A run whose packets have no way any more ends at once, and says that the port is down. The session that it leaves behind ends by
    keep-alive. Soft-RoCE of Linux 6.1 connects nobody any more after that (README.md), whoever asks: its device must be made anew."""
    responder, requester = start(*IMPATIENT), start()
    idle = Idle(responder, requester)
    zcctl = requester.popen(*RUN, responder.address, *LONG, *SMALL)
    responder.wait_busy()
    requester.wait_running()
    ip_link("down")
    ends(zcctl, "port 1 of rxe0 is DOWN|went into the error state")     # its own state may be a moment late
    for daemon in (responder, requester):
        wait_until(lambda daemon=daemon: daemon.call("stats")["port"]["state"] == "DOWN", "the port is shown as down")
    [port] = responder.call("device.list")["devices"]
    assert port["port_state"] == "DOWN"
    idle.again()
    idle.kernel_again()
    assert responder.call("stats")["sessions"]["ended"]["unreachable"] == 1
    ip_link("up")
    for daemon in (responder, requester):
        wait_until(lambda daemon=daemon: daemon.call("stats")["port"]["active"], "the port is shown as up")
        assert daemon.call("stats")["port"]["events"] == {"down": 1, "up": 1}
        assert daemon.said().count("port 1 of rxe0 went down") == 1
    assert 'port_events_total{event="down"} 1' in responder.zcctl("stats", "--format", "prometheus").stdout

    Removal().done()        # of a device that nobody is connected over
    comes_back(responder, requester)
    assert requester.run(*SHORT, *SMALL, peer=responder.address)["state"] == "done"
    idle.again()
    idle.kernel_again()


@pytest.fixture
def second_device():
    """rxe1 on an interface of its own."""
    subprocess.run(["ip", "link", "add", "d1", "mtu", "9000", "up", "type", "dummy"], check=True)
    subprocess.run(["rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "d1"], check=True)
    yield "rxe1"
    subprocess.run(["ip", "link", "delete", "d1"], check=True)


def test_another_device_is_taken_away(second_device, start):
    """One that the daemon does not use: its removal is not held up, and what is served goes on."""
    daemon = start(device="rxe0")
    assert second_device in daemon.zcctl("devices").stdout
    Removal(second_device).done()
    assert second_device not in daemon.zcctl("devices").stdout
    daemon.serves()
    assert daemon.call("stats")["device_removals"] == 0


def test_device_is_taken_away(start):
    """From under a session and the run that reads over it: both end, the removal goes through, the control sockets answer; and the device
    that comes back is served."""
    responder, requester = start(), start()
    idle = Idle(responder, requester)
    zcctl = requester.popen(*RUN, responder.address, *LONG, *SMALL)
    queued = requester.popen(*RUN, "self", *LONG, *SMALL)
    responder.wait_busy()
    requester.wait_running()
    removal = Removal()
    ends(zcctl, "the RDMA device rxe0 was removed")
    ends(queued, "the RDMA device rxe0 was removed")
    removal.done()
    for daemon in (responder, requester):
        assert set(daemon.objects().values()) == {0}
        stats = daemon.call("stats")
        assert stats["device_removals"] == 1 and not stats["device_present"] and not stats["port"]["active"]
        assert "rxe0 was REMOVED" in daemon.zcctl("stats").stdout
        assert "no RDMA devices" in daemon.zcctl("devices").stdout
        assert daemon.call("session.list")["sessions"] == []
        assert "rxe0 was removed and is not back" in one_line(daemon.zcctl(*RUN, "self", *SHORT, status=1).stderr)
        assert "rxe0 was removed and is not back" in one_line(daemon.zcctl("doctor", "--peer", "self", status=1).stderr)
    [failed, *_] = json.loads(requester.zcctl("--json", "results", "list").stdout)["results"]
    assert requester.call("result.get", {"id": failed["id"]})["error"]["kind"] == "device"

    comes_back(responder, requester)
    assert requester.run(*SHORT, *SMALL, peer=responder.address)["state"] == "done"
    responder.serves()
    assert responder.call("stats")["sessions"]["total"] == 3
    idle.again()
    idle.kernel_again()
