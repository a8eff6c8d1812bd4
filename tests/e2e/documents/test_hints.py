"""Follows every hint. Applies it to the file; the error is then gone. All other errors remain: otherwise they
followed from this one and should not have been reported."""
import json
import pathlib
import re
import shutil
import subprocess

import numpy
import onnx
import PIL.Image

import harness

WRONG = harness.ROOT / "tests/wrong"
WORD = r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[^\s,{}\[\]#"\':]+(?::[^\s,{}\[\]]+)*'


def check(paths, verb="check"):
    """Each file's diagnostics."""
    done = subprocess.run([harness.MILLRACE, verb, "--format", "json", *map(str, paths)], capture_output=True,
                          text=True, cwd=pathlib.Path(paths[0]).parent, timeout=harness.TIMEOUT)
    diagnostics = [one["diagnostics"] for one in json.loads(done.stdout)["files"]]
    for one in (one for file in diagnostics for one in file):
        one["message"] = re.sub(r"[^( ]*\.yaml:\d+:\d+", "PLACE", one["message"])
    return diagnostics


def value_at(text, at):
    """The end of the value that begins here: a word, or everything between brackets."""
    if text[at] in "[{":
        depth = 0
        for end in range(at, len(text)):
            depth += (text[end] in "[{") - (text[end] in "]}")
            if not depth:
                return end + 1
    word = re.match(WORD, text[at:])
    return at + word.end() if word else None


def entry_at(text, at):
    """The end of the "key: value" that begins here."""
    key = re.match(rf"({WORD}):[ \n]*", text[at:])
    return value_at(text, at + key.end()) if key else None


def without(text, at):
    """Removes "key: value" and the comma beside it."""
    end = entry_at(text, at)
    if end is None:
        return None
    after = re.match(r"\s*,\s*|\n", text[end:])
    if after:
        return text[:at] + text[end + after.end():]
    before = re.search(r",\s*$", text[:at])
    return (text[:before.start()] if before else text[:at]) + text[end:]


def add(text, at, entry):
    """Adds an entry to the map that begins here, or that the key here has; None if it is written differently."""
    opened = re.match(rf"(?:{WORD}:\s*)?\{{", text[at:])
    if opened:
        return text[:at + opened.end()] + entry + ", " + text[at + opened.end():]
    return text[:at] + entry + "\n" + text[at:] if at == 0 or text[at - 1] == "\n" else None


def rename(text, at, hint, message):
    """did you mean "X"?: replaces the name that the message quotes."""
    meant = re.fullmatch(r'did you mean "(.*)"\?', hint)
    named = meant and re.findall(r'"([^"]*)"', message)
    start = text.find(named[-1] if "found" in message else named[0], at) if named else -1
    if start < 0 or text[at:start].strip("'\"[ "):
        return None
    old = named[-1] if "found" in message else named[0]
    return text[:start] + meant[1] + text[start + len(old):]


def write(text, at, hint, message):
    """write KEY: VALUE, or write VALUE."""
    if message.endswith("is not a device"):
        return text[:at] + hint.split()[-1] + text[value_at(text, at):]
    said = re.match(r"write ([^;]*?)(?:;.*|, as in .*|: a fraction.*|, which .*|, or .*|, auto, .*)?$", hint)
    if not said:
        return None
    entry = re.fullmatch(rf"({WORD}): (.+)", said[1])
    if "unknown key" in message:
        end = entry_at(text, at)
        return text[:at] + said[1] + text[end:] if entry and end else None
    if re.search(r"expected|is not a device|unknown type", message):
        end = value_at(text, at)
        return text[:at] + (entry[2] if entry else said[1]) + text[end:] if end else None
    return None


def apply(text, one):
    """Applies the hint, if that needs no thought; otherwise None."""
    hint, message = one["hint"] or "", one["message"]
    if not one["line"]:
        return None
    at = sum(map(len, text.splitlines(True)[:one["line"] - 1])) + one["column"] - 1
    missing = re.fullmatch(r'add "(\w+)": .* such as (.*)', hint)
    if missing:
        return add(text, 0 if message.startswith("the pipeline") else at, f"{missing[1]}: {missing[2]}")
    limit = re.match(r"write (memory: \d+MiB),", hint)
    if limit:
        return re.sub(r"memory: \w+", limit[1], text, count=1)
    needless = re.search(r"unknown key|\.[a-z_]+: .* (frame at a time|with|says)", message)
    if re.match("remove (it$|it:|`[a-z_]+`)", hint) and needless:
        return without(text, at if "unknown key" in message else text.rfind(hint.split("`")[1], 0, at))
    return rename(text, at, hint, message) or write(text, at, hint, message)


class Hints(harness.Case):
    def variants(self, files):
        """Writes each file once for each error with an applicable hint: (name, error, all errors, new path)."""
        told = check(files)
        made = []
        for path, diagnostics in zip(files, told):
            errors = [one for one in diagnostics if one["severity"] == "error"]
            for number, one in enumerate(errors):
                text = apply(path.read_text(), one)
                if text is None:
                    continue
                new = self.folder / f"{path.stem}-{number}.yaml"
                new.write_text(text)
                made.append((path.name, one, errors, new))
        return made

    def held_to(self, files, at_least):
        made = self.variants(files)
        self.assertGreaterEqual(len(made), at_least)
        several = 0
        for (name, one, errors, new), after in zip(made, check([new for *_, new in made])):
            left = [other["message"] for other in after if other["severity"] == "error"]
            told = f"{name}: {one['message']}\n  hint: {one['hint']}\n{new.read_text()}\n" + "\n".join(left)
            self.assertNotIn(one["message"], left, told)
            for other in errors:
                several += other is not one
                if other is not one and other["message"] != one["message"]:
                    self.assertIn(other["message"], left, f"a follow-up: {other['message']}\n{told}")
        return several

    def test_refused_pipelines(self):
        """All of tests/wrong with readable text."""
        files = []
        for path in sorted(WRONG.glob("*/*.yaml")):
            if path.stat().st_size < 100000 and not re.search(rb"[\x00\x80-\xff]", path.read_bytes()):
                shutil.copy(path, self.folder)
                files.append(self.folder / path.name)
        self.assertGreater(self.held_to(files, 55), 90)

    def test_words_of_other_programs(self):
        """Several in one file: each is reported, and none because of another."""
        path = self.write("""\
version: 1
name: shop
num_threads: 2
sources:
  lobby: {location: lobby.mp4, framerate: 5, sync: true}
stages:
  decode: {input: lobby}
  preprocess: {input: decode, width: 224, scale: 1/255, color: BGR, interpolation: INTER_LINEAR, gpu-id: 0}
  infer: {input: preprocess, model-path: a.onnx, batch-size: 4}
  classify: {input: infer, labels-file: b.txt, topk: 3, conf: 0.5}
  results: {type: jsonl, input: classify, filename: out.jsonl}
""")
        self.assertGreater(self.held_to([path], 15), 100)


class Planned(harness.Case):
    """Errors that only the files reveal."""

    def refused(self, text, *expected, code=78, environment=None):
        path = self.write(text)
        done = self.millrace("plan", path, code=code, environment=environment)
        told = [line.replace(f"{self.folder}/", "") for line in done.stderr.splitlines()]
        self.assertEqual(told, list(expected), done.stderr)

    def stages(self, *lines):
        return ("version: 1\npipeline: p\nsources:\n  lobby: {uri: \"lavfi:testsrc=size=64x48:duration=1\"}\n"
                "stages:\n  decode: {input: lobby}\n" + "".join(f"  {line}\n" for line in lines))

    def any_size(self):
        """A model that accepts pictures of any size."""
        values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, "h", "w"]) for name in "xy"]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, self.folder / "any.onnx")

    def test_an_open_size_is_told_once(self):
        self.any_size()
        lines = ["preprocess: {input: decode%s}", "infer: {input: preprocess, model: any.onnx}",
                 "results: {type: jsonl, input: infer, tensors: true, path: out.jsonl}"]
        text = self.stages(*lines)
        self.refused(text % "", "pipeline.yaml:7:3: error: preprocess can give any tensor f32 3x?x? NCHW, and no stage "
                                "after it determines which", "    hint: write its size, as in size: 224x224")
        self.millrace("plan", self.write(text % ", size: 224x224"))

    def test_all_missing_files_are_told_at_once(self):
        hint = f"    hint: relative paths in a pipeline start in its folder, {self.folder}"
        why = "No such file or directory"
        text = self.stages("preprocess: {input: decode}", "features: {input: preprocess, model: a.onnx}",
                           "classify: {input: features, weights: b.npy, labels: c.txt}",
                           "results: {type: jsonl, input: classify, path: none/out.jsonl}").replace(
                               '"lavfi:testsrc=size=64x48:duration=1"', "a.mp4")
        done = self.millrace("plan", self.write(text), code=66)
        errors = [line.replace(f"{self.folder}/", "") for line in done.stderr.splitlines() if " error: " in line]
        self.assertEqual([error.split(": error: ")[0] for error in errors],
                         ["pipeline.yaml:4:16", "pipeline.yaml:8:40", "pipeline.yaml:9:40", "pipeline.yaml:9:55"],
                         done.stderr)
        self.assertFalse((self.folder / "none").exists())  # run makes the folder of results, plan writes nothing
        self.assertEqual(errors[1:4],
                         [f"pipeline.yaml:8:40: error: stages.features.model: cannot open a.onnx: {why}",
                          f"pipeline.yaml:9:40: error: stages.classify.weights: cannot open b.npy: {why}",
                          f"pipeline.yaml:9:55: error: stages.classify.labels: cannot open c.txt: {why}"])
        self.assertGreaterEqual(done.stderr.count(hint), 4)

    def test_models_of_the_demo(self):
        done = self.millrace("plan", harness.ROOT / "pipelines/classify-video.yaml", "--input",
                             "lavfi:testsrc=duration=1", "--set", "stages.features.model=/nowhere/lite0.onnx",
                             code=66, environment={"MODELS": "/nowhere"})
        self.assertEqual(done.stderr.count(" error: "), 1, done.stderr)
        self.assertEqual(done.stderr.count("hint: `tools/demo` makes the models"), 1, done.stderr)

    def test_defaults_of_variables(self):
        """An installed pipeline names a clip that is not installed with it."""
        clip = '"${MR_CLIP:-/nowhere/clip.mp4}"'
        text = self.stages("features: {input: decode, model: '${MR_MODEL:-/nowhere/a.onnx}'}",
                           "results: {type: jsonl, input: features, path: out.jsonl}").replace(
                               '"lavfi:testsrc=size=64x48:duration=1"', clip)
        hint = "    hint: MR_{0} is not set, so this is the pipeline's default: name your own file in MR_{0}"
        self.assertIn(clip, text)
        told = self.millrace("plan", self.write(text), code=66).stderr
        self.assertIn(hint.format("CLIP") + ", or with --input\n", told)
        self.assertIn(hint.format("MODEL") + "\n", told)
        told = self.millrace("plan", self.write(text), code=66, environment={"MR_CLIP": "/nowhere/b.mp4"}).stderr
        self.assertNotIn("MR_CLIP is not set", told)

    def test_names_of_models(self):
        """A name that no folder has is no path: the nearest one is named, and all that are there."""
        models = self.folder / "models"
        models.mkdir()
        for name in ("aardvark.onnx", "buffalo.onnx", "animals.txt"):
            (models / name).write_text("")
        environment = {"MILLRACE_MODELS": str(models), "MODELS": ""}
        pipeline = harness.ROOT / "pipelines/classify-video.yaml"
        done = self.millrace("plan", pipeline, "--input", "lavfi:testsrc=duration=1",
                             "--set", "stages.features.model=ardvark", "--set", "stages.classify.labels=plants",
                             code=66, environment=environment)
        self.assertRegex(done.stderr, 'error: stages.features.model: there is no "ardvark" here, neither a file nor a '
                                      "model's name\n    hint: did you mean \"aardvark\"\\? `millrace models` lists ")
        self.assertRegex(done.stderr, 'stages.classify.labels: there is no "plants" here.*\n    hint: here are .*anim'
                                      "als.*; `millrace models` lists those that `millrace models get` makes")
        # A path that is in no folder of pipelines, but as a name in one of models.
        done = self.millrace("plan", pipeline, "--input", "lavfi:testsrc=duration=1",
                             "--set", "stages.classify.labels=animals.txt", code=66, environment=environment)
        self.assertIn(f"hint: write labels: animals, without the ending, for {models}/animals.txt\n", done.stderr)
        # `check` opens no models.
        self.millrace("check", pipeline, environment=environment)

    def test_a_file_comes_before_a_name(self):
        """Names are words without an ending; a file of that name is taken as it was before."""
        (self.folder / "imagenet").write_text("own\n" * 1000)
        (self.folder / "models").mkdir()
        (self.folder / "models/imagenet.txt").write_text("other\n" * 1000)
        text = self.stages("hog: {input: decode, size: 128x128}",
                           "classify: {input: hog, weights: w.npy, labels: imagenet}",
                           "results: {type: jsonl, input: classify, path: out.jsonl}")
        numpy.save(self.folder / "w.npy", numpy.zeros((1000, 8101), numpy.float32))
        for name, label in (("imagenet", "own"), ("gone", "other")):
            path = self.write(text)
            self.millrace("run", path, environment={"MILLRACE_MODELS": str(self.folder / "models")})
            self.assertIn(f'"label":"{label}"', (self.folder / "out.jsonl").read_text())
            (self.folder / "imagenet").unlink(missing_ok=True)

    def test_the_wrong_file_of_two_is_named(self):
        """Weights without a bias column are wrong, not the labels. Errors in both are reported."""
        numpy.save(self.folder / "w.npy", numpy.zeros((2, 3780), numpy.float32))
        (self.folder / "two.txt").write_text("a\nb\n")
        line = "classify: {input: hog, weights: w.npy, labels: %s}"
        text = self.stages("hog: {input: decode}", line, "results: {type: jsonl, input: classify, path: out.jsonl}")
        self.refused(text % "two.txt",
                     f"pipeline.yaml:8:35: error: stages.classify: w.npy is 2x3780, for vectors of 3779 numbers and a "
                     f"bias, but hog gives 3780")
        (self.folder / "w.npy").write_bytes(b"nothing")
        (self.folder / "two.txt").write_bytes(b"a\n\xff\n")
        done = harness.call([harness.MILLRACE, "plan", self.write(text % "two.txt")])
        self.assertEqual([line.split(":")[1:3] for line in done.stderr.splitlines() if " error: " in line],
                         [["8", "35"], ["8", "50"]], done.stderr)

    def test_pictures_that_are_too_large_are_not_damaged(self):
        for name, size in (("a.png", (300, 200)), ("b.jpg", (300, 200)), ("c.png", (30, 20))):
            PIL.Image.new("RGB", size).save(self.folder / name)
        text = self.stages("results: {type: jsonl, input: decode, path: out.jsonl}").replace(
            '"lavfi:testsrc=size=64x48:duration=1"', "'*.*g'").replace("input: lobby}",
                                                                       "input: lobby, max_pixels: 10000}")
        done = self.millrace("run", self.write(text), "--log", "info")
        for name in ("a.png", "b.jpg"):
            self.assertRegex(done.stderr, rf"{name} is 300x200, larger than max_pixels \(10000\) allows: raise "
                                          r"max_pixels of decode\n")
        self.assertNotIn("damaged", done.stderr)
        self.assertEqual(len((self.folder / "out.jsonl").read_text().splitlines()), 1)
        raised = harness.call([harness.MILLRACE, "run", self.folder / "pipeline.yaml", "--set",
                               "stages.decode.max_pixels=60000"])
        self.assertEqual((raised.returncode, raised.stderr), (0, ""))
        self.assertEqual(len((self.folder / "out.jsonl").read_text().splitlines()), 3)

    def test_what_is_on_several_devices_is_said_to_be(self):
        """The text below `plan`'s table agrees with the table."""
        text = self.stages("hog: {input: decode, device: ['sim:0', 'sim:1']}",
                           "classify: {input: hog, device: auto}",
                           "results: {type: jsonl, input: classify, path: out.jsonl}")
        done = self.millrace("plan", self.write(text))
        self.assertRegex(done.stdout, r"\n  classify +classify +1  sim:0 sim:1 ")
        self.assertIn("\n  classify is on sim:0, sim:1: the same as hog, so that nothing is copied", done.stdout)

    def test_assumed_for_nothing(self):
        text = self.stages("preprocess: {input: decode, size: 64x64%s}",
                           "results: {type: 'null', input: preprocess}")
        told = "--assume: warning: no stage uses a device that is assumed"
        for device, expected in (("", True), (", device: auto", False)):
            done = self.millrace("plan", self.write(text % device), "--assume", "cuda:1x8GiB")
            self.assertEqual(told in done.stderr, expected, done.stderr)

    def test_a_limit_of_memory_names_what_helps(self):
        """The pipeline fits with the hint applied; the hint does not save less than is missing."""
        text = self.stages("preprocess: {input: decode, size: 640x640}",
                           "results: {type: 'null', input: preprocess}").replace(
                               "stages:", "devices: {cpu: {memory: 1MiB}}\nstages:")
        done = self.millrace("plan", self.write(text), code=78)
        limit = re.search(r"hint: write (memory: \d+MiB), or make pictures smaller", done.stderr)
        self.millrace("plan", self.write(text.replace("memory: 1MiB", limit[1])))

    def test_endings_that_do_not_suit_their_sink(self):
        text = self.stages("results: {type: %s, input: decode, path: %s}")
        for sink, path, meant in (("jsonl", "x.csv", "csv"), ("csv", "x.jsonl", "jsonl"), ("csv", "x.json", "jsonl"),
                                  ("jsonl", "x.png", "images"), ("jsonl", "x.json", None), ("jsonl", "x.jsonl", None),
                                  ("csv", "x.csv", None), ("csv", "x.txt", None), ("jsonl", "v1.2/x", None)):
            with self.subTest(sink=sink, path=path):
                done = self.millrace("check", self.write(text % (sink, path)))
                self.assertEqual(f"hint: write type: {meant}" in done.stderr, meant is not None, done.stderr)
                given = harness.call([harness.MILLRACE, "check", self.write(text % (sink, "y")), "--output", path])
                self.assertEqual("--output " in given.stderr, meant is not None, given.stderr)

    def test_paths_that_only_a_shell_understands(self):
        for path, words in (("$HOME/none.mp4", 'hint: write "${HOME}/none.mp4"'),
                            ("~/none.mp4", 'write "${HOME}/none.mp4"')):
            with self.subTest(path):
                text = self.stages("results: {type: jsonl, input: decode, path: out.jsonl}").replace(
                    '"lavfi:testsrc=size=64x48:duration=1"', f'"{path}"')
                self.millrace("plan", self.write(text), code=66, says=words)
