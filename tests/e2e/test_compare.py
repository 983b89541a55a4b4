"""zcctl compare: exit statuses and what it says of real documents; the rules themselves are tests/unit/ctl/test_compare.c."""

import copy
import json

import pytest

from harness import SHORT, one_line

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def run(daemon):
    return daemon.run(*SHORT, "--measure", "0.5")


def write(folder, run, name, rates):
    """Files of runs as `run`, with other throughputs; their names with commas between them."""
    paths = []
    for index, rate in enumerate(rates):
        document = copy.deepcopy(run)
        document["throughput"]["gib_per_s"] = rate
        document["latency"]["available"] = {**document["latency"]["available"], "p50_ns": None, "p99_ns": None}
        document["cost"]["cpu_s_per_gib"] = None
        paths.append(folder / f"{name}{index}.json")
        paths[-1].write_text(json.dumps(document))
    return ",".join(map(str, paths))


def test_one_run_a_side_has_no_interval(daemon, run):
    """It is shown and not judged; a gate that could judge nothing does not let pass."""
    done = daemon.zcctl("compare", run["id"], run["id"])
    assert "unknown" in done.stdout and "+0.0 %" in done.stdout
    done = daemon.zcctl("compare", run["id"], run["id"], "--fail-over", "5%", status=1)
    assert "--fail-over" in one_line(done.stderr)


def test_gate(daemon, run, tmp_path):
    good = write(tmp_path, run, "good", [2.0, 2.01, 2.02, 2.03, 2.04, 2.05])
    same = write(tmp_path, run, "same", [2.0, 2.01, 2.02, 2.03, 2.04, 2.05])
    bad = write(tmp_path, run, "bad", [1.8, 1.81, 1.82, 1.83, 1.84, 1.85])
    assert "0 better, 0 worse, 1 within noise" in daemon.zcctl("compare", good, same, "--fail-over", "5%").stdout
    assert "0 better, 1 worse" in daemon.zcctl("compare", good, bad, status=1).stdout
    assert "0 better, 1 worse" in daemon.zcctl("compare", good, bad, "--fail-over", "20%").stdout
    assert "1 better, 0 worse" in daemon.zcctl("compare", bad, good, "--fail-over", "1%").stdout
    compared = json.loads(daemon.zcctl("--json", "compare", good, bad, status=1).stdout)
    assert compared["failed"] and compared["verdicts"]["worse"] == 1
    [cell] = compared["cells"]
    assert cell["gib_per_s"]["a"]["trials"] == 6
    assert cell["gib_per_s"]["low"] < cell["gib_per_s"]["change"] < cell["gib_per_s"]["high"] < 0


def test_bad_input(daemon, run, tmp_path):
    for arguments, status in ((["x"], 2), (["x", "y", "z"], 2), ([run["id"], run["id"], "--fail-over", "much"], 2),
                              ([run["id"], ","], 2), ([run["id"], "20000101T000000Z-copy_blocking-0000"], 1),
                              ([run["id"], str(tmp_path / "none.json")], 1)):
        assert one_line(daemon.zcctl("compare", *arguments, status=status).stderr)
    (tmp_path / "half.json").write_text('{"id": ')
    assert "half.json:1:" in one_line(daemon.zcctl("compare", run["id"], tmp_path / "half.json", status=1).stderr)
    (tmp_path / "other.json").write_text('{"kind": "sweep"}')
    assert "neither" in one_line(daemon.zcctl("compare", run["id"], tmp_path / "other.json", status=1).stderr)
