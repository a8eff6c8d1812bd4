"""What the library finds through the environment."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
import sysconfig
from typing import List


def refuse_builds() -> None:
    """Raises where the module cannot work, before the loader does with other words."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError("millrace does not support free-threaded builds of Python: use a build with the global "
                          "interpreter lock")
    if sys.implementation.name != "cpython":
        raise ImportError(f"millrace is an extension module for CPython, and this is {sys.implementation.name}")


def explain(error: ImportError) -> ImportError:
    """The loader's error in other words, where it refuses the module itself (sub-interpreters, from Python 3.12)."""
    if "subinterpreter" in str(error):
        return ImportError("millrace works in the main interpreter alone, not in a sub-interpreter")
    return error


def find_onnxruntime() -> None:
    """Names the library in the package onnxruntime of this environment, unless the variable names another. Imports
    nothing."""
    if os.environ.get("MILLRACE_ONNXRUNTIME"):
        return
    try:
        found = importlib.util.find_spec("onnxruntime")
    except (ImportError, ValueError):
        found = None
    for folder in (found.submodule_search_locations or []) if found else []:
        for library in sorted(pathlib.Path(folder, "capi").glob("libonnxruntime.so*")):
            os.environ["MILLRACE_ONNXRUNTIME"] = str(library)
            return


def hook_folders() -> List[str]:
    """Where PyInstaller finds hook-millrace.py."""
    return [os.path.dirname(__file__)]
