"""Everything that only a machine with a GPU can tell: builds with CUDA, runs the tests that need a GPU, then
benchmarks, NVDEC, profiler, sanitizers and ONNX Runtime's CUDA provider, first what is worth most, and prints one JSON
object with all figures beside what they should be. Progress is told on standard error. Nothing is installed; only
--pack fetches (from PyPI). tools/bench/README.md has the page of figures, which this fills.

    tools/bench/gpu                              builds in build/gpu, then does all of it on cuda:0
    tools/bench/gpu --only tests --only memcheck
    tools/bench/gpu --budget 540 --json r.json --resume
                                                 as much of it as can be done in 540 seconds; the same command again
                                                 goes on where that ended. r.json is whole at any time, r.log has all
                                                 output, r-card.json what plan --assume cuda:1xr-card.json expects
                                                 rates from
    tools/bench/gpu --pack FOLDER                builds, and writes all that is needed on a machine with a driver and
                                                 Python 3.11 or later, but without network or toolkit, in pieces of at
                                                 most 55 MiB
    tar xf PIECE; python3 FOLDER/gpu.py --resume --json r.json
                                                 there, after each piece: does what the pieces so far allow. The first
                                                 is enough for tests and benchmarks
    tools/bench/gpu --fill r.json                writes the page of figures from a report
    tools/bench/gpu --built build --device sim:0 --only benchmarks --quick
                                                 as much as can be tried without a GPU

Exit status: 0 all is as it should be, 1 something is not, 64 wrong arguments, 69 there is no GPU, which is found out
first, or nothing to build with, 75 something is left: time or pieces are missing."""
import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import gpu_card
import gpu_pack
import gpu_page
import gpu_steps
from gpu_judge import judge
from gpu_libraries import opened, search_path
from gpu_report import WRONG_ARGUMENTS, OutOfTime, Report, Stopped, environment_with, last, say

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKED = (HERE / "manifests").is_dir()
# What pkg-config knows of the libraries that millrace is built with, and Debian's names for them; those without a .pc
# file by their header.
LIBRARIES = {"libavformat": "libavformat-dev", "libavcodec": "libavcodec-dev", "libavutil": "libavutil-dev",
             "libswscale": "libswscale-dev", "yaml-0.1": "libyaml-dev", "yajl": "libyajl-dev", "libzmq": "libzmq3-dev",
             "libpng": "libpng-dev", "libprotobuf-c": "libprotobuf-c-dev", "liblz4": "liblz4-dev",
             "libzstd": "libzstd-dev", "libxxhash": "libxxhash-dev",
             "gnutls": "libgnutls28-dev", "libsodium": "libsodium-dev",
             "cmocka": "libcmocka-dev"}
TOOLS = {"cmake": "cmake", "ninja": "ninja-build", "gcc": "gcc", "g++": "g++", "pkg-config": "pkg-config",
         "protoc-c": "protobuf-c-compiler", "nvcc": "the CUDA toolkit, 12.1 or later"}
NO_DEVICE, UNFINISHED = 69, 75
# CUdevice_attribute
CAPABILITY = (75, 76)


# ---- building --------------------------------------------------------------------------------------------------------

def missing_to_build():
    os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"
    found = [f"{name} ({package})" for name, package in TOOLS.items() if not shutil.which(name)]
    if shutil.which("pkg-config"):
        found += [f"{name}.pc ({package})" for name, package in LIBRARIES.items()
                  if subprocess.run(["pkg-config", "--exists", name], check=False).returncode]
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
                  ["cmake", "--build", folder, "--target", *gpu_steps.PROGRAMS]):
        status, said, wrong, _ = report.run(words, 3600)
        if status != 0:
            return {"failed": last(said + wrong, 20)}
    return {"ok": True}


# ---- the command -----------------------------------------------------------------------------------------------------

class Parser(argparse.ArgumentParser):
    def error(self, message):
        say(f"{message}; --help tells what there is")
        sys.exit(WRONG_ARGUMENTS)


def make_parser():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or sim:N to try the benchmarks without a GPU")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/gpu", help="where to build")
    parser.add_argument("--built", type=pathlib.Path, default=HERE / "bin" if PACKED else None,
                        help="a folder with the programs, so that nothing is built")
    parser.add_argument("--data", type=pathlib.Path, default=HERE if PACKED else ROOT / "build",
                        help="a folder with clips/, models/ and onnxruntime/, as a pack has them")
    parser.add_argument("--architectures",
                        help="compute capabilities to compile for, as 90; where not given, the GPU's, or all with "
                             "--pack")
    steps = list(gpu_steps.STEPS)
    parser.add_argument("--only", action="append", choices=steps, help="this step; may be given several times")
    parser.add_argument("--again", action="append", choices=steps, help="with --resume: measure this step again")
    parser.add_argument("--go-on", action="store_true", help="also if " + " or ".join(gpu_steps.DECISIVE) + " fails")
    parser.add_argument("--model", type=pathlib.Path, help="an ONNX file with one input, whose latency is measured")
    parser.add_argument("--seconds", type=int, default=600, help="after which one program is ended (600)")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for all of it: what is not done then is left")
    parser.add_argument("--resume", action="store_true", help="go on with what the file of --json has")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    parser.add_argument("--json", type=pathlib.Path,
                        help="write the report there too, and the output of all programs beside it")
    parser.add_argument("--fill", type=pathlib.Path, metavar="REPORT", nargs="?", const=pathlib.Path(),
                        help="only write the page of figures from a report; without REPORT from the one that is kept, "
                             "if any")
    parser.add_argument("--page", type=pathlib.Path, default=None if PACKED else HERE / "README.md",
                        help="the page of figures; the report it is made of is kept beside it, as gpu.json")
    packing = parser.add_argument_group("packing")
    packing.add_argument("--pack", type=pathlib.Path, metavar="FOLDER", help="write pieces there")
    packing.add_argument("--group", action="append", choices=list(gpu_pack.GROUPS), help="only these groups of files")
    packing.add_argument("--piece", type=float, default=55, metavar="MIB", help="how large a piece may be (55)")
    packing.add_argument("--wheels", type=pathlib.Path, default=ROOT / "build/gpu-wheels",
                         help="a folder with the wheels of tools/requirements-gpu.txt; missing ones are downloaded "
                              "into it")
    packing.add_argument("--join", action="store_true",
                         help="in a pack: only join what has come, and tell what is missing")
    return parser


def read_arguments():
    parser = make_parser()
    given = parser.parse_args()
    if given.resume and not given.json:
        parser.error("--resume goes on with the file of --json: name one")
    if not re.fullmatch(r"cpu|(cuda|sim):\d+", given.device):
        parser.error(f"--device takes cuda:N, sim:N or cpu, not {given.device}")
    if given.piece < 1:
        parser.error("--piece takes 1 MiB or more")
    if given.join and not PACKED:
        parser.error("--join is for an unpacked piece: python3 FOLDER/gpu.py --join")
    for name in ("built", "data", "json", "model", "page"):
        if getattr(given, name):
            setattr(given, name, getattr(given, name).absolute())
    given.libraries = given.data / "cuda"
    return given


def prepare(given):
    """The environment of programs: the libraries of the pack, and those that pip and the toolkit have put somewhere."""
    folders = [given.data / "lib"] if PACKED else []
    if PACKED:
        try:
            ctypes.CDLL("libstdc++.so.6")
        except OSError:
            folders.append(given.data / "lib-compiler")
    given.environment = environment_with([*folders, *search_path(opened(given.libraries))])
    runtime = gpu_steps.find_onnxruntime(given)
    if runtime:
        given.environment["MILLRACE_ONNXRUNTIME"] = runtime
    folders = {"MILLRACE_CLIPS": given.data / "clips/nvdec", "MILLRACE_TEST_MODELS": given.data / "models/test",
               "MILLRACE_TIMED_MODEL": given.data / "models/lite0.onnx"}
    given.test_environment = {name: str(path) for name, path in folders.items() if path.exists()}


def make_programs(report, given):
    """Builds unless programs are there; false if that cannot be done."""
    if not given.built and ("ok" not in report.get("build", {}) or not (given.build / "millrace").exists()):
        report["build"] = build(report, given.build, given.architectures)
        report.write()
    given.built = given.built or given.build
    return "ok" in report.get("build", {"ok": True})


def do_step(report, given, step, waiting):
    """Runs a step, or notes the pieces that it waits for. An error in it is a result, and the next step is done."""
    function, groups = gpu_steps.STEPS[step]
    missing = {group: waiting[group] for group in groups if group in waiting}
    if missing:
        report.setdefault("waiting", {})[step] = missing
        say(f"{step} waits for pieces: " + ", ".join(f"{group} ({'all' if chunks is None else ', '.join(chunks)})"
                                                    for group, chunks in missing.items()))
        return
    report.setdefault("broken", {}).pop(step, None)
    try:
        function(report, given)
    except (OutOfTime, Stopped):
        raise
    except Exception as error:
        report["broken"][step] = f"{type(error).__name__}: {error}"
        say(f"{step} broke off: {report['broken'][step]}")


def do_all(report, given):
    waiting = gpu_pack.join(HERE) if PACKED else {}
    prepare(given)
    if PACKED:
        waiting = gpu_pack.needed(HERE, waiting, opened(given.libraries))
    if "programs" not in waiting:
        gpu_steps.look_at_machine(report, given)
    with tempfile.TemporaryDirectory(prefix="millrace-gpu-") as scratch:
        given.scratch = pathlib.Path(scratch)  # what programs leave behind goes with it
        for step in given.only or gpu_steps.STEPS:
            do_step(report, given, step, waiting)


def status_of(report):
    if "stopped" in report:
        return 1
    if report["unfinished"] or report.get("waiting"):
        return UNFINISHED
    if report.get("benchmarks", {}).get("flow", {}).get("exit") == NO_DEVICE:
        return NO_DEVICE
    return 0 if all(one["met"] for one in report["targets"]) else 1


def keep_card(report, given):
    """r.json has r-card.json beside it, for like=r-card.json."""
    card = given.json and given.json.with_name(given.json.stem + "-card.json")
    if card and given.device.startswith("cuda") and gpu_card.write_card(report, card):
        say(f"{card} has what was measured: sim:0?like={card} and plan --assume cuda:1x{card} take it")


def measure(given):
    report = Report(given)
    report["unfinished"] = False
    try:
        if not make_programs(report, given):
            print(json.dumps(report, indent=1))
            return NO_DEVICE
        do_all(report, given)
    except OutOfTime:
        report["unfinished"] = True
        say("no time is left" + (": the same command goes on from here" if given.resume else ""))
    except Stopped as reason:
        report["stopped"] = str(reason)
        say(str(reason))
    report["targets"] = judge(report)
    report.write()
    keep_card(report, given)
    print(json.dumps(report, indent=1))
    if given.page and given.device.startswith("cuda") and "machine" in report:
        gpu_page.keep(given.page.with_name("gpu.json"), report)
        gpu_page.fill(given.page, given.page.with_name("gpu.json"))
    return status_of(report)


def make_pack(given):
    given.environment, given.json, given.resume = dict(os.environ), None, False
    if not make_programs(Report(given), given):
        return NO_DEVICE
    whole = gpu_pack.pack(given.built, gpu_steps.PROGRAMS, given.pack.resolve(), given.group or list(gpu_pack.GROUPS),
                          given.wheels, int(given.piece * gpu_pack.MIB))
    return 0 if whole else 1


def join_pieces():
    waiting = gpu_pack.join(HERE)
    for group, chunks in waiting.items():
        say(f"{group} ({gpu_pack.GROUPS[group][0]}) is missing: "
            f"{'all pieces' if chunks is None else ', '.join(chunks)}")
    return UNFINISHED if waiting else 0


def main():
    given = read_arguments()
    if given.join:
        return join_pieces()
    if given.fill is not None:
        kept = given.page.with_name("gpu.json")
        if given.fill != pathlib.Path():
            gpu_page.keep(kept, json.loads(given.fill.read_text()))
        gpu_page.fill(given.page, kept)
        return 0
    if given.pack:
        return make_pack(given)
    if given.device.startswith("cuda"):
        capability, wrong = capability_of(given.device)
        if wrong:
            say(wrong)
            print(json.dumps({"device": given.device, "unavailable": wrong}, indent=1))
            return NO_DEVICE
        given.architectures = given.architectures or capability
    # The build's programs run with the environment as it is.
    given.environment = dict(os.environ)
    return measure(given)


if __name__ == "__main__":
    sys.exit(main())
