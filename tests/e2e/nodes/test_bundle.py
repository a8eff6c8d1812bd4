"""tools/bundle: the folder it makes runs where there is only glibc and a shell: in a separate root, without any
system library. Its results equal the original command's."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import MILLRACE, MODELS, ROOT, SAMPLES, TIMEOUT, call, need_models, pipeline

BUNDLE = ROOT / "tools/bundle"
CLIP = SAMPLES / "realshort.mp4"
GLIBC = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2", "libutil.so.1",
         "libmvec.so.1", "libanl.so.1")


def setUpModule():
    need_models()
    if not CLIP.exists() or not os.environ.get("MILLRACE_ONNXRUNTIME"):
        raise unittest.SkipTest("the sample video and ONNX Runtime are needed (tools/test installs them)")


class Bundle(harness.Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="millrace-")
        cls.addClassCleanup(folder.cleanup)
        cls.bundle = pathlib.Path(folder.name) / "millrace"
        # A shell reads the script that starts it.
        clip = pathlib.Path(folder.name) / "it's \"$(exit 1)`exit 1`\\.mp4"
        shutil.copy(CLIP, clip)
        done = call([BUNDLE, cls.bundle, "--millrace", MILLRACE, "--models", MODELS, "--clip", clip, "--without-cuda"])
        assert done.returncode == 0, done.stderr
        cls.said = done.stderr

    def make_root(self):
        """A root folder with a shell, glibc, and the bundle."""
        root = self.folder / "root"
        for name in ("bin", "tmp", "lib64"):
            (root / name).mkdir(parents=True)
        shell = shutil.which("dash")
        if not shell:
            self.skipTest("no dash, a shell that needs nothing but glibc")
        shutil.copy(shell, root / "bin/sh")
        listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
        places = {line.split()[0]: line.split(" => ")[1] for line in reversed(listed.splitlines())
                  if " => " in line and "x86-64" in line}
        for name in GLIBC:
            if name in places:
                (root / places[name].lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(places[name], root / places[name].lstrip("/"))
        shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64/ld-linux-x86-64.so.2")
        # The bundle may be anywhere.
        shutil.copytree(self.bundle, root / "elsewhere", copy_function=os.link)
        return root

    def inside(self, root, *command):
        chroot, unshare = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin"), shutil.which("unshare")
        if not chroot or not (os.geteuid() == 0 or unshare):
            self.skipTest("no chroot and unshare to enter another root with")
        enter = [chroot] if os.geteuid() == 0 else [unshare, "-r", chroot]
        done = subprocess.run([*enter, root, *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=TIMEOUT, env={"PATH": "/bin"})
        if "Operation not permitted" in done.stderr:
            self.skipTest(f"no other root may be entered here: {done.stderr.strip()}")
        return done

    def test_it_runs_where_there_is_nothing_else(self):
        root = self.make_root()
        bare = self.inside(root, "/elsewhere/bin/millrace", "--version")
        self.assertNotEqual(bare.returncode, 0)
        self.assertRegex(bare.stderr, r"lib(?!c\.)[a-z0-9-]+\.so[.0-9]*: cannot open shared object file")
        done = self.inside(root, "/elsewhere/millrace", "run", "/elsewhere/pipelines/classify-video.yaml", "--output",
                           "/tmp/results.jsonl", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["ledger"]["delivered"], 36)
        rows = (root / "tmp/results.jsonl").read_text()
        run = self.run_pipeline(ROOT / "pipelines/classify-video.yaml", "--input", CLIP,
                                environment={"MODELS": str(MODELS)})
        inside = [json.loads(line) for line in rows.splitlines()]
        files = {row.pop("file") for row in inside}, {row.pop("file") for row in run.rows}
        self.assertEqual(([*map(len, files)], inside), ([1, 1], run.rows))
        # Without arguments it does the same and prints; test patterns need a library opened at run time.
        self.assertEqual(self.inside(root, "/elsewhere/millrace").stdout, rows)
        devices = self.inside(root, "/elsewhere/millrace", "devices", "--json")
        self.assertEqual(devices.returncode, 0, devices.stderr)
        pattern = self.write(pipeline(dict(a='uri: "lavfi:testsrc=duration=1"'), name="pattern", decode="",
                                      done='type: "null"'))
        shutil.copy(pattern, root / "tmp/pattern.yaml")
        done = self.inside(root, "/elsewhere/millrace", "run", "/tmp/pattern.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["ledger"]["delivered"], 25)

    def test_it_says_what_it_needs(self):
        self.assertRegex(self.said, r"needs glibc 2\.\d+ or later")
        self.assertIn("glibc 2.", (self.bundle / "README").read_text())
        names = {path.name for path in (self.bundle / "lib").iterdir()}
        self.assertIn("libonnxruntime.so.1", names)
        self.assertFalse(names & {*GLIBC, "ld-linux-x86-64.so.2"})
        self.assertFalse([name for name in names if name.startswith(("libcuda.", "libcublas", "libcudnn"))])

    def test_what_is_wrong(self):
        for arguments, code, said in (((), 64, "name the folder"), ((self.folder,), 64, "is there already"),
                                      ((self.folder / "a", "b"), 64, "left over"), (("--clip",), 64, "needs a value"),
                                      (("--dance", "a"), 64, "unknown option"),
                                      ((self.folder / "a", "--millrace", "/nonexistent"), 66,
                                       "there is no /nonexistent")):
            self.checked([BUNDLE, *arguments], code=code, says=said)
        self.assertIn("--without-cuda", call([BUNDLE, "--help"]).stdout)
        self.assertEqual(list(self.folder.iterdir()), [])
