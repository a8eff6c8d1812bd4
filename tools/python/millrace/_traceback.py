"""How exceptions of stages are shown."""

from __future__ import annotations

import sys
import traceback
from typing import Set, Tuple

_MOST = 100
_shown: Set[Tuple[str, int, str]] = set()


def report(error: BaseException) -> str:
    """Prints the traceback, once for each line of code that raised one, and returns a line of text."""
    frames = traceback.extract_tb(error.__traceback__)
    words = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", " ")
    if not frames:
        return words
    last = frames[-1]
    place = (last.filename, last.lineno or 0, type(error).__name__)
    if place not in _shown and len(_shown) < _MOST:
        _shown.add(place)
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    return f"{words} ({last.filename}:{last.lineno})"
