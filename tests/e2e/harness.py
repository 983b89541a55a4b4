"""The real programs under test: a daemon with a socket and a state folder of its own, zcctl, raw JSON-RPC, the misbehaving
peer. Every wait has a deadline, and the deadlines are generous: nothing here measures time."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ZC_BUILD_DIR", SOURCE / "build" / "release"))
LAB = "ZC_LAB" in os.environ
DEVICE = os.environ.get("ZC_E2E_DEVICE", "auto" if LAB else "soft")
SOFT = DEVICE == "soft"
SLOW = 5 if LAB else 1                          # the lab's CPU is emulated
DEADLINE_S = 20 * SLOW

ZCRDMAD = BUILD / "daemon" / "zcrdmad"
ZCCTL = BUILD / "ctl" / "zcctl"
SOFT_LIBRARY = BUILD / "src" / "soft" / "libzcsoft.so"
PEER = BUILD / "tests" / "e2e" / "e2e_peer"
PRELOAD = os.environ.get("ZC_PRELOAD", str(SOFT_LIBRARY))

# Options of a run that is over soon; the windows are long enough for several requests in the lab and on a busy machine.
SHORT = ("--size", "64K", "--warmup", "0.05", "--measure", "0.3" if LAB else "0.2", "--memory-max", "64M")
# Options of a run that goes on until somebody ends it.
LONG = ("--size", "64K", "--warmup", "0.1", "--measure", "120", "--memory-max", "64M")


def wait_until(condition, what, timeout_s=DEADLINE_S):
    """The first true value of condition()."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


def one_line(text):
    """Bad input gives exactly one line; it may be long, but it is not empty."""
    lines = text.rstrip("\n").split("\n")
    assert len(lines) == 1 and lines[0].strip(), f"not one line on stderr: {text!r}"
    return lines[0]


def environment(preload=False, **changes):
    """Programs that are not ours meet the software device by LD_PRELOAD; our daemon does that itself."""
    result = {**os.environ, "LC_ALL": "C.UTF-8", **changes}
    if preload and SOFT:
        result["LD_PRELOAD"] = PRELOAD
        # pingpong and friends leak at exit, which is not ours to judge.
        result["ASAN_OPTIONS"] = result.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return result


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.message, self.data = error["code"], error["message"], error.get("data")


class Control:
    """One connection to a control socket; bytes in, messages out."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(str(path))
        self.buffer = b""
        self.last_id = 0
        self.notifications = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self):
        """The next message, None at the end of the stream."""
        while b"\n" not in self.buffer:
            data = self.socket.recv(65536)
            if not data:
                assert not self.buffer, f"half a line: {self.buffer!r}"
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method, params=None):
        """Sends a request; its id."""
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return self.last_id

    def answer(self):
        """The next reply; notifications that come before it are kept."""
        while True:
            message = self.receive()
            assert message is not None, "the daemon closed the connection"
            if "id" in message:
                return message
            self.notifications.append(message)

    def call(self, method, params=None):
        asked = self.ask(method, params)
        reply = self.answer()
        assert reply["id"] == asked
        assert ("result" in reply) != ("error" in reply)
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]


class Daemon:
    """A zcrdmad. finish() is called by the fixture: it stops the daemon and asserts that it leaves nothing behind."""

    def __init__(self, directory, *arguments, wrapper=(), program=ZCRDMAD, device=DEVICE, region="16M", listen="0.0.0.0:0",
                 state=None, **changes):
        directory.mkdir(mode=0o755, exist_ok=True)
        self.directory = directory
        self.socket = directory / "ctl.sock"
        self.state = state or directory / "state"
        self.log = directory / "log"
        self.arguments = [*wrapper, program, "--socket", self.socket, "--state-dir", self.state, "--device", device,
                          "--listen", listen, "--region-size", region, *arguments]
        self.environment = environment(**changes)
        self.process = None

    def launch(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(a) for a in self.arguments], env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def start(self):
        self.launch()
        wait_until(self.ready, f"zcrdmad is ready; it said: {self.said()}")
        return self

    def ready(self):
        assert self.process.poll() is None, f"zcrdmad ended with {self.process.returncode}: {self.said()}"
        try:
            with self.control() as control:
                control.call("version")
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def said(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def fate(self):
        """For messages: a daemon that is dead explains much."""
        status = self.process and self.process.poll()
        return "" if status is None else f"\nzcrdmad has ended with {status}"

    def refused(self):
        """For a daemon that cannot start: its exit status and its one error line."""
        self.launch()
        status = self.process.wait(DEADLINE_S)
        self.process = None
        return status, one_line("\n".join(line for line in self.said().splitlines()
                                          if " warning: " not in line and " info: " not in line))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(DEADLINE_S)
        session = self.process.pid
        self.process = None
        assert status == 0, f"zcrdmad ended with {status}: {self.said()}"
        assert not self.socket.exists(), "the control socket is left"
        assert processes_of_session(session) == [], "processes are left"
        if self.state.is_dir():
            left = [p.name for p in self.state.rglob("*") if p.name.endswith((".tmp", ".new")) or ".tmp." in p.name]
            assert left == [], "temporary files are left"

    def kill(self):
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.process = None

    def finish(self):
        if self.process:
            self.stop()
        for mark in ("AddressSanitizer", "LeakSanitizer", "runtime error:", "ThreadSanitizer"):
            assert mark not in self.said(), f"{mark} reported: {self.said()}"

    # --- talking to it

    def control(self):
        return Control(self.socket)

    def call(self, method, params=None):
        with self.control() as control:
            return control.call(method, params)

    def command(self, *arguments):
        return [str(a) for a in (ZCCTL, "--socket", self.socket, *arguments)]

    def zcctl(self, *arguments, status=0, **changes):
        """Runs zcctl to its end and asserts its exit status (None: any)."""
        def once(*more):
            return subprocess.run(self.command(*arguments, *more), env=environment(**changes), stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=4 * DEADLINE_S)
        done = once()
        if status == 0 and done.returncode == 1 and "completed within the window of" in done.stderr:
            done = once("--measure", 2)  # others had the CPUs for the whole of a short window
        assert status is None or done.returncode == status, \
            f"zcctl {arguments} ended with {done.returncode}\nstderr: {done.stderr}{self.fate()}\nstdout: {done.stdout[:500]}"
        return done

    def popen(self, *arguments, **keywords):
        keywords = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **keywords}
        # SIGINT may be ignored where the tests run in the background of a shell.
        return subprocess.Popen(self.command(*arguments), env=environment(),
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **keywords)

    def run(self, *options, peer="self"):
        """The document of a finished run."""
        done = self.zcctl("--json", "run", "--strategy", "copy_blocking", "--peer", peer, *options)
        return json.loads(done.stdout)

    def serves(self):
        """What is left to check after trouble: the daemon still does its work."""
        document = self.run(*SHORT, "--skip-latency")
        assert document["state"] == "done"

    @property
    def address(self):
        """ADDRESS:PORT for other daemons."""
        stats = self.call("stats")
        [address] = {port["address"] for port in self.call("device.list")["devices"] if port["port_state"] == "ACTIVE" and
                     port["address"]}
        return f"[{address}]:{stats['listen']['port']}" if ":" in address else f"{address}:{stats['listen']['port']}"

    @property
    def host(self):
        return self.address.rsplit(":", 1)[0].strip("[]")

    def objects(self):
        """What must be the same before and after."""
        stats = self.call("stats")
        return {**stats["objects"], "sessions": stats["sessions"]["open"]}

    def wait_objects(self, wanted):
        """Until the counters are what they were; on failure the comparison shows which are not."""
        deadline = time.monotonic() + DEADLINE_S
        while self.objects() != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.objects() == wanted

    def wait_busy(self):
        """Until the responder has a session: a run against it has begun."""
        return wait_until(lambda: self.call("stats")["sessions"]["open"], "a session is open")

    def wait_running(self):
        """Until a run is past its set-up."""
        def running():
            return [r for r in self.call("run.list")["runs"] if r["phase"] in ("warmup", "latency", "throughput", "phases", "cost")]
        return wait_until(running, "a run is measuring")


def processes_of_session(session):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


class Peer:
    """e2e_peer; its lines on stdout are waited for."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([str(PEER), *map(str, arguments)], env=environment(preload=True), text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self, pattern):
        """The first line that matches; the match."""
        for line in self.process.stdout:
            found = re.match(pattern, line)
            if found:
                return found
        raise AssertionError(f"e2e_peer never said {pattern}; it ended with {self.process.wait()}: {self.process.stderr.read()}")

    def stop(self):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


def as_nobody(*limits):
    """A command prefix that gives up root."""
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
    return [shutil.which("prlimit"), *limits, *prefix] if limits else prefix


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
