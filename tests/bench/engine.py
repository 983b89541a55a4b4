"""Instructions of the engine itself - not of verbs, not of copies - a request and a chunk, by callgrind. Started by tests/bench/run
engine; valgrind must be installed."""

import argparse
import os
import pathlib
import re
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["ZC_BUILD_DIR"]) / "tests" / "bench" / "bench_engine"
CHUNK = 4096
GOAL = 400
STRATEGIES = ("copy_blocking", "naive_blocking", "pipeline_blocking", "ideal_blocking", "hybrid_blocking")


def instructions(strategy, chunks, requests):
    """{source file of the engine: instructions that it executed itself}"""
    with tempfile.TemporaryDirectory(prefix="zc-bench-") as folder:
        out = pathlib.Path(folder) / "out"
        subprocess.run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", PROGRAM, strategy, str(chunks * CHUNK),
                        str(CHUNK), str(requests)], check=True)
        return sum_by_file(out.read_text())


def sum_by_file(text):
    """Self cost by file, inlined functions counted where they were written. The line behind a calls= is the callee's cost."""
    names, sums, current, skip = {}, {}, None, False
    for line in text.splitlines():
        name = re.match(r"(fl|fi|fe|cfl|cfi)=\((\d+)\)(?: (.*))?$", line)
        if name:
            if name[3]:
                names[name[2]] = name[3]
            if name[1] in ("fl", "fi", "fe"):
                current = names[name[2]]
        elif line.startswith("calls="):
            skip = True
        elif re.match(r"[+*\d-]", line):
            if not skip and current and current.startswith(f"{SOURCE}/src/"):
                file = current[len(str(SOURCE)) + 1:]
                sums[file] = sums.get(file, 0) + int(line.split()[1])
            skip = False
    return sums


def a_request(strategy, chunks):
    """What one more request costs: two lengths of run, so that set-up and tear-down cancel out."""
    few, many = instructions(strategy, chunks, 100), instructions(strategy, chunks, 300)
    return {file: (count - few.get(file, 0)) / 200 for file, count in many.items() if count != few.get(file, 0)}


def main():
    parser = argparse.ArgumentParser(prog="tests/bench/run engine", description=__doc__)
    parser.add_argument("--files", action="store_true", help="where they are, file by file, for a request of 16 chunks")
    options = parser.parse_args()
    print(f"{'instructions':22} {'a request of 1':>16} {'of 16 chunks':>14} {'each chunk':>12} {'the rest':>10}")
    for strategy in STRATEGIES:
        one, sixteen = a_request(strategy, 1), a_request(strategy, 16)
        first, all16 = sum(one.values()), sum(sixteen.values())
        chunk = (all16 - first) / 15
        if "naive" in strategy:     # it is always one chunk, whatever its size
            print(f"{strategy:22} {first:16.0f}")
        else:
            print(f"{strategy:22} {first:16.0f} {all16:14.0f} {chunk:12.0f} {first - chunk:10.0f}   "
                  f"goal {GOAL} a chunk: {'reached' if chunk < GOAL else 'MISSED'}")
        if options.files:
            for file, count in sorted(sixteen.items(), key=lambda item: -item[1]):
                print(f"    {file:36} {count:8.0f}")


main()
