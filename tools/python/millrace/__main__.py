"""The command millrace, as `python -m millrace`.

With `--stages FILE.py` (or a module's name) before the verb, the command knows the stages that the file defines, and
runs in this process."""

from __future__ import annotations

import importlib
import os
import pathlib
import runpy
import shutil
import sys
from typing import List, NoReturn

import millrace
from millrace import _core


def _load(name: str) -> None:
    if name.endswith(".py") or os.sep in name:
        sys.path.insert(0, str(pathlib.Path(name).resolve().parent))
        runpy.run_path(name, run_name="millrace_stages")
    else:
        sys.path.insert(0, "")
        importlib.import_module(name)


def _program() -> str:
    """The command that came with the module, or that is installed beside it."""
    own = pathlib.Path(millrace.__file__).parent / "bin" / "millrace"
    found = str(own) if own.exists() else os.environ.get("MILLRACE") or shutil.which("millrace", path=os.defpath)
    return found or ""


def main() -> NoReturn:
    """Runs the command with this process's arguments."""
    arguments: List[str] = sys.argv[1:]
    stages = False
    while arguments and arguments[0] == "--stages":
        if len(arguments) < 2:
            print("millrace: error: --stages needs a file or a module", file=sys.stderr)
            sys.exit(64)
        try:
            _load(arguments[1])
        except (ImportError, OSError) as error:
            print(f"millrace: error: --stages {arguments[1]}: {error}", file=sys.stderr)
            sys.exit(66)
        arguments, stages = arguments[2:], True
    program = "" if stages else _program()
    if program:
        os.execv(program, [program, *arguments])
    sys.exit(_core.main([os.fsencode(one) for one in ["millrace", *arguments]]))


if __name__ == "__main__":
    main()
