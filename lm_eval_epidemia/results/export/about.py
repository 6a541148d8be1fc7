"""Texts about an exported repository: `about.yaml`."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml


@lru_cache(maxsize=1)
def texts() -> dict[str, Any]:
    """Return the texts of the card and the Croissant file."""
    text = (files(__package__) / "about.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))
