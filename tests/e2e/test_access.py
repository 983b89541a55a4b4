"""Who may do what over the control socket, by the kernel's word and proto/methods.def; and how many at once."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from harness import DEADLINE_S, LAB, LONG, ZCCTL, environment, one_line, wait_until

pytestmark = pytest.mark.native

DENIED, BUSY = -32003, -32002
GROUP = "nogroup"
pytestmark = pytest.mark.skipif(LAB, reason="nothing of it depends on the device; test_systemd.py has a member of the group")
# A run that is over at once.
QUICK = ("--size", "64K", "--warmup", "0.05", "--measure", "0.3", "--memory-max", "16M", "--skip-latency")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")


class User:
    """zcctl as somebody else."""

    def __init__(self, daemon, program, uid, gid, groups=()):
        self.daemon, self.program = daemon, program
        self.prefix = ["setpriv", f"--reuid={uid}", f"--regid={gid}", f"--groups={','.join(groups)}" if groups else "--clear-groups"]

    def zcctl(self, *arguments):
        command = [*self.prefix, self.program, "--socket", self.daemon.socket, *arguments]
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment(), timeout=DEADLINE_S)

    def does(self, *arguments):
        done = self.zcctl(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def may_not(self, *arguments, word="not permitted"):
        done = self.zcctl(*arguments)
        assert done.returncode in (1, 3) and word in one_line(done.stderr), (done.returncode, done.stderr)


@pytest.fixture
def program(folder):
    return shutil.copy(ZCCTL, folder)           # the build tree may be closed to other users


RUN = ("--json", "run", "--strategy", "copy_blocking", "--peer", "self")


@needs_root
def test_members_of_the_group(start, program):
    """They look, run, and remove what is theirs; the rest is root's."""
    daemon = start("--socket-group", GROUP)
    assert daemon.socket.stat().st_mode & 0o777 == 0o660
    member = User(daemon, program, 12345, 65534)
    other = User(daemon, program, 12346, 12346, groups=["65534"])       # a member by a supplementary group
    roots = daemon.run(*QUICK)["id"]
    document = json.loads(member.does(*RUN, *QUICK))
    assert document["owner_uid"] == 12345
    for user in (member, other):
        assert roots in user.does("results", "list")
        assert user.does("stats") and user.does("sessions") and user.does("devices")
        user.may_not("results", "delete", roots)
        user.may_not("sessions", "close", "1")
    other.may_not("results", "delete", document["id"])
    run = other.does("run", "--strategy", "copy_blocking", "--peer", "self", *LONG, "--detach").strip()
    member.may_not("runs", "cancel", run)
    other.does("runs", "cancel", run)
    wait_until(lambda: not daemon.call("run.list")["runs"], "the run has ended")
    member.may_not("results", "delete", run)
    daemon.stop()
    daemon.start()                              # owners are known from the files, too
    other.may_not("results", "delete", document["id"])
    other.does("results", "delete", run)
    member.does("results", "delete", document["id"])
    daemon.zcctl("results", "delete", roots)


@needs_root
def test_everybody_else(start, program):
    """The mode keeps them out; where it lets them in, they may look."""
    daemon = start("--socket-group", GROUP)
    stranger = User(daemon, program, 12345, 12345)
    stranger.may_not("stats", word="ermission denied")
    daemon.stop()
    daemon = start("--socket-group", GROUP, "--socket-mode", "0666")
    stranger = User(daemon, program, 12345, 12345)
    assert stranger.does("stats")
    stranger.may_not(*RUN, *QUICK, word=GROUP)
    stranger.may_not("sessions", "close", "1")


@needs_root
def test_no_such_group(start, program):
    """Root only, and a line in the log says so."""
    daemon = start("--socket-group", "no-such-group")
    assert daemon.socket.stat().st_mode & 0o777 == 0o600
    assert "no-such-group is no group here" in daemon.said()
    User(daemon, program, 12345, 65534).may_not("stats", word="ermission denied")
    daemon.zcctl("stats")


def test_more_clients_than_may_be(start, folder):
    """64 at once are served; the next is told why it is not, and its place is free again as soon as one goes. SIGHUP moves the limit."""
    config = folder / "zcrdmad.conf"
    config.write_text("[zcrdmad]\n")
    daemon = start("--config", config)
    clients = [daemon.control() for _ in range(64)]
    for client in clients:
        assert "sessions" in client.call("stats")
    with daemon.control() as late:
        reply = late.receive()
        assert reply["id"] is None and reply["error"]["code"] == BUSY and "max_clients" in reply["error"]["message"]
        assert late.receive() is None
    done = daemon.zcctl("stats", status=1)
    assert "64 control clients" in one_line(done.stderr)
    clients.pop().close()
    wait_until(lambda: daemon.zcctl("stats", status=None).returncode == 0, "there is room again")
    config.write_text("[zcrdmad]\nmax_clients = 70\n")
    daemon.process.send_signal(1)
    wait_until(lambda: "configuration read again" in daemon.said(), "the configuration was read again")
    clients += [daemon.control() for _ in range(6)]
    for client in clients:
        stats = client.call("stats")            # the last one has been let in
    assert stats["clients"] == 69 and stats["clients_refused"] >= 2
    for client in clients:
        client.close()
    daemon.run(*QUICK)
