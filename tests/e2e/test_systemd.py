"""The installed unit under systemd: only in the lab, whose PID 1 it is (tests/lab/run --systemd)."""

import json
import os
import pathlib
import subprocess

import pytest

from harness import BUILD, LAB, SHORT, wait_until

pytestmark = pytest.mark.skipif(not LAB or not pathlib.Path("/run/systemd/system").is_dir(), reason="needs systemd in the lab")
SOCKET = "/run/zcrdmad/control.sock"


def run(*arguments):
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def installed():
    """Into the guest's overlay, which is forgotten with it."""
    run("cmake", "--install", str(BUILD), "--prefix", "/usr")
    for tool in ("systemd-sysusers", "systemd-tmpfiles --create"):
        subprocess.run(tool.split(), check=False, capture_output=True)
    run("systemctl", "daemon-reload")
    yield
    subprocess.run(["systemctl", "stop", "zcrdmad"], check=False)


def show(prop):
    return run("systemctl", "show", "-P", prop, "zcrdmad").strip()


def test_unit():
    """Started means ready (Type=notify); stopped means exit 0."""
    run("systemctl", "start", "zcrdmad")
    assert show("ActiveState") == "active" and show("Type") == "notify"
    assert "sessions" in json.loads(run("zcctl", "--json", "stats"))
    document = json.loads(run("zcctl", "--json", "run", "--strategy", "copy_blocking", "--peer", "self", *SHORT))
    assert document["state"] == "done" and document["environment"]["device"]["kind"] == "rxe"
    run("systemctl", "restart", "zcrdmad")
    assert document["id"] in run("zcctl", "results", "list")
    run("systemctl", "stop", "zcrdmad")
    assert show("Result") == "success" and show("ExecMainStatus") == "0"
    wait_until(lambda: not os.path.exists(SOCKET), "the socket is gone")


def test_journal():
    """What it logs reaches the journal under its own name."""
    assert run("journalctl", "-u", "zcrdmad", "--no-pager", "-o", "cat")
