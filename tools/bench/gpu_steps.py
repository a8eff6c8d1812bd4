"""The steps of tools/bench/gpu, in the order of their worth: each runs programs and puts results into the report."""
import csv
import hashlib
import json
import os
import pathlib
import re
import shutil

from gpu_libraries import linked, opened
from gpu_report import Stopped, last, run, say

TESTS = ["test_device", "test_kernels", "test_preprocess", "test_classical_cuda", "test_cuda_device", "test_cuda_graph",
         "test_cuda_chain", "test_cuda_trace", "test_cuda_flow", "test_extractors", "test_motion", "test_overlap",
         "test_ceiling", "test_operations", "test_classify_head", "test_nvenc_card"]
# If one of these fails, nothing after them means anything.
DECISIVE = ("test_device", "test_kernels")
# Needs clips.
NVDEC_TESTS = ["test_nvdec_card"]
# Needs models and ONNX Runtime.
NETWORK_TESTS = ["test_ort_card"]
SANITIZED = ["test_kernels", "test_preprocess", "test_classical_cuda", "test_cuda_device", "test_cuda_graph",
             "test_cuda_chain", "test_cuda_flow"]
BENCHMARKS = ["bench_cuda_preprocess", "bench_cuda_upload", "bench_flow", "bench_latency"]
PROGRAMS = [*TESTS, *NVDEC_TESTS, *NETWORK_TESTS, *BENCHMARKS, "millrace"]
STREAMS = (1, 4, 16)
# Of ncu: what bounds the kernel, what it moves, and what it waits for.
COUNTERS = ["gpu__time_duration.sum", "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum",
            "smsp__issue_active.avg.pct_of_peak_sustained_active", "sm__warps_active.avg.pct_of_peak_sustained_active",
            "dram__bytes_read.sum", "dram__bytes_write.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "l1tex__data_bank_conflicts_pipe_lsu.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "launch__registers_per_thread"]
DECODING = """version: 1
pipeline: decoding
sources:
  clip: {uri: nothing}
stages:
  decode: {input: clip, device: "%(device)s", hardware: %(hardware)s}
"""
HASHED = DECODING + """  looks: {type: phash, input: decode, device: "%(device)s"}
  colours: {type: histogram, input: looks, device: "%(device)s"}
  out: {type: jsonl, input: colours, features: true, tensors: true, path: "-"}
"""
BARE = DECODING + "  out: {type: \"null\", input: decode}\n"
NETWORK = """version: 1
pipeline: network
sources:
  clip: {uri: nothing}
stages:
  decode: {input: clip, device: cpu}
  preprocess: {input: decode, fit: center-crop, crop_fraction: 0.875, mean: 127, std: 128, device: "%(device)s"}
  features:
    {input: preprocess, model: "%(models)s/lite0-features.onnx", tensor: features, device: "%(device)s"%(graph)s}
  classify:
    input: features
    weights: "%(models)s/lite0-head.npy"
    labels: "%(models)s/imagenet.txt"
    device: "%(device)s"
  out: {type: jsonl, input: classify, path: "-"}
"""


def tool(name):
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin:/opt/nvidia/nsight-compute")


# ---- the machine -----------------------------------------------------------------------------------------------------

def look_at_machine(report, given):
    """What there is: libraries that are linked or opened later, and what the command says of the devices. Never
    resumed: it may be another machine."""
    programs = [given.built / name for name in PROGRAMS if (given.built / name).exists()]
    lacking = {pathlib.Path(program).name: gone for program, found in linked(programs, given.environment).items()
               if (gone := [name for name, path in found.items() if not path])}
    done = run([given.built / "millrace", "devices", "--json"], 120, env=given.environment)
    report.log(["millrace", "devices", "--json"], done)
    try:
        told = json.loads(done[1])
    except ValueError:
        told = {"exit": done[0], "said": last(done[1] + done[2])}
    report["machine"] = {**told, "lacking": lacking, "opened": opened(given.libraries),
                         "tools": {name: tool(name) for name in ("ncu", "compute-sanitizer", "nvcc", "ffmpeg")}}
    for name, gone in lacking.items():
        say(f"{name} cannot start: {', '.join(gone)} missing")
    report.write()


# ---- tests -----------------------------------------------------------------------------------------------------------

def counted(text):
    """How many tests of a cmocka program passed, failed and were skipped; some have several groups."""
    return {key: sum(int(count) for count in re.findall(rf"\[  {word} *\] (\d+) test\(s\)", text))
            for key, word in (("passed", "PASSED"), ("failed", "FAILED"), ("skipped", "SKIPPED"))}


def run_test(report, given, name):
    if not (given.built / name).exists():
        return {"not_measured": f"there is no {name} in {given.built}"}
    status, said, wrong, seconds = report.run([given.built / name], environment=given.test_environment,
                                              folder=given.scratch)
    told = {"exit": status, "seconds": seconds, **counted(said + wrong)}
    figures = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    if figures:
        told["figures"] = figures
    if status != 0:
        told["said"] = [line for line in (said + wrong).splitlines()
                        if "rror" in line or "FAILED" in line][:20] or last(wrong)
    return told


def run_tests(report, given):
    for name in TESTS:
        told = report.ask("tests", name, lambda name=name: run_test(report, given, name))
        if name in DECISIVE and told.get("exit") != 0 and not given.go_on:
            raise Stopped(f"{name} failed, so nothing else is measured: {told.get('said') or told}; --go-on measures "
                          "all the same, --again tests runs the tests again")


# ---- benchmarks ------------------------------------------------------------------------------------------------------

def run_program(report, given, words, environment=None):
    if not (given.built / words[0]).exists():
        return {"not_measured": f"there is no {words[0]} in {given.built}: a build without CUDA"}
    status, said, wrong, _ = report.run([given.built / words[0], *words[1:]], environment=environment)
    return json.loads(said) if status == 0 else {"exit": status, "not_measured": last(said + wrong)}


def measure_benchmarks(report, given, step, environment):
    quick = given.quick
    # Two of them know only cuda:0.
    programs = {"preprocess": ["bench_cuda_preprocess", 5 if quick else 50] if given.device == "cuda:0" else None,
                "upload": ["bench_cuda_upload", 40 if quick else 400] if given.device == "cuda:0" else None,
                "flow": ["bench_flow", "--device", given.device, "--frames", 80 if quick else 8000],
                "latency": ["bench_latency", "--device", given.device, "--rounds", 20 if quick else 2000]}
    for name, words in programs.items():
        report.ask(step, name, lambda words=words: run_program(report, given, words, environment) if words else
                   {"not_measured": f"only cuda:0 is, not {given.device}"})


def run_benchmarks(report, given):
    measure_benchmarks(report, given, "benchmarks", {})


def run_plain(report, given):
    measure_benchmarks(report, given, "plain", {"MILLRACE_CUDA_GRAPHS": "0"})


def run_ops(report, given):
    """Every operation beside the best that the device does."""
    words = ["millrace", "bench", "ops", "--device", given.device, "--json", *(["--only", "launch"] * given.quick)]
    report.ask("ops", "operations", lambda: run_program(report, given, words))


# ---- pipelines -------------------------------------------------------------------------------------------------------

def run_pipeline(report, given, text, inputs, *arguments):
    """Rows of results, and the summary."""
    path = given.scratch / "pipeline.yaml"
    path.write_text(text)
    words = [given.built / "millrace", "run", path, "--json", "--control", "off", *arguments]
    status, said, wrong, _ = report.run([*words, *(word for one in inputs for word in ("--input", one))])
    if status != 0:
        raise RuntimeError(f"exit {status}: {' '.join(last(wrong, 3))}")
    lines = [json.loads(line) for text in (said, wrong) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if "ledger" not in line], next(line for line in lines if "ledger" in line)


def hashes(rows):
    """{source: one digest of all that its frames gave, in order}."""
    kept = {}
    for row in sorted(rows, key=lambda row: (row["source"], row["seq"])):
        source = row.pop("source")
        row.pop("file", None)
        kept.setdefault(source, hashlib.sha256()).update(json.dumps(row, sort_keys=True).encode())
    return {source: one.hexdigest()[:16] for source, one in kept.items()}


def run_nvdec(report, given):
    """The clip as software and as NVDEC decode it, on 1, 4 and 16 streams: perceptual hashes and histograms of all
    frames, then the rate alone. test_nvdec_card compares the pictures themselves, in every codec."""
    clip = given.data / "clips/1080p.mp4"
    hardware = "require" if given.device.startswith("cuda") else "auto"

    def frames(device, hardware, streams):
        rows, _ = run_pipeline(report, given, HASHED % {"device": device, "hardware": hardware}, [clip] * streams)
        kept = hashes(rows)
        return {"frames": len(rows), "streams": len(kept), "hashes": sorted(set(kept.values()))}

    def rate(device, hardware, streams):
        _, summary = run_pipeline(report, given, BARE % {"device": device, "hardware": hardware}, [clip] * streams)
        frames = summary["ledger"]["delivered"]
        return {"frames": frames, "per_s": round(frames / summary["wall_s"], 1)}
    for name in NVDEC_TESTS:
        report.ask("nvdec", name, lambda name=name: run_test(report, given, name))
    if not clip.exists():
        report.ask("nvdec", "clip", lambda: {"failed": f"there is no {clip}"})
        return
    report.ask("nvdec", "software 1", lambda: frames("cpu", "off", 1))
    for streams in STREAMS[:2 if given.quick else None]:
        report.ask("nvdec", f"hardware {streams}", lambda streams=streams: frames(given.device, hardware, streams))
    report.ask("nvdec", "software rate 1", lambda: rate("cpu", "off", 1))
    for streams in STREAMS[:2 if given.quick else None]:
        report.ask("nvdec", f"hardware rate {streams}", lambda streams=streams: rate(given.device, hardware, streams))


def run_network(report, given):
    """ONNX Runtime on the device: its test, one image at a time, then the clip with graphs off and on,
    by 1 and 16 workers."""
    models, clip = given.data / "models", given.data / "clips/1080p.mp4"

    def classes(device, graph, workers):
        text = NETWORK % {"device": device, "models": models, "graph": ", cuda_graph: true" if graph else ""}
        rows, summary = run_pipeline(report, given, text, [clip], "--workers", workers)
        best = [(row["seq"], [one["index"] for one in row["classes"]]) for row in rows]
        return {"frames": len(rows), "per_s": round(len(rows) / summary["wall_s"], 1),
                "classes": hashlib.sha256(json.dumps(sorted(best)).encode()).hexdigest()[:16]}
    report.ask("network", "latency", lambda: run_program(report, given, [
        "bench_latency", "--device", given.device, "--rounds", 20 if given.quick else 1000, "--model",
        given.model or models / "lite0.onnx"]))
    for name in NETWORK_TESTS:
        report.ask("network", name, lambda name=name: run_test(report, given, name))
    report.ask("network", "cpu", lambda: classes("cpu", False, 1))
    for graph in (False, True):
        for workers in (1, 16):
            report.ask("network", f"graph {'on' if graph else 'off'}, {workers} workers",
                       lambda graph=graph, workers=workers: classes(given.device, graph, workers))


# ---- tools of CUDA's toolkit -----------------------------------------------------------------------------------------

def run_ncu(report, given):
    def measure():
        found = tool("ncu")  # the fused kernel is the first that the benchmark launches, once for each set
        if not found:
            return {"missing": "ncu", "how": "it comes with Nsight Compute, beside the CUDA toolkit; pip has none"}
        status, said, wrong, _ = report.run([found, "--csv", "--metrics", ",".join(COUNTERS), "--launch-count", "2",
                                             given.built / "bench_cuda_preprocess", "1"])
        lines = said.splitlines()
        header = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
        if status != 0 or header is None:
            return {"exit": status, "failed": last(said + wrong)}
        rows = list(csv.DictReader(lines[header:]))
        one = [row for row in rows if row["ID"] == rows[-1]["ID"]]
        return {"kernel": one[0]["Kernel Name"][:120], "counters": {
            row["Metric Name"]: f"{row['Metric Value']} {row['Metric Unit']}".strip() for row in one}}
    report.ask("ncu", "bench_cuda_preprocess", measure)


def run_sanitizer(report, given, sanitizer):
    found = tool("compute-sanitizer")

    def measure(name):
        status, said, wrong, seconds = report.run([found, "--tool", sanitizer, "--error-exitcode", "99",
                                                   given.built / name],
                                                  environment=given.test_environment)
        summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", said + wrong)
        return {"exit": status, "seconds": seconds, "summary": summary}
    if not found:
        report.ask(sanitizer, "compute-sanitizer", lambda: {
            "missing": "compute-sanitizer",
            "how": "it comes with the CUDA toolkit (package cuda-sanitizer); pip has only its libraries"})
        return
    for name in SANITIZED:
        report.ask(sanitizer, name, lambda name=name: measure(name))


# Step: function, the groups of the pack that it needs.
STEPS = {"tests": (run_tests, ["programs"]), "benchmarks": (run_benchmarks, ["programs"]),
         "plain": (run_plain, ["programs"]), "ops": (run_ops, ["programs"]),
         "nvdec": (run_nvdec, ["programs", "clips"]), "ncu": (run_ncu, ["programs"]),
         "memcheck": (lambda report, given: run_sanitizer(report, given, "memcheck"), ["programs"]),
         "racecheck": (lambda report, given: run_sanitizer(report, given, "racecheck"), ["programs"]),
         "network": (run_network, ["programs", "clips", "network", "cuda", "cublas", "cudnn"]),
         "initcheck": (lambda report, given: run_sanitizer(report, given, "initcheck"), ["programs"]),
         "synccheck": (lambda report, given: run_sanitizer(report, given, "synccheck"), ["programs"])}


def find_onnxruntime(given):
    """The library for programs: the environment's, the pack's, or that of build/venv."""
    named = os.environ.get("MILLRACE_ONNXRUNTIME")
    found = sorted(given.data.glob("onnxruntime/capi/libonnxruntime.so.*")) + sorted(
        given.data.glob("venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*"))
    return named or (str(found[0]) if found else None)
