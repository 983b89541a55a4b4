"""Several strategies in one command: one run after another on the same terms, one table."""

import json
import signal

import pytest

from harness import LONG, SHORT, one_line

QUICK = (*SHORT, "--measure", "0.3", "--peer", "self")


@pytest.mark.native
def test_table(daemon):
    done = daemon.zcctl("run", "--strategy", "copy_blocking,naive_blocking,ideal_blocking", *QUICK, "--skip-validation")
    assert done.stderr == ""
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if "_blocking" in line}
    assert list(rows) == ["copy_blocking", "naive_blocking", "ideal_blocking"]
    assert "100 %" in rows["ideal_blocking"] and "%" in rows["copy_blocking"]
    for column in ("GiB/s", "ideal", "p50", "p99", "CPU s/GiB", "regs/s"):
        assert column in done.stdout
    assert rows["copy_blocking"].split()[-1] == "0", "a copy strategy registers nothing in the window"
    assert float(rows["naive_blocking"].split()[-1]) > 0
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.native
def test_documents(daemon, check_schema):
    """JSON is the array of the documents, which are stored like any other."""
    documents = json.loads(daemon.zcctl("--json", "run", "--strategy", "copy_blocking,pipeline_blocking", *QUICK).stdout)
    assert [d["strategy"] for d in documents] == ["copy_blocking", "pipeline_blocking"]
    for document in documents:
        check_schema(document)
        assert document["state"] == "done"
        assert json.loads(daemon.zcctl("--json", "results", "get", document["id"]).stdout) == document


def test_all(daemon):
    """Every strategy that says something of its own at one size and on this device, once."""
    names = [row["name"] for row in json.loads(daemon.zcctl("--json", "strategies").stdout)["strategies"]]
    device = next(d for d in json.loads(daemon.zcctl("--json", "devices").stdout)["devices"] if d["in_use"])
    names = [n for n in names if not n.startswith("hybrid_") and (device["odp"] or not n.startswith("odp_"))]
    done = daemon.zcctl("--json", "run", "--strategy", "all", *QUICK, "--size", "4K", "--warmup", "0", "--measure", "0.3", "--skip-latency",
                        "--validate", "first")
    assert [d["strategy"] for d in json.loads(done.stdout)] == names
    assert done.stderr == "" or (not device["odp"] and "odp strategies are left out" in one_line(done.stderr))


@pytest.mark.native
def test_ideals_want_a_word_about_validation(daemon):
    done = daemon.zcctl("--json", "run", "--strategy", "copy_blocking,ideal_blocking", *QUICK)
    assert "ideal_blocking is left out" in one_line(done.stderr)
    assert [d["strategy"] for d in json.loads(done.stdout)] == ["copy_blocking"]
    done = daemon.zcctl("run", "--strategy", "ideal_blocking,ideal_non_blocking", *QUICK, status=2)
    assert "nothing is left to run" in done.stderr


@pytest.mark.native
def test_options_that_some_do_not_take(daemon):
    """Left out for those, with a word; taken by the others."""
    done = daemon.zcctl("--json", "run", "--strategy", "copy_blocking,naive_blocking", *QUICK, "--mr-size", "16K")
    assert "naive_blocking does not take --mr-size" in one_line(done.stderr)
    copy, naive = json.loads(done.stdout)
    assert copy["config"]["mr_size"] == 16384 and naive["config"]["mr_size"] is None


@pytest.mark.native
def test_fresh_buffers_beside_an_ideal(daemon):
    done = daemon.zcctl("--json", "run", "--strategy", "copy_blocking,ideal_blocking", *QUICK, "--buffers", "fresh",
                        "--skip-validation")
    assert "ideal_blocking does not take --buffers" in one_line(done.stderr)
    assert [d["config"]["buffers"] for d in json.loads(done.stdout)] == ["fresh", "reuse"]


@pytest.mark.parametrize("strategies", ("copy_blocking,magic", "copy_blocking,", ",", "all,copy_blocking", "ideal_blocking,"))
@pytest.mark.native
def test_usage(daemon, strategies):
    """Said before anything runs."""
    done = daemon.zcctl("run", "--strategy", strategies, *LONG, "--peer", "self", "--skip-validation", status=2)
    assert "strategy" in one_line(done.stderr) and done.stdout == ""
    assert daemon.call("run.list")["runs"] == []


@pytest.mark.native
def test_usage_without_a_run(daemon):
    assert "peer" in one_line(daemon.zcctl("run", "--strategy", "all", status=2).stderr.splitlines()[-1])
    assert "--detach" in one_line(daemon.zcctl("run", "--strategy", "all", "--peer", "self", "--detach", status=2).stderr)


@pytest.mark.native
def test_a_failure_does_not_end_the_others(daemon):
    """A size beyond the region fails each run; each is tried, and each has its line."""
    done = daemon.zcctl("--json", "run", "--strategy", "copy_blocking,naive_blocking", *QUICK, "--size", "32M", status=1)
    assert [d["state"] for d in json.loads(done.stdout)] == ["failed", "failed"]
    assert len(done.stderr.splitlines()) == 2
    daemon.serves()


@pytest.mark.native
def test_interrupt(daemon):
    """Ctrl-C ends the run that is measured and all that would follow."""
    process = daemon.popen("run", "--strategy", "copy_blocking,naive_blocking", *LONG, "--peer", "self")
    daemon.wait_running()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "was cancelled" in err and "naive_blocking" not in out
    assert daemon.call("run.list")["runs"] == []
    daemon.serves()
