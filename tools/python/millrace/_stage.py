"""Stages that are functions in Python."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union, overload

from . import _core
from ._values import NAMES

_definitions: Dict[str, Tuple[str, str, str]] = {}
Function = TypeVar("Function", bound=Callable[..., Any])
_PIXELS, _DTYPES, _PAYLOADS = NAMES["pixels"], NAMES["dtypes"], NAMES["payloads"]
_KINDS: Dict[Any, int] = {key: NAMES["options"][kind.__name__] for kind in (bool, int, float, str)
                          for key in (kind, kind.__name__)}
_MOST_RANK: int = NAMES["limits"]["rank"]
_MOST_NUMBERS = 2**31 - 1


def parse_format(text: str, fixed: Sequence[str] = ()) -> Dict[str, Any]:
    """A format from a text such as "picture", "RGB24", "GRAY8 640x480", "tensor" or "f32 3x224x224". With `fixed`, only
    formats of these payloads with all sizes."""
    first, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    sizes = [int(size) for size in rest.split("x")] if re.fullmatch(r"[1-9][0-9]*(x[1-9][0-9]*)*", rest) else []
    right = (not rest or bool(sizes)) and math.prod(sizes) <= _MOST_NUMBERS
    if right and first.upper() in _PIXELS and len(sizes) in (0, 2) and not (fixed and len(sizes) == 0):
        width, height = sizes or (0, 0)
        if not fixed or "picture" in fixed:
            return {"payload": _PAYLOADS["picture"], "pixel": _PIXELS[first.upper()], "width": width, "height": height}
    if right and first.lower() in _DTYPES and len(sizes) <= _MOST_RANK and not (fixed and not sizes):
        return {"payload": _PAYLOADS["tensor"], "dtype": _DTYPES[first.lower()], "layout": NAMES["layouts"]["flat"],
                "dims": sizes}
    if not fixed and not rest and first in ("picture", "tensor", "packet"):
        return {"payload": _PAYLOADS[first]}
    examples = {"picture": "\"GRAY8 640x480\"", "tensor": "\"f32 3x224x224\""}
    if fixed:
        raise ValueError(f"\"{text}\" is no format with all sizes: write {' or '.join(examples[one] for one in fixed)} "
                         f"(at most {_MOST_RANK} sizes, {_MOST_NUMBERS} numbers)")
    raise ValueError(f"\"{text}\" is no format: write \"picture\", \"RGB24\", \"GRAY8 640x480\", \"tensor\" or "
                     f"\"f32 3x224x224\"")


def _definition(function: Callable[..., Any]) -> Tuple[str, str, str]:
    """The same for a function that is defined again: by a notebook's cell, whose file has another name each time, or
    by importlib.reload."""
    module = getattr(function, "__module__", None) or ""
    code = getattr(inspect.unwrap(function), "__code__", None)
    file = "" if module == "__main__" or code is None else code.co_filename
    return module, getattr(function, "__qualname__", ""), file


def _options(function: Callable[..., Any]) -> List[Tuple[bytes, int, Optional[bytes], bytes]]:
    """Parameters after the frames, which must have a type or a default, are options of the stage."""
    rows = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            raise TypeError(f"parameter {parameter.name}: options must be keyword-only, after *")
        given = parameter.default is not parameter.empty
        wanted = type(parameter.default) if given and parameter.annotation is parameter.empty else parameter.annotation
        kind = _KINDS.get(wanted)
        if kind is None:
            raise TypeError(f"parameter {parameter.name}: an option is a bool, an int, a float or a str")
        fallback = None
        if given:
            fallback = str(parameter.default).lower() if wanted in (bool, "bool") else str(parameter.default)
        rows.append((parameter.name.encode(), kind, None if fallback is None else fallback.encode(),
                     f"{parameter.name} of the function {function.__name__}".encode()))
    return rows


@overload
def stage(function: Function) -> Function: ...


@overload
def stage(*, name: Optional[str] = None, accepts: Union[None, str, Sequence[str]] = None, output: Optional[str] = None,
          tensors: Optional[Mapping[str, str]] = None, classes: Union[bool, Sequence[str]] = False,
          objects: Union[bool, Sequence[str]] = False, sink: bool = False,
          help: Optional[str] = None) -> Callable[[Function], Function]: ...


@overload
def stage(function: Function, *, name: Optional[str] = None, accepts: Union[None, str, Sequence[str]] = None,
          output: Optional[str] = None, tensors: Optional[Mapping[str, str]] = None,
          classes: Union[bool, Sequence[str]] = False, objects: Union[bool, Sequence[str]] = False, sink: bool = False,
          help: Optional[str] = None) -> Function: ...


def stage(function: Optional[Function] = None, *, name: Optional[str] = None,
          accepts: Union[None, str, Sequence[str]] = None, output: Optional[str] = None,
          tensors: Optional[Mapping[str, str]] = None, classes: Union[bool, Sequence[str]] = False,
          objects: Union[bool, Sequence[str]] = False, sink: bool = False, help: Optional[str] = None) -> Any:
    """Makes a stage type of a function over a list of frames. Use it before you open a pipeline that names the type.

        @millrace.stage(name="brightness", accepts="picture", tensors={"brightness": "f32 1"})
        def brightness(frames, *, step: int = 1):
            return [{"brightness": frame.planes[0][::step, ::step].mean()} for frame in frames]

    The function returns a list with one item for each frame, or None if all pass unchanged. An item is None or True
    (the frame passes), False (it is left out), a dict of results, or an array if the stage has an `output`.

    `accepts`: formats such as "picture", "RGB24" or "f32 3x224x224"; by default any. `output`: "same" if the function
    gives a picture or tensor like the input's, or a format; in a dict it has the key "output". `tensors`: names of
    arrays and their formats. `classes`, `objects`: True, or labels, if it gives such results. `sink`: it has no output.
    Parameters after `*` are options in YAML. If the same function is defined again, as by a notebook's cell, pipelines
    that are opened afterwards use the new one.

    This is the slow way: one thread at a time runs Python. `plan --profile` shows the cost."""
    if function is None:
        return lambda function: stage(function, name=name, accepts=accepts, output=output, tensors=tensors,
                                      classes=classes, objects=objects, sink=sink, help=help)
    if not callable(function):
        raise TypeError(f"a stage must be a function over a list of frames, not {type(function).__name__}")
    text = (inspect.getdoc(function) or "a function in Python").strip()
    labels = [] if isinstance(classes, bool) else list(classes)
    labels = labels or ([] if isinstance(objects, bool) else list(objects))
    formats = [accepts] if isinstance(accepts, str) else list(accepts or [])
    name = name or function.__name__
    definition = _definition(function)
    _core.add_stage({
        "name": name.encode(), "replaces": int(_definitions.get(name) == definition),
        "summary": text.splitlines()[0].rstrip(".").encode(),
        "help": (help or text).encode(), "accepts": [parse_format(one) for one in formats],
        "same": int(output == "same"),
        "output": None if output in (None, "same") else parse_format(str(output), ("picture", "tensor")),
        "tensors": [(key.encode(), parse_format(value, ("tensor",))) for key, value in (tensors or {}).items()],
        "classes": int(classes is not False), "objects": int(objects is not False), "sink": int(sink),
        "labels": [label.encode() for label in labels], "options": _options(function)}, function)
    _definitions[name] = definition
    return function
