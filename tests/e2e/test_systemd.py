"""The Debian package under systemd: only in the lab, whose PID 1 it is (tests/lab/run --systemd). It is installed, used as a service,
upgraded, removed and purged, in the order of this file: what is started once serves several tests, because the CPU is emulated."""

import json
import os
import pathlib
import pwd
import re
import subprocess
import time

import pytest

from harness import LAB, LONG, SHORT, wait_until
from test_package import OLDER, PACKAGES, new_database

pytestmark = pytest.mark.skipif(not LAB or not pathlib.Path("/run/systemd/system").is_dir(), reason="needs systemd in the lab")
SOCKET = pathlib.Path("/run/zcrdmad/control.sock")
CONFIGURATION = pathlib.Path("/etc/zcrdmad.conf")
RESULTS = pathlib.Path("/var/lib/zcrdmad/results")
RUN = ("--json", "run", "--strategy", "copy_blocking", "--peer", "self")
QUICK = (*SHORT, "--skip-latency")
WATCHDOG_S = 10     # a busy machine may let the guest stand still for a few seconds
KEPT = []           # documents of runs that every later test must find


def run(*arguments, status=0):
    done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def dpkg(*arguments):
    """Without triggers: ldconfig and mandb would look at all of the host's files, which takes minutes in the lab. With a database of its own,
    because the host's is large."""
    return run("dpkg", "--admindir=/run/zcrdma-dpkg", "--force-depends", "--no-triggers", *arguments)


def as_member(*arguments):
    return ("setpriv", "--reuid=12345", "--regid=12345", "--groups", str(pwd.getpwnam("zcrdma").pw_gid), *arguments)


def show(*properties, unit="zcrdmad"):
    """Their values, in this order; the value of the only one."""
    lines = run("systemctl", "show", "-p", ",".join(properties), unit).splitlines()
    values = dict(line.split("=", 1) for line in lines)
    return [values[name] for name in properties] if len(properties) > 1 else values[properties[0]]


def stop(*units):
    """By itself, and without an error."""
    subprocess.run(["systemctl", "stop", *(units or ["zcrdmad"])], check=True, capture_output=True)     # it may warn of the socket
    assert show("ActiveState", "Result", "ExecMainStatus") == ["inactive", "success", "0"]


def restarted(pid):
    """The process is another one, and ready."""
    def look():
        state, now = show("ActiveState", "MainPID")
        return state == "active" and now not in ("0", pid)
    wait_until(look, "it was started again")


def journal(*matches):
    return [json.loads(line) for line in run("journalctl", "-u", "zcrdmad", "--no-pager", "-o", "json", *matches).splitlines()]


@pytest.fixture(scope="module", autouse=True)
def installed():
    """Into the guest's overlay, which is forgotten with it. The watchdog is told to be quicker, and the region to be smaller, than a test on
    an emulated CPU wants to wait for."""
    pathlib.Path("/usr/sbin/policy-rc.d").unlink(missing_ok=True)       # that of containers forbids packages to touch services
    folder = pathlib.Path("/run/systemd/system/zcrdmad.service.d")
    folder.mkdir(parents=True)
    (folder / "watchdog.conf").write_text(f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    new_database(pathlib.Path("/run/zcrdma-dpkg"))
    dpkg("-i", OLDER)
    CONFIGURATION.write_text(CONFIGURATION.read_text() + "region_size = 16M\n")
    yield
    subprocess.run(["systemctl", "stop", "zcrdmad.socket", "zcrdmad"], check=False)


@pytest.fixture
def service():
    run("systemctl", "start", "zcrdmad")


def test_nothing_starts_by_itself():
    """The daemon shows memory to the network: that is for the administrator to say, now and for the next boot."""
    for unit in ("zcrdmad.service", "zcrdmad.socket"):
        assert show("LoadState", "UnitFileState", "ActiveState", unit=unit) == ["loaded", "disabled", "inactive"]


def test_unit(service):
    """Started means ready (Type=notify). The daemon is nobody of importance, and reaches the device all the same; so does a member of
    its group, and nobody else."""
    state, kind, pid = show("ActiveState", "Type", "MainPID")
    assert (state, kind) == ("active", "notify")
    assert os.stat(f"/proc/{pid}").st_uid == pwd.getpwnam("zcrdma").pw_uid != 0
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    assert re.search(r"^CapEff:\t0+$", status, re.M) and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    assert SOCKET.stat().st_mode & 0o777 == 0o660 and SOCKET.group() == "zcrdma"
    assert "sessions" in json.loads(run("zcctl", "--json", "stats"))
    document = json.loads(run(*as_member("zcctl", *RUN, *SHORT)))
    assert document["state"] == "done" and document["environment"]["device"]["kind"] == "rxe" and document["owner_uid"] == 12345
    KEPT.append(document)
    refused = subprocess.run(["setpriv", "--reuid=12346", "--regid=12346", "--clear-groups", "zcctl", "stats"], capture_output=True,
                             text=True, timeout=60)
    assert refused.returncode == 3 and "zcrdma" in refused.stderr


def test_journal(service):
    """What it logs reaches the journal under its own name, with priority and what it is about."""
    messages = [entry["MESSAGE"] for entry in journal(f"RUN={KEPT[0]['id']}")]
    assert any("started against self" in message for message in messages) and any(message.endswith(": done") for message in messages)
    sessions = [entry for entry in journal() if "SESSION" in entry and "open with" in entry["MESSAGE"]]
    assert sessions and sessions[-1]["PEER"].startswith("10.9.0.1:") and sessions[-1]["PRIORITY"] == "6"


def test_reload(service):
    """systemctl reload waits for nothing but a signal; the daemon stays the same process."""
    pid, configured = show("MainPID"), CONFIGURATION.read_text()
    for text, words in (("log_level = debug", "read again"), ("broken", "the old one stays")):
        CONFIGURATION.write_text(f"{configured}{text}\n")
        run("systemctl", "reload", "zcrdmad")
        wait_until(lambda: any(words in entry["MESSAGE"] for entry in journal()), words)
    assert show("MainPID", "ActiveState") == [pid, "active"]
    CONFIGURATION.write_text(configured)


def start_long_run():
    identifier = json.loads(run("zcctl", *RUN, *LONG, "--skip-latency", "--detach"))["id"]
    wait_until(lambda: [r for r in json.loads(run("zcctl", "--json", "runs"))["runs"] if r["phase"] in ("latency", "throughput")],
               "it measures")
    return identifier


def test_stuck_and_restarted(service):
    """It pings for longer than the watchdog waits; once its main loop says nothing for so long, it is started again."""
    assert "\nWatchdogSec=30\n" in pathlib.Path("/usr/lib/systemd/system/zcrdmad.service").read_text(), "as it is shipped"
    pid, since_us, watchdog = show("MainPID", "ActiveEnterTimestampMonotonic", "WatchdogUSec")
    assert watchdog == f"{WATCHDOG_S}s"
    wait_until(lambda: time.monotonic() > int(since_us) / 1e6 + WATCHDOG_S + 1, "it pings")
    assert show("NRestarts", "MainPID") == ["0", pid]
    run("kill", "-STOP", pid)
    restarted(pid)


def test_killed_and_restarted(service):
    """kill -9: systemd starts it again, the results are there, and it works."""
    start_long_run()
    pid = show("MainPID")
    run("kill", "-9", pid)
    restarted(pid)
    assert json.loads(run("zcctl", "results", "get", KEPT[0]["id"])) == KEPT[0]
    assert json.loads(run("zcctl", *RUN, *QUICK))["state"] == "done"


def test_upgrade(service):
    """What runs is started again with the new program; what the administrator has set and what was measured stay."""
    CONFIGURATION.write_text(CONFIGURATION.read_text() + "log_level = debug\n")
    run("systemctl", "enable", "zcrdmad")
    pid = show("MainPID")
    dpkg("-i", PACKAGES[0])
    assert "Version: 0.0.1" not in dpkg("-s", "zcrdma")
    state, now, enabled = show("ActiveState", "MainPID", "UnitFileState")
    assert state == "active" and now not in ("0", pid) and enabled == "enabled"
    assert show("UnitFileState", "ActiveState", unit="zcrdmad.socket") == ["disabled", "inactive"]
    assert CONFIGURATION.read_text().endswith("log_level = debug\n")
    assert "sessions" in json.loads(run("zcctl", "--json", "stats"))
    assert json.loads(run("zcctl", "results", "get", KEPT[0]["id"])) == KEPT[0]


def test_stopped_in_a_run(service):
    """The run is stored as cancelled, and systemd, which would be asked to after TimeoutStopSec, has nobody to kill."""
    identifier = start_long_run()
    stop()
    assert json.loads((RESULTS / f"{identifier}.json").read_text())["state"] == "cancelled"
    wait_until(lambda: not SOCKET.exists(), "the socket is gone")


def test_socket_activation():
    """The first zcctl starts the daemon, by the socket that systemd holds; the socket outlives the daemon. The software device is put
    in front by executing the program again: the socket must survive that, and so must readiness."""
    configured = CONFIGURATION.read_text()
    run("systemctl", "start", "zcrdmad.socket")
    assert show("ActiveState") == "inactive" and SOCKET.group() == "zcrdma" and SOCKET.stat().st_mode & 0o777 == 0o660
    for text, kind in ((configured, "rxe"), (f"{configured}device = soft\n", "software")):
        CONFIGURATION.write_text(text)
        document = json.loads(run(*as_member("zcctl", *RUN, *QUICK)))
        assert document["state"] == "done" and document["environment"]["device"]["kind"] == kind
        stop()
        assert SOCKET.exists()
    CONFIGURATION.write_text(configured)
    assert document["id"] in run(*as_member("zcctl", "results", "list"))


def test_removed_and_purged():
    """Removing stops the daemon, which the socket has started, and keeps what was measured and set; purging leaves nothing but the user,
    as other packages do: its number must not become somebody else's."""
    assert show("ActiveState") == "active"
    dpkg("-r", "zcrdma")
    for unit in ("zcrdmad.service", "zcrdmad.socket"):
        assert show("LoadState", "ActiveState", unit=unit) == ["not-found", "inactive"]
    assert not SOCKET.exists() and not pathlib.Path("/usr/sbin/zcrdmad").exists()
    assert CONFIGURATION.exists() and (RESULTS / f"{KEPT[0]['id']}.json").exists()
    dpkg("-P", "zcrdma")
    for path in (CONFIGURATION, RESULTS.parent, SOCKET.parent, pathlib.Path("/etc/systemd/system/multi-user.target.wants/zcrdmad.service")):
        assert not os.path.lexists(path), path
    assert pwd.getpwnam("zcrdma").pw_uid != 0
