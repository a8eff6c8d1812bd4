"""millrace runs video and image analysis pipelines that are written in YAML.

    import millrace

    for frame in millrace.run("classify.yaml", input="lobby.mp4"):
        print(frame.source, frame.seq, frame.classes[0].label)

`run` gives frames, `Pipeline` has everything else, `check` and `plan` examine a pipeline, `stage` makes a stage of a
function. `python -m millrace` is the command.

Do not fork after a pipeline was opened; use multiprocessing's "spawn"."""

from __future__ import annotations

import atexit as _atexit
import os as _os

from . import _environment

_environment.refuse_builds()

try:
    from . import _core
except ImportError as _error:
    raise _environment.explain(_error) from None
from . import _traceback  # noqa: E402
from ._core import Array, Frame  # noqa: E402
from ._pipeline import PathLike as _PathLike, Pipeline, Run, check, plan, run  # noqa: E402
from ._stage import stage  # noqa: E402
from ._values import (KINDS, Attribute, Class, Diagnostic, Error, Event, FramesHeld, Object, Plan,  # noqa: E402
                      PipelineError, Result, StageError, Stopped, Text, Timeout, Zone, failure)

__version__: str = _core.version

_core.connect(failure, KINDS, Result, FramesHeld)
_core.set_report(_traceback.report)
_core.set_thread_begin(_traceback.trace_thread)
_environment.find_onnxruntime()
_atexit.register(_core.close_all)


# Tracebacks name them as programs do.
for _one in (Attribute, Class, Diagnostic, Error, Event, FramesHeld, Object, Pipeline, PipelineError, Plan, Result, Run,
             StageError, Stopped, Text, Timeout, Zone):
    _one.__module__ = __name__


def set_log_level(level: str) -> None:
    """Which lines the library writes to standard error: "error", "warning" (the default), "info" or "debug"."""
    _core.set_log_level(str(level).encode())


def load_plugin(path: _PathLike) -> None:
    """Loads stage types from a shared library, whose code then runs, for pipelines that are opened with
    plugins=True."""
    _core.load_plugin(_os.fsencode(path))


__all__ = ["Array", "Attribute", "Class", "Diagnostic", "Error", "Event", "Frame", "FramesHeld", "Object", "Pipeline",
           "PipelineError", "Plan", "Result", "Run", "StageError", "Stopped", "Text", "Timeout", "Zone", "check",
           "load_plugin", "plan", "run", "set_log_level", "stage"]
