"""Plain objects: results, diagnostics, plans, and the exceptions."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional

from . import _core

NAMES: Dict[str, Dict[str, int]] = _core.names()


@dataclasses.dataclass
class Class:
    """A class that a stage found, with its number, name and score."""

    index: int
    label: Optional[str]
    score: float


@dataclasses.dataclass
class Zone:
    """An area in which an object is, and for how many seconds."""

    zone: str
    dwell: float
    stage: str


@dataclasses.dataclass
class Attribute:
    """Something that another stage found about an object: a class, or text."""

    stage: str
    index: int
    label: Optional[str]
    score: float
    text: str


@dataclasses.dataclass
class Object:
    """An object in a picture. Boxes are in pixels of the source's picture as it is shown."""

    left: float
    top: float
    right: float
    bottom: float
    score: float
    index: int
    label: Optional[str] = None
    track: Optional[int] = None
    number: Optional[int] = None
    parent: Optional[int] = None
    quad: List[float] = dataclasses.field(default_factory=list)
    points: List[float] = dataclasses.field(default_factory=list)
    mask: List[int] = dataclasses.field(default_factory=list)
    mask_width: int = 0
    mask_height: int = 0
    zones: List[Zone] = dataclasses.field(default_factory=list)
    attributes: List[Attribute] = dataclasses.field(default_factory=list)
    speed: float = 0.0
    distance: float = 0.0


@dataclasses.dataclass
class Event:
    """Something that happened in an area or on a line: enter, leave, cross, dwell, count or crowd. Times in seconds."""

    event: str
    zone: str
    direction: Optional[str]
    track: Optional[int]
    index: int
    label: Optional[str]
    time: float
    dwell: Optional[float]
    count: int
    total: int
    speed: float
    gone: bool


@dataclasses.dataclass
class Text:
    """Text that a stage read."""

    text: str
    score: float


class Result:
    """A result that a stage added to a frame: `elements`, or for tensors `array`. Elements of a plugin's kinds are
    dicts."""

    __slots__ = ("kind", "stage", "name", "elements", "_array", "cut")

    def __init__(self, kind: str, stage: Optional[str], name: Optional[str], elements: List[Any], array: Any,
                 cut: bool) -> None:
        self.kind = kind
        self.stage = stage
        self.name = name
        self.elements = elements
        self._array = array
        self.cut = cut

    @property
    def array(self) -> Any:
        """A NumPy array of a tensor's numbers; None for other kinds."""
        return None if isinstance(self._array, tuple) else self._array

    def __repr__(self) -> str:
        what = f"{len(self.elements)} elements" if self.array is None else f"array {self.name}"
        return f"<Result {self.kind} of {self.stage}: {what}>"


KINDS: Dict[str, type] = {"classes": Class, "objects": Object, "objects.zones": Zone, "objects.attributes": Attribute,
                          "events": Event, "text": Text}


@dataclasses.dataclass
class Diagnostic:
    """An error or a warning about a pipeline, with the place in the file. Line 0: an argument."""

    severity: str
    file: Optional[str]
    line: int
    column: int
    message: str
    hint: Optional[str]
    exit_code: int

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        hint = f"\n    hint: {self.hint}" if self.hint else ""
        return f"{place}{self.severity}: {self.message}{hint}"


@dataclasses.dataclass
class Plan:
    """All that a run would do. `stages`, `links`, `threads` and `memory` are lists of dicts."""

    pipeline: str
    file: Optional[str]
    digest: str
    workers: int
    nodes: int
    host_bytes: int
    stages: List[Dict[str, Any]]
    links: List[Dict[str, Any]]
    threads: List[Dict[str, Any]]
    memory: List[Dict[str, Any]]
    diagnostics: List[Diagnostic] = dataclasses.field(default_factory=list)


class Error(Exception):
    """A failure of millrace. `status` names it ("bad data"), `exit_code` is the command's exit code for it."""

    def __init__(self, message: str, status: str = "", exit_code: int = 70,
                 diagnostics: Optional[List[Diagnostic]] = None) -> None:
        super().__init__(message)
        self.status = status
        self.exit_code = exit_code
        self.diagnostics: List[Diagnostic] = diagnostics or []


class PipelineError(Error):
    """The pipeline was refused. `diagnostics` has each error and warning with the place."""


class Timeout(Error, TimeoutError):
    """There was no room, or the run did not end, in the given time."""


class Stopped(Error):
    """The run is being stopped, or the pipeline is closed."""


class StageError(Error):
    """A function of the program, a stage or a subscriber, raised an exception, which ended the run: see __cause__."""


class FramesHeld(Error):
    """The program holds so many frames that the pipeline has no buffers for more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "no room at present", 75)


def failure(code: int, status: str, exit_code: int, message: str) -> Error:
    """The exception for a status of the library."""
    statuses = NAMES["statuses"]
    kinds = {statuses["MR_ERROR_AGAIN"]: Timeout, statuses["MR_ERROR_CANCELLED"]: Stopped,
             statuses["MR_ERROR_CLOSED"]: Stopped, statuses["MR_ERROR_CONFIG"]: PipelineError}
    if "ONNX Runtime" in message and "not found" in message:
        message += "; in Python it is enough to install it beside millrace: pip install onnxruntime"
    return kinds.get(code, Error)(message, status, exit_code)
