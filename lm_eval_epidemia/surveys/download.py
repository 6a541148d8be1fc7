"""Download a survey's official files: with progress, resuming, and a check of hashes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.surveys.catalogue import own
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
    if survey in own():
        raise EpidemiaError(
            f"{survey} is your own survey, which cannot be downloaded: give its file with --raw"
        )
    entry = record.vintages[vintage]
    how = f"give {entry.needed} ({entry.page}) with --raw"
    if all(file.url for file in entry.files):
        of = "" if vintage == record.official else f" --vintage {vintage}"
        how = f"run 'epidemia survey download {survey}{of}', or {how}"
    raise EpidemiaError(f"{survey} {vintage} has not been downloaded: {how}")


class _Resuming:
    """A downloader for pooch that keeps what an interrupted one got and asks for the rest."""

    def __init__(self, part: Path, progress: bool) -> None:
        self.part, self.progress = part, progress

    def __call__(self, url: str, output_file: Any, _pooch: Any) -> None:
        import requests
        from tqdm import tqdm

        have = self.part.stat().st_size if self.part.exists() else 0
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
                        desc=self.part.name.removesuffix(".part"),
                        unit="B",
                        unit_scale=True,
                        disable=not self.progress,
                    ) as bar,
                    self.part.open("ab" if resumed else "wb") as sink,
                ):
                    for block in response.iter_content(1 << 20):
                        sink.write(block)
                        bar.update(len(block))
        self.part.replace(output_file)


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
    try:
        import pooch
        import requests
    except ImportError as error:
        raise EpidemiaError(f"downloading needs {error.name}: {install('build')}") from None
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
            downloader=_Resuming(part, progress),
        )
    except EpidemiaError as error:
        raise EpidemiaError(f"{url}: {error}; the site may require a browser: {by_hand}") from None
    except requests.exceptions.HTTPError as error:
        raise EpidemiaError(
            f"{url} answered with an error ({error}); the site may require a browser: {by_hand}"
        ) from None
    except requests.exceptions.RequestException as error:
        kept = f" ({part.stat().st_size:,} bytes are kept)" if part.exists() else ""
        raise EpidemiaError(
            f"{url} could not be downloaded{kept}: {type(error).__name__}. Run the command again "
            f"to continue where it stopped, or {by_hand}"
        ) from None
    except ValueError:
        raise EpidemiaError(
            f"{url}: the file's sha256 is not {sha256}: the publisher replaced it, or it was "
            f"damaged during download. Try again, or, if you trust the file, {by_hand}"
        ) from None
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
            f"{record.survey} {name}: {', '.join(manual)} cannot be downloaded by a program (the "
            f"site requires a browser): download from {entry.page}, then run 'epidemia "
            f"groundtruth build {record.survey} --raw FILE'"
        )
    folder = raw_folder(record.survey, name)
    for file in entry.files:
        assert file.url is not None
        fetch(file.url, folder / file.name, file.sha256, entry.page, progress)
    return folder
