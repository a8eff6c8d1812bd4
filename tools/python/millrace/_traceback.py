"""How exceptions of stages are shown, and functions that the pipeline's threads run are traced."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from typing import Set, Tuple

_MOST = 100
_shown: Set[Tuple[str, int, str]] = set()


def report(error: BaseException) -> str:
    """Prints the traceback, once for each line of code that raised one, and returns a line of text."""
    frames = traceback.extract_tb(error.__traceback__)
    words = "".join(traceback.format_exception_only(type(error), error)).strip()
    words = words.replace("\n", " ").replace("\0", "\\0").encode(errors="backslashreplace").decode()
    if not frames:
        return words
    last = frames[-1]
    place = (last.filename, last.lineno or 0, type(error).__name__)
    if place not in _shown and len(_shown) < _MOST:
        _shown.add(place)
        with contextlib.suppress(Exception):  # standard error may be closed, or an object of the program
            traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    return f"{words} ({last.filename}:{last.lineno})"


def trace_thread() -> None:
    """Traces this thread of a pipeline, if the program traces threads that Python starts: debuggers and coverage."""
    trace = getattr(threading, "_trace_hook", None)
    profile = getattr(threading, "_profile_hook", None)
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
