"""The command millrace, as `python -m millrace`.

With `--stages FILE.py` (or a module's name) before the verb, the command knows the stages that the file defines, and
runs in this process."""

from __future__ import annotations

import importlib
import os
import pathlib
import runpy
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
    """The command that came with the module, or was installed with it, in PREFIX/bin beside PREFIX/lib.
    A script of that name may be this one."""
    folder = pathlib.Path(millrace.__file__).parent
    for program in (folder / "bin" / "millrace", *(one / "bin" / "millrace" for one in list(folder.parents)[3:4])):
        try:
            with program.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    return str(program)
        except OSError:
            pass
    return ""


def _refuse_nodes(arguments: List[str]) -> None:
    """The command would start itself again for each node, and it is not this interpreter."""
    if arguments[:1] != ["run"] or "--node" in arguments:
        return
    for path in arguments[1:]:
        if path.endswith((".yaml", ".yml")) and os.path.exists(path):
            try:
                nodes = millrace.plan(path, offline=True).nodes
            except millrace.Error:
                continue
            if nodes:
                print(f"millrace: error: {path}: --stages cannot start the nodes of a pipeline\n"
                      "    hint: start each with --node NAME", file=sys.stderr)
                sys.exit(64)


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
            why = str(error)
            if isinstance(error, OSError) and os.path.abspath(error.filename or "") == os.path.abspath(arguments[1]):
                why = os.strerror(error.errno or 0)
            print(f"millrace: error: --stages {arguments[1]}: {why}", file=sys.stderr)
            sys.exit(66)
        arguments, stages = arguments[2:], True
    if stages:
        _refuse_nodes(arguments)
    program = "" if stages else _program()
    if program:
        os.execv(program, [program, *arguments])
    sys.exit(_core.main([os.fsencode(one) for one in ["millrace", *arguments]]))


if __name__ == "__main__":
    main()
