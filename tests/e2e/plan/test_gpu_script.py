"""tools/bench/gpu, as far as it goes without a GPU: on simulated devices; with programs that are played by a script, in
the order and with the failures that a machine with a GPU may have; and what it packs, cut into pieces and joined."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time
import unittest.mock
import zipfile

from harness import MILLRACE, Case, main

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tools/bench/gpu.py"
BUILT = pathlib.Path(MILLRACE).parent
GPUS = any(re.fullmatch(r"nvidia\d+", name) for name in os.listdir("/dev"))
sys.path.insert(0, str(SCRIPT.parent))
import gpu_card  # noqa: E402
import gpu_judge  # noqa: E402
import gpu_libraries  # noqa: E402
import gpu_pack  # noqa: E402
import gpu_page  # noqa: E402
import gpu_steps  # noqa: E402

# Plays every program: notes that it was called, does as its orders say ("kill NAME", "fail NAME", "slow NAME", "noise
# NAME"), and prints what that program prints. Names of steps' programs come with their first arguments.
ACTOR = r"""#!/bin/sh
name=${0##*/}
key=$name
case "$name $*" in
"millrace devices"*) key=devices ;;
"millrace bench"*) key=ops ;;
"millrace run"*)
    key=rate
    while read -r line; do case $line in looks:*) key=hashes ;; features:*) key=classes ;; esac; done < "$2" ;;
"compute-sanitizer "*) key=$2 ;;
"bench_latency "*--model*) key=network_latency ;;
"bench_flow "*) [ "$MILLRACE_CUDA_GRAPHS" = 0 ] && key=plain_flow ;;
esac
echo "$key" >> CALLS
read -r orders < ORDERS
[ "$orders" = "kill $key" ] && kill -9 $PPID && exit 1
[ "$orders" = "slow $key" ] && exec sleep 60
[ "$orders" = "noise $key" ] && echo "this is not JSON" && exit 0
[ "$orders" = "fail $key" ] && echo "[  FAILED  ] 1 test(s)" && echo "Error: as ordered" && exit 1
inputs=0
for word; do [ "$word" != --input ] || inputs=$((inputs + 1)); done
case $key in
devices)
    echo '{"cuda": {"driver": "580.1",' \
        '"devices": [{"name": "cuda:0", "model": "NVIDIA Actor", "memory_bytes": 80000000000}]},' \
        '"sim": {"like": ["a10", "h100"]}}' ;;
test_cuda_device) echo "[  PASSED  ] 0 test(s)."; echo "[  SKIPPED ] 1 test(s), listed below:" ;;
test_*) echo "[  PASSED  ] 3 test(s)." ;;
bench_cuda_preprocess) echo '{"copy_gb_per_s": 3000.0, "fused_ms": 0.05, "of_copy": 0.71, "times_unfused": 3.5}' ;;
bench_cuda_upload)
    echo '{"bare_gb_per_s": 53.0, "engine_gb_per_s": 52.0, "of_bare": 0.98, "pageable_gb_per_s": 12.0,' \
        '"download_gb_per_s": 51.5, "launch_us": 2.25, "results": {"times": 9.0},' \
        '"peer": {"engine_gb_per_s": 300.0, "times": 8.5}}' ;;
*_flow)
    echo '{"upload_per_s": 17000, "compute_per_s": 90000, "flow_per_s": 16000, "of_slower": 0.94,' \
        '"calls": {"cudaMalloc": 0}}' ;;
bench_latency)
    echo '{"latency": [{"work": "kernels", "graphs": false, "median_us": 90.0},' \
        '{"work": "kernels", "graphs": true, "median_us": 40.0}]}' ;;
network_latency)
    echo '{"latency": [{"work": "network", "graphs": false, "median_us": 900.0},' \
        '{"work": "network", "graphs": true, "median_us": 400.5}]}' ;;
ops)
    echo '{"devices": [{"operations": [{"name": "triad", "group": "ceiling"},' \
        '{"name": "encode-av1", "group": "codec", "left_out": "it has none"}]}]}' ;;
hashes|classes|rate)
    one=0
    while [ $key != rate ] && [ $one -lt $inputs ]; do
        one=$((one + 1))
        echo '{"source": "clip-'$one'", "seq": 0, "file": "x", "classes": [{"index": 7}], "features": [1]}'
    done
    echo '{"ledger": {"delivered": '$inputs'}, "wall_s": 0.5}' ;;
memcheck|racecheck|initcheck|synccheck) echo "========= ERROR SUMMARY: 0 errors" ;;
ncu)
    printf '==PROF== Connected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
    printf '"0","fused(1)","dram__bytes_read.sum","Mbyte","107"\n' ;;
esac
"""
# In the order of the steps.
SANITIZED = len(gpu_steps.SANITIZED)
ALL = ["devices", *gpu_steps.TESTS, "bench_cuda_preprocess", "bench_cuda_upload", "bench_flow", "bench_latency",
       "bench_cuda_preprocess", "bench_cuda_upload", "plain_flow", "bench_latency", "ops", "test_nvdec_card",
       *["hashes"] * 4, *["rate"] * 4, "ncu", *["memcheck"] * SANITIZED, *["racecheck"] * SANITIZED,
       "network_latency", *gpu_steps.NETWORK_TESTS, *["classes"] * 5, *["initcheck"] * SANITIZED,
       *["synccheck"] * SANITIZED]


class OnSimulatedDevices(Case):
    """The real programs."""

    def told(self, *arguments, exits=0):
        done = subprocess.run([sys.executable, SCRIPT, "--built", BUILT, "--only", "benchmarks", "--quick", *arguments],
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, exits, done.stderr)
        return json.loads(done.stdout)

    def test_benchmarks(self):
        told = self.told("--device", "sim:0")
        flow, latency = told["benchmarks"]["flow"], told["benchmarks"]["latency"]
        self.assertEqual(flow["frames"], 80)
        for rate in ("upload_per_s", "compute_per_s", "flow_per_s", "of_slower"):
            self.assertGreater(flow[rate], 0)
        self.assertEqual([(one["work"], one["graphs"]) for one in latency["latency"]], [("kernels", False)] * 2)
        for one in latency["latency"]:
            self.assertLessEqual(one["median_us"], one["p99_us"])
        self.assertIn("only cuda:0 is", told["benchmarks"]["upload"]["not_measured"])
        self.assertTrue(all(target["met"] for target in told["targets"]))
        self.assertTrue(told["machine"]["sim"]["usable"])

    def test_operations(self):
        told = self.told("--device", "sim:0", "--only", "ops")
        (device,) = told["ops"]["operations"]["devices"]
        self.assertIn("launch", [one["name"] for one in device["operations"]])
        (target,) = [one for one in told["targets"] if one["figure"] == "ops.operations"]
        self.assertTrue(target["met"])
        self.assertEqual(target["reached"], f"{len(device['operations'])} measured, left out: none")

    def test_budget_and_resuming(self):
        report = str(self.folder / "report.json")
        on = ("--device", "sim:0", "--json", report, "--resume")
        self.assertTrue(self.told(*on, "--budget", "0", exits=75)["unfinished"])
        whole = self.told(*on)
        self.assertFalse(whole["unfinished"])
        # What has been told is not asked again, for which there would be no time.
        whole["benchmarks"]["flow"]["frames"] = 81
        pathlib.Path(report).write_text(json.dumps(whole))
        again = self.told(*on, "--budget", "0")
        self.assertEqual(again["benchmarks"], whole["benchmarks"])
        self.assertIn("bench_flow --device sim:0 --frames 80", (self.folder / "report.log").read_text())

    def test_frames_of_the_clip_are_equal_on_devices(self):
        """The pipelines of the NVDEC step, on real frames."""
        clips = self.folder / "clips"
        clips.mkdir()
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=10:duration=1",
                        "-pix_fmt", "yuv420p", "-c:v", "libx264", clips / "1080p.mp4"], check=True)
        done = subprocess.run([sys.executable, SCRIPT, "--built", BUILT, "--only", "nvdec", "--quick", "--device",
                               "sim:0", "--data", self.folder], capture_output=True, text=True, timeout=600)
        told = json.loads(done.stdout)["nvdec"]
        self.assertEqual([(told[name]["frames"], told[name]["streams"])
                          for name in ("software 1", "hardware 1", "hardware 4")],
                         [(10, 1), (10, 1), (40, 4)])
        self.assertEqual(len({tuple(told[name]["hashes"]) for name in ("software 1", "hardware 1", "hardware 4")}), 1)
        self.assertGreater(told["hardware rate 4"]["per_s"], 0)
        frames = [one for one in json.loads(done.stdout)["targets"] if "hardware" in one["figure"]]
        self.assertTrue(all(one["met"] for one in frames), frames)


class Played(Case):
    """All programs are played by ACTOR, on a driver that is a fake."""

    def setUp(self):
        super().setUp()
        self.bin, self.calls, self.orders = self.folder / "bin", self.folder / "calls", self.folder / "orders"
        self.bin.mkdir()
        (self.folder / "clips").mkdir()
        (self.folder / "clips/1080p.mp4").touch()
        text = ACTOR.replace("CALLS", str(self.calls)).replace("ORDERS", str(self.orders))
        for name in (*gpu_steps.PROGRAMS, "ncu", "compute-sanitizer"):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        driver = next(iter(sorted(BUILT.glob("tests/libfake_cuda.so"))), None)
        if not driver or GPUS:
            self.skipTest("needs tests/libfake_cuda.so of the build, and a machine without a GPU")
        shutil.copy(driver, self.folder / "libcuda.so.1")
        shutil.copy(ROOT / "tools/bench/README.md", self.folder / "README.md")
        self.report = self.folder / "report.json"

    def start(self, *arguments, orders=""):
        self.orders.write_text(orders + "\n")
        self.calls.write_text("")
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(self.folder),
                       "FAKE_CUDA_DEVICES": "1", "TMPDIR": str(self.folder)}  # a killed one leaves its folder
        return subprocess.run([sys.executable, SCRIPT, "--built", self.bin, "--data", self.folder, "--json",
                               self.report, "--page", self.folder / "README.md", *arguments], capture_output=True,
                              text=True, timeout=120, env=environment)

    def called(self):
        return self.calls.read_text().split()

    def told(self, *arguments, exits=0, orders=""):
        done = self.start(*arguments, orders=orders)
        self.assertEqual(done.returncode, exits, done.stderr + done.stdout[-3000:])
        return json.loads(done.stdout)

    def unmet(self, told):
        return [one["figure"] for one in told["targets"] if not one["met"]]

    def test_one_gpu_is_a_success_and_the_order_is_that_of_worth(self):
        told = self.told()
        self.assertEqual(self.unmet(told), [])
        self.assertEqual(self.called(), ALL)
        self.assertEqual((told["tests"]["test_cuda_device"]["passed"], told["tests"]["test_cuda_device"]["skipped"]),
                         (0, 1))
        self.assertEqual(told["ncu"]["bench_cuda_preprocess"]["counters"], {"dram__bytes_read.sum": "107 Mbyte"})
        page = (self.folder / "README.md").read_text()
        self.assertIn("Measured on NVIDIA Actor, driver 580.1", page)
        self.assertRegex(page, r"\| 64 pictures of 1080p NV12 to 224x224 f16, ms \| at least [^|]* \| 0\.05 \|")
        self.assertIn("| through EfficientNet-Lite0 with CUDA graphs, median, us".split("|")[1].strip(), page)
        self.assertNotIn("not measured", page)
        self.assertEqual(page, gpu_page.filled((ROOT / "tools/bench/README.md").read_text(),
                                               json.loads((self.folder / "gpu.json").read_text())))

    def test_what_was_measured_is_a_card_for_plans(self):
        self.told()
        path = self.folder / "report-card.json"
        self.assertEqual(json.loads(path.read_text()), {
            "name": "NVIDIA Actor", "memory_bytes": 80000000000, "memory_bytes_s": 3e12, "upload_bytes_s": 53e9,
            "download_bytes_s": 51.5e9, "launch_ns": 2250.0, "decode_fps": {"h264": 2.0}})
        text = ("version: 1\npipeline: p\nsources: {a: {uri: 'lavfi:testsrc=size=64x48:rate=1:duration=1'}}\nstages:\n"
                "  decode: {input: a}\n  hash: {type: phash, input: decode, device: 'cuda:0'}\n"
                "  out: {type: 'null', input: hash}\n")
        done = subprocess.run([MILLRACE, "plan", self.write(text), "--json", "--assume", f"cuda:1x{path}"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        (card,) = json.loads(done.stdout)["expected"]["cards"]
        self.assertEqual((card["name"], card["measured"], card["upload_bytes_s"], card["download_bytes_s"],
                          card["launch_ns"]),
                         ("NVIDIA Actor", True, 53e9, 51.5e9, 2250))
        # A run that measures nothing leaves no card behind.
        path.unlink()
        self.report.unlink()
        self.told("--only", "racecheck")
        self.assertFalse(path.exists())

    def test_the_sheet_of_a_card_is_found_by_the_name_that_it_tells(self):
        names = json.loads(subprocess.run([MILLRACE, "devices", "--json"], capture_output=True, text=True,
                                          check=True).stdout)["sim"]["like"]
        for model, like in (("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100-pcie"),
                            ("NVIDIA H200", "h200"), ("NVIDIA A100-SXM4-80GB", "a100"),
                            ("NVIDIA A100-SXM4-40GB", "a100-40gb"), ("NVIDIA A100 80GB PCIe", "a100-pcie"),
                            ("NVIDIA A10", "a10"), ("Tesla T4", "t4"),
                            ("NVIDIA L4", "l4"), ("NVIDIA L40", "l40"), ("NVIDIA L40S", "l40s"),
                            ("NVIDIA GeForce RTX 4090", "rtx4090"), ("NVIDIA RTX A6000", "rtxa6000"),
                            ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"), ("NVIDIA RTX A4000", None),
                            ("NVIDIA GeForce RTX 4060", None), ("", None)):
            with self.subTest(model):
                self.assertEqual(gpu_card.like_of(model, names), like)

    def test_it_goes_on_after_a_kill_in_each_step(self):
        for key in ("test_preprocess", "bench_flow", "plain_flow", "ops", "hashes", "ncu", "memcheck", "classes",
                    "synccheck"):
            with self.subTest(key):
                self.report.unlink(missing_ok=True)
                done = self.start("--resume", orders=f"kill {key}")
                self.assertEqual(done.returncode, -9)
                before = self.called()
                self.assertEqual(before, ALL[:len(before)])
                self.assertEqual(before[-1], key)
                told = self.told("--resume")
                self.assertEqual(self.unmet(told), [])
                # The one that was killed is run again, nothing before it but the look at the machine.
                self.assertEqual(before[:-1] + self.called()[1:], ALL)

    def test_what_fails_is_in_the_report_and_in_the_exit_status(self):
        for key, figures in (("test_motion", ["tests.test_motion"]), ("bench_cuda_upload", ["upload.of_bare"]),
                             ("plain_flow", ["plain.flow"]), ("ops", ["ops.operations"]),
                             ("hashes", ["nvdec.software 1", *(f"nvdec.hardware {n}" for n in (1, 4, 16))]),
                             ("ncu", ["ncu.bench_cuda_preprocess"]), ("test_nvdec_card", ["tests.test_nvdec_card"]),
                             ("racecheck", [f"racecheck.{name}" for name in gpu_steps.SANITIZED])):
            for order in ("fail", "noise"):
                if order == "noise" and key in ("test_nvdec_card", "test_motion", "racecheck"):
                    continue
                with self.subTest(f"{order} {key}"):
                    told = self.told(exits=1, orders=f"{order} {key}")
                    self.assertEqual(self.unmet(told), figures)
                    self.assertEqual(self.called(), ALL)

    def test_a_decisive_test_that_fails_stops_all(self):
        told = self.told(exits=1, orders="fail test_kernels")
        self.assertEqual(self.called(), ["devices", "test_device", "test_kernels"])
        self.assertIn("test_kernels failed", told["stopped"])
        self.assertEqual(self.unmet(told), ["all steps", "tests.test_kernels"])
        self.assertEqual(self.unmet(self.told("--go-on", exits=1, orders="fail test_kernels")), ["tests.test_kernels"])
        # It stays so until the test is asked again.
        self.assertIn("stopped", self.told("--resume", "--only", "tests", exits=1, orders="fail test_kernels") and
                      self.told(exits=1, orders="fail test_kernels"))
        self.assertEqual(self.unmet(self.told("--resume", "--again", "tests")), [])

    def test_the_budget_is_kept(self):
        begun = time.monotonic()
        told = self.told("--budget", "3", "--only", "benchmarks", exits=75, orders="slow bench_latency")
        self.assertLess(time.monotonic() - begun, 30)
        self.assertNotIn("latency", told["benchmarks"])
        # It is the first of the next call. If that is not enough more calls would not help, and that is its result.
        told = self.told("--resume", "--budget", "6", "--only", "benchmarks", exits=1, orders="slow bench_latency")
        self.assertEqual(told["benchmarks"]["latency"]["exit"], None)

    def test_tools_that_are_missing_are_told(self):
        for name in ("ncu", "compute-sanitizer"):
            (self.bin / name).unlink()
        told = self.told(exits=1)
        self.assertEqual(self.unmet(told), [f"{step}.compute-sanitizer"
                                            for step in ("memcheck", "racecheck", "initcheck", "synccheck")]
                         + ["ncu.bench_cuda_preprocess"])

    def test_a_program_that_is_missing_is_told(self):
        (self.bin / "test_overlap").unlink()
        self.assertEqual(self.unmet(self.told("--only", "tests", exits=1)), ["tests.test_overlap"])


class Packed(Case):
    """Pieces of programs that are played."""

    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for index, name in enumerate(gpu_steps.PROGRAMS):
            # What cannot be compressed, so that it becomes several pieces.
            (self.bin / name).write_bytes(b"#!/bin/sh\nexit 0\n" + os.urandom(30000) if index else
                                          pathlib.Path(sys.executable).resolve().read_bytes()[:1 << 20])
            (self.bin / name).chmod(0o755)
        self.out = self.folder / "pack"

    def make(self, limit=640 << 10):
        put = gpu_pack.put_programs
        gpu_pack.put_programs = lambda built, names, place: shutil.copytree(built, place / "bin") and []
        try:
            self.assertTrue(gpu_pack.pack(self.bin, gpu_steps.PROGRAMS, self.out, ["programs"], self.folder / "wheels",
                                          limit))
        finally:
            gpu_pack.put_programs = put
        return sorted(self.out.glob("pack-*.tar"))

    def join(self, place, exits=75):
        done = subprocess.run([sys.executable, place / "pack/gpu.py", "--join"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, exits, done.stderr)
        return done.stderr

    def unpack(self, piece, place):
        with tarfile.open(piece) as archive:
            archive.extractall(place)

    def test_pieces_are_small_and_join_in_any_order_and_again(self):
        pieces = self.make()
        self.assertGreater(len(pieces), 2)
        for piece in pieces:
            self.assertLessEqual(piece.stat().st_size, 640 << 10)
        place = self.folder / "there"
        for index, piece in enumerate(reversed(pieces)):
            self.unpack(piece, place)
            said = self.join(place)
            self.assertEqual("joined programs" in said, index == len(pieces) - 1, said)
            self.assertIn("cudnn (ONNX Runtime's CUDA provider) is missing: all pieces", said)
        for name in gpu_steps.PROGRAMS:
            self.assertEqual((place / "pack/bin" / name).read_bytes(), (self.bin / name).read_bytes())
            self.assertTrue(os.access(place / "pack/bin" / name, os.X_OK))
        self.unpack(pieces[0], place)
        self.assertNotIn("joined", self.join(place))

    def test_a_damaged_piece_is_told_and_can_be_sent_again(self):
        pieces, place = self.make(), self.folder / "there"
        for piece in pieces:
            self.unpack(piece, place)
        chunk = place / "pack/chunks/programs.01"
        data = bytearray(chunk.read_bytes())
        data[1000] ^= 1
        chunk.write_bytes(data)
        said = self.join(place)
        self.assertIn("programs.01 is damaged: send its piece again", said)
        self.assertNotIn("joined programs", said)
        self.unpack(pieces[1], place)
        self.assertIn("joined programs", self.join(place))

    def test_what_a_step_waits_for_is_told(self):
        """On a machine where only a part of the programs has come, and one where all have."""
        pieces, place = self.make(), self.folder / "there"
        self.unpack(pieces[0], place)
        words = [sys.executable, place / "pack/gpu.py", "--device", "sim:0", "--quick", "--json",
                 self.folder / "r.json", "--resume"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 75, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(set(told["waiting"]), set(gpu_steps.STEPS))
        self.assertEqual(told["waiting"]["tests"], {"programs": [f"programs.{n:02}" for n in range(1, len(pieces))]})
        for piece in pieces[1:]:
            self.unpack(piece, place)
        done = subprocess.run([*words, "--go-on"], capture_output=True, text=True, timeout=60)
        told = json.loads(done.stdout)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertEqual(set(told["waiting"]), {"nvdec", "network"})
        self.assertIn("test_device", told["tests"])

    def test_wheels_are_taken_as_they_are_and_unpacked_there(self):
        wheels = self.folder / "wheels"
        wheels.mkdir()
        library = os.urandom(1 << 20)
        made = wheels / "nvidia_cublas-13.1.0.3-any.whl"
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as wheel:
            for name in ("libcublas.so.13", "libcublasLt.so.13", "libnvblas.so.13"):
                wheel.writestr(f"nvidia/cu13/lib/{name}", library)
        named = gpu_pack.wanted_wheel("nvidia_cublas")[0], hashlib.sha256(made.read_bytes()).hexdigest()
        with unittest.mock.patch.object(gpu_pack, "wanted_wheel", return_value=named):
            self.assertTrue(gpu_pack.pack(self.bin, [], self.out, ["cublas"], wheels, 2 << 20))
        for piece in self.out.glob("*.tar"):
            self.unpack(piece, self.folder / "there")
        self.assertIn("joined cublas", self.join(self.folder / "there"))
        self.assertEqual(sorted(path.name for path in (self.folder / "there/pack/cuda").iterdir()),
                         ["libcublas.so.13", "libcublasLt.so.13"])
        self.assertEqual((self.folder / "there/pack/cuda/libcublasLt.so.13").read_bytes(), library)

    def test_libraries_that_the_machine_has_need_not_come(self):
        waiting = {"network": ["network.00"], "cublas": None, "cudnn": None}
        found = {"libcublas.so.13": "/usr/x/libcublas.so.13", "libcublasLt.so.13": "/usr/x/libcublasLt.so.13",
                 "libcudnn.so.9": None}
        self.assertEqual(gpu_pack.needed(self.folder, waiting, found), {"network": ["network.00"], "cudnn": None})
        found["libcublas.so.13"] = str(self.folder / "cuda/libcublas.so.13")
        self.assertIn("cublas", gpu_pack.needed(self.folder, waiting, found))

    def test_no_part_of_glibc_is_packed(self):
        """Parts of glibc are those that use its private symbols: told by readelf, not by name."""
        libraries = gpu_libraries.closure([MILLRACE])
        self.assertGreater(len(libraries), 50)
        for path in libraries:
            needs = subprocess.run(["readelf", "-V", path], capture_output=True, text=True, check=True).stdout
            self.assertNotIn("GLIBC_PRIVATE", needs, path)
        for name in ("libresolv.so.2", "libutil.so.1", "libanl.so.1", "libnsl.so.1", "libnss_dns.so.2", "libmvec.so.1",
                     "libc.so.6", "libnss_files-2.31.so", "ld-linux-x86-64.so.2"):
            self.assertRegex(f"/lib/{name}", gpu_libraries.GLIBC)
        for name in ("libnss3.so", "libnsl.so.2", "libcodec2.so.1.0", "libdlib.so", "libresolve.so.1", "libmd.so.0",
                     "libcairo.so.2"):
            self.assertNotRegex(f"/lib/{name}", gpu_libraries.GLIBC)

    def test_what_cannot_be_had_is_told(self):
        """A wheel that nobody has: the command to get it, and a pack that counts as not whole."""
        index = os.environ.get("PIP_NO_INDEX")
        os.environ["PIP_NO_INDEX"] = "1"
        try:
            wheel, problem = gpu_pack.need_wheel(self.folder, "nvidia_cublas")
        finally:
            os.environ.pop("PIP_NO_INDEX") if index is None else os.environ.update(PIP_NO_INDEX=index)
        self.assertIsNone(wheel)
        self.assertRegex(problem, r"(?s)nvidia-cublas==[\d.]+ could not be had: .*; "
                                  r"try: .*pip download.*nvidia-cublas==")


    def test_another_wheel_than_the_named_one_is_refused(self):
        (self.folder / "nvidia_cublas-13.1.0.3-any.whl").write_bytes(b"another")
        wheel, problem = gpu_pack.need_wheel(self.folder, "nvidia_cublas")
        self.assertIsNone(wheel)
        self.assertIn("nvidia_cublas-13.1.0.3-any.whl is not the file that tools/requirements-gpu.txt names", problem)


class Judged(Case):
    """Results, made up, and what is said of them."""
    GOOD = {"preprocess": {"of_copy": 0.8, "times_unfused": 4.0}, "upload": {"of_bare": 0.97},
            "flow": {"of_slower": 0.93, "calls": {"cudaMalloc": 0, "cudaStreamSynchronize": 0}},
            "latency": {"latency": [{"work": "kernels", "graphs": False, "median_us": 90.0},
                                    {"work": "kernels", "graphs": True, "median_us": 40.0}]}}

    def unmet(self, benchmarks, **more):
        return [one["figure"] for one in gpu_judge.judge({"device": "cuda:0", "benchmarks": benchmarks, **more})
                if not one["met"]]

    def test_what_was_not_measured_is_not_met(self):
        good = self.GOOD
        self.assertEqual(self.unmet(good), [])
        self.assertEqual(self.unmet({**good, "preprocess": {"exit": 70, "not_measured": ["x"]}}),
                         ["preprocess.of_copy", "preprocess.times_unfused"])
        self.assertEqual(self.unmet({**good, "upload": {"of_bare": 0.94}}), ["upload.of_bare"])
        self.assertEqual(self.unmet({**good, "flow": {"of_slower": 0.93}}), ["flow.calls"])
        self.assertEqual(self.unmet({**good, "flow": {"of_slower": 0.93, "calls": {"cudaMalloc": 1}}}), ["flow.calls"])
        self.assertEqual(self.unmet({**good, "latency": {"latency": good["latency"]["latency"][:1]}}), ["latency"])
        self.assertEqual(len(self.unmet({})), 6)

    def test_tests_that_are_skipped(self):
        one, two = ({"cuda": {"devices": [{}] * count}} for count in (1, 2))
        for passed in (0, 1):
            skipped = {"test_cuda_device": {"exit": 0, "passed": passed, "failed": 0, "skipped": 1}}
            self.assertEqual(self.unmet(self.GOOD, tests=skipped, machine=one), [])
            self.assertEqual(self.unmet(self.GOOD, tests=skipped, machine=two), ["tests.test_cuda_device"])
        for counts in ({"passed": 0, "failed": 0, "skipped": 0}, {"passed": 0, "failed": 0, "skipped": 2}):
            self.assertEqual(self.unmet(self.GOOD, tests={"test_cuda_device": {"exit": 0, **counts}}, machine=one),
                             ["tests.test_cuda_device"])
        skipped = {"test_motion": {"exit": 0, "passed": 0, "failed": 0, "skipped": 1}}
        self.assertEqual(self.unmet(self.GOOD, tests=skipped, machine=one),
                         ["tests.test_motion"])

    def test_frames_that_differ_between_hardware_and_software(self):
        nvdec = {"software 1": {"frames": 10, "streams": 1, "hashes": ["a"]},
                 "hardware 4": {"frames": 40, "streams": 4, "hashes": ["a"]}}
        self.assertEqual(self.unmet(self.GOOD, nvdec=nvdec), [])
        for wrong in ({"hashes": ["a", "b"]}, {"hashes": ["b"]}, {"frames": 39}, {"streams": 3}):
            bad = {**nvdec, "hardware 4": {**nvdec["hardware 4"], **wrong}}
            self.assertEqual(self.unmet(self.GOOD, nvdec=bad), ["nvdec.hardware 4"])

    def test_classes_that_differ_from_the_processors(self):
        network = {"cpu": {"frames": 10, "per_s": 9, "classes": "a"},
                   "graph on, 16 workers": {"frames": 10, "per_s": 90, "classes": "b"}}
        self.assertEqual(self.unmet(self.GOOD, network=network), ["network.graph on, 16 workers"])


class Page(Case):
    def test_the_page_is_what_its_report_makes_of_it(self):
        """Without a report nothing is measured; nobody puts a figure in by hand."""
        page, kept = ROOT / "tools/bench/README.md", ROOT / "tools/bench/gpu.json"
        report = json.loads(kept.read_text()) if kept.exists() else None
        self.assertEqual(page.read_text(), gpu_page.filled(page.read_text(), report))
        if not report:
            self.assertEqual(page.read_text().count("| not measured |"), len(gpu_page.FIGURES))

    def test_from_a_report(self):
        page, report = self.folder / "README.md", self.folder / "r.json"
        shutil.copy(ROOT / "tools/bench/README.md", page)
        report.write_text(json.dumps({"device": "cuda:0", "benchmarks": {"upload": {"of_bare": 0.875}}, "targets": [
            {"figure": "upload.of_bare", "wanted": ">= 0.95", "reached": 0.875, "met": False}]}))
        subprocess.run([sys.executable, SCRIPT, "--fill", report, "--page", page], check=True, timeout=60)
        text = page.read_text()
        subprocess.run([sys.executable, SCRIPT, "--fill", "--page", page], check=True, timeout=60)
        self.assertEqual(page.read_text(), text)
        self.assertIn("| goal 0.95 | 0.875 | `tools/bench/gpu --only benchmarks` |", text)
        self.assertIn("- upload.of_bare: wanted >= 0.95, reached 0.875", text)
        self.assertEqual(text.count("| not measured |"), len(gpu_page.FIGURES) - 1)


class Arguments(Case):
    def told_wrong(self, *arguments):
        done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertIn("tools/bench/gpu: ", done.stderr)

    def test_wrong_arguments(self):
        self.told_wrong("--resume")
        self.told_wrong("--device", "gpu")
        self.told_wrong("--only", "everything")
        self.told_wrong("--join")
        self.told_wrong("--piece", "0")
        (self.folder / "report.json").write_text('{"device": "sim:0"}')
        self.told_wrong("--device", "sim:1", "--json", str(self.folder / "report.json"), "--resume", "--built",
                        str(BUILT))

    def test_without_a_gpu_that_is_said_at_once(self):
        if GPUS:
            self.skipTest("this machine has a GPU")
        folder = str(self.folder / "build")
        done = subprocess.run([sys.executable, SCRIPT, "--build", folder], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("driver", json.loads(done.stdout)["unavailable"])
        self.assertFalse(os.path.exists(folder))

    def test_help(self):
        done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        for option in ("--pack", "--only", "--built", "--quick", "--json", "--budget", "--resume", "--fill", "--piece",
                       "--join"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    main()
