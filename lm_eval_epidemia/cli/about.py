"""``epidemia show`` and ``epidemia search``: what a task, group or survey is."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from lm_eval_epidemia.cli.options import Names
from lm_eval_epidemia.cli.printing import escape_markup, make_table, report_width
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError, plural

if TYPE_CHECKING:
    from lm_eval_epidemia.api import Truth
    from lm_eval_epidemia.benchmarks.benchmark import Leaf
    from lm_eval_epidemia.surveys.record import Record, Task

#: Characters of a line, at most.
WIDTH = 100
#: Of the label that begins a line.
LABEL = 12
#: Cells of a truth that are shown, and answers.
ROWS, ANSWERS = 15, 6
#: So many answers have room for intervals with two ends; so long a label is no heading.
FEW, LONG = 3, 12
#: Lines of a question that are shown: its ends, if it has more.
LINES = 10
#: Tasks of a group that are named.
MEMBERS = 10
#: Hits that `search` shows.
HITS = 20

#: Where to read on about benchmarks that have no distribution.
PAGES = {
    "quick": "docs/start/running.md",
    "undated": "docs/guides/years.md",
    "intervention": "docs/guides/interventional.md",
    "prior": "docs/guides/priors.md",
}


def show(
    names: Names,
    every: Annotated[
        bool,
        Option(
            "--all",
            help="Print every cell and answer of a truth, with 95 % intervals; of groups, surveys "
            "every task.",
        ),
    ] = False,
) -> None:
    """Show a task, group or survey: its questions, its truth, and what scores 0 and 100."""
    from lm_eval_epidemia.benchmarks import list_leaves
    from lm_eval_epidemia.surveys.catalogue import records

    for number, name in enumerate(split_names(names)):
        if number:
            print()
        leaf = list_leaves().get(name)
        if leaf is not None and leaf.benchmark.ways[leaf.way].asks(leaf.entry.declared):
            _show_task(name, leaf, every)
        elif name in records():
            _survey(records()[name], every)
        else:
            _group(name, every)


def search(
    words: Annotated[list[str], Argument(help="Words to look for; rare ones count most.")],
) -> None:
    """Search the names, questions and answers of tasks, groups and surveys."""
    from lm_eval_epidemia.benchmarks.search import search as find

    asked = " ".join(words)
    hits = find(asked)
    if not hits:
        print(
            f"nothing matches {asked!r}: try another word, or list all tasks with 'epidemia tasks "
            "list'"
        )
        return
    longest = max(len(hit.name) for hit in hits[:HITS])
    for hit in hits[:HITS]:
        says = textwrap.shorten(hit.says, max(WIDTH - longest - 2, 20), placeholder=" ...")
        print(f"{hit.name:{longest}}  {says}")
    more = f"{len(hits) - HITS} weaker matches are not shown; " if len(hits) > HITS else ""
    print(f"{more}'epidemia show NAME' describes one")


def _say(label: str, *texts: str) -> None:
    """Print a label with its text, folded."""
    for text in filter(None, texts):
        indent = " " * LABEL
        print(textwrap.fill(f"{label:{LABEL}}{text}", WIDTH, subsequent_indent=indent))
        label = ""


def _print(table: Any) -> None:
    """Print a table without the empty lines around it."""
    from rich.console import Console
    from rich.padding import Padding

    table.show_edge = False
    Console(width=min(report_width(), WIDTH)).print(Padding(table, (0, 0, 0, 2), expand=False))


def _quoted(text: str) -> None:
    """Print a prompt; if it has many answers, only its ends."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH - 2)]
    if len(lines) > LINES:
        left_out = f"... ({len(lines) - LINES + 1} lines)"
        lines = [*lines[: LINES - 4], left_out, *lines[-3:]]
    print(textwrap.indent("\n".join(lines), "  "))


def _show_task(name: str, leaf: Leaf, every: bool) -> None:
    """Show one task in one way of asking."""
    from lm_eval_epidemia.api import load_truth
    from lm_eval_epidemia.benchmarks.observation import OBSERVATION
    from lm_eval_epidemia.estimate import store

    way, entry = leaf.benchmark.ways[leaf.way], leaf.entry
    task, is_survey = entry.declared, leaf.benchmark is OBSERVATION
    print(name)
    given = f" | {', '.join(task.given)}" if is_survey and task.given else ""
    _say("what", entry.title + (f", P({task.outcome}{given})" if is_survey else ""))
    try:
        truth: Any = way.load(entry.name)
    except EpidemiaError as error:
        _declared(task, str(error))
        _ways(leaf)
        return
    if is_survey:
        truth = load_truth(entry.name)
    _question(way, truth)
    _ways(leaf)
    number = leaf.benchmark.version(truth) + way.revision
    version = f"task version {number}, truth {truth.fingerprint}"
    if is_survey:
        _show_truth(truth, every)
        _scale(truth)
        _source(truth, task)
        here = (f"{place.vintage} ({place.state})" for place in store.all_places()[entry.name])
        _say("version", f"{version}; vintages here: {', '.join(here)}")
    else:
        _say("score", leaf.benchmark.heading)
        _say("version", version)
        more = (
            f" and 'epidemia quantities list {entry.name}'"
            if leaf.benchmark.name == "prior"
            else ""
        )
        _say("more", f"{PAGES.get(leaf.benchmark.name, 'docs')}{more}")
    _say("run", f"lm_eval --tasks {shlex.quote(name)} --model ...")


def _question(way: Any, truth: Any, of: str = "") -> None:
    """Print the prompt of the cell with most people, and the number of prompts."""
    from lm_eval_epidemia.ask.variants import FEWEST_SAMPLES, Variant
    from lm_eval_epidemia.ask.way import DistributionWay

    times, variant = 1.0, Variant()
    if "n_samples" in way.columns:  # they differ in an ordering and a number
        times = variant.n_samples / FEWEST_SAMPLES
        variant = variant._replace(n_samples=FEWEST_SAMPLES)
    weights = getattr(truth, "weights", None)
    cell = 0 if weights is None else int(weights.argmax())
    rows = list(way.rows(truth, variant))
    # Of the orders that are asked, the one nearest to that of the levels.
    of_cell = [row for row in rows if row["cell"] == cell]
    asked = min(of_cell, key=lambda row: row.get("order", []))["prompt"]
    answers = "the model writes its answer" if way.generated else "scored by log-probabilities"
    prompts = plural(round(len(rows) * times), "prompt")
    _say("question", f"one of {prompts} {of or f'in the way {way.name!r}'}; {answers}:")
    _quoted(asked)
    if isinstance(way, DistributionWay):
        bare = way.rows(truth, variant._replace(wording="bare"))
        text = next(row["prompt"] for row in bare if row["cell"] == cell)
        _say("bare", f'with --metadata \'{{"wording": "bare"}}\': {text.splitlines()[0]}')


def _declared(task: Task, needs: str) -> None:
    """Print the question of a task without a truth here, and what it needs."""
    from lm_eval_epidemia.ask.prompts import TaskQuestions, prompt
    from lm_eval_epidemia.surveys.catalogue import find_record

    survey = find_record(task.survey)
    vintage = survey.official
    asked = {name: survey.readings(name, vintage)[0] for name in (task.outcome, *task.given)}
    given = [asked[name].levels[len(asked[name].levels) // 2].label for name in task.given]
    question = TaskQuestions(survey, vintage, task, asked).question(given)
    _say("question", "as in its record, with one condition filled in:")
    _quoted(prompt(question, [level.label for level in asked[task.outcome].levels]))
    _say("truth", needs)
    _say("survey", f"{survey.title}, {vintage}", survey.publisher)
    _say("cite", survey.citation)
    _say("licence", survey.licence)


def _ways(leaf: Leaf) -> None:
    """Name the ways in which a task is asked."""
    ways = (way for way in leaf.benchmark.ways.values() if way.asks(leaf.entry.declared))
    _say("ways", ", ".join(way.suffix or f"{way.name} (the name alone)" for way in ways))


def _show_truth(truth: Truth, every: bool) -> None:
    """Print P(Y | X) in per cent: the largest cells and the commonest answers."""
    frame, given = truth.to_frame(), truth.conditions
    cells, levels = truth.p.shape
    source = f"{truth.survey} {truth.vintage} ({truth.state})"
    if every:
        table = make_table("", *frame.columns, right=tuple(frame.columns[len(given) + 1 :]))
        for values in frame.itertuples(index=False):
            table.add_row(
                *(f"{x:.4g}" if isinstance(x, float) else escape_markup(str(x)) for x in values)
            )
        _say("truth", f"{source}, with the 95 % interval from low to high:")
        _print(table)
        return
    is_sampled = bool(truth.distances)  # a published table has no sampling error
    has_n = is_sampled and truth.n.any()  # published errors may come without numbers of people
    largest = sorted(range(cells), key=lambda cell: -truth.weights[cell])[:ROWS]
    shares = truth.weights @ truth.p
    common = sorted(range(levels), key=lambda level: -shares[level])[:ANSWERS]
    answers = [0] if levels == 2 else sorted(common)
    ends = [frame[end].to_numpy().reshape(cells, levels) for end in ("low", "high")]
    heads = [truth.levels[level] for level in answers]
    is_long = max(map(len, heads)) > (LONG if len(heads) > FEW else WIDTH // 4)
    numbers = (["share"] if given else []) + (["n"] if has_n else [])
    columns = [*numbers, *(map(str, range(1, len(heads) + 1)) if is_long else heads)]
    table = make_table("", *given, *columns, right=tuple(columns), whole=0)
    for cell in sorted(largest):
        row = [escape_markup(label) for label in truth.given[cell]]
        row += [f"{truth.weights[cell]:.1%}"] if given else []
        row += [f"{truth.n[cell]:,}"] if has_n else []
        for level in answers:
            low, high = (100 * end[cell, level] for end in ends)
            interval = (
                f" ({low:.1f}-{high:.1f})" if len(answers) <= FEW else f"±{high / 2 - low / 2:.1f}"
            )
            row.append(f"{100 * truth.p[cell, level]:.1f}{interval if is_sampled else ''}")
        table.add_row(*row)
    what = f"per cent who answer {heads[0]!r}" if levels == 2 else "per cent by answer"
    precision = ", with 95 % intervals" if len(answers) <= FEW else " ± half a 95 % interval"
    _say("truth", f"{source}, {what}{precision if is_sampled else ', a published table'}:")
    _print(table)
    if is_long:
        _say("", "; ".join(f"{place}: {head}" for place, head in enumerate(heads, 1)))
    rest = [plural(cells - ROWS, "smaller cell")] if cells > ROWS else []
    rest += [plural(levels - ANSWERS, "rarer answer")] if levels > ANSWERS else []
    if rest:
        _say("", f"{' and '.join(rest)} more, with --all")


def _scale(truth: Truth) -> None:
    """Describe in words what scores 0 and 100, and the score for knowing averages only."""
    anchors = truth.anchors
    nothing, perfect = "guesses uniformly", "the table itself"
    if anchors.zero < anchors.uniform:
        nothing = "gives everyone the commoner answer"
    if truth.distances:
        perfect = "as close as 95 of 100 other surveys of this size"
    like = "like someone who"
    if not anchors.informative:
        least, most = sorted((anchors.zero, anchors.perfect))
        vague = f"a guess ({least:.3f} from the truth) is as close as other surveys ({most:.3f})"
        _say("scores", f"uninformative: {vague}, so at {most:.3f} or less it is 100, else 0")
        return
    said = [f"0: at an L1 distance of {anchors.zero:.3f} or more from the truth, {like} {nothing}"]
    if truth.conditions:
        score = f"{anchors.score_of_mean:3.0f}"
        said.append(f"{score}: at {anchors.mean:.3f}, {like} knows averages only")
    said.append(f"100: at {anchors.perfect:.3f} or less, {perfect}")
    if anchors.said:
        said.append(f"{anchors.said}: little of the scale is beyond sampling error")
    _say("scores", *said)


def _source(truth: Truth, task: Task) -> None:
    from lm_eval_epidemia.surveys.catalogue import find_record

    survey, source = find_record(truth.survey), truth.cite()
    _say("survey", f"{survey.title}, {truth.vintage}", survey.publisher, source.source)
    _say("cite", source.citation)
    _say("licence", source.licence)
    if task.number is not None:
        place = f"number {task.number} in the list of {task.group}"
        _say("published", f"{place} (docs/evidence/reproduce.md)")


def _survey(survey: Record, every: bool) -> None:
    """Show a survey: its source, and the groups that contain its tasks."""
    from lm_eval_epidemia.benchmarks.observation import OBSERVATION

    here = OBSERVATION.available()
    print(survey.survey)
    _say("survey", f"{survey.title}; {survey.publisher}", survey.homepage)
    _say("asked", survey.people)
    _say("cite", survey.citation)
    _say("licence", survey.licence)
    _say("vintages", ", ".join(survey.vintages))
    groups: defaultdict[str, list[bool]] = defaultdict(list)
    for entry in OBSERVATION.entries().values():
        if entry.facets.get("survey") == survey.survey:
            groups[entry.part or entry.group].append(entry.name in here)
    available = "{}: {} of {} tasks available here".format
    _say("groups", *(available(name, sum(of), len(of)) for name, of in groups.items()))
    _say("variables", ", ".join(survey.variables))
    if every:
        _say("tasks", *(task.name for task in survey.declared))
    _say("more", f"epidemia survey card {survey.survey}")


def _group(name: str, every: bool) -> None:
    """Show a group: tasks by survey, a question, other ways of asking, and files it waits for."""
    from lm_eval_epidemia.benchmarks import BENCHMARKS, describe_union, find_leaves, list_patterns
    from lm_eval_epidemia.surveys.catalogue import how_to_build

    available = {benchmark.name: {*benchmark.available()} for benchmark in BENCHMARKS.values()}
    leaves = find_leaves(name)
    here = [leaf for leaf in leaves if leaf.entry.name in available[leaf.benchmark.name]]
    waiting = Counter(leaf.entry.facets.get("survey", "") for leaf in leaves if leaf not in here)
    print(name)
    rest = f", {waiting.total()} more wait for survey files" if waiting else ""
    headings = dict.fromkeys(leaf.benchmark.heading for leaf in leaves)
    _say("what", f"{plural(len(here), 'task')} here{rest}; {'; '.join(headings)}")
    _say("made of", describe_union(name))
    if here:
        first = here[0]
        _print(_members(name, here))
        way = first.benchmark.ways[first.way]
        _question(way, way.load(first.entry.name), f"of {way.named(first.entry.name)}")
        if every or len(here) <= MEMBERS:
            _say("tasks", *(leaf.benchmark.ways[leaf.way].named(leaf.entry.name) for leaf in here))
    _say("other ways", ", ".join(_suffixed(name, leaves)))
    for survey, number in waiting.items():
        _say("waiting", f"{plural(number, 'task')} of {survey}: {how_to_build(survey)}")
    if here:
        _say("run", f"lm_eval --tasks {shlex.quote(list_patterns().get(name, name))} --model ...")


def _members(name: str, here: Sequence[Leaf]) -> Any:
    """Count the tasks and prompts of a group by survey, or by task where there is none."""
    from lm_eval_epidemia.benchmarks import in_way
    from lm_eval_epidemia.benchmarks.observation import OBSERVATION
    from lm_eval_epidemia.estimate import store
    from lm_eval_epidemia.harness.cost import cost
    from lm_eval_epidemia.score.score import Anchors

    (costs,) = cost([name])
    parts: defaultdict[str, list[Leaf]] = defaultdict(list)
    for leaf in here:
        is_survey = leaf.benchmark is OBSERVATION
        parts[leaf.entry.facets["survey"] if is_survey else leaf.entry.name].append(leaf)
    is_scored = any(leaf.benchmark is OBSERVATION for leaf in here)
    numbers = ("tasks", "prompts", *(["score of averages"] if is_scored else []))
    table = make_table("", "of", *numbers, right=numbers)
    for part, of in parts.items():
        prompts = sum(costs.leaves[in_way(leaf.entry.name, leaf.way)].prompts for leaf in of)
        row = [part, f"{len(of)}", f"{prompts:,}"]
        if of[0].benchmark is OBSERVATION:
            known = [Anchors.of(store.load_truth(leaf.entry.name)).score_of_mean for leaf in of]
            row.append(f"{sum(known) / len(known):.1f}")
        table.add_row(*row)
    if len(parts) > 1:
        table.add_row("all", f"{costs.tasks}", f"{costs.prompts:,}")
    return table


def _suffixed(name: str, leaves: Sequence[Leaf]) -> list[str]:
    """Return the group's names, or patterns, in other ways of asking."""
    from lm_eval_epidemia.benchmarks import list_names, list_patterns

    first = leaves[0]
    ways = first.benchmark.ways
    stem = name.removesuffix(ways[first.way].suffix) if ways[first.way].suffix else name
    known = {known: known for known in list_names()} | list_patterns()
    named = (way.named(stem) for way in ways.values())
    return [known[other] for other in named if other != name and other in known]
