"""Raw files: those that a user gives, those that are downloaded, and what is packed in them.

A download shows its progress, goes on where it stopped, and is checked by its hash.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.paths import sha256_of
from lm_eval_epidemia.surveys import factbook
from lm_eval_epidemia.surveys.read import FORMATS, SETUP, stem_of, suffix_of
from lm_eval_epidemia.surveys.record import Record

#: Some agencies refuse programs that do not look like a browser.
AGENT = "Mozilla/5.0 (compatible; lm-eval-epidemia)"
TIMEOUT = 60


def raw_folder(survey: str, vintage: str) -> Path:
    """Return where downloaded files of a vintage are (the folder need not exist)."""
    return paths.home() / "raw" / survey / vintage


def raw_paths(
    record: Record, given: Path | Sequence[Path] | None, vintage: str | None
) -> tuple[list[Path], str | None]:
    """Return the files or folders that a survey is read from, and their vintage.

    Parameters
    ----------
    record : Record
    given : Path or sequence of Path, optional
        The user's paths; if none, the downloaded files.
    vintage : str, optional

    Returns
    -------
    paths : list of Path
    vintage : str or None
        As given; by default for downloaded files, the official one.

    Raises
    ------
    EpidemiaError
        If there is no such vintage, or nothing is given and nothing was downloaded.
    """
    if vintage is not None:
        record.vintage(vintage)
    if given:
        return [given] if isinstance(given, Path) else [Path(path) for path in given], vintage
    survey, vintage = record.survey, vintage or record.official
    folder = raw_folder(survey, vintage)
    if folder.is_dir():
        return [folder], vintage
    entry = record.vintages[vintage]
    how = f"give {entry.needed} ({entry.page}) with --raw"
    if all(file.url for file in entry.files):
        of = "" if vintage == record.official else f" --vintage {vintage}"
        how = f"run 'epidemia survey download {survey}{of}', or {how}"
    raise EpidemiaError(f"{survey} {vintage} has not been downloaded: {how}")


def _resume(part: Path, progress: bool, url: str, output_file: Any, _pooch: Any) -> None:
    """Download for pooch: keep what an interrupted download got, and ask for the rest."""
    import requests
    from tqdm import tqdm

    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": AGENT, **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        # 416: the part is already the whole file.
        if response.status_code != 416:
            response.raise_for_status()
            if "text/html" in response.headers.get("Content-Type", ""):
                raise EpidemiaError("the site answered with a web page")
            resumed = response.status_code == 206
            length = response.headers.get("Content-Length")
            with (
                tqdm(
                    total=int(length) + have * resumed if length else None,
                    initial=have * resumed,
                    desc=part.name.removesuffix(".part"),
                    unit="B",
                    unit_scale=True,
                    disable=not progress,
                ) as bar,
                part.open("ab" if resumed else "wb") as sink,
            ):
                for block in response.iter_content(1 << 20):
                    sink.write(block)
                    bar.update(len(block))
    part.replace(output_file)


def fetch(url: str, target: Path, sha256: str | None, page: str, progress: bool = True) -> Path:
    """Download one file, unless it exists already.

    Parameters
    ----------
    url : str
    target : Path
    sha256 : str, optional
        A file that differs is refused and removed.
    page : str
        Where a person can download it, for the error message.
    progress : bool
        Show a bar.

    Returns
    -------
    Path
        `target`.

    Raises
    ------
    EpidemiaError
        If the site cannot be reached or requires a browser, or the file is not the known one.
    """
    with needs("build", "downloading"):
        import pooch
        import requests
    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    pooch.get_logger().setLevel("WARNING")
    by_hand = f"download it from {page} and give it with --raw"
    try:
        pooch.retrieve(
            url,
            known_hash=None if sha256 is None else f"sha256:{sha256}",
            fname=target.name,
            path=target.parent,
            downloader=partial(_resume, part, progress),
        )
    except (EpidemiaError, requests.exceptions.RequestException) as error:
        kept = f" ({part.stat().st_size:,} bytes are kept)" if part.exists() else ""
        fault = f"{url} could not be downloaded{kept}: {error}"
        way_out = f"run this again to continue, or, in a browser, {by_hand}"
        raise EpidemiaError(f"{fault}; {way_out}") from None
    except ValueError:
        fault = f"{url}: the file is damaged or was replaced: its sha256 is not {sha256}"
        raise EpidemiaError(f"{fault}; try again, or, if you trust it, {by_hand}") from None
    return target


def download(record: Record, vintage: str | None = None, progress: bool = True) -> Path:
    """Download the official files of a vintage.

    Parameters
    ----------
    record : Record
    vintage : str, optional
        By default the official one, which gives every task.
    progress : bool

    Returns
    -------
    Path
        The folder with the files.

    Raises
    ------
    EpidemiaError
        Also if the record has no direct address; the message then names the page.
    """
    name = vintage or record.official
    entry = record.vintage(name)
    if manual := [file.name for file in entry.files if file.url is None]:
        raise EpidemiaError(
            f"{record.survey} {name}: the site of {', '.join(manual)} requires a browser: download "
            f"from {entry.page}, then run 'epidemia groundtruth build {record.survey} --raw FILE'"
        )
    folder = raw_folder(record.survey, name)
    for file in entry.files:
        assert file.url is not None
        fetch(file.url, folder / file.name, file.sha256, entry.page, progress)
    return folder


def _is_data(name: str) -> bool:
    """Tell whether a file may hold data: by its format, or as the Factbook by its name."""
    return suffix_of(name) in FORMATS or name == factbook.FILE


def _unpack(path: Path, expected: Collection[str], folder: Path) -> list[Path]:
    """Unpack the data files of an archive, under their bare names, into `folder`."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [item for item in archive.infolist() if not item.is_dir()]
            members = _members(path.name, inside, expected)
            wanted = members + [item for item in inside if suffix_of(item.filename) == SETUP]
            targets = []
            for item in wanted:
                # Only bare names are used, so that nothing lands outside the folder.
                targets.append(target := folder / Path(item.filename.strip()).name)
                if target.exists():
                    twice = f"contains two files called {target.name}"
                    raise EpidemiaError(f"{path.name} {twice}: unpack it and give the right one")
                with archive.open(item) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            return targets[: len(members)]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise EpidemiaError(
            f"{path.name} cannot be unpacked in {tempfile.gettempdir()} ({error}): download it "
            "again, or unpack it with another program and give the file itself"
        ) from None


def _members(
    name: str, inside: list[zipfile.ZipInfo], expected: Collection[str]
) -> list[zipfile.ZipInfo]:
    """Choose the data files of an archive: those of official names, or the only one."""
    members = [item for item in inside if suffix_of(item.filename) in FORMATS]
    official = [item for item in members if stem_of(item.filename) in expected]
    if len(members) != 1 and not official:
        found = ", ".join(item.filename for item in members) or "none"
        fault = f"{name} must contain exactly one data file ({', '.join(FORMATS)}), found {found}"
        raise EpidemiaError(f"{fault}: unpack it and give the file itself")
    return official or members


def _drop_copies(files: list[Path]) -> list[Path]:
    """Take a file that lies there packed and unpacked once; refuse two of one name otherwise."""
    names: dict[str, Path] = {}
    for file in files:
        name = file.name.strip().casefold()
        other = names.setdefault(name, file)
        if other is not file and sha256_of(file) != sha256_of(other):
            raise EpidemiaError(f"two files are called {file.name.strip()}: give only one")
    stems = [Path(name).stem for name in names]
    if twice := sorted({stem for stem in stems if stems.count(stem) > 1}):
        raise EpidemiaError(f"{twice[0]} exists in several formats: give only one")
    return list(names.values())


def raw_files(paths: Sequence[Path], expected: Collection[str] = ()) -> list[Path]:
    """Replace folders by the survey's files in them.

    Parameters
    ----------
    paths : sequence of Path
        Files or folders.
    expected : collection of str
        Names of the survey's official files, lower case, without suffix.

    Raises
    ------
    EpidemiaError
        If there is no such file, or a folder contains none of the survey's files.
    """
    files: list[Path] = []
    for path in paths:
        files += _files_in(path, expected) if path.is_dir() else [path]
    if missing := [file for file in files if not file.is_file()]:
        raise EpidemiaError(f"no file {missing[0]}")
    return files


def _files_in(folder: Path, expected: Collection[str]) -> list[Path]:
    named = [file for file in sorted(folder.iterdir()) if stem_of(file.name) in expected]
    if files := [file for file in named if _is_data(file.name) or suffix_of(file.name) == ".zip"]:
        return files
    raise EpidemiaError(
        f"the folder {folder} contains none of the survey's files: expected "
        f"{', '.join(sorted(expected))}; give a file of another name by itself, --raw FILE"
    )


@contextmanager
def open_raw(paths: Sequence[Path], expected: Collection[str] = ()) -> Iterator[list[Path]]:
    """Yield readable data files for some paths; archives are unpacked while the block runs.

    Parameters
    ----------
    paths : sequence of Path
        Files in one of `FORMATS`, zip archives of such files, or folders.
    expected : collection of str
        Names of the survey's official files, lower case, without suffix: which files of a folder
        or archive to take.

    Raises
    ------
    EpidemiaError
        If there is no such file, a format is unknown, or an archive is damaged or ambiguous.
    """
    files = raw_files(paths, expected)
    data: list[Path] = []
    formats = ", ".join([*FORMATS, ".zip"])
    statements = [path for path in files if suffix_of(path.name) == SETUP]
    with tempfile.TemporaryDirectory(prefix="epidemia-") as folder:
        for number, path in enumerate(files):
            suffix, own = suffix_of(path.name), Path(folder) / str(number)
            if _is_data(path.name):
                data.append(path)
            elif suffix == ".zip":
                own.mkdir()
                data += _unpack(path, expected, own)
                # The agency's statements lie beside the archive of the ASCII file.
                for file in [*statements, *path.parent.iterdir()]:
                    if suffix_of(file.name) == SETUP and not (own / file.name).exists():
                        (own / file.name).symlink_to(file.resolve())
            elif suffix != SETUP:
                given = f"given {path.suffix or 'no suffix'}, expected one of {formats}"
                raise EpidemiaError(f"{path.name} is not in a known format ({given})")
        data = _drop_copies(data)
        if not data:
            names = ", ".join(path.name for path in paths)
            raise EpidemiaError(f"no data file among {names}: expected one of {formats}")
        yield data
