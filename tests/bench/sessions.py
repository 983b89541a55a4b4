"""How many sessions a second a daemon opens and closes, and what memory those that are open cost it. Started by tests/bench/run sessions;
prints two tables, asserts nothing."""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from crowd import Crowd  # noqa: E402

SESSIONS = ("--max-sessions", 256, "--max-sessions-per-peer", 256)
CASES = [(qps, clients) for clients in (1, 4) for qps in (1, 4)]
HOLDERS = 4                                     # processes that share the sessions which are held


def turns(daemon, qps, clients, seconds):
    """Sessions a second, all clients together."""
    crowds = [Crowd(daemon, "turns", qps) for _ in range(clients)]
    try:
        for crowd in crowds:
            crowd.say(seconds)
        words = [crowd.line().split() for crowd in crowds]
        assert all(word[0] == "turns" for word in words), words
        return sum(int(word[1]) / int(word[2]) * 1e9 for word in words)
    finally:
        for crowd in crowds:
            crowd.end()


def rates(daemon, options):
    """Case by case within a round, so that all of them meet the same weather."""
    found = {case: [] for case in CASES}
    for _ in range(options.rounds):
        for case in CASES:
            found[case].append(turns(daemon, *case, options.seconds))
    print(f"{'sessions opened and closed a second':44} {'median':>8}    lowest .. highest")
    for (qps, clients), values in found.items():
        name = f"of {qps} QP{'s' if qps > 1 else ''}, {clients} client{'s at once' if clients > 1 else ''}"
        print(f"{name:44} {statistics.median(values):8.0f}  {min(values):8.0f} .. {max(values):7.0f}", flush=True)


def resident(daemon):
    return daemon.call("stats")["process"]["rss_bytes"] / 1024


def held(folder, qps, count):
    """KiB: a fresh daemon's that has served one run, and more of it while `count` sessions read."""
    daemon = harness.Daemon(folder / f"held{qps}", *SESSIONS, "--log-level", "error").start()
    crowds = []
    try:
        daemon.serves()
        idle = resident(daemon)
        crowds = [Crowd(daemon, "hold", count // HOLDERS, qps) for _ in range(HOLDERS)]
        for crowd in crowds:
            assert crowd.line() == f"open {count // HOLDERS}"
        return idle, resident(daemon) - idle
    finally:
        for crowd in crowds:
            crowd.end()
        daemon.kill()


def memory(folder, count):
    """Each QP costs its queues - the device's - and a session the rest: two numbers of QPs tell them apart."""
    (idle, one), (_, four) = held(folder, 1, count), held(folder, 4, count)
    a_qp = (four - one) / 3 / count
    print(f"\nresident memory of the daemon, idle             {idle:8.0f} KiB")
    print(f"more with {count:3} sessions of 1 QP that read       {one:8.0f} KiB, {one / count:6.1f} a session")
    print(f"                       of 4 QPs                 {four:8.0f} KiB, {four / count:6.1f} a session")
    print(f"so a QP with its queues costs {a_qp:.1f} KiB, a session without them {one / count - a_qp:.1f} KiB")


def main():
    parser = argparse.ArgumentParser(prog="tests/bench/run sessions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=1, help="of each case in a round")
    parser.add_argument("--held", type=int, default=256, help="sessions whose memory is measured, at most 256")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zc-bench-") as name:
        folder = pathlib.Path(name)
        daemon = harness.Daemon(folder / "daemon", *SESSIONS, "--log-level", "error").start()
        try:
            print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs\n")
            rates(daemon, options)
        finally:
            daemon.kill()
        memory(folder, options.held)


main()
