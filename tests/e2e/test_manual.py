"""The manual pages against the programs: every command, option, strategy and key is in them, and none that does not exist."""

import re
import shutil
import subprocess

import pytest

from harness import BUILD, ZCCTL, ZCRDMAD, environment

pytestmark = [pytest.mark.native,
              pytest.mark.skipif(not shutil.which("scdoc"), reason="scdoc is not installed: there are no manual pages")]


def output(*command):
    return subprocess.run([str(word) for word in command], env=environment(), stdin=subprocess.DEVNULL, text=True, check=True,
                          capture_output=True, timeout=60).stdout


def page(name):
    """The text of a page without its markup: roff requests are gone, escapes are what they stand for."""
    roff = (BUILD / "docs" / name).read_text()
    lines = [line for line in roff.splitlines() if not line.startswith((".", "'"))]
    text = "\n".join(lines) + "\n".join(line for line in roff.splitlines() if line.startswith((".SH", ".SS")))
    text = re.sub(r"\\f[A-Z]", "", text)
    return re.sub(r"\\(.)", lambda escape: "" if escape[1] in "&" else escape[1], text)


def options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def commands():
    listed = re.search(r"^Commands:\n(.*?)\n\n", output(ZCCTL, "--help"), re.S | re.M)[1]
    return re.findall(r"^  (\w+) ", listed, re.M)


def test_zcctl():
    text = page("zcctl.1")
    helps = [output(ZCCTL, command, "--help") for command in commands()]
    assert len(helps) >= 9
    for command in commands():
        assert re.search(rf"^\.SS zcctl {command}\b", (BUILD / "docs" / "zcctl.1").read_text(), re.M), command
    assert options("\n".join(helps)) == options(text)
    for name in re.findall(r"^Strategies: (.*)", helps[0], re.M)[0].split():
        assert f"\n{name}" in text, name


def test_zcrdmad():
    text = page("zcrdmad.8")
    assert options(output(ZCRDMAD, "--help")) | {"--logging"} == options(text)


def test_configuration(tmp_path):
    """The keys are those that the daemon has, with their defaults, and each is explained."""
    (tmp_path / "empty").touch()
    keys = re.findall(r"^(\w+) = (.*)", output(ZCRDMAD, "--config", tmp_path / "empty", "--check-config"), re.M)
    assert len(keys) >= 7
    listed = page("zcrdmad.conf.5").split(".SH KEYS")[0].split("With their defaults:")[1].split("A host whose")[0]
    assert re.findall(r"^(\w+) = (.*)", listed, re.M) == keys
    for entry in re.split(r"^\w+ = ", listed, flags=re.M)[1:]:
        assert len(entry.split()) > 5, entry


@pytest.mark.parametrize("name", ["zcctl.1", "zcrdmad.8", "zcrdmad.conf.5"])
def test_groff_has_no_complaint(name):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-Kutf8", BUILD / "docs" / name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
