"""On the client of tests/lab/pair: a READ from another machine is in flight while something else is done, and that machine may go
down without a word."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

from harness import DEADLINE_S, one_line, wait_until
from test_strategies import STRATEGIES

SERVER = os.environ.get("ZC_LAB_SERVER")
pytestmark = pytest.mark.skipif(not SERVER, reason="needs tests/lab/pair")
CLIENT = os.environ.get("ZC_LAB_CLIENT")
PEER = f"{SERVER}:{os.environ.get('ZC_PAIR_PORT')}"
QUICK = ("--warmup", "0.1", "--measure", "0.6", "--memory-max", "16M", "--footprint", "1M", "--operations-max", "4")


def resources():
    """What the kernel counts of rxe0."""
    shown = subprocess.run(("rdma", "resource", "show"), capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"(\w+) (\d+)", shown.split("rxe0:")[1]))


def test_every_strategy(daemon, check_schema):
    """All of them read from the other machine, and every byte is the one that is there."""
    idle = daemon.objects(), resources()
    done = daemon.zcctl("--json", "run", "--strategy", "all", "--peer", PEER, *QUICK, "--size", "20001", "--mr-size", "6000", "--chunk-size",
                        "6000", "--validate", "all", "--skip-latency")
    documents = json.loads(done.stdout)
    assert "rxe0 has no on-demand paging" in done.stderr
    assert {document["strategy"] for document in documents} >= {name for name in STRATEGIES if not name.startswith(("odp_", "hybrid_"))}
    for document in documents:
        check_schema(document)
        assert document["state"] == "done" and document["validation"]["state"] == "passed"
        assert document["peer"]["address"] == SERVER and document["environment"]["device"]["kind"] == "rxe"
        assert document["validation"]["bytes"] > 0 and document["throughput"]["requests"] > 0
    daemon.wait_objects(idle[0])
    wait_until(lambda: resources() == idle[1], "the kernel's objects are gone")


def test_link_down(daemon):
    """This machine's link goes down within the run. Soft-RoCE of Linux 6.1 then connects nobody any more, until its device is made anew,
    which the daemon survives."""
    idle = daemon.objects(), resources()
    zcctl = daemon.popen("run", "--strategy", "copy_non_blocking", "--peer", PEER, *QUICK, "--size", "64K", "--measure", 300)
    daemon.wait_running()
    subprocess.run(("ip", "link", "set", "eth0", "down"), check=True)
    _, errors = zcctl.communicate(timeout=DEADLINE_S)
    assert zcctl.returncode == 1 and re.search("port 1 of rxe0 is DOWN|went into the error state", one_line(errors)), errors
    daemon.wait_objects(idle[0])
    wait_until(lambda: resources() == idle[1], "the kernel's objects are gone")
    subprocess.run(("ip", "link", "set", "eth0", "up"), check=True)
    subprocess.run(("rdma", "link", "delete", "rxe0"), check=True, timeout=DEADLINE_S)
    subprocess.run(("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0"), check=True)
    wait_until(lambda: daemon.call("stats")["device_present"], "the device is served again")
    assert daemon.run(*QUICK, "--size", "64K", "--skip-latency", peer=PEER)["state"] == "done"
    daemon.wait_objects(idle[0])
    wait_until(lambda: resources() == idle[1], "the kernel's objects are gone")


def test_dead_host(daemon):
    """The last test: the server's machine ends, as by a power cut, within a run from it and within one of its own from here. No packet
    says so; retries, deadlines and keep-alive must."""
    idle = daemon.objects(), resources()
    shared = pathlib.Path(os.environ["ZC_PAIR_SHARED"])
    (shared / "read.new").write_text(f"{CLIENT}:{daemon.call('stats')['listen']['port']}")
    (shared / "read.new").rename(shared / "read")
    daemon.wait_busy()
    run = daemon.call("run.start", {"strategy": "pipeline_non_blocking", "peer": PEER, "size": "64K", "chunk_size": "16K", "measure": 300,
                                    "memory_max": "16M", "validate": "first"})["id"]
    daemon.wait_running()
    (shared / "die").touch()
    began = time.monotonic()
    document = daemon.call("run.wait", {"id": run})["result"]
    assert time.monotonic() - began < 60
    assert document["state"] == "failed" and document["error"]["kind"] == "peer", document["error"]
    assert SERVER in document["error"]["message"]
    assert document["throughput"]["gib_per_s"] is None, "a window that waited for a dead peer says nothing"
    daemon.wait_objects(idle[0])
    assert daemon.call("stats")["sessions"]["ended"]["unreachable"] == 1, "keep-alive has found the silent reader"
    wait_until(lambda: resources() == idle[1], "the kernel's objects are gone")
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = daemon.zcctl("run", "--strategy", "copy_blocking", "--peer", PEER, *QUICK, status=1)
        assert SERVER in done.stderr
    daemon.serves()
