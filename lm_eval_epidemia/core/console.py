"""What all commands have in common: lists of names, and an output that takes what is written."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lm_eval_epidemia.core.errors import EpidemiaError


def separated(words: Iterable[str]) -> list[str]:
    """Split words at commas: names may be given as ``A,B``, as ``A B`` or as ``A, B``."""
    words = list(words)
    names = [name.strip() for word in words for name in word.split(",") if name.strip()]
    if words and not names:
        raise EpidemiaError(f"{' '.join(words)!r} holds no name: expected names such as A,B")
    return names


#: What stands for a character that the output's encoding lacks, here and in lm-eval's tables.
PLAIN = {"±": "+-", "↑": "^", "↓": "v", "…": "...", "\u00d7": "x", "\u2013": "-"}


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace one character that cannot be encoded (a handler of errors, see `codecs`)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":  # a byte of a file name
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return PLAIN.get(character, "?"), error.start + 1


codecs.register_error("epidemia", _plain)


def print_anything() -> None:
    """Let ``stdout`` take every character, also where the locale is POSIX and knows only ASCII."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        try:
            "".join(PLAIN).encode(stream.encoding)
        except UnicodeEncodeError:
            stream.reconfigure(errors="epidemia")


#: An output that takes no more: a full disk, quota or limit, a reader that has gone.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE)


@contextmanager
def checked_output() -> Iterator[None]:
    """End with exit code 1, and a line but no traceback, where the output cannot be written.

    Without a line where its reader has gone (``| head``), as other programs do.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # to know it now and not as the interpreter ends
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left
        if error.errno != errno.EPIPE:
            print(f"error: the output could not be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)
