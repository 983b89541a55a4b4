"""The Debian package (ctest builds it first): what is in it, what lintian says, and what installing, upgrading, removing and purging it do
below a folder. What it does under systemd: test_systemd.py."""

import os
import re
import shutil
import subprocess

import pytest

from harness import BUILD, LAB

PACKAGES = list((BUILD / "packages").glob("zcrdma_*.deb"))
OLDER = BUILD / "packages" / "older.deb"        # the same under a smaller version

pytestmark = [pytest.mark.skipif(LAB, reason="nothing of it depends on the device"),
              pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg is not installed")]


def run(*arguments, status=0):
    done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180,
                          env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert status is None or done.returncode == status, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def package():
    assert PACKAGES and OLDER.exists(), "ctest builds them: package_build"
    return PACKAGES[0]


def files(package):
    return [line.split()[5][1:] for line in run("dpkg-deb", "-c", package).splitlines() if not line.startswith("d")]


def test_content(package):
    listed = files(package)
    for pattern in ("/usr/sbin/zcrdmad", "/usr/bin/zcctl", "/usr/lib.*/zcrdma/libzcsoft.so", "/etc/zcrdmad.conf",
                    "/usr/lib/systemd/system/zcrdmad.service", "/usr/share/doc/zcrdma/copyright",
                    "/usr/share/doc/zcrdma/changelog.gz", "/usr/share/bash-completion/completions/zcctl",
                    "/usr/share/zsh/vendor-completions/_zcctl"):
        assert [name for name in listed if re.fullmatch(pattern, name)], pattern
    assert not [name for name in listed if not name.startswith(("/usr/", "/etc/"))]
    if (BUILD / "docs" / "zcctl.1").exists():
        assert {"/usr/share/man/man1/zcctl.1.gz", "/usr/share/man/man8/zcrdmad.8.gz",
                "/usr/share/man/man5/zcrdmad.conf.5.gz"} <= set(listed)


def test_control(package):
    depends = run("dpkg-deb", "-f", package, "Depends")
    for library in ("libibverbs1", "librdmacm1", "libev4", "libjansson4", "libc6"):
        assert re.search(rf"\b{library} \(>=", depends), depends
    assert "gnuplot" in run("dpkg-deb", "-f", package, "Recommends")
    assert run("dpkg-deb", "-I", package, "conffiles").split() == [name for name in files(package) if name.startswith("/etc/")]


def test_lintian(package):
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed")
    said = run("lintian", "--allow-root", "--fail-on", "error", package, status=None)
    assert not [line for line in said.splitlines() if line.startswith("E:")], said


def test_unit(package, tmp_path):
    """systemd's own judgement of the unit: 0 is safe, 10 is open to everything."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    run("dpkg-deb", "-x", package, tmp_path)
    line = run("systemd-analyze", "security", "--offline=true", "--no-pager",
               tmp_path / "usr/lib/systemd/system/zcrdmad.service").splitlines()[-1]
    assert float(re.search(r"zcrdmad.service: ([\d.]+)", line)[1]) <= 2.5, line


def new_database(folder):
    """An empty one for dpkg --admindir."""
    for name in ("info", "updates", "triggers", "parts"):
        (folder / name).mkdir(parents=True)
    for name in ("status", "available", "diversions", "statoverride"):
        (folder / name).touch()


@pytest.mark.skipif(os.geteuid() != 0, reason="files of a package belong to root")
def test_life_in_a_folder(package, tmp_path):
    """Installed below a folder, upgraded with what the administrator has changed kept, removed, purged; with its maintainer scripts."""
    root, database = tmp_path / "root", tmp_path / "database"
    root.mkdir()
    new_database(database)

    def dpkg(*arguments, status=0):
        return run("dpkg", f"--admindir={database}", f"--instdir={root}", f"--log={tmp_path}/log", "--force-depends", "--force-not-root",
                   "--force-script-chrootless", "--no-triggers", *arguments, status=status)

    def left():
        return [name for name in files(package) if os.path.lexists(f"{root}{name}")]
    configuration, results = root / "etc" / "zcrdmad.conf", root / "var" / "lib" / "zcrdmad" / "results"
    dpkg("-i", OLDER)
    assert left() == files(package)
    assert not list(root.glob("etc/systemd/system/*.wants/*")), "nothing starts by itself, at the next boot neither"
    configuration.write_text(configuration.read_text() + "log_level = debug\n")
    results.mkdir(parents=True)
    dpkg("-i", package)
    assert "Version: 0.0.1" not in dpkg("-s", "zcrdma")
    assert configuration.read_text().endswith("log_level = debug\n") and left() == files(package)
    dpkg("-r", "zcrdma")
    assert left() == ["/etc/zcrdmad.conf"] and results.is_dir(), "results stay"
    dpkg("-P", "zcrdma")
    assert left() == [] and not results.exists()
    dpkg("-s", "zcrdma", status=1)
