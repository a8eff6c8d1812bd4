"""tools/bench/gpu without a GPU: on a simulated device, and with programs that a script imitates."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

from harness import MILLRACE, ROOT, Case, pipeline

sys.path.append(str(ROOT / "tools/bench"))
import gpu  # noqa: E402
import gpu_pack  # noqa: E402

SCRIPT = ROOT / "tools/bench/gpu.py"
# Imitates each program. The file ORDERS names one that fails.
ACTOR = """#!/bin/sh
name=${0##*/}
[ "$name" != "$(cat ORDERS)" ] || { echo "[  FAILED  ] 1 test(s)"; exit 1; }
case "$name $*" in
"millrace devices"*) echo '{"cuda": {"devices": [{"name": "cuda:0", "model": "NVIDIA Actor"}]}}' ;;
test_*) echo "[  PASSED  ] 3 test(s)." ;;
"millrace bench ops"*) echo '{"devices": [{"ceilings": {"memory_bytes_s": 3e12, "upload_bytes_s": 53e9}}]}' ;;
bench_flow*) echo '{"of_slower": 0.8, "calls": {"cudaMalloc": 0}}' ;;
esac
"""


class Gpu(Case):
    def call(self, *arguments, exits=0):
        done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=600,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, exits, done.stderr)
        return done

    def play(self, *arguments, fails="none", exits=0):
        built = self.folder / "bin"
        built.mkdir(exist_ok=True)
        (self.folder / "orders").write_text(fails)
        for name in ("millrace", "test_device", "test_kernels", "test_motion", "bench_flow"):
            (built / name).write_text(ACTOR.replace("ORDERS", str(self.folder / "orders")))
            (built / name).chmod(0o755)
        return json.loads(self.call("--built", built, *arguments, exits=exits).stdout)

    def test_a_simulated_device(self):
        built = ("--built", pathlib.Path(MILLRACE).parent, "--device", "sim:0", "--quick")
        report = json.loads(self.call(*built, "--only", "ops").stdout)
        self.assertIn("launch", [one["name"] for one in report["ops"]["operations"]["devices"][0]["operations"]])
        clips = self.folder / "clips"
        clips.mkdir()
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=10:duration=1",
                        "-pix_fmt", "yuv420p", clips / "1080p.mp4"], check=True)
        decoded = json.loads(subprocess.run([sys.executable, SCRIPT, *built, "--only", "nvdec", "--data", self.folder],
                                            capture_output=True, text=True, timeout=600).stdout)["nvdec"]
        self.assertEqual([decoded[f"hardware {streams}"]["frames"] for streams in (1, 4, 16)], [10, 40, 160])

    def test_a_goal_that_is_missed_and_a_card(self):
        report = self.play("--only", "benchmarks", "--only", "ops", "--json", self.folder / "r.json", exits=1)
        self.assertEqual(report["benchmarks"]["flow"]["missed"], ["of_slower is 0.8, the goal is 0.9"])
        self.assertEqual([name for name, one in report["benchmarks"].items() if not one["ok"]], ["flow"])
        card = self.folder / "r-card.json"
        self.assertEqual(json.loads(card.read_text()), {"name": "NVIDIA Actor", "memory_bytes_s": 3e12,
                                                      "upload_bytes_s": 53e9})
        text = pipeline(dict(a="uri: 'lavfi:testsrc=size=64x48:rate=1:duration=1'"), decode="",
                        hash="type: phash, device: 'cuda:0'", out="type: 'null'")
        told = self.planned(text, "--assume", f"cuda:1x{card}")
        self.assertEqual(told["expected"]["cards"][0]["upload_bytes_s"], 53e9)

    def test_a_test_that_fails_and_a_program_that_is_missing(self):
        report = self.play("--only", "tests", fails="test_motion", exits=1)
        self.assertEqual(report["tests"]["test_device"],
                         {"ok": True, "exit": 0, "passed": 3, "failed": 0, "skipped": 0})
        self.assertFalse(report["tests"]["test_motion"]["ok"])
        self.assertIn("No such file", report["tests"]["test_overlap"]["failed"])
        self.assertEqual(list(self.play("--only", "tests", fails="test_kernels", exits=1)["tests"]),
                         ["test_device", "test_kernels"])

    def test_every_kernel_has_a_suite(self):
        """Each folder with CUDA kernels has one that runs them on a device, also under compute-sanitizer."""
        suites = {path.stem: path.read_text() for path in (ROOT / "tests").rglob("test_*.c")}
        for folder in {path.parent.name for path in (ROOT / "kernels").rglob("*_cuda.cu")}:
            own = {name for name, text in suites.items()
                   if f'#include "kernels/{folder}/' in text and re.search("on_device_put|cudaMalloc", text)}
            self.assertTrue(own & set(gpu.TESTS), folder)
            self.assertTrue(own & set(gpu.SANITIZED), folder)

    def test_sanitizers(self):
        """Each suite under the tool, or one result that says that there is none."""
        if not shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin"):
            told = self.play("--only", "memcheck", exits=1)["memcheck"]
            self.assertIn("comes with the CUDA toolkit", told["compute-sanitizer"]["failed"])
        tool = self.folder / "compute-sanitizer"
        tool.write_text("#!/bin/sh\necho \"========= ERROR SUMMARY: $2 of ${5##*/}\"\n")
        tool.chmod(0o755)
        told = self.play("--only", "racecheck")["racecheck"]
        self.assertEqual(told, {name: {"ok": True, "exit": 0, "summary": [f"racecheck of {name}"]}
                                for name in gpu.SANITIZED})

    def test_a_report_is_continued(self):
        kept = ("--only", "tests", "--resume", "--json", self.folder / "r.json")
        self.assertEqual(self.play(*kept, "--budget", "0", exits=75)["tests"], {})
        self.play(*kept, fails="test_motion", exits=1)
        self.assertFalse(self.play(*kept, exits=1)["tests"]["test_motion"]["ok"])

    def test_a_pack(self):
        """Pieces are small, join with the commands that --pack prints, and contain no part of the C library."""
        built, place = self.folder / "bin", self.folder / "place"
        built.mkdir()
        shutil.copy2(shutil.which("xz"), built / "packed")  # a program that needs a library besides the C library
        gpu_pack.copy_programs(built, ["packed"], place)
        self.assertTrue(list(place.glob("lib/liblzma.so*")))
        self.assertFalse(list(place.glob("lib/libc.so*")) + list(place.glob("lib/ld-linux*")))
        pieces = gpu_pack.write_pieces(place, self.folder, "programs.tar.xz", 30000)
        self.assertGreater(len(pieces), 1)
        self.assertLessEqual(max(piece.stat().st_size for piece in pieces), 30000)
        subprocess.run("cat programs.tar.xz.* | tar xJ", shell=True, cwd=self.folder, check=True)
        there = self.folder / "gpu"
        self.assertEqual((there / "bin/packed").read_bytes(), (place / "bin/packed").read_bytes())
        subprocess.run([there / "bin/packed", "--version"], check=True, capture_output=True)
        (there / "wheels").mkdir()
        with zipfile.ZipFile(there / "wheels/nvidia_cublas-13-py3.whl", "w") as wheel:
            wheel.writestr("nvidia/cublas/lib/libcublasLt.so.13", b"library")
            wheel.writestr("nvidia/cublas/include/cublas.h", b"header")
        gpu_pack.unpack_wheels(there)
        self.assertEqual([path.name for path in (there / "libraries").iterdir()], ["libcublasLt.so.13"])

    def test_wrong_arguments(self):
        for words in (["--device", "gpu"], ["--only", "everything"], ["--budget", "soon"], ["--resume"]):
            self.assertIn("tools/bench/gpu: ", self.call(*words, exits=64).stderr)
        self.call("--built", pathlib.Path(MILLRACE).parent, "--device", "cuda:99", exits=69)
