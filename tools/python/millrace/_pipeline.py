"""Opening and running pipelines."""

from __future__ import annotations

import json
import operator
import os
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

from . import _core
from ._core import Frame
from ._values import NAMES, Diagnostic, Error, Plan, PipelineError, StageError

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Settings = Mapping[str, Any]


def _bytes(text: PathLike) -> bytes:
    return os.fsencode(text)


def _text(text: str, what: str = "id") -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"the {what} must be a str, not {type(text).__name__}")
    return text.encode()


def _plain(value: Any) -> Any:
    """For JSON: a NumPy number, or an array."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as YAML")


def _yaml(value: Any) -> bytes:
    """A value as YAML text. Text is YAML itself, as after `--set`; JSON is YAML as well."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return _bytes(value)
    return json.dumps(value, default=_plain).encode()


def _count(value: int, what: str, most: int = 2**31 - 1) -> int:
    if not hasattr(value, "__index__") or not 0 <= operator.index(value) <= most:
        raise ValueError(f"{what} must be an int from 0 to {most}, not {value!r}")
    return operator.index(value)


def _pairs(values: Mapping[str, Any], what: str) -> List[Tuple[bytes, bytes]]:
    if not isinstance(values, Mapping):
        raise TypeError(f"{what}s must be a dict, not {type(values).__name__}")
    return [(_text(key, what), _yaml(value)) for key, value in values.items()]


def _list(value: Union[None, PathLike, Sequence[PathLike]]) -> List[bytes]:
    if value is None:
        return []
    return [_bytes(value)] if isinstance(value, (str, bytes, os.PathLike)) else [_bytes(one) for one in value]


def _params(path: Optional[PathLike], text: Optional[str], settings: Optional[Settings], input: Any, output: Any,
            **more: Any) -> Dict[str, Any]:
    more.update({key: _count(more[key], key) for key in ("workers", "jobs") if key in more})
    if more.get("grace_ns", 0) < 0:
        raise ValueError("grace must be at least 0 seconds")
    if path is None and text is None:
        raise TypeError("give the path of a pipeline, or text=")
    if isinstance(path, str) and "\n" in path and not os.path.lexists(path):
        raise TypeError("the path is a YAML text: give it as text=")
    params = {key: _bytes(value) if isinstance(value, (str, os.PathLike)) else value for key, value in more.items()}
    return {**params, "path": _bytes("pipeline" if path is None else path),
            "text": None if text is None else _text(text, "text"), "overrides": _pairs(settings or {}, "setting"),
            "inputs": _list(input), "output": None if output is None else _bytes(output)}


def _diagnostics(rows: Sequence[Tuple[Any, ...]]) -> List[Diagnostic]:
    return [Diagnostic(*row) for row in rows]


def _refused(rows: List[Diagnostic]) -> Error:
    errors = [row for row in rows if row.severity == "error"]
    return PipelineError("\n".join(map(str, errors)), "wrong pipeline", errors[0].exit_code, rows)


def check(path: Optional[PathLike] = None, *, text: Optional[str] = None, settings: Optional[Settings] = None,
          input: Union[None, PathLike, Sequence[PathLike]] = None, output: Optional[PathLike] = None,
          plugins: bool = False) -> List[Diagnostic]:
    """Checks the text of a pipeline, without media and models. Returns all errors and warnings."""
    params = _params(path, text, settings, input, output, offline=True, plugins=plugins)
    return _diagnostics(_core.plan(params)[2])


def plan(path: Optional[PathLike] = None, *, text: Optional[str] = None, settings: Optional[Settings] = None,
         input: Union[None, PathLike, Sequence[PathLike]] = None, output: Optional[PathLike] = None, workers: int = 0,
         jobs: int = 0, plugins: bool = False, offline: bool = False,
         assume: Union[None, str, Sequence[str]] = None) -> Plan:
    """Plans a pipeline: opens media and models as far as planning needs them, and moves no frame.

    Raises PipelineError if the pipeline cannot run. `assume` plans for devices that this machine lacks."""
    params = _params(path, text, settings, input, output, offline=offline or assume is not None, plugins=plugins,
                     workers=workers, jobs=jobs, assume=_list(assume))
    made, _, rows = _core.plan(params)
    if made is None:
        raise _refused(_diagnostics(rows))
    return Plan(**made, diagnostics=_diagnostics(rows))


class Pipeline:
    """A pipeline that is open. Call `start` to run it, and `close` at the end, or use it in a `with` block.

    `settings` are values of the YAML, as after `--set`: {"stages.classify.top_k": 2}. `input` replaces the only
    source's URI, or gives several. `output` replaces the path of the only sink that has one. `text` is the YAML itself.

    Any thread may call any method. Methods that wait release the interpreter, and Ctrl-C ends the wait."""

    def __init__(self, path: Optional[PathLike] = None, *, text: Optional[str] = None,
                 settings: Optional[Settings] = None, input: Union[None, PathLike, Sequence[PathLike]] = None,
                 output: Optional[PathLike] = None, workers: int = 0, jobs: int = 0, plugins: bool = False,
                 connect: bool = True, force: bool = False, resume: Optional[PathLike] = None,
                 trace: Optional[PathLike] = None, profile: Optional[PathLike] = None, grace: float = 0) -> None:
        params = _params(path, text, settings, input, output, workers=workers, jobs=jobs, plugins=plugins,
                         connect=connect, force=force, resume=resume, trace=trace, profile=profile,
                         grace_ns=_nanoseconds(grace))
        made, _, rows = _core.open(params)
        self.diagnostics: List[Diagnostic] = _diagnostics(rows)
        if made is None:
            raise _refused(self.diagnostics)
        self._core = made
        self._last: Optional[Dict[str, Any]] = None
        self._planned: Dict[str, Dict[str, Any]] = {}

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, kind: Optional[type], *rest: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pipeline cannot be copied, pickled or sent to another process: open it in the process that "
                        "uses it")

    # ---- running

    def start(self) -> None:
        """Opens all stages and starts the run."""
        self._core.start()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits for the end of the run: True, or False after `timeout` seconds. Raises the first failure of a source or
        a sink."""
        try:
            return self._core.wait(timeout)
        except Error as error:
            _raise_with_cause(error)
            raise

    def stop(self, at_once: bool = False) -> None:
        """Asks all sources to end. Frames in flight are still delivered, or dropped if `at_once`."""
        self._core.stop(at_once)

    def close(self, timeout: Optional[float] = 10) -> None:
        """Ends the run and releases all that it holds. Frames in flight have `timeout` seconds to be delivered; then
        they are dropped. Frames that the program holds stay valid. May be called more than once."""
        last = self._core.close(timeout)
        self._last = self._last if last is None else last

    # ---- frames in and out

    def frames(self, stage: str, hold: Optional[int] = None) -> Iterator[Frame]:
        """The frames that reach a stage of type `callback`, in order, until the run ends. Call it before `start`.

        The run waits for the loop: at most `hold` frames are queued or held by the program at a time. By default it is
        the stage's planned queue, and 256 for frames without a payload. If the program holds all of them, the loop
        raises FramesHeld."""
        room = self._stage(stage)["queue"] if hold is None else _count(hold, "hold", 2**63 - 1)
        made: Iterator[Frame] = self._core.subscribe(_text(stage), None, max(2, room), hold is not None)
        return made

    def subscribe(self, stage: str, function: Callable[[Frame], object]) -> None:
        """Calls a function with each frame that reaches a stage of type `callback`, on the pipeline's thread. Call it
        before `start`. An exception drops the frame, or ends the run if the stage has `on_error: fail`; `wait` raises
        it as StageError."""
        if not callable(function):
            raise TypeError("a subscriber must be a function")
        fails = self._stage(stage)["on_error"] == "fail"
        self._core.subscribe(_text(stage), function, 0, fails)

    def tap(self, stage: str, timeout: Optional[float] = None) -> Optional[Frame]:
        """A copy of the next frame that passes a stage or source of the running pipeline. None: none passed in time."""
        return self._core.tap(_text(stage), timeout)

    def push(self, source: str, data: Any, *, pts: Optional[float] = None, pixel: Optional[str] = None,
             timeout: Optional[float] = None, copy: bool = True) -> None:
        """Gives a picture or a tensor to a source of type `push`: an array, or a list of arrays for a picture with
        several planes. Waits for room; raises Timeout after `timeout` seconds.

        `pts` is the presentation time in seconds. `pixel` is the layout if the pipeline leaves it open. With copy=False
        the pipeline reads the arrays' memory later: do not change them."""
        (output, *_) = self._stage(source)["outputs"] or [_NO_OUTPUT]  # a sink: the library refuses it
        number = output["pixel"] if pixel is None else _pixel(pixel)
        planes = list(data) if isinstance(data, (list, tuple)) and output["payload"] == _PICTURE else [data]
        self._core.push(_text(source), planes, number, output["layout"],
                        None if pts is None else _nanoseconds(pts), timeout, copy)

    def end(self, source: str) -> None:
        """Ends a source of type `push`: it gives no more frames."""
        self._core.end(_text(source))

    # ---- sources and devices

    def add_source(self, id: str, **options: Any) -> List[Diagnostic]:
        """Adds a source to a running pipeline with `sources: {max: N}`. Returns warnings."""
        return self._change(id, options, True)

    def set_source(self, id: str, **options: Any) -> List[Diagnostic]:
        """Changes options of a source; it begins again. Returns warnings."""
        return self._change(id, options, False)

    def remove_source(self, id: str, timeout: Optional[float] = None) -> None:
        """Removes a source, and waits until its frames are settled. Raises Timeout if they are not in time."""
        self._core.remove_source(_text(id), timeout)

    def reload_sources(self) -> None:
        """Reads the list of `sources_from` again."""
        self._core.reload_sources()

    def enable_device(self, name: str, enabled: bool = True) -> None:
        """Enables or disables a device while the pipeline runs."""
        self._core.enable_device(_text(name), enabled)

    def trigger(self, id: str) -> None:
        """Triggers a stage, such as `record`."""
        self._core.trigger(_text(id))

    def reopen(self) -> None:
        """Asks sinks to open their files again, after these were moved."""
        self._core.reopen()

    # ---- what it does

    def summary(self) -> Dict[str, Any]:
        """The run so far, or after `close` the whole of it, as `millrace run --json` writes it: stages, sources, the
        ledger, latency, memory."""
        return self._core.summary() if self._last is None else self._last

    def plan(self) -> Plan:
        """The plan of this pipeline."""
        return Plan(**self._core.plan(), diagnostics=self.diagnostics)

    def _stage(self, id: str) -> Dict[str, Any]:
        if _text(id) and id not in self._planned:  # sources come and go
            self._planned = {stage["id"]: stage for stage in self._core.plan()["stages"]}
        if id not in self._planned:
            known = [one for one in self._planned if not one.startswith("+")]  # places for sources that come later
            raise Error(f"the pipeline has no stage or source \"{id}\"; it has {', '.join(known)}", "wrong usage", 64)
        return self._planned[id]

    def _change(self, id: str, options: Mapping[str, Any], add: bool) -> List[Diagnostic]:
        status, rows = self._core.change_source(_text(id), _pairs(options, "option"), add)
        found = _diagnostics(rows)
        if status:
            raise _refused(found)
        return found


_PIXELS: Dict[str, int] = NAMES["pixels"]
_PICTURE: int = NAMES["payloads"]["picture"]
_NO_OUTPUT: Dict[str, int] = {"payload": 0, "pixel": 0, "layout": 0}
_MOST_SECONDS = 9e9  # nanoseconds have 63 bits


def _pixel(name: str) -> int:
    if name not in _PIXELS:
        raise ValueError(f"there is no pixel layout \"{name}\": use {', '.join(_PIXELS)}")
    return _PIXELS[name]


def _nanoseconds(seconds: float) -> int:
    if not abs(seconds) < _MOST_SECONDS:
        raise ValueError(f"a time must be a number of seconds below {_MOST_SECONDS:.0e}, not {seconds}")
    return round(seconds * 1e9)


# As stage.c and subscription.c write it.
_RAISED = re.compile("the function (that subscribed|of the stage .*) raised ")


def _raise_with_cause(error: Error) -> None:
    """Raises a StageError if a function of the program ended the run, from the exception that it raised."""
    if _RAISED.search(str(error)):
        cause = _core.take_exception(str(error).encode())  # None: traceback.c keeps only the newest
        raise StageError(str(error), error.status, error.exit_code) from cause


class Run:
    """A run whose frames a loop gets; see millrace.run."""

    def __init__(self, pipeline: Pipeline, stage: str, hold: Optional[int]) -> None:
        self.pipeline = pipeline
        self._ended = False
        self._closer = pipeline._core.closer(pipeline)  # ends the run when the program has left the loop
        self._frames: Iterator[Frame] = pipeline.frames(stage, hold)
        pipeline.start()

    def __iter__(self) -> "Run":
        return self

    def __next__(self) -> Frame:
        try:
            return next(self._frames)
        except StopIteration:
            self._end()
            raise
        except BaseException:
            self.close()
            raise

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        try:
            self.pipeline.wait()
        finally:
            self.close()

    @property
    def summary(self) -> Dict[str, Any]:
        """The run so far, and after the end the whole of it. A frame that the program holds is in flight."""
        return self.pipeline.summary()

    def close(self) -> None:
        """Ends the run. The end of the loop does so too."""
        self._ended = True
        self.pipeline.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *rest: object) -> None:
        self.close()


def _inputs(planned: Plan, id: str) -> List[str]:
    """All outputs that a stage reads, as `input:` names them. What the planner puts between is passed over."""
    roles = {one["id"]: one["role"] for one in planned.stages}
    found: List[str] = []
    for link in planned.links:
        if link["to"] == id:
            if roles[link["from"]] in ("stage", "source"):
                found.append(link["from"] + (f".{link['output']}" if link["output"] else ""))
            else:
                found += _inputs(planned, link["from"])
    return list(dict.fromkeys(found))


def _callback(planned: Plan, stage: Optional[str], output: Optional[PathLike]) -> Tuple[str, Dict[str, Any]]:
    """The stage whose frames the loop gets, and settings that put a callback there."""
    stages = {one["id"]: one for one in planned.stages}
    written = {id: one for id, one in stages.items() if one["role"] in ("stage", "source")}
    if stage is not None and stage not in written:
        raise Error(f"the pipeline has no stage \"{stage}\"; it has {', '.join(written)}", "wrong usage", 64)
    sinks = [id for id, one in written.items() if one["sink"]]
    callbacks = [id for id in sinks if written[id]["type"] == "callback"]
    if stage is None and len(callbacks) == 1:
        return callbacks[0], {}
    if stage is not None and stage in callbacks:
        return stage, {}
    if stage is None and (len(callbacks) > 1 or len(sinks) != 1):
        found = callbacks if callbacks else list(written)
        raise Error(f"the pipeline has {len(callbacks or sinks)} sinks: say whose frames you want, "
                    f"stage= one of {', '.join(found)}", "wrong usage", 64)
    if stage is None or stage in sinks:
        sink = stage or sinks[0]
        if output is None and stage is None:
            return sink, {f"stages.{sink}": {"type": "callback", "input": _inputs(planned, sink)}}
        inputs = _inputs(planned, sink)
    else:
        inputs = [stage]
    name = "python"
    while name in stages:
        name += "_"
    return name, {f"stages.{name}": {"type": "callback", "input": inputs}}


def run(path: Optional[PathLike] = None, *, stage: Optional[str] = None, hold: Optional[int] = None,
        text: Optional[str] = None, settings: Optional[Settings] = None,
        input: Union[None, PathLike, Sequence[PathLike]] = None, output: Optional[PathLike] = None,
        **more: Any) -> Run:
    """Runs a pipeline, and gives its frames: `for frame in millrace.run("p.yaml", input="lobby.mp4")`.

    The frames are those that reach the pipeline's stage of type `callback`. Without one, they are those that reach its
    only sink, which is left out; with `output` it writes them too. `stage` names a stage whose frames you want instead;
    all sinks then write as usual.

    The run waits for the loop: see Pipeline.frames for `hold`. When the loop ends, by itself, `break`, an exception or
    Ctrl-C, the run ends: frames in flight are delivered to the other sinks. `more` are arguments of Pipeline."""
    planned = plan(path, text=text, settings=settings, input=input, output=output, offline=True,
                   plugins=bool(more.get("plugins")))
    name, extra = _callback(planned, stage, output)
    if hold is not None:
        at = f"stages.{name}"
        if at in extra:
            extra[at]["queue"] = hold
        else:
            extra[f"{at}.queue"] = hold
    pipeline = Pipeline(path, text=text, settings={**(settings or {}), **extra}, input=input, output=output, **more)
    return Run(pipeline, name, hold)
