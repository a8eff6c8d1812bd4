"""Runs everything that needs a GPU, the most important first: tests, benchmarks, NVDEC, ONNX Runtime on CUDA, and the
sanitizers. Prints one JSON object: {step: {name: result}}.

    tools/bench/gpu                              builds in build/gpu, then runs all steps on cuda:0
    tools/bench/gpu --built build --only tests --only memcheck
    tools/bench/gpu --budget 540 --json r.json --resume
                                                 keeps results in r.json and stops after 540 seconds. The same command
                                                 again runs only what r.json lacks. r-card.json beside it has the
                                                 card's figures for plan --assume cuda:1xr-card.json
    tools/bench/gpu --pack FOLDER                builds, and writes what a machine without network and toolkit needs
                                                 into FOLDER, in pieces; see gpu_pack.py
    tools/bench/gpu --built build --device sim:0 --only benchmarks --quick
                                                 tries it without a GPU

Exit status: 0: everything passed and every goal was reached; 1: something failed; 64: wrong arguments; 69: there is no
GPU; 75: the time is up before everything has run."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import gpu_pack

HERE = pathlib.Path(__file__).resolve().parent
PACKED = (HERE / "bin").is_dir()
ROOT = HERE if PACKED else HERE.parents[1]
TESTS = ["test_device", "test_kernels", "test_heads", "test_paint", "test_blur", "test_preprocess",
         "test_classical_cuda", "test_cuda_device", "test_cuda_graph", "test_cuda_chain", "test_cuda_trace",
         "test_cuda_flow", "test_extractors", "test_motion", "test_overlap", "test_ceiling", "test_operations",
         "test_classify_head", "test_nvenc_card"]
DECISIVE = ("test_device", "test_kernels")  # if one of these fails, no other result counts
SANITIZED = ["test_kernels", "test_heads", "test_paint", "test_blur", "test_preprocess", "test_classical_cuda",
             "test_cuda_device", "test_cuda_graph", "test_cuda_chain", "test_cuda_flow", "test_ceiling"]
PROGRAMS = [*TESTS, "test_nvdec_card", "test_ort_card", "bench_flow", "millrace"]
FLOW_GOAL = 0.9  # as a fraction of a pipeline's slower part
DECODED = """version: 1
pipeline: decoded
sources: {clip: {uri: nothing}}
stages:
  decode: {input: clip, device: "%s", hardware: auto}
  out: {type: "null", input: decode}
"""
CLASSIFIED = """version: 1
pipeline: classified
sources: {clip: {uri: nothing}}
stages:
  decode: {input: clip, device: cpu}
  preprocess: {input: decode, fit: center-crop, crop_fraction: 0.875, mean: 127, std: 128, device: "%(device)s"}
  features:
    {input: preprocess, model: "%(models)s/lite0-features.onnx", tensor: features, device: "%(device)s"%(graph)s}
  classify: {input: features, weights: "%(models)s/lite0-head.npy", labels: "%(models)s/imagenet.txt"}
  out: {type: jsonl, input: classify, path: "-"}
"""


def environment_of(data):
    """Finds libraries, clips and networks: those in a pack, or in the folder where tools/setup and make_data put
    them."""
    folders = [data / "lib", data / "libraries"] if PACKED else []
    runtimes = sorted((data / "libraries").glob("libonnxruntime.so.*")) + sorted(
        data.glob("venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*"))
    found = {"MILLRACE_CLIPS": data / "clips/nvdec", "MILLRACE_TEST_MODELS": data / "models/test",
             "MILLRACE_TIMED_MODEL": data / "models/lite0.onnx"}
    found |= {"MILLRACE_ONNXRUNTIME": path for path in runtimes[:1]}
    path = ":".join([*map(str, folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return {**{name: str(path) for name, path in found.items() if path.exists()},
            **os.environ, **({"LD_LIBRARY_PATH": path} if path else {})}


class OutOfTime(Exception):
    pass


class Runs:
    """The programs, and the report of their results."""

    def __init__(self, given):
        self.given, self.begun = given, time.monotonic()
        kept = given.resume and given.json.exists()
        self.report = json.loads(given.json.read_text()) if kept else {"device": given.device}
        self.environment = environment_of(given.data)

    def run(self, *words, environment=None):
        """Exit status (None: it took too long), standard output, all output."""
        seconds = self.given.seconds
        if self.given.budget is not None:
            seconds = min(seconds, self.given.budget - (time.monotonic() - self.begun))
            if seconds <= 1:
                raise OutOfTime
        words = [str(word) for word in words]
        try:
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=seconds,
                                  stdin=subprocess.DEVNULL, cwd=self.given.scratch,
                                  env={**self.environment, **(environment or {})})
            return done.returncode, done.stdout, done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            if seconds < self.given.seconds:
                raise OutOfTime from late
            return None, "", f"{words[0]} took longer than {seconds} seconds"
        except OSError as error:
            return 127, "", f"{words[0]}: {error.strerror}"

    def program(self, name, *words, environment=None):
        return self.run(self.given.built / name, *words, environment=environment)

    def ask(self, step, name, measure):
        """The result with that name: {"ok": whether it is right, ...}. Measures it if the report lacks it."""
        results = self.report.setdefault(step, {})
        if name not in results:
            try:
                results[name] = measure()
            except (ValueError, KeyError, RuntimeError) as error:
                results[name] = {"ok": False, "failed": f"{type(error).__name__}: {error}"}
            print(f"tools/bench/gpu: {step} {name}: {json.dumps(results[name])}", file=sys.stderr, flush=True)
            if self.given.json:
                new = self.given.json.with_suffix(".new")
                new.write_text(json.dumps(self.report, indent=1) + "\n")
                new.replace(self.given.json)
        return results[name]


def last(text):
    return "\n".join(text.strip().splitlines()[-5:])


# ---- the steps -------------------------------------------------------------------------------------------------------

def run_test(runs, name):
    status, _, text = runs.program(name)
    counts = {key.lower(): sum(map(int, re.findall(rf"\[  {key} *\] (\d+) test\(s\)", text)))
              for key in ("PASSED", "FAILED", "SKIPPED")}
    wrong = [line for line in text.splitlines() if "rror" in line or "FAILED" in line][:20] or last(text)
    return {"ok": status == 0, "exit": status, **counts, **({} if status == 0 else {"failed": wrong})}


def tests(runs):
    for name in TESTS:
        result = runs.ask("tests", name, lambda name=name: run_test(runs, name))
        if name in DECISIVE and not result["ok"]:
            raise RuntimeError(f"{name} failed, so nothing else is measured")


def flow(runs, environment):
    frames = 80 if runs.given.quick else 8000
    status, said, text = runs.program("bench_flow", "--device", runs.given.device, "--frames", frames,
                                      environment=environment)
    if status != 0:
        return {"ok": False, "exit": status, "failed": last(text)}
    result, missed = json.loads(said), []
    if runs.given.device.startswith("cuda") and not environment and result["of_slower"] < FLOW_GOAL:
        missed.append(f"of_slower is {result['of_slower']}, the goal is {FLOW_GOAL}")
    if any(result.get("calls", {}).values()):
        missed.append("calls that allocate, free or wait")
    return {"ok": not missed, **({"missed": missed} if missed else {}), **result}


def ops(runs):
    def measure():
        quick = ["--only", "launch"] if runs.given.quick else []
        status, said, text = runs.program("millrace", "bench", "ops", "--device", runs.given.device, "--json", *quick)
        return {"ok": status == 0, **(json.loads(said) if status == 0 else {"failed": last(text)})}
    runs.ask("ops", "operations", measure)


def run_pipeline(runs, text, inputs, *more):
    """A run's rows and summary."""
    path = pathlib.Path(runs.given.scratch) / "pipeline.yaml"
    path.write_text(text)
    inputs = [word for one in inputs for word in ("--input", one)]
    status, _, text = runs.program("millrace", "run", path, "--json", "--control", "off", *inputs, *more)
    if status != 0:
        raise RuntimeError(f"exit {status}: {last(text)}")
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if "ledger" not in line], next(line for line in lines if "ledger" in line)


def nvdec(runs):
    """test_nvdec_card compares pictures with software's. This step also measures the rates with 1, 4 and 16 streams."""
    def rate(device, streams):
        _, summary = run_pipeline(runs, DECODED % device, [runs.given.data / "clips/1080p.mp4"] * streams)
        frames = summary["ledger"]["delivered"]
        return {"ok": frames > 0, "frames": frames, "per_s": round(frames / summary["wall_s"], 1)}
    runs.ask("nvdec", "test_nvdec_card", lambda: run_test(runs, "test_nvdec_card"))
    runs.ask("nvdec", "software 1", lambda: rate("cpu", 1))
    for streams in (1, 4, 16):
        runs.ask("nvdec", f"hardware {streams}", lambda streams=streams: rate(runs.given.device, streams))


def network(runs):
    """Checks that the device gives the same classes for a clip as the processor, with CUDA graphs off and on."""
    clip, models = runs.given.data / "clips/1080p.mp4", runs.given.data / "models"

    def classes(device, graph, workers):
        text = CLASSIFIED % {"device": device, "models": models, "graph": ", cuda_graph: true" if graph else ""}
        rows, summary = run_pipeline(runs, text, [clip], "--workers", workers)
        best = sorted((row["seq"], [one["index"] for one in row["classes"]]) for row in rows)
        return best, {"frames": len(rows), "per_s": round(len(rows) / summary["wall_s"], 1)}

    def compare(graph, workers):
        expected, (found, figures) = classes("cpu", False, 1)[0], classes(runs.given.device, graph, workers)
        return {"ok": found == expected and len(found) > 0, **figures}
    runs.ask("network", "test_ort_card", lambda: run_test(runs, "test_ort_card"))
    for graph in (False, True)[:1 + runs.given.device.startswith("cuda")]:
        for workers in (1, 16):
            runs.ask("network", f"graph {'on' if graph else 'off'}, {workers} workers",
                     lambda graph=graph, workers=workers: compare(graph, workers))


def sanitize(runs, sanitizer):
    found = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")

    def measure(name):
        status, _, text = runs.run(found, "--tool", sanitizer, "--error-exitcode", 99,
                                   runs.given.built / name)
        return {"ok": status == 0, "exit": status, "summary": re.findall(r"SUMMARY: (.*)", text)}
    missing = {"ok": False, "failed": "it comes with the CUDA toolkit; it is not in PATH or /usr/local/cuda/bin"}
    if not found:
        runs.ask(sanitizer, "compute-sanitizer", lambda: missing)
    for name in SANITIZED if found else ():
        runs.ask(sanitizer, name, lambda name=name: measure(name))


STEPS = {"tests": tests, "benchmarks": lambda runs: runs.ask("benchmarks", "flow", lambda: flow(runs, None)),
         "plain": lambda runs: runs.ask("plain", "flow", lambda: flow(runs, {"MILLRACE_CUDA_GRAPHS": "0"})),
         "ops": ops, "nvdec": nvdec,
         "memcheck": lambda runs: sanitize(runs, "memcheck"),
         "racecheck": lambda runs: sanitize(runs, "racecheck"), "network": network,
         "initcheck": lambda runs: sanitize(runs, "initcheck"), "synccheck": lambda runs: sanitize(runs, "synccheck")}


# ---- the card --------------------------------------------------------------------------------------------------------

def write_card(report, machine, path):
    """The card's measured figures, as `like=FILE.json` and `plan --assume` read them (engine/device/sim/card.h)."""
    ceilings = report.get("ops", {}).get("operations", {}).get("devices", [{}])[0].get("ceilings", {})
    card = {key: ceilings[key] for key in ("memory_bytes_s", "upload_bytes_s", "download_bytes_s", "launch_ns")
            if ceilings.get(key)}
    if rate := report.get("nvdec", {}).get("hardware 1", {}).get("per_s"):
        card["decode_fps"] = {"h264": rate}
    if card:
        device = next((one for one in machine["cuda"]["devices"] if one["name"] == report["device"]), {})
        path.write_text(json.dumps({"name": device.get("model", report["device"]), **card}, indent=1) + "\n")


# ---- the command -----------------------------------------------------------------------------------------------------

def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: (print(f"tools/bench/gpu: {message}; see --help", file=sys.stderr), sys.exit(64))
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or sim:0 to try the benchmarks without a GPU")
    parser.add_argument("--built", type=pathlib.Path, default=HERE / "bin" if PACKED else None,
                        help="a folder with the programs (else they are built)")
    parser.add_argument("--data", type=pathlib.Path, default=HERE if PACKED else ROOT / "build",
                        help="a folder with clips/ and models/, which are made if they are missing")
    parser.add_argument("--only", action="append", choices=list(STEPS), help="this step; may be given several times")
    parser.add_argument("--seconds", type=float, default=600, help="after which one program is ended (600)")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="stop after this time")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    parser.add_argument("--json", type=pathlib.Path, help="keep the report there")
    parser.add_argument("--resume", action="store_true", help="do not measure again what the report has")
    parser.add_argument("--pack", type=pathlib.Path, metavar="FOLDER", help="write a pack there, and measure nothing")
    parser.add_argument("--piece", type=int, default=55, metavar="MIB", help="the largest piece of a pack (55)")
    given = parser.parse_args()
    if given.resume and not given.json:
        parser.error("--resume continues the report of --json: name one")
    if not re.fullmatch(r"(cuda|sim):\d+", given.device):
        parser.error(f"--device takes cuda:N or sim:N, not {given.device}")
    for name in ("built", "data", "json", "pack"):
        if getattr(given, name):
            setattr(given, name, getattr(given, name).absolute())
    return given


def build():
    folder = ROOT / "build/gpu"
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DMILLRACE_CUDA=ON", "-DMILLRACE_TESTS=ON"],
                   check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", folder, "--target", *PROGRAMS], check=True, stdout=sys.stderr)
    return folder


def make_data(given):
    steps = set(given.only or STEPS)
    if steps & {"nvdec", "network"}:
        gpu_pack.make_clips(given.built, given.data)
    if "network" in steps:
        gpu_pack.make_models(given.data)


def measure(given):
    runs, status = Runs(given), 0
    machine = json.loads(subprocess.check_output([given.built / "millrace", "devices", "--json"], env=runs.environment))
    if given.device.startswith("cuda") and given.device not in [one["name"] for one in machine["cuda"]["devices"]]:
        print(f"tools/bench/gpu: there is no {given.device}; see millrace devices", file=sys.stderr)
        return 69
    try:
        if not PACKED:
            make_data(given)
            runs.environment = environment_of(given.data)
        for step in given.only or STEPS:
            STEPS[step](runs)
    except OutOfTime:
        status = 75
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"tools/bench/gpu: {error}", file=sys.stderr)
        status = 1
    results = {f"{step} {name}": result for step, named in runs.report.items() if step != "device"
               for name, result in named.items()}
    wrong = [name for name, result in results.items() if not result["ok"]]
    if wrong:
        print(f"tools/bench/gpu: {len(wrong)} of {len(results)} are wrong: {', '.join(wrong)}", file=sys.stderr)
    if given.json and given.device.startswith("cuda"):
        write_card(runs.report, machine, given.json.with_name(given.json.stem + "-card.json"))
    print(json.dumps({**runs.report, "machine": machine}, indent=1))
    return status or (1 if wrong else 0)


def main():
    given = read_arguments()
    given.built = given.built or build()
    gpu_pack.unpack_wheels(given.data)
    if given.pack:
        gpu_pack.pack(given.built, PROGRAMS, given.data, given.pack, given.piece << 20)
        return 0
    with tempfile.TemporaryDirectory(prefix="millrace-gpu-") as given.scratch:
        return measure(given)


if __name__ == "__main__":
    sys.exit(main())
