"""How long `stats` takes while others misuse the daemon. Started by tests/bench/run stats; prints a table, asserts nothing."""

import argparse
import json
import multiprocessing
import os
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from crowd import Crowd  # noqa: E402

GOAL_MS = 50
STATS = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "stats"}).encode() + b"\n"
LINE_MAX = 1 << 20
SESSIONS = 255


def misuse(path, misbehave):
    """One client that does as `misbehave` says, again and again, until its process is ended."""
    while True:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(1)
                client.connect(str(path))
                misbehave(client)
        except OSError:
            pass


def flood(client):
    """Requests as fast as they go out, and every answer read."""
    client.setblocking(False)
    waiting = b""
    while True:
        readable, writable, _ = select.select([client], [client], [], 0.1)
        if readable:
            client.recv(1 << 20)
        if writable:
            waiting = waiting or STATS * 100
            waiting = waiting[client.send(waiting):]


def deaf(client):
    """The same, but no answer is ever read: thrown out, and it comes back."""
    while True:
        client.sendall(STATS * 100)


def half_line(client):
    client.sendall(STATS[:20])
    while True:
        time.sleep(0.1)


def overlong(client):
    while True:
        client.sendall(b"x" * LINE_MAX + b"\n")
        client.recv(65536)


def nested(client):
    """The longest line that is allowed, and deep."""
    while True:
        client.sendall(b"[" * (LINE_MAX - 1) + b"\n")
        client.recv(65536)


def lists(client):
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "result.list"}).encode() + b"\n"
    buffer = b""
    while True:
        client.sendall(line)
        while not buffer.endswith(b"\n"):
            buffer += client.recv(1 << 20)
        buffer = b""


CASES = [
    ("nobody else", []),
    ("60 idle clients", ["idle"] * 60),
    ("one floods", [flood]),
    ("one floods and never reads", [deaf]),
    ("one has sent half a line", [half_line]),
    ("lines of 1 MiB + 1", [overlong]),
    ("lines of 1 MiB, deeply nested", [nested]),
    ("lists of all results", [lists]),
    ("255 busy sessions", ["busy"]),
    ("all of them at once", [flood, deaf, half_line, overlong, nested, lists, "busy"] + ["idle"] * 50),
]


def measure(daemon, seconds):
    times_ms = []
    with daemon.control() as control:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            control.call("stats")
            times_ms.append((time.perf_counter() - begun) * 1e3)
            time.sleep(0.002)
    return times_ms


def busy(daemon):
    """Sessions that READ without a pause; the run is one more."""
    crowds = [Crowd(daemon, "hold", SESSIONS // 5, 1) for _ in range(5)]
    for crowd in crowds:
        assert crowd.line() == f"open {SESSIONS // 5}"
    return crowds


def one_case(daemon, misuses, seconds):
    crowds = busy(daemon) if "busy" in misuses else []
    idle = [daemon.control() for kind in misuses if kind == "idle"]
    others = [multiprocessing.Process(target=misuse, args=(daemon.socket, kind), daemon=True) for kind in misuses if callable(kind)]
    for other in others:
        other.start()
    time.sleep(0.3)
    times = measure(daemon, seconds)
    for other in others:
        other.kill()
        other.join()
    for crowd in crowds:
        crowd.end()
    for client in idle:
        client.close()
    return times


def realtime(pid):
    """The main thread alone: threads and processes that it starts are ordinary ones."""
    os.sched_setscheduler(pid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def fill(daemon, count):
    """Results to list."""
    document = daemon.run("--size", "64K", "--warmup", "0.1", "--measure", "0.5", "--skip-latency")
    small = {key: document[key] for key in ("schema_version", "state", "strategy", "config", "owner_uid")}
    for i in range(count):
        name = f"20250101T{i // 3600:02}{i // 60 % 60:02}{i % 60:02}Z-copy_blocking-{i % 65536:04x}"
        (daemon.state / "results" / f"{name}.json").write_text(json.dumps({**small, "id": name}))


def main():
    parser = argparse.ArgumentParser(prog="tests/bench/run stats", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="of each case")
    parser.add_argument("--results", type=int, default=10_000, help="that are stored")
    parser.add_argument("--realtime", action="store_true",
                        help="SCHED_RR for the daemon's main thread and the client that measures: for a machine with other work")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zc-bench-") as folder:
        daemon = harness.Daemon(pathlib.Path(folder) / "daemon", "--log-level", "error", "--max-sessions", SESSIONS + 1,
                                "--max-sessions-per-peer", SESSIONS + 1).start()
        try:
            fill(daemon, options.results)
            daemon.call("result.list")
            if options.realtime:
                realtime(daemon.process.pid)
                realtime(0)
            run = subprocess.Popen(daemon.command("run", "--strategy", "copy_blocking", "--peer", "self", *harness.LONG),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            print(f"stats over the control socket, {options.results} results stored, a run going on, load {os.getloadavg()[0]:.1f}\n")
            print(f"{'':34} {'p50':>9} {'p99':>9} {'max':>9}  ms     answers")
            for name, misuses in CASES:
                times = one_case(daemon, misuses, options.seconds)
                cuts = statistics.quantiles(times, n=100)
                print(f"{name:34} {cuts[49]:9.2f} {cuts[98]:9.2f} {max(times):9.2f}  {len(times):10}   "
                      f"goal {GOAL_MS}: {'reached' if cuts[98] < GOAL_MS else 'MISSED'}", flush=True)
            run.kill()
            run.wait()
        finally:
            daemon.kill()


main()
