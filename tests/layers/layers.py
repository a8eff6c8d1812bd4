"""Checks the layers in the code: which folder may include which, and that folders have few files. No circle of includes
may cross folders.

A file depends on each file that it includes. A header depends on each source that defines a function which the header
declares, so whoever includes the header depends on those sources. Every folder may include public headers; these
includes do not count as a layer. There are no exceptions."""
import collections
import pathlib
import re
import sys
import unittest

from reach import Reach, module_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLIC = "engine/include/millrace"
TOPS = ("engine", "kernels", "pipelines", "proto", "stages", "tests", "tools")
MOST_FILES = 40     # in one folder
MOST_IN_CIRCLE = 8  # files in one folder that depend on each other
MOST_MODULES = 4    # that depend on each other; a module is a .c with its .h
MOST_FIELDS = 25    # in one struct in the flow engine or the plan

# Structs in the flow engine whose fields other modules use, with the number of these modules. Modules pass such records
# to each other. Only its own module may use any other struct. A number may only decrease.
SHARED_STRUCTS = {
    "mr_cut_tally": 1, "mr_entry_task": 12, "mr_instance": 20, "mr_io": 5, "mr_route": 1, "mr_run": 20,
    "mr_run_times": 1, "mr_slot": 10, "mr_slot_input": 4, "mr_slot_output": 3,
}
LARGER_STRUCTS = {"mr_executor": 36, "mr_cut": 31, "mr_plan": 28, "mr_plan_view": 39}

# The folders that each folder may include, besides itself and the public headers. A folder must come after all that it
# includes. The command only includes public headers, as any other program must, engine/base (with find) and
# engine/serve. If the library is shared, the command links a copy of these.
LAYERS = """
engine/base:
engine/base/log: engine/base
engine/base/huge: engine/base
engine/base/find:
engine/text: engine/base engine/base/find
engine/device/probe: engine/base
engine/device: engine/base engine/device/probe
engine/device/sim: engine/base engine/device
engine/device/cuda: engine/base engine/device engine/device/probe
engine/device/open: engine/base engine/device engine/device/probe engine/device/sim engine/device/cuda
engine/data: engine/base engine/base/huge engine/device
engine/observe: engine/base
engine/serve: engine/base
engine/transport: engine/data
engine/transport/wire: engine/base engine/data engine/transport
engine/transport/zmq: engine/base engine/base/log engine/observe engine/transport/wire
engine/spec: engine/base engine/base/find engine/data engine/device engine/device/sim engine/device/open engine/serve
    engine/text
    engine/transport/zmq
engine/plan: engine/base engine/device engine/device/sim engine/text engine/spec
engine/planner/graph: engine/base engine/text engine/spec engine/plan
engine/planner: engine/base engine/data engine/device engine/device/sim engine/device/open engine/text engine/spec
    engine/plan engine/planner/graph
engine/flow/executor: engine/base engine/device
engine/flow/ledger: engine/base engine/data engine/observe
engine/flow/link: engine/base engine/data engine/observe engine/plan engine/flow/executor engine/flow/ledger
engine/flow/run: engine/base engine/data engine/device engine/observe engine/plan engine/text engine/flow/executor
    engine/flow/ledger
engine/flow/instance: engine/base engine/data engine/device engine/observe engine/plan engine/flow/executor
    engine/flow/ledger engine/flow/link engine/flow/run
engine/flow: engine/base engine/base/log engine/data engine/device engine/device/open engine/observe engine/text
    engine/plan engine/flow/executor engine/flow/ledger engine/flow/link engine/flow/run engine/flow/instance
engine/transport/session: engine/base engine/data engine/transport
engine/transport/shm: engine/base engine/data engine/transport/wire
engine/transport/cut: engine/base engine/data engine/observe engine/plan engine/flow engine/flow/instance
    engine/flow/ledger engine/flow/link engine/flow/run engine/transport engine/transport/session engine/transport/wire
    engine/transport/shm engine/transport/zmq
engine/pipeline: engine/base engine/data engine/text engine/spec engine/plan engine/planner engine/flow
    engine/flow/executor engine/flow/link engine/flow/run engine/transport/cut engine/transport/zmq
kernels: engine/base
kernels/preprocess: engine/base engine/device engine/device/cuda kernels
kernels/classical: engine/base engine/device/cuda kernels
kernels/vector: engine/base engine/base/find engine/device/cuda kernels
kernels/ceiling: engine/device/cuda kernels
kernels/fit: engine/base kernels
kernels/jpeg: kernels
kernels/metrics: engine/base kernels
kernels/paint: engine/device/cuda kernels
kernels/plane:
kernels/text: kernels kernels/plane
kernels/detect: engine/device/cuda kernels kernels/text
kernels/blur: engine/device/cuda kernels
stages: engine/base engine/device engine/text
stages/model/onnx: engine/base
stages/model: engine/base engine/base/find engine/base/huge engine/device engine/device/cuda kernels/detect
    kernels/vector stages stages/model/onnx
stages/objects: engine/base engine/device kernels/blur kernels/detect kernels/metrics kernels/vector stages
    stages/model
stages/sketch: engine/base kernels/paint kernels/preprocess
stages/draw: engine/base engine/device kernels/paint stages stages/objects stages/sketch
stages/objects/zones: engine/base kernels/plane stages stages/objects
stages/objects/cascade: engine/base stages stages/objects
stages/text: engine/base kernels/plane kernels/text stages stages/model stages/model/onnx stages/objects
stages/model/export: engine/base kernels/vector stages/model stages/model/onnx
stages/train: engine/base engine/device kernels kernels/fit kernels/metrics
    kernels/vector stages/model
stages/media/coded: engine/base
stages/media/ts: engine/base
stages/media/index: engine/base
stages/media/still: engine/base
stages/media: engine/base engine/device engine/device/cuda kernels/paint stages stages/media/coded
    stages/media/index stages/media/still stages/media/ts stages/sketch
stages/live/web: engine/base stages stages/media
stages/live/mjpeg: engine/base stages/live/web
stages/live/connection: engine/base stages/media stages/live/web
stages/live/rtsp: engine/base stages/media stages/media/coded stages/live/connection
stages/live/rtmp: engine/base stages/live/connection
stages/live: engine/base stages stages/media stages/media/coded stages/media/ts stages/live/mjpeg stages/live/rtmp
    stages/live/web stages/live/connection stages/live/rtsp
stages/source: engine/base stages stages/media stages/media/still stages/live
stages/decode/device: engine/base engine/data engine/device engine/device/open engine/device/probe engine/device/cuda
    stages/media
stages/decode/jpeg: kernels/jpeg engine/base
stages/decode: engine/base stages stages/media stages/media/coded stages/media/still
    stages/decode/device stages/decode/jpeg
stages/encode: engine/base engine/device stages stages/media
stages/image: engine/base engine/device kernels/preprocess kernels/classical stages
stages/sink: engine/base engine/data stages stages/media stages/media/still stages/objects
stages/deliver: engine/base engine/serve stages stages/live/connection stages/sink
stages/preview: engine/base engine/serve stages stages/media stages/media/still stages/sink
stages/video: engine/base stages stages/media stages/media/coded stages/live/rtmp stages/sink
stages/operations: engine/base engine/device engine/device/open engine/device/probe engine/device/cuda
    engine/device/sim kernels/blur kernels/preprocess kernels/classical kernels/detect kernels/paint kernels/vector
    kernels/ceiling
    stages/model stages/model/onnx
    stages/media stages/encode stages/decode/device
stages/zmq: engine/base engine/text engine/transport/zmq stages stages/media stages/media/still stages/sink
tools/millrace/cli: engine/base
tools/millrace/summary: engine/base tools/millrace/cli
tools/millrace/otlp: engine/base engine/serve
tools/millrace/http: engine/base engine/serve tools/millrace/cli tools/millrace/summary tools/millrace/otlp
tools/millrace/hub: engine/base engine/serve tools/millrace/cli tools/millrace/otlp tools/millrace/http
tools/millrace/models: engine/base engine/base/find tools/millrace/cli
tools/millrace/run: engine/base tools/millrace/cli tools/millrace/summary tools/millrace/otlp tools/millrace/http
    tools/millrace/hub tools/millrace/models
tools/millrace/ctl: engine/base tools/millrace/cli tools/millrace/summary tools/millrace/run
tools/millrace/plan: engine/base tools/millrace/cli tools/millrace/run tools/millrace/http tools/millrace/models
tools/millrace/graph: engine/base tools/millrace/cli
tools/millrace/verify: engine/base tools/millrace/cli tools/millrace/run
tools/millrace/objects: engine/base tools/millrace/cli tools/millrace/run
tools/millrace/train: engine/base tools/millrace/cli tools/millrace/run tools/millrace/objects
tools/millrace/deploy: engine/base engine/base/find tools/millrace/cli tools/millrace/run
tools/millrace/submit: engine/base tools/millrace/cli tools/millrace/deploy
tools/millrace/devices: engine/base tools/millrace/cli tools/millrace/plan
tools/millrace/inspect: engine/base engine/base/find tools/millrace/cli
tools/millrace/bench: engine/base tools/millrace/cli
tools/millrace/help: engine/base tools/millrace/cli
"""


def layers():
    """Returns {folder: the folders that it may include}, in the order of LAYERS."""
    lines = re.sub(r"\n    +", " ", LAYERS.strip()).splitlines()
    return {folder: set(allowed.split()) for folder, allowed in (line.split(":") for line in lines)}


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def types_of(text):
    """Returns the structs, unions and enums that a text defines, by tag, or by name if there is no tag."""
    return (re.findall(r"\b(?:struct|union|enum) (mr_\w+) \{", text) +
            re.findall(r"typedef (?:struct|union|enum) \{[^}]*\} (mr_\w+);", text))


class Code:
    """All files, with their includes and the sources that implement each header."""

    def __init__(self):
        folders = [ROOT / top for top in ("engine", "stages", "kernels", "tools/millrace")]
        paths = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".c", ".h", ".cu"))
        self.text = {str(path.relative_to(ROOT)): strip_comments(path.read_text()) for path in paths}
        self.includes = {name: self.included(text) for name, text in self.text.items()}
        self.implemented = self.implementations()

    def included(self, text):
        named = re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', text, re.M)
        found = (name if name in self.text else f"engine/include/{name}" for name in named)
        return {name for name in found if name in self.text}

    def implementations(self):
        """Returns {header: sources that include it and define a function which it declares}."""
        declared, defined = collections.defaultdict(set), collections.defaultdict(set)
        for name, text in self.text.items():
            header = name.endswith(".h")
            end = r"[^;{}]*;" if header else r"\s*\{"
            pattern = r"^(?!static|typedef)[a-z_]\w*[^;{}()=#]*?\b(\w+)\([^;{}]*\)" + end
            (declared if header else defined)[name].update(re.findall(pattern, text, re.M))
        by_function = collections.defaultdict(set)
        for name, functions in defined.items():
            for function in functions:
                by_function[function].add(name)
        return {header: {source for function in functions for source in by_function[function]
                         if header in self.seen_by(source)}
                for header, functions in declared.items() if not header.startswith(PUBLIC)}

    def seen_by(self, name):
        """Returns all files that a file includes, directly or indirectly."""
        found, left = set(), [name]
        while left:
            new = self.includes[left.pop()] - found
            found |= new
            left += new
        return found

    def arrows(self):
        return {name: self.includes[name] | self.implemented.get(name, set()) for name in self.text}


def folder_of(name):
    return name.rpartition("/")[0]


def circles(arrows):
    """Returns strongly connected components with more than one vertex (Tarjan 1972, without recursion)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in sorted(arrows):
        if start in index:
            continue
        work = [(start, iter(sorted(arrows[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            name, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    cut = stack.index(name)
                    component, stack = stack[cut:], stack[:cut]
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        found.append(sorted(component))
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(sorted(arrows[following]))))
            elif following in on_stack:
                low[name] = min(low[name], index[following])
    return sorted(found)


def over(counts, limits, limit):
    """Returns the counts above their limits. A name without an entry in `limits` has `limit`."""
    return {name: count for name, count in counts.items() if count > limits.get(name, limit)}


def guard_of(name):
    """Returns a header's include guard: the path, without engine/, and without the folder if the header is public."""
    if name == f"{PUBLIC}/millrace.h":
        return "MILLRACE_H"
    short = re.sub(r"^(engine/(include/millrace/)?|tools/(?=millrace/))", "", name)
    short = re.sub(r"^millrace/", "tools/", short)
    return "MILLRACE_" + re.sub(r"[^A-Z0-9]", "_", short.upper())


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.code = Code()
        cls.layers = layers()

    def test_the_layers_have_no_circle(self):
        before = set()
        for folder, allowed in self.layers.items():
            self.assertLessEqual(allowed, before, f"{folder} may include a folder that stands behind it in LAYERS")
            before.add(folder)

    def test_every_folder_is_in_a_layer(self):
        folders = {folder_of(name) for name in self.code.text} - {PUBLIC}
        self.assertEqual(folders, set(self.layers), "LAYERS names exactly the folders that there are")

    def test_the_command_stands_on_public_headers(self):
        for folder, allowed in self.layers.items():
            if folder.startswith("tools/"):
                private = {other for other in allowed if not other.startswith("tools/")}
                self.assertEqual(private - {"engine/serve", "engine/base/find"}, {"engine/base"},
                                 f"private folders that {folder} may include")

    def test_folders_include_what_they_may(self):
        found = []
        for name, included in self.code.includes.items():
            folder = folder_of(name)
            for other in included:
                if folder == PUBLIC and folder_of(other) != PUBLIC:
                    found.append(f"{name} -> {other}")
                elif folder != PUBLIC and folder_of(other) not in self.layers[folder] | {folder, PUBLIC}:
                    found.append(f"{name} -> {other}")
        self.assertEqual(sorted(found), [], "includes that LAYERS does not allow")

    def test_folders_are_small(self):
        counts = collections.Counter(path.parent.relative_to(ROOT) for top in TOPS for path in (ROOT / top).rglob("*")
                                     if path.is_file() and "__pycache__" not in path.parts)
        self.assertGreater(len(counts), 60)
        for folder, count in counts.items():
            self.assertLessEqual(count, MOST_FILES, f"files in {folder}")

    def test_circles_are_small(self):
        for circle in circles(self.code.arrows()):
            across = len({folder_of(name) for name in circle}) > 1
            self.assertFalse(across, f"files of several folders depend on each other: {' '.join(circle)}")
            self.assertLessEqual(len(circle), MOST_IN_CIRCLE, f"files that depend on each other: {' '.join(circle)}")

    def test_modules_do_not_depend_on_each_other(self):
        arrows = collections.defaultdict(set)
        for name, others in self.code.arrows().items():
            arrows[module_of(name)] |= {module_of(other) for other in others} - {module_of(name)}
        largest = collections.Counter()
        for circle in circles(arrows):
            folder = folder_of(circle[0])
            largest[folder] = max(largest[folder], len(circle))
        self.assertEqual(over(largest, {}, MOST_MODULES), {},
                         "folders with modules that depend on each other, and how many")

    def test_modules_keep_their_structs(self):
        texts = {name: text for name, text in self.code.text.items() if name.startswith("engine/")}
        reach, found = Reach(texts), {}
        for tag, modules in reach.reached().items():
            where = reach.defined[tag]
            others = set(modules) - {module_of(where)}
            if where.startswith(("engine/flow/run/", "engine/flow/instance/")):
                found[tag] = len(others)
        self.assertGreater(len(found), 30)
        self.assertEqual(over(found, SHARED_STRUCTS, 0), {}, "structs, and how many other modules reach into them")
        large = {tag: len(fields) for tag, fields in reach.fields.items()
                 if reach.defined[tag].startswith(("engine/flow/", "engine/plan/", f"{PUBLIC}/plan.h"))}
        self.assertEqual(over(large, LARGER_STRUCTS, MOST_FIELDS), {}, "structs with too many fields")

    def test_no_name_twice(self):
        names = collections.Counter((name.partition("/")[0], name.rpartition("/")[2]) for name in self.code.text)
        self.assertEqual([name for name, count in names.items() if count > 1], [], "basenames that a folder has twice")

    def test_no_type_twice(self):
        types = collections.Counter(found for text in self.code.text.values() for found in set(types_of(text)))
        self.assertGreater(len(types), 500)
        self.assertEqual([name for name, count in types.items() if count > 1], [], "types that are defined twice")

    def test_headers_are_guarded(self):
        """A private header must have `#pragma once`. A public header, which other compilers read, needs a guard named
        by path."""
        wrong, headers = [], 0
        for path in (path for top in TOPS for path in (ROOT / top).rglob("*.h")):
            name, text = str(path.relative_to(ROOT)), path.read_text()
            found = re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M)
            if name.startswith("tests/cuda_host/"):  # these replace third-party headers
                continue
            headers += 1
            if found and found[1] != guard_of(name):
                wrong.append(f"{name}: {found[1]} in place of {guard_of(name)}")
            if bool(found) != name.startswith(PUBLIC) or (not found and not re.search(r"^#pragma once$", text, re.M)):
                wrong.append(f"{name}: has another guard, or none")
        self.assertGreater(headers, 200)
        self.assertEqual(wrong, [])


class Detectors(unittest.TestCase):
    """The checks must find what they look for: types, guards, circles, uses and includes."""

    def test_types_are_found(self):
        self.assertEqual(types_of("struct mr_a {\n};\ntypedef struct mr_b mr_b;\ntypedef enum { X } mr_c;\n"
                                  "typedef struct mr_d {\n    int x;\n} mr_d;\nstruct mr_a *f(struct mr_b b);\n"),
                         ["mr_a", "mr_d", "mr_c"])

    def test_guards_of_paths(self):
        self.assertEqual(guard_of("engine/transport/wire/wire.h"), "MILLRACE_TRANSPORT_WIRE_WIRE_H")
        self.assertEqual(guard_of("engine/include/millrace/frame.h"), "MILLRACE_FRAME_H")
        self.assertEqual(guard_of("tools/millrace/cli/table.h"), "MILLRACE_TOOLS_CLI_TABLE_H")
        self.assertEqual(guard_of("engine/include/millrace/millrace.h"), "MILLRACE_H")

    def test_circles_are_found(self):
        self.assertEqual(circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}),
                         [["a", "b", "c"], ["d", "e"]])
        self.assertEqual(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}), [])

    def test_reach_is_found(self):
        reach = Reach({"a/one.h": "typedef struct mr_one {\n    int x, *y;\n    struct mr_two *two;\n} mr_one;\n",
                       "a/two.h": "typedef struct mr_two {\n    mr_one one[2];\n} mr_two;\n",
                       "a/one.c": "int f(mr_one *a) {\n    return a->x + a->two->one[1].y[0];\n}\n",
                       "b/other.c": "static int g(mr_two b) {\n    int x = b.one[0].x;\n    return x;\n}\n"})
        self.assertEqual(reach.fields["mr_one"], {"x": "int", "y": "int", "two": "mr_two"})
        self.assertEqual(reach.reached(), {"mr_one": {"a/one": 3, "b/other": 1}, "mr_two": {"a/one": 1, "b/other": 1}})

    def test_arrows_are_found(self):
        code = Code()
        self.assertIn("engine/transport/session/sender_send.c", code.arrows()["engine/transport/session/sender.h"])
        self.assertIn("engine/base/memory.h", code.arrows()["engine/transport/wire/wire_read.c"])
        self.assertNotIn("x.h", code.included('/* not */ #include "x.h"\n#include <stdio.h>\n'))


if __name__ == "__main__":
    sys.exit(unittest.main())
