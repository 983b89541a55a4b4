"""The strategies against their ceilings and against each other, by the programs themselves: daemon to daemon, perftest beside them.
Subjects take turns, round by round; medians with their range; ratios within a round. Started by tests/bench/run strategies, or by
tests/bench/run pair between two guests. Prints tables, asserts nothing."""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

K, M, G = 1 << 10, 1 << 20, 1 << 30
SERVER = os.environ.get("ZC_LAB_SERVER")    # another guest has the peer and perftest's servers
PORT = 18800


def name_of(size):
    return f"{size // M}M" if size >= M else f"{size // K}K" if size >= K else f"{size}"


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.daemon = harness.Daemon(folder / "requester", region="1M").start()
        self.peer = None if SERVER else harness.Daemon(folder / "peer", region="256M").start()
        self.address = f"{SERVER}:{os.environ['ZC_PAIR_PORT']}" if SERVER else self.peer.address
        self.perftests = 0

    def close(self):
        for daemon in (self.daemon, self.peer):
            if daemon:
                daemon.kill()

    def run(self, strategy, size, *arguments):
        done = self.daemon.zcctl("--json", "run", "--strategy", strategy, "--peer", self.address, "--size", size, "--warmup", "0.1",
                                 "--measure", self.options.window, "--skip-validation", *arguments)
        return json.loads(done.stdout)

    def rate(self, strategy, size, *arguments):
        """GiB/s"""
        return self.run(strategy, size, "--skip-latency", *arguments)["throughput"]["gib_per_s"]

    def latency(self, strategy, size, *arguments):
        """us"""
        return self.run(strategy, size, "--skip-throughput", *arguments)["latency"]["available"]["p50_ns"] / 1e3

    def perftest(self, program, column, *arguments):
        """A figure of the line that begins with the size; a server for each try, as one that met a client is gone."""
        for _ in range(5):
            self.perftests += 1
            command = [str(word) for word in (program, "-F", "-p", PORT + self.perftests % 1000, *arguments)]
            done = self.served(command)
            for line in done.stdout.splitlines() if done.returncode == 0 else ():
                words = line.split()
                if words and words[0].isdigit() and len(words) > column:
                    return float(words[column])
        raise SystemExit(f"bench: {' '.join(command)} gave no figure: {done.stderr[-300:]}")

    def served(self, command):
        """The client of a command, with its server; it may come too early for it."""
        environment = harness.environment(preload=True)
        server = None
        if SERVER:
            command = [*command, "-d", "rxe0", "-x", "1"]
            pathlib.Path(os.environ["ZC_PAIR_SHARED"], f"server.{self.perftests}").write_text(" ".join(command))
        else:
            server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        done = None
        while not done or (done.returncode and "connect to" in done.stderr and time.monotonic() < deadline):
            time.sleep(0.3)
            done = subprocess.run([*command, SERVER or "127.0.0.1"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if server:
            server.kill()
            server.wait()
        return done

    def read_bw(self, size, depth, qps):
        """GiB/s of ib_read_bw, which prints MiB/s; without -N it looks for the peak long after the last READ."""
        count = max(20 * depth, min(self.options.bytes // size, 100_000) // qps)
        return self.perftest("ib_read_bw", 3, "-N", "-s", size, "-t", depth, "-q", qps, "-n", count) / 1024

    def read_lat(self, size):
        return self.perftest("ib_read_lat", 4, "-s", size, "-n", max(100, min(self.options.bytes // max(size, 4096), 5000)))


def table(bench, title, unit, subjects, ratios):
    """subjects: {name: function}; ratios: (words, name, name, goal or None). For latencies below is better: the ratio is turned."""
    print(f"\n{title}, load {os.getloadavg()[0]:.1f}\n{'':44} {unit:>9}    lowest .. highest", flush=True)
    figures = {name: [] for name in subjects}
    for _ in range(bench.options.rounds):
        for name, subject in subjects.items():
            figures[name].append(subject())
    for name, values in figures.items():
        print(f"{name:44} {statistics.median(values):9.3f} {min(values):9.3f} .. {max(values):8.3f}")
    for words, first, second, goal in ratios:
        values = [a / b if unit != "us" else b / a for a, b in zip(figures[first], figures[second])]
        verdict = "" if goal is None else f"   goal {goal:g}: " + (
            "reached" if statistics.median(values) >= goal else "within its range" if max(values) >= goal else "MISSED")
        print(f"  {words:42} {statistics.median(values):9.2f} {min(values):9.2f} .. {max(values):8.2f}{verdict}", flush=True)


def ceiling(bench):
    """ideal_* against perftest: same size, QPs, depth; one buffer a request in flight and one remote offset on both sides."""
    for size in bench.options.sizes:
        for depth, qps in ((1, 1), (16, 1), (16, 4), (16, 16)):
            strategy = "ideal_blocking" if depth == 1 else "ideal_non_blocking"
            terms = ("--chunk-size", size, "--qps", qps, "--operations-max", depth, "--footprint", size * depth, "--offset", "fixed",
                     "--memory-max", "256M") if depth > 1 else ("--chunk-size", size, "--footprint", size, "--offset", "fixed")
            table(bench, f"READ of {name_of(size)}, {depth} in flight on {qps} QPs", "GiB/s",
                  {strategy: lambda: bench.rate(strategy, size, *terms), "ib_read_bw": lambda: bench.read_bw(size, max(1, depth // qps), qps)},
                  [("speed", strategy, "ib_read_bw", 1)])
    for size in (8, 4 * K, 64 * K):
        table(bench, f"latency of {name_of(size)}, median", "us",
              {"ideal_blocking": lambda: bench.latency("ideal_blocking", size, "--footprint", size, "--offset", "fixed"),
               "ib_read_lat": lambda: bench.read_lat(size)},
              [("speed", "ideal_blocking", "ib_read_lat", 1)])


def memcpy(bench, total=256 * M, chunk=256 * K, slots=8):
    """GiB/s from a few staging slots to user buffers that no cache holds."""
    if not hasattr(bench, "copied"):
        bench.copied = ctypes.create_string_buffer(total), ctypes.create_string_buffer(chunk * slots)
        ctypes.memset(bench.copied[0], 1, total)
        ctypes.memset(bench.copied[1], 1, chunk * slots)
    to, source = (ctypes.addressof(buffer) for buffer in bench.copied)
    begun, copied = time.perf_counter(), 0
    while time.perf_counter() - begun < bench.options.window:
        ctypes.memmove(to + copied % total, source + copied // chunk % slots * chunk, chunk)
        copied += chunk
    return copied / (time.perf_counter() - begun) / G


def copy(bench):
    """One copying thread at 1 MiB against the slower of READ alone and memcpy alone."""
    device = []

    def copying():
        document = bench.run("copy_non_blocking", M, "--skip-latency", "--concurrency", 1)
        device.append(document["cost"]["device_cpu_ns"] or 0)
        device[-1] /= document["cost"]["duration_ns"]
        return document["throughput"]["gib_per_s"]
    results = {}
    subjects = {"ideal_non_blocking, chunks of 256K": lambda: bench.rate("ideal_non_blocking", M, "--chunk-size", 256 * K),
                "memcpy alone": lambda: memcpy(bench), "copy_non_blocking --concurrency 1": copying}

    def slower():
        return min(results["ideal_non_blocking, chunks of 256K"], results["memcpy alone"])

    def kept(name):
        def subject():
            results[name] = subjects[name]()
            return results[name]
        return subject
    table(bench, "requests of 1M", "GiB/s", {**{name: kept(name) for name in subjects}, "the slower of the first two": slower},
          [("copy_non_blocking to the slower", "copy_non_blocking --concurrency 1", "the slower of the first two", 0.9)])
    print(f"  the device's thread took {statistics.median(device):.2f} of a core beside it; the caller and the copying thread want one each, "
          f"and there are {os.cpu_count()}")


def pipeline(bench):
    """What overlap is worth where registration is paid for."""
    for size in (M, 4 * M, 16 * M):
        goal = 1 if size >= 4 * M else None
        subjects = {"naive_blocking": ("naive_blocking",), "naive_non_blocking, 4 in flight": ("naive_non_blocking", "--operations-max", 4),
                    "naive_non_blocking, 1 in flight": ("naive_non_blocking", "--operations-max", 1), "pipeline_blocking": ("pipeline_blocking",)}
        table(bench, f"requests of {name_of(size)}", "GiB/s",
              {name: lambda words=words: bench.rate(words[0], size, *words[1:]) for name, words in subjects.items()},
              [("pipeline_blocking to naive_blocking", "pipeline_blocking", "naive_blocking", goal),
               ("  to naive_non_blocking, 1 in flight", "pipeline_blocking", "naive_non_blocking, 1 in flight", 1),
               ("  to naive_non_blocking, 4 in flight", "pipeline_blocking", "naive_non_blocking, 4 in flight", None),
               ("naive_non_blocking to naive_blocking", "naive_non_blocking, 4 in flight", "naive_blocking", 1)])


def terms(bench, depth=8):
    """Equal terms: the same chunk, and as many of them in flight, so that overlap is not taken for the price of copying."""
    for chunk in (64 * K, 256 * K, M):
        whole, pool = chunk * depth, ("--operations-max", depth)
        subjects = {
            "ideal_blocking, a request of 8 chunks": ("ideal_blocking", whole, "--chunk-size", chunk),
            "copy_blocking, a request of 8 chunks": ("copy_blocking", whole, "--mr-size", chunk, "--mr-count", depth),
            "pipeline_blocking, a request of 8 chunks": ("pipeline_blocking", whole, "--chunk-size", chunk),
            "copy_non_blocking, 8 requests": ("copy_non_blocking", chunk, "--mr-size", chunk, "--mr-count", depth, *pool),
            "naive_non_blocking, 8 requests": ("naive_non_blocking", chunk, *pool),
            "pipeline_non_blocking, 8 requests": ("pipeline_non_blocking", chunk, "--chunk-size", chunk, *pool),
        }
        table(bench, f"chunks of {name_of(chunk)}, 8 in flight", "GiB/s",
              {name: lambda words=words: bench.rate(*words) for name, words in subjects.items()},
              [("pipeline to copy, blocking", "pipeline_blocking, a request of 8 chunks", "copy_blocking, a request of 8 chunks", None),
               ("naive to copy, non_blocking", "naive_non_blocking, 8 requests", "copy_non_blocking, 8 requests", None)])


PARTS = {part.__name__: part for part in (ceiling, copy, pipeline, terms)}


def main():
    parser = argparse.ArgumentParser(prog="tests/bench/run strategies", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=float, default=0.5, help="seconds of each measurement")
    parser.add_argument("--bytes", type=harness_size, default=G, help="that perftest reads in one measurement")
    parser.add_argument("--sizes", type=lambda text: [harness_size(size) for size in text.split(",")], default=[4 * K, 64 * K, M, 4 * M],
                        help="of ceiling")
    parser.add_argument("--realtime", action="store_true", help="SCHED_RR for everything, on a machine with other work")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(unknown)}")
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with tempfile.TemporaryDirectory(prefix="zc-bench-") as folder:
        bench = Bench(options, pathlib.Path(folder))
        try:
            for part in options.parts or PARTS:
                print(f"\n== {part}: {PARTS[part].__doc__}")
                PARTS[part](bench)
        finally:
            bench.close()


def harness_size(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]] if text[-1] in "KMG" else int(text)


main()
