"""A library of recorded runs: each is run once per test session, and copied where it is read.

All processes of a session share it, by a file lock. It is for tasks that ship and respondents
whose answers are known: what is asked there, and who answers, says what is recorded.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from unittest import mock

import pytest
from conftest import recorded
from filelock import FileLock


def library(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the processes of this session share."""
    own = factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "recorded"


def copied_run(factory: pytest.TempPathFactory, folder: Path, tasks: list[str], **arguments):
    """Put into a folder what `conftest.recorded` would, from the library if it is there."""
    asked = json.dumps([tasks, arguments], sort_keys=True, default=str)
    place = library(factory) / hashlib.sha256(asked.encode()).hexdigest()[:16]
    place.parent.mkdir(exist_ok=True)
    # Variants of the task files are rendered into the home: one for all runs.
    home = {"EPIDEMIA_HOME": str(place.with_name("home"))}
    with FileLock(f"{place}.lock"), mock.patch.dict(os.environ, home):
        if not place.exists():
            recorded(place.with_suffix(".part"), tasks, **arguments).rename(place)
    return Path(shutil.copytree(place, folder, dirs_exist_ok=True))
