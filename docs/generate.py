"""What the site has beside its written pages: tables of the code, parts of other files, llms.txt.

A page asks for them in comments, which GitHub does not show; the line before one is for GitHub
alone. ``<!-- table: groups -->`` is a function of `TABLES`, ``<!-- from: README.md#Install -->`` a
section of a file (without ``#``, all below its title). ``<!-- contents -->`` makes the pages of the
lists above it the page's contents.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from inspect import getdoc
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any

from docutils import nodes
from numpydoc.docscrape import NumpyDocString
from sphinx.application import Sphinx
from typer.main import get_command

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import HEEDED, Way
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, find_tasks, list_groups
from lm_eval_epidemia.benchmarks.benchmark import Benchmark
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS
from lm_eval_epidemia.benchmarks.intervention.names import BENCHMARKS as NAMES
from lm_eval_epidemia.benchmarks.intervention.names import SAMPLES, name_nodes
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.cli import app as epidemia
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import FINDINGS, find
from lm_eval_epidemia.harness.cost import cost
from lm_eval_epidemia.report.cards import render_card
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, official_cells, own_surveys, records

DOCS = Path(__file__).parent
ROOT = DOCS.parent
#: Pages that a build writes; git ignores them.
GENERATED = DOCS / "reference" / "generated"
CARDS = GENERATED / "surveys"
MARK = re.compile(r"^.*<!-- (table|from): (\S.*?) -->$", re.MULTILINE)
#: A link or picture: its brackets, where it leads, and the place there.
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
#: A line of a shelf's list: title, page, what it says.
LISTED = re.compile(r"^- \[(.+?)\]\((.+?)\.md\): (.+(?:\n  .+)*)$", re.MULTILINE)
#: Pages of the site that stand for what is outside of docs, or a folder.
STANDS_FOR = {
    ROOT / "README.md": DOCS / "index.md",
    ROOT / "CONTRIBUTING.md": DOCS / "evidence" / "contributing.md",
    ROOT / "benchmarks" / "README.md": DOCS / "evidence" / "measurements.md",
}
#: First words of a command, and the language of the block that holds it.
SHELL = re.compile(r"(export |epidemia |lm_eval |pip |python|accelerate |vllm |tests/|\.venv/)")


# -- Tables --------------------------------------------------------------------------------------


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()
) -> str:
    """Return a Markdown table."""
    lines = [heads, ["--:" if head in right else "---" for head in heads], *rows]
    return "\n".join(
        f"| {' | '.join(str(c).replace('|', chr(92) + '|') for c in line)} |" for line in lines
    )


def _heeded(benchmark: Benchmark, way: Way) -> list[str]:
    """Return the keys of ``--metadata`` that change what a way asks in some task."""
    declared = (entry.declared for entry in benchmark.entries().values())
    asked = [task for task in declared if way.asks(task)]
    return [key for key in HEEDED if any(HEEDED[key](way, task) for task in asked)]


def _prose(text: str) -> str:
    """Return help or a docstring in one line of Markdown."""
    return " ".join((text or "").split()).replace("``", "`")


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _groups() -> str:
    """Every group with tasks here: its way, its tasks, what they take."""
    asked = {}
    for group in list_groups():
        try:
            asked[group] = find_tasks(group)
        except EpidemiaError:  # of files that are not here, or not asked in this way
            continue
    rows = []
    for line in cost(asked):
        (way,) = {way for _, way in asked[line.name]}
        rows.append((f"`{line.name}`", f"`{way}`", line.tasks, f"{line.prompts:,}"))
    return _table(("group", "way", "tasks", "prompts"), rows, right=("tasks", "prompts"))


def _ways() -> str:
    rows = []
    for benchmark in BENCHMARKS.values():
        for way in benchmark.ways.values():
            answer = "writes" if way.generated else "log-probabilities"
            suffix = f"`{way.suffix}`" if way.suffix else ""
            rows.append((f"`{way.name}`", suffix, benchmark.name, answer))
    return _table(("way", "suffix of groups", "benchmark", "answer"), rows)


def _metrics() -> str:
    """The metrics of each benchmark, with the ways that have them where not all do."""
    parts = []
    for benchmark in BENCHMARKS.values():
        of: dict[str, list[str]] = {}
        metrics = {}
        for way in benchmark.ways.values():
            for name, metric in benchmark.metrics(way).items():
                of.setdefault(name, []).append(way.name)
                metrics.setdefault(name, metric)
        rows = []
        for name, metric in metrics.items():
            better = {True: ", higher is better", False: ", lower is better", None: ""}
            says = _prose(metric.says or (getdoc(metric.of) or "").split("\n\n")[0])
            if not says:
                raise ValueError(f"{benchmark.name}: the metric {name} says nothing")
            ways = "" if len(of[name]) == len(benchmark.ways) else _code(of[name])
            low, high = (f"{end:.4g}".replace("inf", "∞") for end in (metric.low, metric.high))
            lies = f"{low} to {high}{better[metric.higher_is_better]}"
            rows.append((f"`{name}`", says, lies, ways))
        heads = ("metric", "what it is", "lies in", "in the ways")
        parts.append(f"## {benchmark.name.capitalize()}: {benchmark.says}\n\n{_table(heads, rows)}")
    return "\n\n".join(parts)


def _respondents() -> str:
    """What each kind of `epidemia-baseline` answers, as its benchmark's docstring says."""
    parts = []
    for benchmark in BENCHMARKS.values():
        documented = NumpyDocString(getdoc(benchmark.answers) or "")["Parameters"]
        if says := [" ".join(of.desc) for of in documented if of.name == "kind"]:
            text = f"Kinds: {_code(benchmark.kinds)}. {_prose(says[0])}"
            parts.append(f"### {benchmark.name.capitalize()}\n\n{text}")
    names = _table(
        ("kind", "in reports"), ((f"`{kind}`", RESPONDENTS[kind]) for kind in RESPONDENTS)
    )
    parts.insert(1, names)
    return "\n\n".join(parts)


def _metadata() -> str:
    """The keys of ``--metadata``, and the ways that heed each."""
    ways_of: dict[str, list[str]] = {}
    for benchmark in BENCHMARKS.values():
        for way in benchmark.ways.values():
            for key in _heeded(benchmark, way):
                ways_of.setdefault(key, []).append(way.name)
    rows = []
    for key, usual in Variant._field_defaults.items():
        ways = "all" if len(ways_of[key]) == len(WAYS) else _code(ways_of[key])
        rows.append((f"`{key}`", "" if usual in (None, "") else f"`{usual}`", ways))
    return _table(("key", "usual", "heeded by the ways"), rows)


def _findings() -> str:
    """Every finding: its name, and the first line of its docstring."""
    says = {name: (getdoc(find(name)) or "").partition("\n")[0] for name in FINDINGS}
    return _table(
        ("finding", "what it shows"), [(f"`{name}`", says[name].rstrip(".")) for name in says]
    )


def _commands() -> str:
    """Every command of `epidemia`: what it does, its arguments and options."""
    return "\n\n".join(_sections(get_command(epidemia), "epidemia"))


def _sections(command: Any, line: str) -> Iterator[str]:
    if not (of := getattr(command, "commands", {})):
        yield f"## `{line}`\n\n{_prose(command.help)}"
    rows = []
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        if parameter.name == "help" or parameter.hidden:
            continue
        name = ", ".join(parameter.opts) if is_option else parameter.name.upper()
        usual = parameter.default
        shown = "" if usual in (None, False, (), []) or callable(usual) else f"`{usual}`"
        needed = "required" if parameter.required else shown
        rows.append((f"`{name}`", _prose(parameter.help), needed))
    if rows and not of:
        yield _table(("argument or option", "what it does", "usual"), rows)
    for name, inner in of.items():
        yield from _sections(inner, f"{line} {name}")  # also what only `epidemia more` lists


def _cards() -> str:
    """The list of data cards, which `write_cards` has written."""
    titles = {page.stem: page.read_text().partition("\n")[0] for page in CARDS.glob("*.md")}
    return "\n".join(
        f"- [{titles[name][2:]}](generated/surveys/{name}.md): `{name}`" for name in sorted(titles)
    )


def _licences() -> str:
    """The licence of each survey, as its record has it."""
    ours = [record for name, record in records().items() if name not in own_surveys()]
    return _table(("survey", "licence"), ((f"`{of.survey}`", _prose(of.licence)) for of in ours))


def _anchors() -> str:
    """The anchors of every task that ships, and the score of who knows averages only."""
    rows = []
    for name in store.list_available():
        truth, task = store.load_truth(name), all_tasks()[name]
        anchors = Anchors.of(truth)
        closed = "yes" if task.kind == "high" and official_cells(task) <= 250 else ""
        numbers = ["" if isnan(value) else f"{value:.4f}" for value in anchors[:4]]
        mean = f"{anchors.score_of_mean:.1f}"
        rows.append((f"`{name}`", len(truth.given), closed, *numbers, mean))
    distances = ("D_uniform", "D_zero_one", "D_mean", "D_perfect")
    right = ("cells", *distances, "mean")
    return _table(("task", "cells", "closed", *distances, "mean"), rows, right)


def _names() -> str:
    """The names of variables that are drawn from the list of pairs, a line per sample."""
    parts = []
    for benchmark, (graph, shape) in product(NAMES, GRAPHS.items()):
        if benchmark == "random":
            continue
        size = len(shape.nodes)
        drawn = (name_nodes(benchmark, graph, size, i).names for i in range(SAMPLES))
        lines = "\n".join(f"1. {'; '.join(one)}" for one in drawn)
        parts.append(f"### {benchmark}, {graph}\n\n{lines}")
    return "\n\n".join(parts)


#: What may be asked for, by name.
TABLES = {
    "groups": _groups,
    "ways": _ways,
    "metrics": _metrics,
    "respondents": _respondents,
    "metadata": _metadata,
    "findings": _findings,
    "commands": _commands,
    "cards": _cards,
    "licences": _licences,
    "anchors": _anchors,
    "names": _names,
}


# -- Pages ---------------------------------------------------------------------------------------


def write_cards(app: Sphinx) -> None:
    """Write the data card of every survey that ships, before Sphinx looks for pages."""
    CARDS.mkdir(parents=True, exist_ok=True)
    for name, record in records().items():
        if name not in own_surveys():
            (CARDS / f"{name}.md").write_text(render_card(record), encoding="utf-8")


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Fill in what a page asks for, and lead links out of docs to where the site has them."""
    page = DOCS / f"{name}.md"
    if not page.exists():  # generated for the API
        return

    def filled(mark: re.Match[str]) -> str:
        if mark[1] == "table":
            return TABLES[mark[2]]()
        return _led(*_part_of(mark[2]), page)

    text = MARK.sub(filled, _led(source[0], page.parent, page))
    if left := re.search(r"<!-- (?:table|from):", text):
        raise ValueError(f"{page}: a mark must end its line: {text[left.start() :][:60]!r}")
    source[0] = text.replace("<!-- contents -->", _contents(text))


def _part_of(asked: str) -> tuple[str, Path]:
    """Return what is below a heading of a file (``README.md#Install``), or below its title."""
    path, _, heading = asked.partition("#")
    text = (ROOT / path).read_text()
    title = f"## {heading}" if heading else text.partition("\n")[0]
    _, found, after = f"\n{text}".partition(f"\n{title}\n")
    if not found:
        raise ValueError(f"{path} has no heading {heading!r}")
    return (re.split(r"^## ", after, flags=re.MULTILINE)[0] if heading else after), (
        ROOT / path
    ).parent


def _led(text: str, folder: Path, page: Path) -> str:
    """Lead the links of a text in a folder to where a page of the site has what they name."""

    def led(link: re.Match[str]) -> str:
        label, to, place = link[1], link[2], link[3] or ""
        target = Path(os.path.normpath(folder / to))
        if "://" in to or not target.exists():
            return link[0]
        target = STANDS_FOR.get(target, target)
        if target.is_relative_to(DOCS) and target.is_file():
            return f"{label}({Path(os.path.relpath(target, page.parent)).as_posix()}{place})"
        # No address of the repository is public: the path says where it is in a checkout.
        path = f"`{target.relative_to(ROOT)}`"
        return path if label[1:-1] == to else f"{label[1:-1]} ({path})"

    return LINK.sub(led, text)


def _contents(text: str) -> str:
    pages = "\n".join(f"{title} <{page}>" for title, page, _ in LISTED.findall(text))
    return f"```{{toctree}}\n:hidden:\n\n{pages}\n```"


def name_languages(app: Sphinx, doctree: nodes.document) -> None:
    """Tell commands and Python from other text in blocks that do not say what they hold."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language", "text") == "text":
            first = block.astext().lstrip()
            if first.startswith(">>>"):
                block["language"] = "pycon"
            elif SHELL.match(first):
                block["language"] = "bash"
        elif block["language"] == "ipython3" and block.astext().startswith("!"):
            block["language"] = "bash"  # the lexer of notebooks does not know lines that go on


# -- For machines --------------------------------------------------------------------------------


def write_llms(app: Sphinx, failed: Exception | None) -> None:
    """Write llms.txt (llmstxt.org): the pages, and what the lists of the shelves say of each."""
    if failed or app.builder.format != "html":
        return
    base = app.config.html_baseurl
    front = (DOCS / "index.md").read_text()
    lines = [f"# {app.config.project}", "", f"> {_summary(front)}"]
    for shelf in app.env.toctree_includes["index"]:
        index = DOCS / f"{shelf}.md"
        text = index.read_text()
        lines += ["", f"## {text.partition(chr(10))[0][2:]}", ""]
        for title, page, says in LISTED.findall(text):
            address = os.path.normpath(index.parent.relative_to(DOCS) / page)
            lines.append(f"- [{title}]({base}{address}.html): {' '.join(says.split())}")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n")


def _summary(front: str) -> str:
    """Return the first paragraph of prose of a page."""
    paragraphs = (" ".join(part.split()) for part in front.split("\n\n"))
    return next(text for text in paragraphs if text[:1].isalpha())
