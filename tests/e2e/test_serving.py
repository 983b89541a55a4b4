"""A responder that is left running: many sessions, limits, who is let in, peers that stop, die or cannot be reached any more - and
nothing left of any of them."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from crowd import Crowd
from harness import DEADLINE_S, LAB, LONG, SHORT, SLOW, SOFT, free_port, one_line, wait_until

RUN = ("run", "--strategy", "copy_blocking", "--peer")
# A run that must succeed although the machine is busy with what was done to it.
SURE = (*SHORT, "--measure", 1, "--skip-latency")
IMPATIENT = ("--keepalive-interval", 1, "--idle-timeout", 3 * SLOW)
ROUNDS = int(os.environ.get("ZC_E2E_ROUNDS", 16 if LAB else 100))


@pytest.fixture
def crowd():
    crowds = []

    def make(*arguments):
        crowds.append(Crowd(*arguments))
        return crowds[-1]
    yield make
    for each in crowds:
        each.end()


class Idle:
    """What a daemon holds when nobody is there: verbs objects, threads, descriptors. Measured after a first peer has come and gone,
    because some things are made once."""

    def __init__(self, daemon):
        self.daemon = daemon
        daemon.serves()
        self.objects, self.process = daemon.objects(), self.of_process()

    def of_process(self):
        process = pathlib.Path(f"/proc/{self.daemon.process.pid}")
        return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))

    def resident(self):
        return self.daemon.call("stats")["process"]["rss_bytes"]

    def again(self, spare=0):
        """`spare`: descriptors that the software device keeps for peers that it may meet again."""
        self.daemon.wait_objects(self.objects)
        threads, descriptors = self.process
        wait_until(lambda: self.of_process()[0] == threads and self.of_process()[1] <= descriptors + spare,
                   f"{self.process} threads and descriptors, not {self.of_process()}")


def ended(daemon):
    return daemon.call("stats")["sessions"]["ended"]


def fails(daemon, *options, peer, words):
    done = daemon.zcctl(*RUN, peer, *SHORT, *options, status=1)
    line = one_line(done.stderr)
    assert all(word in line for word in words), line


# --- many --------------------------------------------------------------------------------------------------------------------


def test_many_sessions(start, crowd):
    """256 sessions with 4 QPs each on the software device; the daemon answers, and the next one is told why not."""
    crowds, sessions, qps = (4, 16, 1) if LAB else (4, 64, 4)
    total = crowds * sessions
    responder = start("--max-sessions", total, "--max-sessions-per-peer", total + 1)
    idle = Idle(responder)
    before = idle.resident()
    all_of_them = [crowd(responder, "hold", sessions, qps) for _ in range(crowds)]
    for each in all_of_them:
        assert each.line() == f"open {sessions}"
    stats = responder.call("stats")
    assert stats["sessions"]["open"] == total
    assert stats["objects"]["qps"] == total * qps
    assert len(responder.call("session.list")["sessions"]) == total
    print(f"{(idle.resident() - before) / total / 1024:.0f} KiB a session with {qps} QPs")
    fails(responder, peer="self", words=("refused", f"max_sessions = {total}"))

    assert sum(each.stop() for each in all_of_them[:2]) > 0
    for each in all_of_them[2:]:
        each.kill()
    idle.again(spare=4 * crowds)
    responder.serves()
    assert idle.resident() - before < 48 << 20


def test_sessions_that_die(start, crowd):
    """Killed in the middle of READs, again and again: nothing grows."""
    responder = start()
    warm = crowd(responder, "die", 8)
    assert warm.line() == "died 8"
    idle = Idle(responder)
    before = idle.resident()
    assert crowd(responder, "die", ROUNDS).line() == f"died {ROUNDS}"
    idle.again(spare=2)
    responder.serves()
    print(f"{ROUNDS} rounds: {(idle.resident() - before) / 1024:.0f} KiB more")
    assert idle.resident() - before < 4 << 20


# --- who may, and how many ---------------------------------------------------------------------------------------------------


@pytest.mark.native
def test_limits(start, crowd):
    responder, requester = start("--max-qps-per-session", 2, "--max-sessions-per-peer", 3), start()
    fails(requester, "--qps", 3, peer=responder.address, words=("refused", "max_qps_per_session = 2", responder.address))
    holding = crowd(responder, "hold", 4, 1)
    assert "max_sessions_per_peer = 3" in holding.line()
    assert holding.line() == "open 3"
    fails(requester, peer=responder.address, words=("refused", "max_sessions_per_peer = 3"))
    holding.stop()
    wait_until(lambda: responder.objects()["sessions"] == 0, "no session")
    assert requester.run(*SURE, "--qps", 2, peer=responder.address)["state"] == "done"
    assert responder.call("stats")["sessions"]["refused"] == 3


@pytest.mark.native
def test_allowed_networks(start):
    elsewhere, here = start("--allow", "203.0.113.0/24,2001:db8::/32"), start("--allow", "203.0.113.7, 0.0.0.0/0, ::/0")
    fails(elsewhere, peer="self", words=("refused", "allow"))
    fails(here, peer=elsewhere.address, words=("refused", "allow"))
    assert elsewhere.call("stats")["sessions"]["refused"] == 2
    assert elsewhere.call("stats")["sessions"]["total"] == 0
    assert elsewhere.said().count(f"refused {here.host}") == 1      # the same again is not logged
    here.serves()


@pytest.mark.native
def test_pre_shared_key(start, new, folder):
    keys = {}
    for name in ("right", "wrong", "open"):
        keys[name] = folder / name
        keys[name].write_text(f"{'right' if name == 'open' else name} key, sixteen bytes or more\n")
        keys[name].chmod(0o644 if name == "open" else 0o600)
    guarded = start("--key-file", keys["right"])
    knows, errs, has_none = start("--key-file", keys["right"]), start("--key-file", keys["wrong"]), start()
    assert knows.run(*SURE, peer=guarded.address)["state"] == "done"
    guarded.serves()
    for _ in range(2):
        fails(errs, peer=guarded.address, words=("refused", "key_file", guarded.address))
    fails(has_none, peer=guarded.address, words=("demands", "key_file", guarded.address))
    assert knows.run(*SURE, peer=has_none.address)["state"] == "done"
    assert guarded.said().count("another one (key_file)") == 1
    status, line = new("--key-file", keys["open"]).refused()
    assert status == 1 and "0644" in line and str(keys["open"]) in line
    status, line = new("--key-file", folder / "none").refused()
    assert status == 1 and "key_file" in line


# --- peers that stop, die or cannot be reached -------------------------------------------------------------------------------


@contextlib.contextmanager
def stopped(daemon):
    daemon.process.send_signal(signal.SIGSTOP)
    yield
    daemon.process.send_signal(signal.SIGCONT)


def test_requester_stopped(start):
    """The software device stops with its process: keep-alive fails. On rxe the kernel goes on answering: no ALIVE comes."""
    responder, requester = start(*IMPATIENT), start()
    idle = Idle(responder)
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    responder.wait_busy()
    requester.wait_running()
    with stopped(requester):
        idle.again(spare=2)
        assert sum(ended(responder)[why] for why in ("unreachable", "idle")) == 1
        responder.serves()
    _, errors = zcctl.communicate(timeout=2 * DEADLINE_S)
    assert zcctl.returncode == 1
    one_line(errors)
    assert requester.run(*SURE, peer=responder.address)["state"] == "done"


def test_quiet_sessions_live_on(start):
    """A run that is alive outlives the times after which a silent one is let go."""
    responder, requester = start(*IMPATIENT), start()
    document = requester.run("--size", "64K", "--warmup", "0", "--measure", 4 * SLOW, "--skip-latency", peer=responder.address)
    assert document["state"] == "done"
    assert ended(responder)["bye"] == 1


@pytest.mark.skipif(not SOFT, reason="only the software device can be made slow to register")
def test_long_preparations(start):
    """Memory that takes longer to register than the responder waits for a word: the session is there when the run begins to read."""
    responder, requester = start("--idle-timeout", 2), start(ZCSOFT_REG_LATENCY="2500000000")
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    requester.wait_running()
    assert responder.call("stats")["sessions"]["open"] == 1
    zcctl.send_signal(signal.SIGINT)
    zcctl.communicate(timeout=2 * DEADLINE_S)
    wait_until(lambda: ended(responder)["bye"] == 1, f"the session ends with BYE, not {ended(responder)}")
    assert ended(responder)["idle"] == 0


def test_stop_with_a_stopped_peer(start):
    """SIGTERM ends a daemon in time whatever its peers do: the one that reads here is stopped, and so is the one that is read."""
    middle, far, near = start(), start(), start()
    reads = near.popen(*RUN, middle.address, *LONG)
    is_read = middle.popen(*RUN, far.address, *LONG)
    near.wait_running()
    middle.wait_running()
    with stopped(far), stopped(near):
        began = time.monotonic()
        middle.stop()
        assert time.monotonic() - began < 6 * SLOW
    for zcctl in (reads, is_read):
        zcctl.communicate(timeout=2 * DEADLINE_S)
        assert zcctl.returncode in (1, 3, 130)
    near.serves()
    far.serves()


def test_stop_says_so(start):
    """What a requester hears of its peer's SIGTERM."""
    responder, requester = start(), start()
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    requester.wait_running()
    responder.stop()
    _, errors = zcctl.communicate(timeout=2 * DEADLINE_S)
    assert zcctl.returncode == 1
    assert "it is shutting down" in one_line(errors)


def test_rkey_taken_away(start, crowd):
    """The responder closes one session in the middle of its READs, whose rkeys are invalid from there on; the other one reads on."""
    responder, requester = start(), start()
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    requester.wait_running()
    [session] = responder.call("session.list")["sessions"]
    other = crowd(responder, "hold", 1, 1)
    assert other.line() == "open 1"
    responder.call("session.close", {"id": session["id"]})
    _, errors = zcctl.communicate(timeout=2 * DEADLINE_S)
    assert zcctl.returncode == 1
    assert "it ended the session" in one_line(errors)
    assert other.stop() > 0


@pytest.mark.native
def test_peer_started_anew_with_another_region(start, crowd):
    """Address and rkey of the region that a run reads are gone with the process that had it. The run says so, those who read elsewhere read
    on, and the next run reads what is there now."""
    responder, requester = start("--rkey-scope", "region", listen=f"0.0.0.0:{free_port()}"), start()
    address = responder.address
    zcctl = requester.popen(*RUN, address, *LONG)
    requester.wait_running()
    other = crowd(requester, "hold", 1, 1)
    assert other.line() == "open 1"
    responder.kill()
    responder.arguments[responder.arguments.index("16M")] = "8M"
    responder.start()
    _, errors = zcctl.communicate(timeout=2 * DEADLINE_S)
    assert zcctl.returncode == 1
    assert "peer" in one_line(errors)
    fails(requester, "--size", "16M", "--footprint", "16M", peer=address, words=("larger than the peer's region of 8388608 bytes",))
    document = requester.run(*SURE, "--validate", "all", peer=address)
    assert document["validation"]["state"] == "passed" and document["peer"]["region_bytes"] == 8 << 20
    assert other.stop() > 0


# --- faults ------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not SOFT, reason="scripted faults belong to the software device")
def test_error_completion(start, crowd):
    """One session's READ fails: its run names the status, the other session reads on."""
    responder = start()
    idle = Idle(responder)
    requester = start(ZCSOFT_FAULTS="wc:3000=REM_OP_ERR")
    other = crowd(responder, "hold", 1, 1)
    assert other.line() == "open 1"
    fails(requester, "--measure", 60, peer=responder.address, words=("REM_OP_ERR",))
    assert requester.run(*SURE, peer=responder.address)["state"] == "done"
    assert other.stop() > 0
    idle.again(spare=2)


class Network:
    """Two namespaces with a pair of interfaces between them."""

    def __init__(self):
        self.names = [f"zcrdma-{os.getpid()}-{side}" for side in "ab"]

    def ip(self, *arguments, side=None):
        at = ["-n", self.names[side]] if side is not None else []
        return subprocess.run(["ip", *at, *arguments], capture_output=True, text=True, timeout=60).returncode == 0

    def up(self):
        made = all(self.ip("netns", "add", name) for name in self.names)
        made = made and self.ip("link", "add", "zc0", "netns", self.names[0], "type", "veth", "peer", "name", "zc0", "netns",
                                self.names[1])
        return made and all(self.ip("addr", "add", f"10.78.0.{side + 1}/24", "dev", "zc0", side=side) and
                            self.ip("link", "set", "lo", "up", side=side) and self.link("up", side) for side in (0, 1))

    def down(self):
        for name in self.names:
            self.ip("netns", "del", name)

    def link(self, state, side=0):
        return self.ip("link", "set", "zc0", state, side=side)

    def on(self, side):
        return ["ip", "netns", "exec", self.names[side]]


@pytest.fixture
def network():
    if not SOFT or os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root, ip and the software device")
    network = Network()
    try:
        if not network.up():
            pytest.skip("no network namespaces with veth here")
        yield network
    finally:
        network.down()


def test_cut_link(network, start):
    """The hosts live, the wire is cut in the middle of READs: both sides notice by themselves, and go on when it is whole again."""
    responder = start(*IMPATIENT, wrapper=network.on(0), ZCSOFT_ADDR="10.78.0.1", ZCSOFT_TRANSPORT="tcp")
    requester = start(wrapper=network.on(1), ZCSOFT_ADDR="10.78.0.2", ZCSOFT_TRANSPORT="tcp")
    assert requester.run(*SURE, peer=responder.address)["state"] == "done"
    before = [daemon.objects() for daemon in (responder, requester)]
    zcctl = requester.popen(*RUN, responder.address, *LONG)
    requester.wait_running()
    network.link("down")
    _, errors = zcctl.communicate(timeout=2 * DEADLINE_S)
    assert zcctl.returncode == 1
    one_line(errors)
    for daemon, objects in zip((responder, requester), before):
        daemon.wait_objects(objects)
    assert ended(responder)["unreachable"] + ended(responder)["idle"] == 1
    network.link("up")
    # The kernel may still be giving up its search for the other host's link address, begun while the wire was cut.
    wait_until(lambda: requester.zcctl(*RUN, responder.address, *SURE, status=None).returncode == 0, "a run over the whole wire")
