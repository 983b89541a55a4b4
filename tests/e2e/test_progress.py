"""What zcctl shows while a run is going: progress on a terminal, nothing in a pipe, and what Ctrl-C does."""

import json
import os
import pty
import select
import signal
import time

import pytest

from harness import DEADLINE_S, LONG, SHORT, one_line, wait_until

pytestmark = pytest.mark.native

RUN = ("run", "--strategy", "copy_blocking", "--peer", "self")


class Terminal:
    """zcctl with a terminal as stdin, stdout and stderr."""

    def __init__(self, daemon, *arguments):
        self.master, slave = pty.openpty()
        self.process = daemon.popen(*arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self.text = ""

    def read(self, until=None):
        """Up to a text, or to the end."""
        deadline = time.monotonic() + 3 * DEADLINE_S
        while until is None or until not in self.text:
            assert time.monotonic() < deadline, self.text
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.master, 4096)
            except OSError:                     # EIO: the other side is closed
                data = b""
            if not data:
                assert until is None, f"{until!r} never came: {self.text!r}"
                break
            self.text += data.decode()
        return self.text

    def close(self):
        os.close(self.master)
        return self.process.wait(DEADLINE_S)


def test_progress_on_a_terminal(daemon):
    """The phase and the rate in a line that is written over, then the table."""
    terminal = Terminal(daemon, *RUN, *SHORT, "--measure", "1.5")
    text = terminal.read()
    assert terminal.close() == 0
    assert "\r" in text.replace("\r\n", "\n")
    assert "throughput" in text and "GiB/s" in text
    last = text.replace("\r\n", "\n").rstrip("\n").split("\n")[-1]
    assert "\r" not in last, "the progress line is gone before the table"


def test_no_progress_in_a_pipe(daemon):
    done = daemon.zcctl(*RUN, *SHORT)
    assert done.stderr == ""
    assert "\r" not in done.stdout and "\x1b" not in done.stdout


def test_no_progress_with_json_on_a_terminal_stdout_is_clean(daemon):
    """stdout is JSON alone even where stderr is a terminal."""
    master, slave = pty.openpty()
    zcctl = daemon.popen("--json", *RUN, *SHORT, stderr=slave)
    os.close(slave)
    output, _ = zcctl.communicate(timeout=3 * DEADLINE_S)
    os.close(master)
    assert zcctl.returncode == 0
    assert output.startswith("{") and "\r" not in output


def test_stream(daemon, check_schema):
    """Every line is JSON; the last one has the document, which is the stored one; nothing on stderr."""
    done = daemon.zcctl(*RUN, *SHORT, "--json-stream")
    assert done.stderr == ""
    *progress, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in progress] == ["progress"] * len(progress)
    assert {"latency", "throughput"} <= {line["phase"] for line in progress}
    elapsed = [line["elapsed_s"] for line in progress]
    assert elapsed == sorted(elapsed)
    assert any(line["gib_per_s"] for line in progress)
    assert last["type"] == "result"
    check_schema(last["result"])
    assert json.loads(open(last["path"], encoding="utf-8").read()) == last["result"]


def test_stream_of_several(daemon):
    """A result line each, the last one last, and no table."""
    done = daemon.zcctl("run", "--strategy", "copy_blocking,naive_blocking", "--peer", "self", *SHORT, "--json-stream")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line["result"]["strategy"] for line in lines if line["type"] == "result"]
    assert results == ["copy_blocking", "naive_blocking"] and lines[-1]["type"] == "result"


def test_pictures_by_locale(daemon):
    """Series and phases are drawn with blocks in a UTF-8 locale, in ASCII elsewhere and on a dumb terminal."""
    run = daemon.run(*SHORT)["id"]
    shown = {(locale, term): daemon.zcctl("results", "show", run, LC_ALL=locale, TERM=term).stdout
             for locale in ("C.UTF-8", "C") for term in ("xterm", "dumb")}
    assert "█" in shown.pop(("C.UTF-8", "xterm"))
    assert all(text.isascii() and "##" in text for text in shown.values())


def cancelled(daemon, before):
    """The run of this test, as the daemon has stored it."""
    rows = wait_until(lambda: [row for row in daemon.call("result.list")["results"] if row["id"] not in before],
                      "the cancelled run is stored")
    assert [row["state"] for row in rows] == ["cancelled"]
    assert not daemon.call("run.list")["runs"]


def stored(daemon):
    return {row["id"] for row in daemon.call("result.list")["results"]}


def test_interrupt_in_a_pipe(daemon):
    before = stored(daemon)
    zcctl = daemon.popen(*RUN, *LONG)
    daemon.wait_running()
    zcctl.send_signal(signal.SIGINT)
    _, errors = zcctl.communicate(timeout=DEADLINE_S)
    assert zcctl.returncode == 130
    assert "cancelled" in one_line(errors)
    cancelled(daemon, before)
    daemon.serves()


def test_interrupt_on_a_terminal(daemon):
    before = stored(daemon)
    terminal = Terminal(daemon, *RUN, *LONG)
    terminal.read(until="latency")
    terminal.process.send_signal(signal.SIGINT)
    text = terminal.read()
    assert terminal.close() == 130
    assert "cancelled" in text
    cancelled(daemon, before)


def test_output_that_nobody_reads(daemon):
    """`zcctl run | head -0`: no message about the pipe, no signal that kills the daemon."""
    zcctl = daemon.popen(*RUN, *SHORT)
    zcctl.stdout.close()
    zcctl.stdout = None
    _, errors = zcctl.communicate(timeout=3 * DEADLINE_S)
    assert len(errors.splitlines()) <= 1
    daemon.serves()
