"""zcctl report: the page in a browser, and the tables; of real runs and a real sweep."""

import csv
import io
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest

from harness import LAB, SHORT, one_line

pytestmark = pytest.mark.skipif(LAB, reason="nothing of it depends on the device")
needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (360, 1280)

# The page in a frame of each width: media queries and overflow go by the frame. What the frames say ends as text of this page.
FRAMES = """<!DOCTYPE html><meta charset="utf-8"><body><pre id="out"></pre><script>
const widths = %s, found = [];
widths.forEach(width => {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:800px;border:0`;
  frame.src = "report.html";
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement;
    found.push({width, scroll: root.scrollWidth, client: root.clientWidth,
      figures: page.querySelectorAll("figure").length,
      plots: [...page.querySelectorAll("figure svg")].map(svg => svg.getBoundingClientRect().width),
      drawn: [...page.querySelectorAll("figure svg")].map(svg => svg.querySelectorAll("path, rect, polygon").length),
      named: page.querySelectorAll('figure [role="img"][aria-label]').length,
      tables: page.querySelectorAll("figure table").length, captions: page.querySelectorAll("figure figcaption").length,
      ids: [...page.querySelectorAll("[id]")].map(node => node.id)});
    if (found.length == widths.length) document.getElementById("out").textContent = JSON.stringify(found);
  };
  document.body.append(frame);
});
</script>"""


@pytest.fixture(scope="module")
def runs(daemon):
    return [daemon.run(*SHORT, "--measure", "0.5", "--strategy", name) for name in ("copy_blocking", "naive_blocking")]


@pytest.fixture(scope="module")
def sweep(daemon):
    return json.loads(daemon.zcctl("--json", "sweep", "--peer", "self", "--strategy", "copy_blocking,naive_blocking", "--size", "16K..64K",
                                   "--trials", "6", "--budget", "6s", "--memory-max", "64M").stdout)


def report(daemon, *arguments):
    return daemon.zcctl("report", *arguments).stdout


def look(page, folder):
    """What a browser makes of it, a row a width; its console must be silent."""
    (folder / "report.html").write_text(page)
    (folder / "frames.html").write_text(FRAMES % json.dumps(WIDTHS))
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--allow-file-access-from-files",
                           "--enable-logging=stderr", "--virtual-time-budget=20000", f"--user-data-dir={folder}/profile", "--dump-dom",
                           f"file://{folder}/frames.html"], capture_output=True, text=True, timeout=90)
    found = re.search(r'<pre id="out">(\[.*?\])</pre>', done.stdout)
    assert found, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    return json.loads(found[1].replace("&amp;", "&"))


@needs_gnuplot
@pytest.mark.skipif(not BROWSER, reason="chromium is not installed")
def test_page_in_a_browser(daemon, runs, sweep, tmp_path):
    """On a phone and on a desk: nothing is wider than the window, every plot is there and has a caption, a name and its figures."""
    page = report(daemon, sweep["id"], *(run["id"] for run in runs))
    for row in look(page, tmp_path):
        assert row["client"] == row["width"]
        assert row["scroll"] <= row["client"], row
        # throughput, p50, CPU, phases, percentiles, over time; p99 where there were samples enough
        assert 6 <= row["figures"] <= 7
        assert len(row["plots"]) == row["named"] == row["captions"] == row["tables"] == row["figures"]
        assert min(row["plots"]) > 300 and min(row["drawn"]) > 10
        assert len(row["ids"]) == len(set(row["ids"]))


@needs_gnuplot
def test_page(daemon, runs, sweep):
    """One file: nothing is fetched, nothing is run. The recommendation, the terms, the environment and every cell are in it."""
    page = report(daemon, sweep["id"], runs[0]["id"])
    assert not re.search(r"<script|<link|<img|url\(|(?:src|href)\s*=\s*[\"'](?!#)", page, re.I)
    assert "prefers-color-scheme" in page and "@media print" in page and "Content-Security-Policy" in page
    assert "These figures describe the software device" in page
    for sentence in sweep["recommendation"]["throughput"]["sentences"]:
        assert sentence.replace("&", "&amp;").replace("'", "'") in page
    for word in ("Equal terms", "operations_max", "Environment", "transparent_hugepage", "All figures", "copy_blocking, A"):
        assert word in page, word
    assert page.split("All figures</h2>")[1].count("<tr>") == 1 + len(sweep["cells"]) + 1


MODEL = {"register_base_s": 7.5e-6, "register_per_page_s": 2.5e-7, "worst_residual": 0.125, "page_bytes": 4096,
         "copy_gib_per_s": 5.25, "read_gib_per_s": 2.25, "read_s": 12e-6, "crossover_bytes": 131072}
CROSSING = {"kind": "found", "winner": None, "crossings": [{"low": 65536, "high": 262144, "below": "copy", "above": "zero-copy"}]}


def with_model(sweep, model, crossover=None):
    document = json.loads(json.dumps(sweep))
    document["model"] = model
    if crossover:
        next(c for c in document["crossovers"] if c["a"] == "copy" and c["metric"] == "gib_per_s").update(crossover)
    return document


@pytest.mark.parametrize("format", (pytest.param("html", marks=needs_gnuplot), "md"))
def test_model_beside_what_was_measured(daemon, sweep, tmp_path, format):
    """The predicted crossover above the measured one, and what the prediction is made of; nothing where there is no model."""
    def section(model, crossover=None):
        (tmp_path / "sweep.json").write_text(json.dumps(with_model(sweep, model, crossover)))
        text = daemon.zcctl("report", tmp_path / "sweep.json", "--format", format).stdout
        text = re.sub(r"</?t[hdr]>|</?strong>", " ", text)
        return text.partition("Predicted and measured")[2] or None
    text = section(MODEL, CROSSING)
    last = 0
    for words in ("from 128 KiB on", "copy up to 64 KiB, zero-copy from 256 KiB on", "5.25 GiB/s", "7.50 us + 250 ns a page of 4 KiB", "12.5 %",
                  "2.25 GiB/s", "12.0 us"):
        assert words in text[last:], words
        last = text.index(words, last)
    assert "at no size that was probed" in section({**MODEL, "crossover_bytes": None})
    assert section(None) is None


@needs_gnuplot
def test_strange_words_stay_words(daemon, runs, tmp_path):
    """A document from somebody else commands neither the page nor gnuplot."""
    strange = json.loads(json.dumps(runs[0]))
    strange["strategy"] = "copy<script>\"'`touch gone`\\"
    strange["config"]["peer"] = "<b>&\"`touch gone`"
    paths = [tmp_path / "strange.json", tmp_path / "other.json"]
    paths[0].write_text(json.dumps(strange))
    paths[1].write_text(json.dumps(runs[1]))
    page = daemon.zcctl("report", *paths).stdout
    assert "<script" not in page and "<b>" not in page and "copy&lt;script&gt;" in page
    assert not list(tmp_path.glob("gone")) and not pathlib.Path("gone").exists()


def test_csv(daemon, runs, sweep):
    rows = list(csv.DictReader(io.StringIO(report(daemon, sweep["id"], runs[0]["id"], "--format", "csv"))))
    assert len(rows) == len(sweep["cells"]) + 1
    assert {row["kind"] for row in rows} == {"run", "sweep"}
    assert float(rows[-1]["gib_per_s"]) == pytest.approx(runs[0]["throughput"]["gib_per_s"])
    assert rows[-1]["gib_per_s_low"] == "" and rows[-1]["trials"] == "1"
    for row, cell in zip(rows, sweep["cells"]):
        assert (row["strategy"], int(row["size_bytes"])) == (cell["strategy"], cell["size"])
        assert float(row["gib_per_s"]) == pytest.approx(cell["gib_per_s"]["median"], rel=1e-5)


def test_json_and_markdown(daemon, runs, sweep, tmp_path):
    assert json.loads(report(daemon, sweep["id"], runs[0]["id"], "--format", "json")) == [sweep, runs[0]]
    daemon.zcctl("report", runs[0]["id"], "-o", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# ") and "| copy\\_blocking | 64 KiB | 1 |" in text


def test_without_gnuplot(daemon, runs, tmp_path):
    """One line that names the package; the file is not touched. The other formats need none."""
    (tmp_path / "old.html").write_text("old")
    done = daemon.zcctl("report", runs[0]["id"], "-o", tmp_path / "old.html", status=1, PATH=str(tmp_path))
    assert "gnuplot-nox" in one_line(done.stderr)
    assert (tmp_path / "old.html").read_text() == "old"
    assert daemon.zcctl("report", runs[0]["id"], "--format", "csv", PATH=str(tmp_path)).stdout


def test_a_page_on_a_terminal(daemon, runs):
    """Nobody wants to read that; text is for terminals."""
    for format, status in (("html", 2), ("md", 0)):
        master, slave = pty.openpty()
        process = daemon.popen("report", runs[0]["id"], "--format", format, stdout=slave)
        os.close(slave)
        shown = b""
        try:
            while data := os.read(master, 65536):
                shown += data
        except OSError:         # the other side is closed
            pass
        os.close(master)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == status
        assert (b"# zcrdma" in shown) == (status == 0) and ("-o FILE" in said) == (status == 2)


def test_bad_input(daemon, runs):
    for arguments, status in (([], 2), (["20000101T000000Z-copy_blocking-0000"], 1), ([runs[0]["id"], "--format", "pdf"], 2),
                              ([runs[0]["id"], "--format", "csv", "-o", "/no/such/folder/x"], 1)):
        assert one_line(daemon.zcctl("report", *arguments, status=status).stderr)
