"""Survey files in the layout and format their agencies publish, about people invented from records.

`people` and `tables` invent what a survey's record reads, under its column names and with its
codes; `write` and `write_tables` put it into the official file. NHANES is invented by hand here,
NSDUH in `conftest.nsduh_2023`: they check the generator, and say what the codes of a record mean.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.surveys.catalogue import find_record


def zipped(path: Path, members: dict[str, Path | str]) -> Path:
    """Pack files (or texts) under the names they have in an archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content if isinstance(content, str) else content.read_bytes())
    return path


def save(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    """Write a file as agencies do: Stata 14, SAS transport version 5."""
    import pyreadstat

    match path.suffix.lower():
        case ".dta":
            pyreadstat.write_dta(frame, str(path), version=14, **options)
        case ".xpt":
            # Names are in upper case; only those of version 8 may have more than 8 characters.
            frame = frame.rename(columns=str.upper)
            version = 5 if max(map(len, frame)) <= 8 else 8
            named = {"table_name": path.stem[:8], "file_format_version": version}
            pyreadstat.write_xport(frame, str(path), **named, **options)
        case ".csv":
            frame.to_csv(path, index=False)
        case ".sav":
            pyreadstat.write_sav(frame, str(path), **options)
        case ".xlsx":
            frame.to_excel(path, index=False)
        case ".parquet":
            frame.to_parquet(path)
    return path


# -- People -----------------------------------------------------------------------------------


def people(survey: str, rows: int = 400, vintage: str | None = None, seed: int = 1) -> pd.DataFrame:
    """Invent records: in every column codes that the record knows, or nothing; some weigh nothing.

    Columns are called as in the record. Two that nobody asks for are among them.
    """
    entry = find_record(survey)
    vintage = vintage or entry.official
    release, design = entry.vintages[vintage], entry.design_of(vintage)
    rng, number = np.random.default_rng(seed), np.arange(rows)
    spans: dict[str, dict[tuple[float, float], float]] = {}
    universes = [*entry.universe, *release.select]
    universes += [universe for task in entry.all_tasks for universe in task.universe]
    for name in sorted(entry.variables):
        way = entry.readings(name, vintage)[0]
        universes += [universe for level in way.levels for universe in level.also]
        # Of few answers some are commoner, so that there is something to know.
        skew = 1.0 if len(way.levels) <= 10 else 0.0
        levels = {
            s: 1 / (1 + skew * n) for n, level in enumerate(way.levels) for s in level.intervals
        }
        for column in [] if way.both else way.column.split(" + "):
            spans.setdefault(column, {}).update(dict.fromkeys(way.missing, 0.1) | levels)
    for universe in universes:
        spans.setdefault(universe.column, dict.fromkeys(universe.codes, 1.0))
    columns = {column: _codes(rng, rows, chances) for column, chances in spans.items()}
    columns |= {u.column: np.full(rows, u.codes[0][0]) for u in release.select}
    weight = np.where(rng.random(rows) < 0.03, 0.0, np.round(rng.gamma(2.0, 50.0, rows) + 1))
    columns |= {column: weight + n for n, column in enumerate(design.weight)}
    columns |= {design.strata: number % 20 + 1.0, design.psu: number // 20 % 2 + 1.0}
    columns |= {design.unit: number // 5 + 1.0}
    columns |= {
        column: np.round(weight * (1 + 0.5 * rng.standard_normal(rows)))
        for column in design.replicate_columns
    }
    columns |= {"EXTRA": np.ones(rows), "NOTE": [f"person {n}" for n in number]}
    named = {column: values for column, values in columns.items() if column is not None}
    return pd.DataFrame(named).rename(columns=release.column)


def _codes(
    rng: np.random.Generator, rows: int, chances: dict[tuple[float, float], float]
) -> np.ndarray:
    """Draw codes of some ranges: whole numbers, but between cut points; one in 30 is blank."""
    shares = np.array(list(chances.values()))
    low, high = np.array(list(chances))[rng.choice(len(shares), rows, p=shares / shares.sum())].T
    low = np.where(np.isinf(low), high - 1000, low)
    high = np.where(np.isinf(high), low + 1000, high)
    values = low + np.floor(rng.random(rows) * (high - low + (low == np.round(low))))
    return np.where(rng.random(rows) < 1 / 30, np.nan, np.round(np.clip(values, low, high), 2))


def labels(
    frame: pd.DataFrame, survey: str, variable: str, vintage: str | None = None
) -> pd.Series:
    """Return the label of each person's answer, in plain steps; None where there is none."""
    entry = find_record(survey)
    release = entry.vintages[vintage or entry.official]
    way = entry.readings(variable, vintage or entry.official)[0]
    values = sum(frame[release.column(column)] for column in way.column.split(" + "))

    def label(value: float) -> str | None:
        for level in way.levels:
            if any(low <= value <= high for low, high in level.intervals):
                return (
                    None if any(low <= value <= high for low, high in way.missing) else level.label
                )
        return None

    return values.map(label).astype(object)


def write(
    survey: str, folder: Path, frame: pd.DataFrame, vintage: str | None = None, inside: str = "{}"
) -> Path:
    """Write the official file; `inside` is how an archive calls its members."""
    entry = find_record(survey)
    (file,) = entry.vintages[vintage or entry.official].files
    if not file.members:
        return save(frame, folder / file.name)
    each = -(-len(frame) // len(file.members))
    parts = {name: frame[n * each : (n + 1) * each] for n, name in enumerate(file.members)}
    saved = {inside.format(name): save(part, folder / name) for name, part in parts.items()}
    packed = zipped(folder / file.name, {**saved, "readme.pdf": "%PDF"})
    for path in saved.values():
        path.unlink()
    return packed


def write_ascii(frame: pd.DataFrame, path: Path, setup: str) -> Path:
    """Write lines of fixed width, and beside them Stata's (stu) or SAS's (su) statements.

    Between the columns stand nines.
    """
    path.parent.mkdir(exist_ok=True)
    starts = {name: 5 + 20 * n for n, name in enumerate(frame)}
    texts = frame.map(lambda v: v if isinstance(v, str) else "" if np.isnan(v) else f"{v:.10g}")
    rows = ["".join(f"9999{text:>12}9999" for text in row) for row in texts.to_numpy()]
    path.write_text("\r\n".join(rows) + "\r\n", newline="")
    if "stu" in setup.lower():
        columns = [f"  int {name} {start}-{start + 11}" for name, start in starts.items()]
        text = "\n".join(["infix", *columns, "using h243.dat;", "label define X -1 'NONE';"])
    else:
        columns = [f"@{start:<7}{name:<11}12.0" for name, start in starts.items()]
        text = "\n".join(["DATA H243 ;", "INPUT", *columns, ";", "LABEL AGE = 'AGE @ ROUND 5/3' ;"])
    path.with_name(setup).write_text(text)
    return path


# -- NHANES, by hand --------------------------------------------------------------------------


def nhanes(rows: int = 500, seed: int = 3) -> dict[str, pd.DataFrame]:
    """Four files: everybody, those examined, those aged 1 or more, and adults."""
    rng = np.random.default_rng(seed)
    age, examined = rng.integers(0, 81, rows).astype(float), rng.random(rows) < 0.8
    demo = pd.DataFrame(
        {
            "SEQN": 130378.0 + np.arange(rows),
            "RIAGENDR": rng.integers(1, 3, rows).astype(float),
            "RIDAGEYR": age,
            "WTMEC2YR": np.where(examined, np.round(rng.gamma(1.5, 25000.0, rows) + 1, 6), 0.0),
            "SDMVSTRA": 173.0 + np.arange(rows) % 15,
            "SDMVPSU": rng.integers(1, 3, rows).astype(float),
        }
    )
    seqn = demo[["SEQN"]]
    bmi = np.round(rng.normal(29, 7, rows).clip(14, 60), 1)
    bmx = seqn.assign(BMDSTATS=1.0, BMXBMI=np.where(rng.random(rows) < 0.03, np.nan, bmi))[examined]
    told = rng.choice([1.0, 2, 3, 7, 9], rows, p=[0.13, 0.82, 0.03, 0.01, 0.01])
    diq = seqn.assign(DIQ010=told, DID040=np.nan)[age >= 1]
    ever = rng.choice([1, 2, np.nan], rows, p=[0.85, 0.1, 0.05])
    often = rng.choice([*map(float, range(11)), 77, 99, np.nan], rows)
    alq = seqn.assign(ALQ111=ever, ALQ121=np.where(ever == 1, often, np.nan))
    return {"DEMO_L": demo, "BMX_L": bmx, "DIQ_L": diq, "ALQ_L": alq[(age >= 18) & examined]}


def write_nhanes(folder: Path, frames: dict[str, pd.DataFrame]) -> list[Path]:
    """Four transport files, and beside them others of the cycle that nobody asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    save(frames["DEMO_L"][["SEQN"]].assign(BPXOSY1=120.0), folder / "BPXO_L.xpt")
    (folder / "notes.txt").write_text("downloaded in autumn")
    return [save(frame, folder / f"{name}.xpt") for name, frame in frames.items()]


# -- Published tables -------------------------------------------------------------------------


def tables(survey: str, vintage: str | None = None, *others: str) -> list[pd.DataFrame]:
    """Invent each table of a vintage: a size and printed shares or counts, by names of rows.

    `others` are rows that no level has; of a table with a grand total this row comes first.
    """
    entry, frames = find_record(survey), []
    vintage = vintage or entry.official
    for table in entry.vintages[vintage].tables:
        rng = np.random.default_rng(10)
        given, outcome = (
            entry.readings(v, vintage)[0].levels for v in (*table.given, table.outcome)
        )
        names = [level.names[0] for level in given if table.total not in level.names]
        heads = [level.names[0] for level in outcome if "remainder" not in level.names]
        shape = len(names) + len(others), len(heads)
        sizes = rng.integers(50, 1800, shape[0])
        shares = np.round(100 * rng.dirichlet(np.ones(shape[1] + 1), shape[0])[:, :-1], 1)
        if table.unit == "count":
            shares = rng.integers(100, 90000, shape)
            sizes = shares.sum(axis=1)
        frame = pd.DataFrame(shares, [*names, *others], heads)
        frame.insert(0, table.size[0], sizes)
        if table.total:
            frame = pd.concat([frame.sum().to_frame(table.total).T, frame])
        frames.append(frame)
    return frames


def write_tables(
    folder: Path,
    survey: str,
    frames: list[pd.DataFrame],
    vintage: str | None = None,
    *,
    year: str = "",
    down: int = 0,
    names: tuple[str, ...] = (),
) -> list[Path]:
    """Write published tables: titles, two rows of headers, footnote digits and notes around them.

    `year` is printed above them, `down` rows are blank, and `names` are those of the files.
    """
    entry = find_record(survey)
    release = entry.vintages[vintage or entry.official]
    if len(release.files) < len(frames):  # tables of the same rows stand side by side
        frames = [pd.concat([frames[0], *(f.iloc[:, 1:] for f in frames[1:])], axis=1)]
    paths = [folder / name for name in names or (file.name for file in release.files)]
    for path, frame in zip(paths, frames, strict=True):
        size, *heads = (str(head).replace(" ", "\n", 1) for head in frame)
        rows: list[list[Any]] = [
            *[[None]] * down,
            [f"A table of {year or release.said}", "[12 agencies; population 229,735,355]"],
            [
                next(iter(release.tables[0].rows.values()))[0],
                size,
                "Number",
                *[None] * len(heads),
                "Percent1",
            ],
            [None, None, *heads, None, *heads],
        ]
        for n, (name, figures) in enumerate(frame.iterrows()):
            # Numbers are printed, or texts with commas; a dash stands for no figure.
            cells = [f"{v:,}" if survey == "ipeds" and v == v else v for v in figures.tolist()]
            cells = ["\u2013" if cell != cell else cell for cell in cells]
            rows.append([f"{name}{'2' if n % 3 == 1 else ''}", *cells, None, *[1.0] * len(heads)])
        rows += [
            [None],
            ["1 Because of rounding, the percentages may not add to 100.0."],
            ["* Few."],
        ]
        institutions = {"institutions": [[100654, "Alabama A & M University"]]}
        _save_sheets(path, {"table": rows} | (institutions if survey == "ipeds" else {}))
    return paths


def _save_sheets(path: Path, sheets: dict[str, list[list[Any]]]) -> None:
    import openpyxl
    import xlwt

    book = xlwt.Workbook() if path.suffix == ".xls" else openpyxl.Workbook(write_only=True)
    for title, rows in sheets.items():
        if path.suffix != ".xls":
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(row)
            continue
        page = book.add_sheet(title)
        for n, row in enumerate(rows):
            for column, value in enumerate(row):
                page.write(n, column, "" if value is None else value)
    book.save(str(path))
