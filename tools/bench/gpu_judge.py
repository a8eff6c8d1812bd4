"""Whether the results of tools/bench/gpu are as they should be: one line for each,
also for those that were not measured."""

# Figure, the least that it should be.
TARGETS = {("preprocess", "of_copy"): 0.7, ("preprocess", "times_unfused"): 3, ("upload", "of_bare"): 0.95,
           ("flow", "of_slower"): 0.9}
# Tests that are skipped if there is only one GPU.
NEED_TWO = {"test_cuda_device": 1, "test_cuda_flow": 1}
# Tests that are skipped if there is no ffmpeg to make a stream with.
NEED_FFMPEG = {"test_nvdec_card": 1}
# Tests that are skipped on GPUs without an encoder, which the test finds out itself.
NEED_NVENC = {"test_nvenc_card": 2}
# Tests that are skipped if there is no TensorRT.
NEED_TENSORRT = {"test_ort_card": 4}


def target(figure, wanted, reached, met):
    return {"figure": figure, "wanted": wanted, "reached": reached, "met": bool(met)}


def judge_benchmarks(measured):
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


def judge_plain(measured):
    """Without CUDA graphs everything still runs; how fast is for comparison."""
    told = []
    for name, key in (("flow", "flow_per_s"), ("latency", "latency")):
        found = measured.get(name, {}).get(key)
        told.append(target(f"plain.{name}", "measured without CUDA graphs", "measured" if found else "not measured",
                           found))
    return told


def judge_ops(results):
    """A GPU need not have each codec. How large a share is is for a person to judge."""
    told = []
    for name, one in results.items():
        operations = [every for device in one.get("devices", []) for every in device["operations"]]
        left = [every["name"] for every in operations if "left_out" in every]
        wrong = [every["name"] for every in operations if "left_out" in every and every["group"] != "codec"]
        reached = f"{len(operations) - len(left)} measured, left out: {', '.join(left) or 'none'}"
        told.append(target(f"ops.{name}", "all measured but codecs", reached if operations else problem(one),
                           operations and not wrong))
    return told


def allowed_skips(machine):
    """{test program: how many of its tests may be skipped on this machine}"""
    two = len(machine.get("cuda", {}).get("devices", [])) >= 2
    ffmpeg = machine.get("tools", {}).get("ffmpeg")
    tensorrt = machine.get("opened", {}).get("libnvinfer.so.10")
    return {**NEED_NVENC, **({} if two else NEED_TWO), **({} if ffmpeg else NEED_FFMPEG),
            **({} if tensorrt else NEED_TENSORRT)}


def judge_test(name, test, may_skip):
    """A program whose only test needs two GPUs passes by being skipped on one."""
    allowed = may_skip.get(name, 0)
    if "exit" not in test or "passed" not in test:
        return target(f"tests.{name}", "all pass", problem(test), False)
    return target(f"tests.{name}", f"all pass, {allowed or 'none'} skipped",
                  f"{test['passed']} passed, {test['failed']} failed, {test['skipped']} skipped",
                  test["exit"] == 0 and test["skipped"] <= allowed and test["passed"] + test["skipped"] > 0)


def problem(result):
    """Why there is no result, in words."""
    found = [str(result[key]) for key in ("failed", "not_measured", "missing") if key in result]
    return found[0] if found else f"exit {result.get('exit')}"


def judge_nvdec(results, may_skip):
    """Hardware gives what software gives, on every stream."""
    told, right = [], results.get("software 1", {})
    for name, one in results.items():
        if name.startswith("test_"):
            told.append(judge_test(name, one, may_skip))
        elif "per_s" in one:
            told.append(target(f"nvdec.{name}", "measured", f"{one['per_s']} frames/s", True))
        elif "hashes" not in one:
            told.append(target(f"nvdec.{name}", "the frames of software", problem(one), False))
        elif name != "software 1":
            streams = int(name.split()[-1])
            same = "hashes" in right and (one["hashes"], one["frames"], one["streams"]) == (
                right["hashes"], streams * right["frames"], streams)
            told.append(target(f"nvdec.{name}", "the frames of software",
                               f"{one['frames']} frames, {'equal' if same else 'others'}", same))
    return told


def judge_network(results, may_skip):
    told, right = [], results.get("cpu", {})
    for name, one in results.items():
        if name.startswith("test_"):
            told.append(judge_test(name, one, may_skip))
        elif "classes" in one:
            told.append(target(f"network.{name}", "the classes of the processor", f"{one['per_s']} frames/s, "
                               f"{'equal' if one['classes'] == right.get('classes') else 'others'}",
                               one["classes"] == right.get("classes") and one["frames"]))
        else:
            told.append(target(f"network.{name}", "measured", "measured" if "latency" in one else problem(one),
                               "latency" in one))
    return told


def judge_tools(report):
    told = []
    for step in ("memcheck", "racecheck", "initcheck", "synccheck"):
        for name, check in report.get(step, {}).items():
            told.append(target(f"{step}.{name}", "exit 0", check["exit"] if "exit" in check
                               else f"{problem(check)} is missing", check.get("exit") == 0))
    for name, one in report.get("ncu", {}).items():
        told.append(target(f"ncu.{name}", "counters read", "read" if "counters" in one else problem(one),
                           "counters" in one))
    return told


def judge(report):
    """Every expectation beside its result. How fast a simulated device is means nothing."""
    told, real = [], report["device"].startswith("cuda")
    may_skip = allowed_skips(report.get("machine", {}))
    if "stopped" in report:
        told.append(target("all steps", "done", report["stopped"], False))
    for name, gone in report.get("machine", {}).get("lacking", {}).items():
        told.append(target(f"libraries.{name}", "all found", f"missing: {', '.join(gone)}", False))
    if real and "benchmarks" in report:
        told += judge_benchmarks(report["benchmarks"])
    if real and "plain" in report:
        told += judge_plain(report["plain"])
    told += [judge_test(name, test, may_skip) for name, test in report.get("tests", {}).items()]
    told += judge_ops(report.get("ops", {}))
    told += judge_nvdec(report.get("nvdec", {}), may_skip)
    told += judge_network(report.get("network", {}), may_skip) + judge_tools(report)
    for step, error in report.get("broken", {}).items():
        told.append(target(step, "done", error, False))
    return told
