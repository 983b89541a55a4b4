"""What happens around the daemon while it works: a disk that is full, thousands of results, signals in showers, a clock that leaps, a
configuration that is broken, the end in the middle of everything."""

import json
import os
import resource
import shutil
import signal
import subprocess
import threading
import time

import pytest

from harness import BUILD, DEADLINE_S, LAB, LONG, SHORT, SLOW, SOFT, environment, one_line, wait_until

pytestmark = pytest.mark.native

RUN = ("run", "--strategy", "copy_blocking", "--peer", "self")
# A run that is over at once: where it matters only that there was one.
QUICK = ("--size", "64K", "--warmup", "0.05", "--measure", "0.3", "--memory-max", "16M", "--skip-latency")
needs_no_lab = pytest.mark.skipif(LAB, reason="nothing of it depends on the device")
JUMPING_CLOCK = BUILD / "tests" / "e2e" / "libjumping_clock.so"         # not with sanitizers
MANY = 10_000 if JUMPING_CLOCK.exists() else 2_000


def test_full_disk(start):
    """The figures are shown, the error says that they were not stored, nothing half-written stays; then there is room again."""
    daemon = start()
    daemon.run(*QUICK)
    before = sorted(path.name for path in daemon.state.rglob("*"))
    _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (1024, hard))     # what a full disk is to write(2)
    done = daemon.zcctl(*RUN, *QUICK, status=1)
    assert "GiB/s" in done.stdout
    line = one_line(done.stderr)
    assert "not stored" in line and str(daemon.state) in line, line
    assert sorted(path.name for path in daemon.state.rglob("*")) == before
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    daemon.run(*QUICK)
    assert daemon.call("stats")["runs"]["not_stored"] == 1


def fill(daemon, document, count):
    """`count` results from an older time."""
    folder = daemon.state / "results"
    for i in range(count):
        name = f"20250101T{i // 3600:02}{i // 60 % 60:02}{i % 60:02}Z-copy_blocking-{i % 65536:04x}"
        (folder / f"{name}.json").write_text(json.dumps({**document, "id": name}))


@needs_no_lab
def test_ten_thousand_results(start, folder):
    """Lists and counters do not wait for them, and max_results removes the oldest."""
    config = folder / "zcrdmad.conf"
    config.write_text(f"[zcrdmad]\nmax_results = {MANY + 1}\n")
    daemon = start("--config", config)
    document = daemon.run(*QUICK)
    newest = document["id"]
    small = {key: document[key] for key in ("schema_version", "state", "strategy", "config", "owner_uid")}
    daemon.stop()
    fill(daemon, small, MANY)
    (daemon.state / "results" / "20250101T000000Z-copy_blocking-0000.json").write_text("{")
    (daemon.state / "results" / "notes.txt").write_text("mine\n")
    daemon.start()
    with daemon.control() as lister, daemon.control() as other:
        lister.ask("result.list")               # the daemon has just begun to read them
        assert other.call("stats")["results"]["stored"] >= MANY + 1       # and answers meanwhile
        page = lister.answer()["result"]
        assert len(page["results"]) == 500 and page["next"]
    rows = json.loads(daemon.zcctl("--json", "results", "list").stdout)["results"]
    assert len(rows) == MANY + 2 and rows[0]["readable"] is False and rows[1]["id"] == newest
    assert {row["id"]: row.get("error") for row in rows if not row["readable"]}.keys() == {"notes.txt", "20250101T000000Z-copy_blocking-0000"}
    config.write_text("[zcrdmad]\nmax_results = 100\n")
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: daemon.call("stats")["results"]["stored"] == 101, "the oldest are gone")
    newer = daemon.run(*QUICK)["id"]
    rows = json.loads(daemon.zcctl("--json", "results", "list").stdout)["results"]
    assert [row["id"] for row in rows[:3]] == ["notes.txt", newer, newest] and len(rows) == 101
    assert (daemon.state / "results" / "notes.txt").exists()


@needs_no_lab
def test_broken_configuration_is_not_taken(start, folder):
    """The old one stays, the log says which line is wrong, and a later one is taken."""
    config = folder / "zcrdmad.conf"
    config.write_text("[zcrdmad]\nlog_level = debug\n")
    daemon = start("--config", config)
    for broken, word in (("[zcrdmad]\nlog_level = loud\n", "zcrdmad.conf:2"), ("nonsense\n", "zcrdmad.conf:1"), (None, "zcrdmad.conf")):
        if broken is None:
            config.unlink()
        else:
            config.write_text(broken)
        seen = daemon.said().count("the old one stays")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: daemon.said().count("the old one stays") > seen, "the error is logged")
        assert word in daemon.said().splitlines()[-1]
    config.write_text("[zcrdmad]\nlog_level = error\nregion_pages = thp\n")
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "region_pages changed; it takes effect at the next start" in daemon.said(), "it is read")
    daemon.run(*QUICK)


def test_shower_of_signals(start):
    """Thousands of signals during a run cost no figure and do not stop it."""
    daemon = start()
    over = threading.Event()
    sent = []

    def shower():
        while not over.is_set():
            for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGWINCH, signal.SIGPIPE, signal.SIGCONT):
                daemon.process.send_signal(number)
                sent.append(number)
            time.sleep(0.001)
    thread = threading.Thread(target=shower)
    thread.start()
    try:
        document = daemon.run(*SHORT)
    finally:
        over.set()
        thread.join()
    assert len(sent) > 1000
    assert document["state"] == "done" and document["throughput"]["requests"] > 0 and document["validation"]["state"] == "passed"
    assert document["latency"]["reclaimed"]["count"] > 0 and document["cost"]["requests"]
    daemon.serves()


@pytest.mark.skipif(not SOFT or not JUMPING_CLOCK.exists(), reason="the clock is preloaded beside the software device")
def test_leaping_clock(start):
    """The wall clock leaps by hours at every look: durations are the monotonic clock's."""
    daemon = start(LD_PRELOAD=str(JUMPING_CLOCK))
    begun = time.monotonic()
    document = daemon.run(*SHORT)
    took = time.monotonic() - begun
    assert document["state"] == "done"
    assert 0.9 * float(SHORT[SHORT.index("--measure") + 1]) * 1e9 <= document["throughput"]["duration_ns"] <= took * 1e9
    assert 0 < document["latency"]["available"]["max_ns"] < took * 1e9
    assert 0 <= daemon.call("stats")["uptime_s"] < took + 60
    started, finished = document["started_at"], document["finished_at"]
    assert started != finished                  # the leaps are real
    second = daemon.run(*QUICK)
    assert {row["id"] for row in daemon.call("result.list")["results"]} == {document["id"], second["id"]}


def test_terminated_with_a_queue(start):
    """What was measured so far is stored, and so is what had no turn; the end takes at most 5 s."""
    daemon = start()
    with daemon.control() as control:
        ids = []
        for _ in range(5):
            ids.append(control.call("run.start", {"strategy": "copy_blocking", "peer": "self", "size": "64K", "warmup": 0.1, "measure": 120,
                                                  "skip_latency": True, "memory_max": "64M"})["id"])
        wait_until(lambda: [r for r in control.call("run.list")["runs"] if r["phase"] == "throughput"], "a run measures")
        time.sleep(1)
        begun = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DEADLINE_S) == 0
        took = time.monotonic() - begun
    daemon.process = None
    assert took < 5 * SLOW + 1
    daemon.start()
    states = {}
    for run in ids:
        document = states[run] = daemon.call("result.get", {"id": run})
        assert document["state"] == "cancelled" and document["error"]["kind"] == "cancelled"
    assert states[ids[0]]["throughput"]["requests"] > 0 and states[ids[0]]["throughput"]["gib_per_s"] > 0
    assert states[ids[1]]["throughput"]["requests"] is None


@needs_no_lab
def test_second_signal_leaves_at_once(start):
    """A client that does not read holds up the end for a while; not if it is asked for twice."""
    daemon = start()
    with daemon.control() as control:
        control.send_bytes(b"".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": "stats"}).encode() + b"\n" for i in range(800)))
        time.sleep(0.5)
        daemon.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        if daemon.process.poll() is None:
            daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DEADLINE_S) == 0
    daemon.process = None


@pytest.fixture
def promtool():
    program = shutil.which("promtool")
    if not program:
        pytest.skip("promtool is not installed")

    def check(text):
        done = subprocess.run([program, "check", "metrics"], input=text, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0 and not done.stdout and not done.stderr, done.stdout + done.stderr
    return check


@needs_no_lab
def test_metrics(start, folder, promtool):
    """In both formats, and in a file that is whole whenever it is read, kept fresh, and gone with the daemon."""
    file, config = folder / "zcrdma.prom", folder / "zcrdmad.conf"
    config.write_text(f"[zcrdmad]\nmetrics_file = {file}\nmetrics_interval = 1\n")
    daemon = start("--config", config)
    daemon.run(*QUICK)
    daemon.zcctl(*RUN, "--peer", "127.0.0.1:1", *QUICK, status=1)
    text = daemon.zcctl("stats", "--format", "openmetrics").stdout
    assert text.endswith("# EOF\n") and "# TYPE zcrdma_runs counter\n" in text
    assert 'zcrdma_runs_total{strategy="copy_blocking",state="done"} 1\n' in text
    assert 'zcrdma_runs_total{strategy="copy_blocking",state="failed"} 1\n' in text
    assert 'zcrdma_last_read_bytes_per_second{strategy="copy_blocking"} ' in text
    assert sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("zcrdma_run_errors_total")) == 1
    for name in ("sessions", "queue_pairs", "memory_regions", "registered_bytes"):
        assert f"\nzcrdma_{name} " in text
    promtool(daemon.zcctl("stats", "--format", "prometheus").stdout)
    wait_until(lambda: file.exists() and 'state="failed"} 1' in file.read_text(), "the file has the counters")
    promtool(file.read_text())
    assert file.stat().st_mode & 0o777 == 0o644 and not list(folder.glob("*.new"))
    other = folder / "other.prom"
    config.write_text(f"[zcrdmad]\nmetrics_file = {other}\nmetrics_interval = 1\n")
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: other.exists() and not file.exists(), "the new file is there, the old one gone")
    daemon.stop()
    assert not other.exists()


@needs_no_lab
def test_stats_formats(daemon):
    assert json.loads(daemon.zcctl("stats", "--format", "json").stdout).keys() == json.loads(daemon.zcctl("stats", "--json").stdout).keys()
    assert daemon.zcctl("stats", "--format", "text").stdout.startswith("zcrdmad")
    assert "openmetrics" in one_line(daemon.zcctl("stats", "--format", "xml", status=2).stderr)
    assert "exclude" in one_line(daemon.zcctl("stats", "--format", "openmetrics", "--json", status=2).stderr)
