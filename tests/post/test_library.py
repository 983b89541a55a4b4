"""libzcrdma as another program meets it: an installed tree, pkg-config, the headers, what is exported, and the example of the
documentation, built against it and run against a zcrdmad - natively on the software device, in the lab on Soft-RoCE."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402  (the daemon that the end-to-end tests use)

EXAMPLE = harness.SOURCE / "examples" / "read.c"
STRATEGIES = harness.SOURCE / "examples" / "strategies.c"
DEADLINE_S = 60 * harness.SLOW


def run(*command, status=0, **variables):
    done = subprocess.run([str(c) for c in command], env={**os.environ, **variables}, capture_output=True, text=True,
                          timeout=DEADLINE_S)
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + (done.stderr if status else "")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """An installed tree, moved by DESTDIR and --prefix."""
    stage = tmp_path_factory.mktemp("stage")
    run("cmake", "--install", harness.BUILD, "--prefix", "/opt/zc", DESTDIR=str(stage))
    [pc] = stage.rglob("zcrdma.pc")
    return stage / "opt/zc", pc


def flags(tree, *options):
    return run("pkg-config", *options, "zcrdma", PKG_CONFIG_PATH=str(tree[1].parent)).split()


@pytest.fixture(scope="module")
def programs(tree, tmp_path_factory):
    """The example with the shared library and with the static one: (program, environment)."""
    folder = tmp_path_factory.mktemp("example")
    library = tree[1].parent.parent
    shared, static = folder / "read-shared", folder / "read-static"
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", shared, EXAMPLE, *flags(tree, "--cflags", "--libs"))
    # The linker takes a shared library where both lie in a folder.
    (folder / "libzcrdma.a").symlink_to(library / "libzcrdma.a")
    run("cc", "-o", static, EXAMPLE, f"-L{folder}", *flags(tree, "--static", "--cflags", "--libs"))
    return {"shared": (shared, {"LD_LIBRARY_PATH": str(library)}), "static": (static, {})}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    daemon = harness.Daemon(tmp_path_factory.mktemp("daemon") / "d").start()
    yield daemon
    daemon.finish()


@pytest.mark.parametrize("kind", ("shared", "static"))
def test_example(programs, daemon, kind):
    program, variables = programs[kind]
    variables = {**variables, "LD_PRELOAD": harness.PRELOAD} if harness.SOFT else variables
    host, port = daemon.address.rsplit(":", 1)
    idle = daemon.objects()
    assert run(program, host.strip("[]"), port, **variables) == "65536 bytes in 16 READs, extended verbs\n"
    daemon.wait_objects(idle)
    assert "nobody listens on port 9" in run(program, host.strip("[]"), "9", status=1, **variables)
    assert "usage" in run(program, status=1, **variables)


def test_example_of_every_strategy(tree, tmp_path, daemon):
    """A program's own memory, in pieces, by the name of a strategy."""
    program, library = tmp_path / "strategies", tree[1].parent.parent
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, STRATEGIES, *flags(tree, "--cflags", "--libs"))
    variables = {"LD_LIBRARY_PATH": str(library), **({"LD_PRELOAD": harness.PRELOAD} if harness.SOFT else {})}
    host, port = daemon.address.rsplit(":", 1)
    device = next(d for d in json.loads(daemon.zcctl("--json", "devices").stdout)["devices"] if d["in_use"])
    idle = daemon.objects()
    for row in json.loads(daemon.zcctl("--json", "strategies").stdout)["strategies"]:
        registered, known = {"register": (6, 0), "hybrid": (6, 0), "cached": (3, 3)}.get(row["memory"], (0, 0))
        text = f"{row['name']}: 100000 bytes twice, {registered} registrations, {known} of them known\n"
        if row["memory"] == "odp" and not device["odp"]:
            assert "has no on-demand paging" in run(program, host.strip("[]"), port, row["name"], status=1, **variables)
        else:
            assert run(program, host.strip("[]"), port, row["name"], **variables) == text
    assert "usage" in run(program, host.strip("[]"), port, "magic", status=1, **variables)
    daemon.wait_objects(idle)


def test_needed_libraries(programs, tree):
    program, variables = programs["shared"]
    assert "libzcrdma.so.0 => /" in run("ldd", program, **variables)
    for library in (program, tree[1].parent.parent / "libzcrdma.so.0"):
        assert "jansson" not in run("ldd", library, **variables) and "libev" not in run("ldd", library, **variables)
    assert "libzcrdma" not in run("ldd", programs["static"][0])
    assert "Library soname: [libzcrdma.so.0]" in run("readelf", "-d", tree[1].parent.parent / "libzcrdma.so")


def declared(header):
    """Functions and variables that a header declares, but for those that it defines itself."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    inline = set(re.findall(r"^static inline [^\n(]*?\b(zc_\w+)\(", text, flags=re.M))
    functions = set(re.findall(r"^[a-z][^\n=;{}()]*?\b\*?(zc_\w+)\(", text, flags=re.M)) - inline
    return functions | set(re.findall(r"^extern [^\n;(]*?\b(zc_\w+)(?:\[\w*\])?;", text, flags=re.M))


def test_exported_symbols(tree):
    """What the installed headers declare, and nothing else."""
    symbols = run("nm", "-D", "--defined-only", "--format=posix", tree[1].parent.parent / "libzcrdma.so").splitlines()
    exported = {line.split("@")[0].split()[0] for line in symbols if not line.startswith("ZCRDMA_0")}
    wanted = set().union(*(declared(header) for header in (tree[0] / "include" / "zcrdma").iterdir()))
    assert exported == wanted


def test_headers_stand_alone(tree, tmp_path):
    """Each can be included by itself, and those for posting from C++."""
    folder = tree[0] / "include" / "zcrdma"
    assert [p.name for p in folder.parent.iterdir()] == ["zcrdma"]
    everything = "\n".join(f"#include <zcrdma/{h.name}>\n#include <zcrdma/{h.name}>" for h in sorted(folder.iterdir(), reverse=True))
    sources = {"all.c": everything, **{f"{h.stem}.c": f"#include <zcrdma/{h.name}>" for h in folder.iterdir()}}
    for name in ("post", "poller", "conn_param"):
        sources[f"{name}.cc"] = f"#include <zcrdma/{name}.h>"
    for name, text in sources.items():
        (tmp_path / name).write_text(f"{text}\n")
    for compiler, pattern in (("cc -std=c11", "*.c"), ("c++ -std=c++17", "*.cc")):
        run(*compiler.split(), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder.parent}", *sorted(tmp_path.glob(pattern)))


def test_documentation_shows_the_example():
    assert EXAMPLE.read_text() in (EXAMPLE.parent / "README.md").read_text()
    assert STRATEGIES.name in (EXAMPLE.parent / "README.md").read_text()
    assert len(EXAMPLE.read_text().splitlines()) <= 70

