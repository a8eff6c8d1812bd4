"""The wheel that tools/wheel makes: the same bytes twice, no libraries needed but those that every Linux has, and it
works in an empty environment of each Python that is here."""
import collections
import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from harness import MILLRACE, ROOT, SAMPLES, VERSION, Case, call

BUILD = pathlib.Path(MILLRACE).parent
RELEASE = os.environ.get("MILLRACE_RELEASE")
CUDA = bool(RELEASE and list(pathlib.Path(RELEASE).glob("millrace-*+cuda-*.whl")))
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|resolv|util|z|gcc_s|stdc\+\+)\.so\.\d|ld-linux")
PROGRAM = """
import millrace
text = '''version: 1
pipeline: p
sources:
  v: {uri: "CLIP"}
stages:
  decode: {input: v}
  even: {input: decode}
  answers: {type: callback, input: even}
'''
@millrace.stage
def even(frames):
    return [frame.seq % 2 == 0 for frame in frames]
print(sum(1 for frame in millrace.run(text=text)))
if "HEIC":
    (picture,) = millrace.run(text=text.replace("CLIP", "HEIC"))
    assert "millrace.libs/libheif.so" in open("/proc/self/maps").read()
try:
    list(millrace.run(text=text.replace("CLIP", "lavfi:testsrc")))
except millrace.Error as error:
    print(error)
"""

# Kernels of all kinds. Arguments: where files go, and modules to import first.
KERNELS = """
import sys
for name in sys.argv[2:]:
    __import__(name)
import millrace
text = '''version: 1
pipeline: p
sources:
  v: {uri: "CLIP", duration: 200ms}
stages:
  decode: {input: v}
  sharpness: {input: decode}
  phash: {input: sharpness}
  small: {type: preprocess, input: phash, size: 61x47, interpolation: area, mean: 127, std: 128}
  pixels: {type: jsonl, input: small, features: true, tensors: true, path: "OUT-pixels"}
  hog: {input: phash, size: 64x64}
  edges: {type: jsonl, input: hog, features: true, path: "OUT-edges"}
  answers: {type: callback, input: phash}
'''.replace("OUT", sys.argv[1])
assert sum(1 for frame in millrace.run(text=text)) > 2
if "cv2" in sys.modules:
    import av
    import cv2
    assert cv2.VideoCapture("CLIP").read()[0] and next(av.open("CLIP").decode(video=0))
"""


class ForGpus(Case):
    """The wheel for GPUs has a version that pip and people can tell from the other's, ONNX Runtime for GPUs as the
    package that it asks for, and kernels for more GPUs than the machine's that makes it."""

    def test_versions(self):
        packer, tree, made = ROOT / "tools/python/wheel.py", self.folder / "tree", self.folder / "made"
        (tree / "millrace").mkdir(parents=True)
        (tree / "millrace/__init__.py").touch()
        gpu = platform.machine() == "x86_64"
        for mark, runtime in (([], "onnxruntime"),
                              (["+cuda"], "onnxruntime-gpu[cuda,cudnn]" if gpu else "onnxruntime")):
            done = call([sys.executable, packer, "pack", ROOT, tree, made, *mark])
            self.assertEqual(done.returncode, 0, done.stderr)
            wheel, version = pathlib.Path(done.stdout.strip()), "".join([VERSION, *mark])
            self.assertTrue(wheel.name.startswith(f"millrace-{version}-cp39-"), wheel.name)
            with zipfile.ZipFile(wheel) as files:
                told = files.read(f"millrace-{version}.dist-info/METADATA").decode()
            self.assertIn(f"\nVersion: {version}\n", told)
            self.assertIn(f'\nRequires-Dist: {runtime} ; extra == "onnx"\n', told)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-index", "--find-links", made, "--no-deps"]
        for asked in ("millrace", f"millrace=={VERSION}", f"millrace=={VERSION}+cuda"):
            done = call([*pip, "-d", self.folder / asked, asked])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([one.name for one in (self.folder / asked).iterdir()], [wheel.name])

    @unittest.skipUnless(importlib.util.find_spec("auditwheel"), "no auditwheel (tools/test installs it)")
    def test_how_it_is_built(self):
        """cmake compiles for the GPUs that CMakeLists.txt lists, whatever an earlier build has kept."""
        (self.folder / "bin").mkdir()
        cmake = self.write('#!/bin/sh\nprintf "%s\\n" "$@" >"$TOLD"\nexit 1\n', "bin/cmake")
        cmake.chmod(0o755)
        for words, cuda in (([], "OFF"), (["--cuda"], "ON")):
            done = call([ROOT / "tools/wheel", *words, "--output", self.folder], environment={
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "TOLD": str(self.folder / "told")})
            self.assertEqual(done.returncode, 69, done.stderr)
            told = (self.folder / "told").read_text().splitlines()
            self.assertIn(f"-DMILLRACE_CUDA={cuda}", told)
            kept = [word for word in told if "MILLRACE_CUDA_ARCHITECTURES" in word]
            self.assertEqual(kept[-1], "-UMILLRACE_CUDA_ARCHITECTURES")


class Wheel(Case):
    made = None

    def setUp(self):
        if not (BUILD / "libmillrace.a").exists() or not list(BUILD.glob("python/millrace/_core*.so")):
            self.skipTest("no static build with the module")
        if not importlib.util.find_spec("auditwheel"):
            self.skipTest("no auditwheel (tools/test installs it)")
        super().setUp()

    def make(self, folder):
        done = call([ROOT / "tools/wheel", "--built", BUILD, "--output", folder])
        self.assertEqual(done.returncode, 0, done.stderr)
        (wheel,) = folder.glob("*.whl")
        return wheel

    def wheel(self):
        """That of the release under test, or else one that both cases share."""
        if RELEASE:
            return next(pathlib.Path(RELEASE).glob("*.whl"))
        if not Wheel.made:
            folder = tempfile.TemporaryDirectory()
            self.addClassCleanup(folder.cleanup)
            Wheel.made = self.make(pathlib.Path(folder.name))
        return Wheel.made

    @unittest.skipIf(RELEASE, "a release has one wheel; tools/release --check makes it twice")
    def test_the_same_bytes_twice(self):
        self.assertEqual(self.wheel().read_bytes(), self.make(self.folder / "two").read_bytes())

    def test_the_wheel(self):
        wheel = self.wheel()
        self.assertRegex(wheel.name, rf"^millrace-{VERSION}{'[+]cuda' if CUDA else ''}-cp39-abi3-manylinux_2_\d+_"
                                     r"(x86_64|aarch64)\.whl$")
        self.assertLess(wheel.stat().st_size, 100 << 20)
        unpacked = self.folder / "unpacked"
        with zipfile.ZipFile(wheel) as files:
            files.extractall(unpacked)
        have = {path.name for path in unpacked.glob("millrace.libs/*")}
        for path in (*unpacked.glob("millrace.libs/*"), unpacked / "millrace/_core.abi3.so",
                     unpacked / "millrace/bin/millrace"):
            told = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
            for needed in re.findall(r"NEEDED.*\[(.*)\]", told):
                self.assertTrue(needed in have or SYSTEM.match(needed), f"{path.name} needs {needed}")
            if path.name.startswith("_core"):
                symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True).stdout
                self.assertEqual(re.findall(r" T (\w+)", symbols), ["PyInit__core"])
        self.licences(unpacked)
        self.install(wheel)
        self.two_versions(unpacked)

    def licences(self, unpacked):
        """The metadata does not say MIT alone, and there is a text for each Debian package with a bundled library. The
        list of packages has them, too."""
        (info,) = unpacked.glob("*.dist-info")
        self.assertRegex((info / "METADATA").read_text(), r"\nLicense: MIT .*GPL-2.0-or-later")
        texts = {path.parent.name: path.read_text() for path in info.glob("licenses/*/copyright")}
        for library, package in (("avcodec", "libavcodec59"), ("x264", "libx264-164"), ("x265", "libx265-199"),
                                 ("de265", "libde265-0"), ("heif", "libheif1"), ("zmq", "libzmq5")):
            self.assertTrue(list(unpacked.glob(f"millrace.libs/lib{library}[-.]*")), library)
            self.assertIn("License", texts.get(package, ""), package)
        for name in ("GPL-2", "LGPL-2.1", "Apache-2.0"):
            self.assertTrue((info / "licenses/common-licenses" / name).exists(), name)
        listed = json.loads((info / "sboms/auditwheel.cdx.json").read_text())["components"]
        listed = {one["name"] for one in listed if one["purl"].startswith("pkg:deb/debian/")}
        owners = collections.defaultdict(set)
        for one in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
            for path in one.read_text().splitlines():
                owners[path.rpartition("/")[2]].add(re.sub(r"(:\w+)?\.list$", "", one.name))
        sources = {re.sub(r"-[0-9a-f]{8}(?=[.-])", "", path.name) for path in unpacked.glob("millrace.libs/*")}
        for name in sorted(one for one in sources if not one.startswith("libmillrace")):
            self.assertTrue(texts.keys() & owners[name], f"{name}: {owners[name]}")
            # tools/wheel adds libheif itself, which the program opens while running.
            self.assertTrue(listed & owners[name] or name == "libheif.so.1", f"{name}: {owners[name]}")

    def two_versions(self, unpacked):
        """A module that finds the library of another version is refused with both numbers."""
        other = VERSION[:-1] + ("8" if VERSION.endswith("9") else "9")
        (library,) = (one for one in unpacked.glob("millrace.libs/libmillrace-*") if "command" not in one.name)
        library.write_bytes(library.read_bytes().replace(f"\0{VERSION}\0".encode(), f"\0{other}\0".encode()))
        done = call([sys.executable, "-c", "import millrace"], environment={"PYTHONPATH": str(unpacked)})
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"ImportError: the module is of millrace {VERSION}, and the library that it found is of {other}",
                      done.stderr)

    def heic(self):
        """The path of a small picture, or nothing where no program makes one."""
        if not shutil.which("heif-enc"):
            return ""
        png = self.folder / "small.png"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x48", "-frames:v", "1", png],
                       check=True)
        subprocess.run(["heif-enc", "-o", self.folder / "small.heic", png], check=True, capture_output=True)
        return str(self.folder / "small.heic")

    def install(self, wheel):
        pythons = {shutil.which(f"python3.{minor}") for minor in range(9, 15)} | {"/usr/bin/python3"}
        program = self.write(PROGRAM.replace("HEIC", self.heic()).replace("CLIP", str(SAMPLES / "realshort.mp4")),
                             "program.py")
        worked = []
        for number, python in enumerate(sorted(filter(None, pythons))):
            with self.subTest(python):
                folder = self.folder / f"venv{number}"
                made = call([python, "-m", "venv", folder])
                if made.returncode:
                    continue  # the interpreter has no ensurepip
                done = call([folder / "bin/pip", "install", "-q", "--no-index", wheel])
                self.assertEqual(done.returncode, 0, done.stderr)
                done = call([folder / "bin/python", program])
                self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "18"), done.stderr)
                self.assertRegex(done.stdout, r"test patterns need libavfilter.so.\d+: this program's own FFmpeg")
                self.assertRegex(call([folder / "bin/millrace", "--version"]).stdout, r"^millrace \d")
                self.assertRegex(call([folder / "bin/python", "-m", "millrace", "--version"]).stdout, r"^millrace \d")
                if not worked:
                    self.elsewhere(wheel, folder / "bin/python")
                    self.models(folder / "bin/millrace")
                    cuda = json.loads(call([folder / "bin/millrace", "devices", "--json"]).stdout)["cuda"]
                    self.assertTrue(cuda["build_cuda"] or not CUDA)
                    self.frozen(folder / "bin/python")
                shutil.rmtree(folder)
                worked.append(python)
        self.assertTrue(worked, f"none of {pythons} makes environments (Debian: python3-venv)")

    def models(self, command):
        """The wheel has what makes models, with all labels."""
        odd, to = self.write("odd", "odd.onnx"), self.folder / "made"
        done = call([command, "models", "get", "yolox-nano", "--file", odd, "--to", to])
        self.assertEqual(done.returncode, 65, done.stderr)
        self.assertIn(f"{odd} is not yolox-nano", done.stderr)
        catalog = json.loads((ROOT / "tools/models/catalog.json").read_text())["models"]
        made = {path.name: path.read_bytes() for path in (command.parents[1] / "lib").glob(
            "python3*/site-packages/millrace/share/millrace/converters/labels/*")}
        for file in (file for model in catalog for file in model["files"] if "here" in file):
            self.assertEqual(hashlib.sha256(made[file["here"]]).hexdigest(), file["sha256"])

    def frozen(self, python):
        """PyInstaller finds the hook, which names all that it would miss. (It takes minutes itself.)"""
        done = call([python, "-c", "import importlib.metadata, json, runpy\n"
                     "(hooks,) = [one for one in importlib.metadata.distribution('millrace').entry_points\n"
                     "            if one.group == 'pyinstaller40']\n"
                     "(folder,) = hooks.load()()\n"
                     "print(json.dumps(runpy.run_path(folder + '/hook-millrace.py')['datas']))"])
        self.assertEqual(done.returncode, 0, done.stderr)
        taken = {f"{to}/{pathlib.Path(path).name}" for path, to in json.loads(done.stdout)}
        site = next((python.parents[1] / "lib").glob("python3*/site-packages"))
        self.assertGreater(len(taken), 100)
        self.assertLessEqual({f"millrace.libs/{path.name}" for path in site.glob("millrace.libs/*")} |
                             {"millrace/bin/millrace", "millrace/share/millrace/converters/make.py"}, taken)

    def elsewhere(self, wheel, python):
        """The same bytes on a processor without AVX2, and beside other modules that bring an FFmpeg, in each order. pip
        refuses systems with another or an older C library."""
        program = self.write(KERNELS.replace("CLIP", str(SAMPLES / "realshort.mp4")), "kernels.py")

        def kernels(name, *words, before=(), **environment):
            done = call([*before, python, program, self.folder / name, *words], environment=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [(self.folder / f"{name}-{kind}").read_bytes() for kind in ("pixels", "edges")]

        here = kernels("here")
        self.assertGreater(min(map(len, here)), 1000)
        if shutil.which("qemu-x86_64-static"):
            self.assertEqual(kernels("old", before=("qemu-x86_64-static", "-cpu", "Nehalem")), here)
        if python.resolve() == pathlib.Path("/usr/bin/python3").resolve() and importlib.util.find_spec("av"):
            site = str(pathlib.Path(importlib.util.find_spec("av").origin).parents[1])
            for order in (("millrace", "cv2", "av"), ("av", "cv2", "millrace")):
                self.assertEqual(kernels("beside", *order, PYTHONPATH=site), here)
        for platform in ("musllinux_1_2_x86_64", "manylinux_2_31_x86_64"):
            refused = call([python, "-m", "pip", "download", "--no-index", "--no-deps", "--only-binary", ":all:",
                            "--platform", platform, "-d", self.folder, wheel])
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertIn("is not a supported wheel on this platform", refused.stderr)
