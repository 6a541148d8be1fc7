"""Helpers shared by all commands: lists of names, and output that never fails on a character."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lm_eval_epidemia.core.errors import EpidemiaError


def split_names(words: Iterable[str]) -> list[str]:
    """Split words at commas: names may be given as ``A,B``, as ``A B`` or as ``A, B``."""
    words = list(words)
    names = [name.strip() for word in words for name in word.split(",") if name.strip()]
    if words and not names:
        raise EpidemiaError(f"{' '.join(words)!r} contains no name: expected names such as A,B")
    return names


#: Replacements for characters that the output's encoding lacks, ours and those of lm-eval's tables.
PLAIN = {"±": "+-", "↑": "^", "↓": "v", "…": "...", "\u00d7": "x", "\u2013": "-"}


def _replace_character(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace one character that cannot be encoded (an error handler for `codecs`)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":  # a byte of a file name
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return PLAIN.get(character, "?"), error.start + 1


codecs.register_error("epidemia", _replace_character)


def print_anything() -> None:
    """Let ``stdout`` print every character, even in a POSIX locale that knows only ASCII."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        try:
            "".join(PLAIN).encode(stream.encoding)
        except UnicodeEncodeError:
            stream.reconfigure(errors="epidemia")


#: Errors of an output that cannot be written to: a full disk, quota or limit, or a closed pipe.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE)


@contextmanager
def checked_output() -> Iterator[None]:
    """Exit with code 1 and a one-line message, not a traceback, if the output cannot be written.

    If the reader has closed the pipe (``| head``), exit without a message, as other programs do.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # fail here rather than when the interpreter exits
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest
        if error.errno != errno.EPIPE:
            print(f"error: the output could not be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)
