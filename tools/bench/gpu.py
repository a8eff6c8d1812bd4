"""Everything that only a machine with a GPU can tell: builds with CUDA, runs the tests that need a GPU, runs them again under
compute-sanitizer, then the benchmarks, and prints one JSON object with all figures beside what they should be. What goes on
is told on standard error. Nothing is installed, and nothing is fetched: what is missing is named.

    tools/bench/gpu                              builds in build/gpu, then does all of it on cuda:0
    tools/bench/gpu --only tests --only sanitizer
    tools/bench/gpu --budget 540 --json r.json --resume
                                                 as much of it as can be done in 540 seconds; the same command again goes on
                                                 where that ended. The file is whole at any time
    tools/bench/gpu --pack FOLDER                builds, and puts all that it needs into FOLDER and FOLDER.tar.xz, for a machine
                                                 with a driver but without the libraries to build with: there,
                                                 python3 FOLDER/gpu.py
    tools/bench/gpu --built build --device sim:0 --only benchmarks --quick
                                                 what can be tried of it without a GPU

Exit status: 0 all is as it should be, 1 something is not, 64 wrong arguments, 69 there is no GPU, which is found out first, or
nothing to build with, 75 there was no time for all of it."""
import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# What pkg-config knows of the libraries that millrace is built with, and Debian's names for them; those without a .pc file by
# their header.
LIBRARIES = {"libavformat": "libavformat-dev", "libavcodec": "libavcodec-dev", "libavutil": "libavutil-dev",
             "libswscale": "libswscale-dev", "yaml-0.1": "libyaml-dev", "yajl": "libyajl-dev", "libzmq": "libzmq3-dev",
             "libpng": "libpng-dev", "libprotobuf-c": "libprotobuf-c-dev", "liblz4": "liblz4-dev",
             "libzstd": "libzstd-dev", "libxxhash": "libxxhash-dev", "cmocka": "libcmocka-dev"}
TOOLS = {"cmake": "cmake", "ninja": "ninja-build", "gcc": "gcc", "g++": "g++", "pkg-config": "pkg-config",
         "protoc-c": "protobuf-c-compiler", "nvcc": "the CUDA toolkit, 12.1 or later"}
TESTS = ["test_device", "test_kernels", "test_preprocess", "test_classical_cuda", "test_cuda_device", "test_cuda_graph",
         "test_cuda_trace", "test_cuda_flow", "test_extractors", "test_motion", "test_overlap"]
SANITIZED = ["test_kernels", "test_preprocess", "test_classical_cuda", "test_cuda_device", "test_cuda_graph", "test_cuda_flow"]
# Tests that are skipped where there is only one GPU.
NEED_TWO = {"test_cuda_device": 1, "test_cuda_flow": 1}
SANITIZERS = ["memcheck", "racecheck", "initcheck", "synccheck"]
PROGRAMS = [*TESTS, "bench_cuda_preprocess", "bench_cuda_upload", "bench_flow", "bench_latency", "millrace"]
# In the order of what is worth most where time runs out.
STEPS = ["tests", "benchmarks", "sanitizer"]
# Figure, the least that it should be.
TARGETS = {("preprocess", "of_copy"): 0.7, ("preprocess", "times_unfused"): 3, ("upload", "of_bare"): 0.95,
           ("flow", "of_slower"): 0.9}
WRONG_ARGUMENTS, NO_DEVICE, NO_TIME = 64, 69, 75
# CUdevice_attribute
CAPABILITY = (75, 76)


def say(text):
    print(f"tools/bench/gpu: {text}", file=sys.stderr, flush=True)


def run(words, seconds, **more):
    """Exit status (None: it took too long), what it printed, and how many seconds it took."""
    begun = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds,
                              stdin=subprocess.DEVNULL, errors="replace", **more)
        status, said, wrong = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        status, said, wrong = None, *((text or b"").decode(errors="replace") for text in (late.stdout, late.stderr))
    return status, said, wrong, round(time.monotonic() - begun, 1)


class OutOfTime(Exception):
    """There is no time to begin another program, or the last one was not done in it."""


class Report(dict):
    """What is known so far. What a program told is kept in the file of --json at once, so that nothing is lost where all of it
    is ended from outside; what an earlier run has told is not asked again."""

    def __init__(self, given):
        super().__init__(device=given.device)
        self.given, self.begun = given, time.monotonic()
        if given.resume and given.json.exists():
            before = json.loads(given.json.read_text())
            if before.get("device") != given.device:
                say(f"{given.json} is of {before.get('device')}, not of {given.device}")
                sys.exit(WRONG_ARGUMENTS)
            self.update(before)

    def left(self):
        """Seconds; None: as many as are wanted."""
        return None if self.given.budget is None else self.given.budget - (time.monotonic() - self.begun)

    def write(self):
        if self.given.json:
            new = self.given.json.with_name(self.given.json.name + ".new")
            new.write_text(json.dumps(self, indent=1) + "\n")
            new.replace(self.given.json)

    def run(self, words, seconds=None):
        left, most = self.left(), seconds or self.given.seconds
        if left is not None and left <= 1:
            raise OutOfTime()
        done = run(words, most if left is None else min(most, left), env=self.given.environment)
        if done[0] is None and left is not None and left < most:
            raise OutOfTime()
        return done

    def ask(self, step, name, measure):
        """What is told of it; measured where that was not done before."""
        told = self.setdefault(step, {})
        if name not in told:
            told[name] = measure()
            say(f"{name}: {told[name]}")
            self.write()


def last(text, lines=5):
    return text.strip().splitlines()[-lines:]


# ---- building -----------------------------------------------------------------------------------------------------------

def missing_to_build():
    os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"
    found = [f"{name} ({package})" for name, package in TOOLS.items() if not shutil.which(name)]
    if shutil.which("pkg-config"):
        found += [f"{name}.pc ({package})" for name, package in LIBRARIES.items()
                  if subprocess.run(["pkg-config", "--exists", name]).returncode]
    if not list(pathlib.Path("/usr/include").glob("**/blis*/cblas.h")):
        found.append("cblas.h of serial BLIS (libblis-serial-dev)")
    return found


def capability_of(device):
    """"90" for compute capability 9.0, and what is wrong where the device cannot be used: one of the two is None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "there is no NVIDIA driver here (libcuda.so.1 was not found)"
    error, count, value = driver.cuInit(0), ctypes.c_int(), ctypes.c_int()
    if error or driver.cuDeviceGetCount(ctypes.byref(count)):
        return None, f"the driver cannot be used: cuInit answers {error}; millrace devices tells more"
    number = int(device.partition(":")[2])
    if number >= count.value:
        return None, f"there is no {device}: the driver shows {count.value} GPUs"
    digits = ""
    for attribute in CAPABILITY:
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, number)
        digits += str(value.value)
    return digits, None


def build(report, folder, architectures):
    missing = missing_to_build()
    if missing:
        say("cannot build here, these are missing: " + ", ".join(missing))
        return {"missing": missing}
    say(f"building in {folder}")
    for words in (["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DMILLRACE_CUDA=ON", "-DMILLRACE_TESTS=ON",
                   *([f"-DMILLRACE_CUDA_ARCHITECTURES={architectures}"] if architectures else [])],
                  ["cmake", "--build", folder, "--target", *PROGRAMS]):
        status, said, wrong, _ = report.run(words, 3600)
        if status != 0:
            return {"failed": last(said + wrong, 20)}
    return {"ok": True}


def pack(folder, place):
    """Programs, the libraries that they are linked with (not the C library's own), and this script; the folder, and the same in
    one small file."""
    own = re.compile(r"/(ld-linux|libc|libm|libdl|librt|libpthread)[.-]")
    (place / "bin").mkdir(parents=True, exist_ok=True)
    (place / "lib").mkdir(exist_ok=True)
    for name in PROGRAMS:
        shutil.copy2(folder / name, place / "bin")
        if shutil.which("strip"):
            subprocess.run(["strip", place / "bin" / name], check=True)
        for path in re.findall(r"=> (/\S+)", run(["ldd", folder / name], 60)[1]):
            if not own.search(path):
                shutil.copy2(path, place / "lib")
    shutil.copy2(__file__, place)
    total = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    archive = place.with_name(place.name + ".tar.xz")
    with tarfile.open(archive, "w:xz") as made:
        made.add(place, place.name)
    say(f"{place} has {total >> 20} MiB, {archive} {archive.stat().st_size >> 20}; on the machine with the GPU: "
        f"tar xf {archive.name}, then python3 {place.name}/gpu.py")


# ---- running ------------------------------------------------------------------------------------------------------------

def counted(text):
    """How many tests of a cmocka program passed, failed and were skipped; some have several groups."""
    return {key: sum(int(count) for count in re.findall(rf"\[  {word} *\] (\d+) test\(s\)", text))
            for key, word in (("passed", "PASSED"), ("failed", "FAILED"), ("skipped", "SKIPPED"))}


def run_tests(report, given):
    def measure(name):
        status, said, wrong, seconds = report.run([given.built / name])
        told = {"exit": status, "seconds": seconds, **counted(said + wrong)}
        if status != 0:
            told["said"] = [line for line in (said + wrong).splitlines() if "rror" in line or "FAILED" in line][:20]
        return told
    for name in TESTS:
        report.ask("tests", name, lambda name=name: measure(name))


def run_sanitizers(report, given):
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool:
        say("compute-sanitizer is missing; it comes with the CUDA toolkit (package cuda-sanitizer), or put it into PATH")
        report["sanitizer"] = {"missing": "compute-sanitizer"}
        return

    def measure(sanitizer, name):
        status, said, wrong, seconds = report.run([tool, "--tool", sanitizer, "--error-exitcode", "99", given.built / name])
        return {"exit": status, "seconds": seconds,
                "summary": re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", said + wrong)}
    for sanitizer in SANITIZERS:
        for name in SANITIZED:
            report.ask("sanitizer", f"{sanitizer} {name}", lambda words=(sanitizer, name): measure(*words))


def run_benchmarks(report, given):
    quick = given.quick
    # Two of them know only cuda:0.
    programs = {"preprocess": ["bench_cuda_preprocess", 5 if quick else 50] if given.device == "cuda:0" else None,
                "upload": ["bench_cuda_upload", 40 if quick else 400] if given.device == "cuda:0" else None,
                "flow": ["bench_flow", "--device", given.device, "--frames", 80 if quick else 8000],
                "latency": ["bench_latency", "--device", given.device, "--rounds", 20 if quick else 2000,
                            *(["--model", given.model] if given.model else [])]}

    def measure(words):
        if not words:
            return {"not_measured": f"only cuda:0 is, not {given.device}"}
        if not (given.built / words[0]).exists():
            return {"not_measured": f"there is no {words[0]} in {given.built}: a build without CUDA"}
        status, said, wrong, _ = report.run([given.built / words[0], *words[1:]])
        return json.loads(said) if status == 0 else {"exit": status, "not_measured": last(wrong)}
    for name, words in programs.items():
        report.ask("benchmarks", name, lambda words=words: measure(words))


def target(figure, wanted, reached, met):
    return {"figure": figure, "wanted": wanted, "reached": reached, "met": bool(met)}


def judge_benchmarks(measured):
    """Each figure, also one that was not measured: then it is not met."""
    told = []
    for (name, key), least in TARGETS.items():
        reached = measured.get(name, {}).get(key)
        told.append(target(f"{name}.{key}", f">= {least}", "not measured" if reached is None else reached,
                           reached is not None and reached >= least))
    calls = measured.get("flow", {}).get("calls")
    told.append(target("flow.calls", "0 that allocate, free or wait", sum(calls.values()) if calls else "not counted",
                       calls and not any(calls.values())))
    latency = {one["graphs"]: one["median_us"] for one in measured.get("latency", {}).get("latency", [])
               if one["work"] == "kernels"}
    told.append(target("latency", "measured with and without CUDA graphs", latency or "not measured",
                       set(latency) == {True, False}))
    return told


def judge(report):
    """What should be, beside what is. How fast a simulated device is means nothing."""
    told = []
    if report["device"].startswith("cuda") and "benchmarks" in report:
        told += judge_benchmarks(report["benchmarks"])
    gpus = len(report.get("machine", {}).get("cuda", {}).get("devices", []))
    for name, test in report.get("tests", {}).items():
        allowed = NEED_TWO.get(name, 0) if gpus < 2 else 0
        told.append(target(f"tests.{name}", f"all pass, {allowed or 'none'} skipped",
                           f"{test['passed']} passed, {test['failed']} failed, {test['skipped']} skipped",
                           test["exit"] == 0 and test["passed"] > 0 and test["skipped"] <= allowed))
    if "missing" in report.get("sanitizer", {}):
        return told + [target("sanitizer", "exit 0 of all", f"{report['sanitizer']['missing']} is missing", False)]
    for name, check in report.get("sanitizer", {}).items():
        told.append(target(f"sanitizer.{name}", "exit 0", check["exit"], check["exit"] == 0))
    return told


# ---- the command --------------------------------------------------------------------------------------------------------

class Parser(argparse.ArgumentParser):
    def error(self, message):
        say(f"{message}; --help tells what there is")
        sys.exit(WRONG_ARGUMENTS)


def read_arguments():
    packed = HERE / "bin"
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or sim:N to try the benchmarks without a GPU")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/gpu", help="where to build")
    parser.add_argument("--built", type=pathlib.Path, default=packed if packed.is_dir() else None,
                        help="a folder with the programs, so that nothing is built")
    parser.add_argument("--architectures",
                        help="compute capabilities to compile for, as 90; where not given, the GPU's, or all with --pack")
    parser.add_argument("--pack", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=STEPS, help="this step; may be given several times")
    parser.add_argument("--model", type=pathlib.Path, help="an ONNX file with one input, whose latency is measured too")
    parser.add_argument("--seconds", type=int, default=600, help="after which one program is ended (600)")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for all of it: what is not done then is left")
    parser.add_argument("--resume", action="store_true", help="go on with what the file of --json has")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    parser.add_argument("--json", type=pathlib.Path, help="write the report there too")
    given = parser.parse_args()
    if given.resume and not given.json:
        parser.error("--resume goes on with the file of --json: name one")
    if not re.fullmatch(r"cpu|(cuda|sim):\d+", given.device):
        parser.error(f"--device takes cuda:N, sim:N or cpu, not {given.device}")
    given.environment = dict(os.environ)
    libraries = HERE / "lib"
    if libraries.is_dir():
        given.environment["LD_LIBRARY_PATH"] = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return given


def machine(given):
    """What there is, as far as it can be told; whether the device can be used."""
    status, said, wrong, _ = run([given.built / "millrace", "devices", "--json"], 120, env=given.environment)
    try:
        return json.loads(said)
    except ValueError:
        return {"exit": status, "said": last(said + wrong)}


def do_all(report, given):
    if not given.built and ("ok" not in report.get("build", {}) or not (given.build / "millrace").exists()):
        report["build"] = build(report, given.build, given.architectures)
        report.write()
    given.built = given.built or given.build
    if "ok" not in report.get("build", {"ok": True}):
        return
    if given.pack:
        pack(given.built, given.pack)
        return
    report["machine"] = machine(given)
    steps = {"tests": run_tests, "sanitizer": run_sanitizers, "benchmarks": run_benchmarks}
    for step in given.only or STEPS:
        steps[step](report, given)


def status_of(report, given):
    measured = "of_slower" in report.get("benchmarks", {}).get("flow", {"of_slower": 0})
    if report["unfinished"]:
        return NO_TIME
    if "targets" not in report or not measured:
        return NO_DEVICE
    return 0 if all(one["met"] for one in report["targets"]) else 1


def main():
    given = read_arguments()
    report = Report(given)
    if given.device.startswith("cuda") and not given.pack:
        given.capability, wrong = capability_of(given.device)
        if wrong:
            say(wrong)
            print(json.dumps({"device": given.device, "unavailable": wrong}, indent=1))
            return NO_DEVICE
        given.architectures = given.architectures or given.capability
    report["unfinished"] = False
    try:
        do_all(report, given)
    except OutOfTime:
        report["unfinished"] = True
        say("no time is left" + (": the same command goes on from here" if given.resume else ""))
    if given.pack:
        return 0 if "ok" in report.get("build", {"ok": True}) and not report["unfinished"] else NO_DEVICE
    if "machine" in report:
        report["targets"] = judge(report)
    report.write()
    print(json.dumps(report, indent=1))
    return status_of(report, given)


if __name__ == "__main__":
    sys.exit(main())
