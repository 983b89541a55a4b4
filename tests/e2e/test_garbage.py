"""Random and broken input at a live daemon: seeded, so that a failure can be had again (ZC_SEED=N). tests/fuzz does the same to the
parts, far more often."""

import json
import os
import random
import socket
import struct
import time

import pytest

from harness import LAB, SOFT, wait_until

SEED = int(os.environ.get("ZC_SEED", "20261129"))
SECONDS = 3
QUICK = ("--size", "64K", "--warmup", "0.05", "--measure", "0.3", "--memory-max", "16M", "--skip-latency")
METHODS = ["run.start", "run.wait", "run.cancel", "run.list", "result.list", "result.get", "result.trace", "result.delete", "stats",
           "session.list", "session.close", "device.list", "version", "no.such", ""]
VALUES = [None, True, False, 0, -1, 1, 2**63 - 1, 2**64, 1e308, "", "x", "self", "copy_blocking", "64K", "../..", "\0", "\u202e", [], [[]],
          {}, {"a": 1}, "20261129T190102Z-copy_blocking-3f9a", "a" * 5000]
NAMES = ["id", "strategy", "peer", "size", "warmup", "measure", "qps", "progress", "offset", "before", "limit", "mr_size", "nope", ""]

pytestmark = pytest.mark.skipif(LAB, reason="the same daemon on another device")


def message(rng):
    """Often nearly right, so that it gets somewhere."""
    body = {"jsonrpc": "2.0", "id": rng.choice([1, "x", None, 1.5]), "method": rng.choice(METHODS),
            "params": {rng.choice(NAMES): rng.choice(VALUES) for _ in range(rng.randrange(4))}}
    for name in list(body):
        if rng.random() < 0.08:
            body[name] = rng.choice(VALUES)
        if rng.random() < 0.04:
            del body[name]
    if body.get("method") == "run.start" and "measure" not in str(body.get("params")):
        body["method"] = "stats"                # no runs of ten seconds
    return json.dumps(body).encode()


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 1:
            del data[at:at + rng.randrange(1, 9)]
        elif kind == 2 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at:at] = data[:rng.randrange(64)]
    return bytes(data)


def idle_and_well(daemon, wanted):
    wait_until(lambda: not daemon.call("run.list")["runs"], "no run is left")
    daemon.wait_objects(wanted)
    wait_until(lambda: daemon.call("stats")["clients"] == 1, "no client is left")
    assert daemon.run(*QUICK)["state"] == "done"


def test_control_socket(start):
    """Every line that is a request gets its answer, whatever stands before it; the daemon stays what it was."""
    daemon = start()
    idle = daemon.objects()
    rng = random.Random(SEED)
    end, sent = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        with daemon.control() as control:
            for _ in range(rng.randrange(1, 40)):
                line = message(rng)
                if rng.random() < 0.6:
                    line = mutated(rng, line)
                control.send_bytes(line.replace(b'"run.wait"', b'"stats"') + b"\n")
                sent += 1
            if rng.random() < 0.2:
                continue                        # it does not wait for the answers
            control.send({"jsonrpc": "2.0", "id": "last", "method": "version"})
            while (reply := control.receive())["id"] != "last":
                assert ("result" in reply) != ("error" in reply), (SEED, reply)
    for run in daemon.call("run.list")["runs"]:
        daemon.call("run.cancel", {"id": run["id"]})
    print(f"{sent} lines")
    assert sent > 500
    idle_and_well(daemon, idle)


def ports_of(pid):
    """TCP ports that a process listens on, the software device's among them."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if name.startswith("socket:["):
            inodes.add(name[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as rows:
            for row in list(rows)[1:]:
                fields = row.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    found.add(int(fields[1].rsplit(":", 1)[1], 16))
    return found


def hello(rng):
    """The greeting of src/soft/wire.h, sometimes wrong."""
    return struct.pack("<QHBBIQQQQQQ", 0x3154465343415A5A, 3, rng.choice([1, 1, 2, 2, 0, 255]), 0, rng.randrange(1 << 16), 1, 0, 0, 0, 0, 0)


def test_software_device(start):
    """Garbage, greetings, forged frames and connection messages at every port of it."""
    if not SOFT:
        pytest.skip("the ports are the software device's")
    daemon = start()
    daemon.run(*QUICK)                          # its ports are open
    idle = daemon.objects()
    rng = random.Random(SEED)
    ports = sorted(ports_of(daemon.process.pid))
    assert ports
    end, sent = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        with socket.socket() as client:
            client.settimeout(2)
            try:
                client.connect(("127.0.0.1", rng.choice(ports)))
                parts = [hello(rng)] if rng.random() < 0.8 else []
                for _ in range(rng.randrange(6)):
                    kind = rng.randrange(3)
                    parts.append(rng.randbytes(rng.randrange(300)) if kind == 0 else
                                 struct.pack("<BBBBIIIIIIIIIQQQ", rng.randrange(11), rng.randrange(8), 0, 0, rng.randrange(1 << 24), 1,
                                             rng.randrange(3), rng.choice([0, 8, 65536]), rng.choice([8, 1 << 20, 1 << 31]), 0, 0,
                                             rng.randrange(1 << 32), 0, rng.randrange(1 << 48), 0, 0) if kind == 1 else
                                 struct.pack("<BBH", rng.randrange(8), rng.randrange(256), 0x106) + rng.randbytes(252))
                client.sendall(b"".join(parts))
                sent += 1
                if rng.random() < 0.3:
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65536):
                        pass
            except OSError:
                pass                            # thrown out: as it should be
    print(f"{sent} streams")
    assert sent > 100
    idle_and_well(daemon, idle)
