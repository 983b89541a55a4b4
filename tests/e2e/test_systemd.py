"""The installed units under systemd: only in the lab, whose PID 1 it is (tests/lab/run --systemd)."""

import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import time

import pytest

from harness import BUILD, LAB, LONG, SHORT, wait_until

pytestmark = pytest.mark.skipif(not LAB or not pathlib.Path("/run/systemd/system").is_dir(), reason="needs systemd in the lab")
SOCKET = pathlib.Path("/run/zcrdmad/control.sock")
RUN = ("--json", "run", "--strategy", "copy_blocking", "--peer", "self")


def run(*arguments, status=0):
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def as_member(*arguments):
    return ("setpriv", "--reuid=12345", "--regid=12345", "--groups", str(pwd.getpwnam("zcrdma").pw_gid), *arguments)


def show(prop, unit="zcrdmad"):
    return run("systemctl", "show", "-P", prop, unit).strip()


def journal(*matches):
    return [json.loads(line) for line in run("journalctl", "-u", "zcrdmad", "--no-pager", "-o", "json", *matches).splitlines()]


@pytest.fixture(scope="module", autouse=True)
def installed():
    """Into the guest's overlay, which is forgotten with it."""
    run("cmake", "--install", str(BUILD), "--prefix", "/usr")
    run("systemd-sysusers", "zcrdma.conf")
    run("systemd-tmpfiles", "--create", "zcrdma.conf")
    run("systemctl", "daemon-reload")
    yield
    subprocess.run(["systemctl", "stop", "zcrdmad.socket", "zcrdmad"], check=False)


@pytest.fixture
def service():
    run("systemctl", "start", "zcrdmad")
    yield
    run("systemctl", "stop", "zcrdmad")
    assert show("Result") == "success" and show("ExecMainStatus") == "0"


def test_unit():
    """Started means ready (Type=notify); stopped means exit 0. The daemon is nobody of importance, and reaches the device all the same."""
    run("systemctl", "start", "zcrdmad")
    assert show("ActiveState") == "active" and show("Type") == "notify"
    pid = show("MainPID")
    assert os.stat(f"/proc/{pid}").st_uid == pwd.getpwnam("zcrdma").pw_uid != 0
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    assert re.search(r"^CapEff:\t0+$", status, re.M) and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    assert SOCKET.stat().st_mode & 0o777 == 0o660 and SOCKET.group() == "zcrdma"
    assert "sessions" in json.loads(run("zcctl", "--json", "stats"))
    document = json.loads(run("zcctl", *RUN, *SHORT))
    assert document["state"] == "done" and document["environment"]["device"]["kind"] == "rxe"
    run("systemctl", "restart", "zcrdmad")
    assert document["id"] in run("zcctl", "results", "list")
    run("systemctl", "stop", "zcrdmad")
    assert show("Result") == "success" and show("ExecMainStatus") == "0"
    wait_until(lambda: not SOCKET.exists(), "the socket is gone")


def test_member_of_the_group(service):
    """An ordinary user in the group runs; one who is not in it cannot connect."""
    document = json.loads(run(*as_member("zcctl", *RUN, *SHORT)))
    assert document["state"] == "done" and document["owner_uid"] == 12345
    refused = subprocess.run(["setpriv", "--reuid=12346", "--regid=12346", "--clear-groups", "zcctl", "stats"], capture_output=True,
                             text=True, timeout=60)
    assert refused.returncode == 3 and "zcrdma" in refused.stderr


def test_reload(service):
    """systemctl reload waits for nothing but a signal; the daemon stays the same process."""
    pid = show("MainPID")
    configuration = pathlib.Path("/etc/zcrdmad.conf")
    shipped = configuration.read_text()
    configuration.write_text("[zcrdmad]\nlog_level = debug\n")
    run("systemctl", "reload", "zcrdmad")
    wait_until(lambda: any("read again" in entry["MESSAGE"] for entry in journal()), "it was read again")
    configuration.write_text("[zcrdmad]\nbroken\n")
    run("systemctl", "reload", "zcrdmad")
    wait_until(lambda: any("the old one stays" in entry["MESSAGE"] for entry in journal()), "the error is logged")
    assert show("MainPID") == pid and show("ActiveState") == "active"
    configuration.write_text(shipped)


def start_long_run():
    identifier = json.loads(run("zcctl", *RUN, *LONG, "--detach"))["id"]
    wait_until(lambda: [r for r in json.loads(run("zcctl", "--json", "runs"))["runs"] if r["phase"] in ("latency", "throughput")],
               "it measures")
    return identifier


def test_stopped_in_a_run(service):
    """The run is stored as cancelled, and systemd has nobody to kill."""
    identifier = start_long_run()
    begun = time.monotonic()
    run("systemctl", "stop", "zcrdmad")
    assert time.monotonic() - begun < 30        # an emulated machine; natively it is 5 s
    assert show("Result") == "success" and show("ExecMainStatus") == "0"
    run("systemctl", "start", "zcrdmad")
    assert json.loads(run("zcctl", "results", "get", identifier))["state"] == "cancelled"


def test_killed_and_restarted(service):
    """kill -9: systemd starts it again, the results are there, and it works."""
    kept = json.loads(run("zcctl", *RUN, *SHORT))
    start_long_run()
    pid = show("MainPID")
    run("kill", "-9", pid)
    wait_until(lambda: show("ActiveState") == "active" and show("MainPID") not in ("0", pid), "it was started again")
    assert json.loads(run("zcctl", "results", "get", kept["id"])) == kept
    assert json.loads(run("zcctl", *RUN, *SHORT))["state"] == "done"


def test_stuck_and_restarted(service):
    """A main loop that says nothing for as long as WatchdogSec is started again."""
    assert show("WatchdogUSec") == "30s"
    folder = pathlib.Path("/run/systemd/system/zcrdmad.service.d")
    folder.mkdir(parents=True)
    (folder / "watchdog.conf").write_text("[Service]\nWatchdogSec=4\n")
    try:
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", "zcrdmad")
        time.sleep(9)                           # it pings
        assert show("NRestarts") == "0"
        pid = show("MainPID")
        run("kill", "-STOP", pid)
        wait_until(lambda: show("ActiveState") == "active" and show("MainPID") not in ("0", pid), "it was started again")
    finally:
        shutil.rmtree(folder)
        run("systemctl", "daemon-reload")
        run("systemctl", "reset-failed", "zcrdmad")
        run("systemctl", "restart", "zcrdmad")


def test_socket_activation():
    """The first zcctl starts the daemon, by the socket that systemd holds; the socket outlives the daemon."""
    run("systemctl", "start", "zcrdmad.socket")
    assert show("ActiveState") == "inactive" and SOCKET.group() == "zcrdma" and SOCKET.stat().st_mode & 0o777 == 0o660
    document = json.loads(run(*as_member("zcctl", *RUN, *SHORT)))
    assert document["state"] == "done" and show("ActiveState") == "active"
    subprocess.run(["systemctl", "stop", "zcrdmad"], check=True, capture_output=True)     # it warns that the socket may start it again
    assert show("Result") == "success" and SOCKET.exists()
    assert document["id"] in run(*as_member("zcctl", "results", "list"))
    subprocess.run(["systemctl", "stop", "zcrdmad.socket", "zcrdmad"], check=True, capture_output=True)


def test_soft_device_by_socket_activation():
    """The software device is put in front by executing the program again: the socket must survive that, and so must readiness."""
    folder = pathlib.Path("/run/systemd/system/zcrdmad.service.d")
    folder.mkdir(parents=True)
    command = re.sub(r"^.*?argv\[\]=(.*?) ;.*$", r"\1", show("ExecStart"), flags=re.S)
    (folder / "soft.conf").write_text(f"[Service]\nExecStart=\nExecStart={command} --device soft\n")
    try:
        run("systemctl", "daemon-reload")
        run("systemctl", "start", "zcrdmad.socket")
        document = json.loads(run("zcctl", *RUN, *SHORT))
        assert document["environment"]["device"]["kind"] == "software" and document["state"] == "done"
    finally:
        shutil.rmtree(folder)
        subprocess.run(["systemctl", "stop", "zcrdmad.socket", "zcrdmad"], check=True, capture_output=True)
        run("systemctl", "daemon-reload")


def test_journal(service):
    """What it logs reaches the journal under its own name, with priority and what it is about."""
    identifier = json.loads(run("zcctl", *RUN, *SHORT))["id"]
    messages = [entry["MESSAGE"] for entry in journal(f"RUN={identifier}")]
    assert any("started against self" in message for message in messages) and any(message.endswith(": done") for message in messages)
    sessions = [entry for entry in journal() if "SESSION" in entry and "open with" in entry["MESSAGE"]]
    assert sessions and sessions[-1]["PEER"].startswith("10.9.0.1:") and sessions[-1]["PRIORITY"] == "6"


def test_exposure():
    """systemd's own judgement of the unit: 0 is safe, 10 is open to everything."""
    line = run("systemd-analyze", "security", "--no-pager", "zcrdmad.service").splitlines()[-1]
    assert float(re.search(r"zcrdmad.service: ([\d.]+)", line)[1]) <= 2.5, line
