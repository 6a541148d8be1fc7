"""Do the tests see a fault? Break lines of the package, one at a time, and run who executes them.

    python -m pip install pytest-cov
    python -m pytest --cov=lm_eval_epidemia --cov-context=test --cov-report= --junitxml=tests.xml
    python benchmarks/mutants.py .coverage tests.xml [--mutants 100] [--seed 1] [--jobs 2]

Lines are drawn from all rooms, with a fixed seed, as many from each as it has code (four at least).
A fault is a sign, a bound, a number, a condition or a name. For each, the fast tests that execute
the line run in a copy of the checkout, the quickest first, until one fails; then the rest of their
files, as of tests that share a fixture only the first counts as executing what it runs. A line at
the top of a module is executed when it is imported: there the tests that execute anything else of
its file run.
What no test noticed is printed at the end, with the line before and after.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = "lm_eval_epidemia"
#: Of each room, at least; and how long the tests of one fault may take, in seconds.
FEWEST, LONGEST = 4, 900

#: What an operator is written as, and what takes its place.
WRITTEN = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
    **{ast.And: "and", ast.Or: "or"},
}
SWAPPED = {
    **{"+": "-", "-": "+", "*": "/", "/": "*"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"and": "or", "or": "and"},
}


class Fault(NamedTuple):
    """One change of one line.

    Attributes
    ----------
    path : Path
        Below the checkout.
    line, start, end : int
        The line, from 1, and the columns of what is replaced.
    text : str
        What stands there instead.
    kind : str
    inside : bool
        Whether it is in a function, so that the map of coverage knows who executes it.
    """

    path: Path
    line: int
    start: int
    end: int
    text: str
    kind: str
    inside: bool


def faults_of(path: Path) -> Iterator[Fault]:
    """Yield every fault that can be made in a file."""
    source = (REPOSITORY / path).read_text(encoding="utf-8")
    lines = source.splitlines()

    def operator(left: ast.expr, kind: type, right: ast.expr) -> tuple[int, int, int, str] | None:
        """Place an operator between its operands, and say what takes its place."""
        old = WRITTEN.get(kind)
        if old is None or left.end_lineno != right.lineno:
            return None
        between = lines[right.lineno - 1].encode()[left.end_col_offset : right.col_offset].decode()
        at = left.end_col_offset + between.find(old)
        return (right.lineno, at, at + len(old), SWAPPED[old]) if old in between else None

    def visit(node: ast.AST, inside: bool) -> Iterator[Fault]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        place, kind = None, ""
        match node:
            case ast.BinOp():
                place, kind = operator(node.left, type(node.op), node.right), "sign"
            case ast.Compare():
                place = operator(node.left, type(node.ops[0]), node.comparators[0])
                kind = "bound"
            case ast.BoolOp():
                place, kind = operator(node.values[0], type(node.op), node.values[1]), "condition"
            case ast.Constant(value=value) if node.lineno == node.end_lineno:
                here = (node.lineno, node.col_offset, node.end_col_offset or 0)
                if isinstance(value, bool):
                    place, kind = (*here, str(not value)), "condition"
                elif isinstance(value, int | float):
                    place, kind = (*here, repr(value + 1)), "number"
                elif isinstance(value, str) and value.isidentifier() and len(value) > 2:
                    place, kind = (*here, repr(value + "_")), "name"
                if lines[node.lineno - 1].encode()[here[1] : here[1] + 2] in (b'f"', b'b"'):
                    place = None
        if place is not None:
            yield Fault(path, *place, kind, inside)
        deeper = inside or isinstance(node, ast.FunctionDef | ast.Lambda)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.JoinedStr):
                    continue
                if isinstance(child, ast.AST):
                    yield from visit(child, deeper)

    return visit(ast.parse(source), False)


def drawn_faults(number: int, seed: int) -> list[Fault]:
    """Draw faults from all rooms."""
    rooms: dict[str, list[Fault]] = defaultdict(list)
    for full in sorted((REPOSITORY / PACKAGE).rglob("*.py")):
        path = full.relative_to(REPOSITORY)
        rooms[path.parts[1]] += faults_of(path)
    total = sum(len(faults) for faults in rooms.values())
    random_ = random.Random(seed)
    chosen: list[Fault] = []
    for room in sorted(rooms):
        share = max(FEWEST, round(number * len(rooms[room]) / total))
        kinds = sorted({fault.kind for fault in rooms[room]})
        for place in range(min(share, len(rooms[room]))):
            kind = kinds[place % len(kinds)]
            alike = [fault for fault in rooms[room] if fault.kind == kind]
            chosen.append(random_.choice(alike))
    chosen = list(dict.fromkeys(chosen))
    random_.shuffle(chosen)
    return chosen


def lines_in(numbits: bytes) -> Iterator[int]:
    """Yield the line numbers that coverage packs into bits."""
    for byte, bits in enumerate(numbits):
        yield from (8 * byte + bit for bit in range(8) if bits & (1 << bit))


def executed_by(database: Path) -> dict[str, dict[int, set[str]]]:
    """Read by file and line which tests execute it; files are named below the checkout."""
    tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    query = (
        "select file.path, context.context, line_bits.numbits from line_bits "
        "join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
    )
    with sqlite3.connect(database) as connection:
        for path, context, numbits in connection.execute(query):
            test = context.rpartition("|")[0]
            if test and PACKAGE in path:
                name = PACKAGE + path.rpartition(PACKAGE)[2]
                for line in lines_in(numbits):
                    tests[name][line].add(test)
    return tests


def seconds_of(report: Path) -> dict[str, float]:
    """Read how long each test took from a junit report."""
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(
            case.get("time", 0)
        )
        for case in ET.parse(report).iter("testcase")
    }


def tests_for(fault: Fault, executed: dict[str, dict[int, set[str]]]) -> set[str]:
    lines = executed.get(str(fault.path), {})
    if fault.inside:
        return lines.get(fault.line, set())
    return set().union(*lines.values()) if lines else set()


def survives(fault: Fault, tests: list[str], checkout: Path) -> str:
    """Make the fault, run the tests; return "survived", "too long" or "killed by" a test."""
    path = checkout / fault.path
    whole = path.read_bytes()
    lines = whole.split(b"\n")
    line = lines[fault.line - 1]
    lines[fault.line - 1] = line[: fault.start] + fault.text.encode() + line[fault.end :]
    path.write_bytes(b"\n".join(lines))
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(
            [*command, *tests],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return "too long"
    finally:
        path.write_bytes(whole)
    if run.returncode == 0:
        return "survived"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return f"killed by {failed.group(1) if failed else 'the start of pytest'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("coverage", type=Path, help="written with --cov-context=test")
    parser.add_argument("tests", type=Path, help="the junit report of the same run")
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()

    executed, seconds = executed_by(given.coverage), seconds_of(given.tests)
    faults = drawn_faults(given.mutants, given.seed)
    work = Path(tempfile.mkdtemp())
    checkouts: Queue[Path] = Queue()
    for number in range(given.jobs):
        checkout = work / str(number) / "checkout"
        unneeded = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".vllm")
        shutil.copytree(REPOSITORY, checkout, ignore=unneeded, symlinks=True)
        if (shared := REPOSITORY.parent / "shared").is_dir():
            (checkout.parent / "shared").symlink_to(shared)
        checkouts.put(checkout)

    def tried(fault: Fault) -> str:
        tests = sorted(tests_for(fault, executed), key=lambda test: seconds.get(test, 0.0))
        if not tests:
            return "not executed"
        checkout = checkouts.get()
        try:
            ended = survives(fault, tests, checkout)
            if ended == "survived":
                files = sorted({test.partition("::")[0] for test in tests})
                ended = survives(fault, files, checkout)
        finally:
            checkouts.put(checkout)
        print(f"{ended}: {fault.path}:{fault.line} {fault.kind}, {len(tests)} tests", flush=True)
        return ended

    with ThreadPoolExecutor(given.jobs) as pool:
        ends = list(pool.map(tried, faults))
    shutil.rmtree(work)
    alive = [
        (fault, end)
        for fault, end in zip(faults, ends, strict=True)
        if not end.startswith("killed")
    ]
    print(f"\n{len(faults)} faults, {len(faults) - len(alive)} noticed, {len(alive)} not:")
    for fault, end in alive:
        line = (REPOSITORY / fault.path).read_text(encoding="utf-8").split("\n")[fault.line - 1]
        after = line.encode()[: fault.start] + fault.text.encode() + line.encode()[fault.end :]
        print(f"{end}: {fault.path}:{fault.line} ({fault.kind})")
        print(f"  - {line.strip()}\n  + {after.decode().strip()}")


if __name__ == "__main__":
    main()
