"""Whether the results of tools/bench/gpu are as they should be: one line for each, also for those that were not measured."""

# Figure, the least that it should be.
TARGETS = {("preprocess", "of_copy"): 0.7, ("preprocess", "times_unfused"): 3, ("upload", "of_bare"): 0.95,
           ("flow", "of_slower"): 0.9}
# Tests that are skipped if there is only one GPU.
NEED_TWO = {"test_cuda_device": 1, "test_cuda_flow": 1}


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
    return [target(f"plain.{name}", "measured without CUDA graphs", "measured" if measured.get(name, {}).get(key) else "not measured",
                   measured.get(name, {}).get(key)) for name, key in (("flow", "flow_per_s"), ("latency", "latency"))]


def judge_test(name, test, gpus):
    """A program whose only test needs two GPUs passes by being skipped on one."""
    allowed = NEED_TWO.get(name, 0) if gpus < 2 else 0
    if "exit" not in test or "passed" not in test:
        return target(f"tests.{name}", "all pass", problem(test), False)
    return target(f"tests.{name}", f"all pass, {allowed or 'none'} skipped",
                  f"{test['passed']} passed, {test['failed']} failed, {test['skipped']} skipped",
                  test["exit"] == 0 and test["skipped"] <= allowed and test["passed"] + test["skipped"] > 0)


def problem(result):
    """Why there is no result, in words."""
    return next((str(result[key]) for key in ("failed", "not_measured", "missing") if key in result), f"exit {result.get('exit')}")


def judge_nvdec(results, gpus):
    """Hardware gives what software gives, on every stream."""
    told, right = [], results.get("software 1", {})
    for name, one in results.items():
        if name.startswith("test_"):
            told.append(judge_test(name, one, gpus))
        elif "per_s" in one:
            told.append(target(f"nvdec.{name}", "measured", f"{one['per_s']} frames/s", True))
        elif "hashes" not in one:
            told.append(target(f"nvdec.{name}", "the frames of software", problem(one), False))
        elif name != "software 1":
            streams = int(name.split()[-1])
            same = right.get("hashes") and one["hashes"] == right["hashes"] and one["frames"] == streams * right["frames"]
            told.append(target(f"nvdec.{name}", "the frames of software", f"{one['frames']} frames, {'equal' if same else 'others'}",
                               same and one["streams"] == streams))
    return told


def judge_network(results, gpus):
    told, right = [], results.get("cpu", {})
    for name, one in results.items():
        if name.startswith("test_"):
            told.append(judge_test(name, one, gpus))
        elif "classes" in one:
            told.append(target(f"network.{name}", "the classes of the processor", f"{one['per_s']} frames/s, "
                               f"{'equal' if one['classes'] == right.get('classes') else 'others'}",
                               one["classes"] == right.get("classes") and one["frames"]))
        else:
            told.append(target(f"network.{name}", "measured", "measured" if "latency" in one else problem(one), "latency" in one))
    return told


def judge_tools(report):
    told = []
    for step in ("memcheck", "racecheck", "initcheck", "synccheck"):
        for name, check in report.get(step, {}).items():
            told.append(target(f"{step}.{name}", "exit 0", check["exit"] if "exit" in check else f"{problem(check)} is missing",
                               check.get("exit") == 0))
    for name, one in report.get("ncu", {}).items():
        told.append(target(f"ncu.{name}", "counters read", "read" if "counters" in one else problem(one), "counters" in one))
    return told


def judge(report):
    """Every expectation beside its result. How fast a simulated device is means nothing."""
    told, real = [], report["device"].startswith("cuda")
    gpus = len(report.get("machine", {}).get("cuda", {}).get("devices", []))
    if "stopped" in report:
        told.append(target("all steps", "done", report["stopped"], False))
    for name, gone in report.get("machine", {}).get("lacking", {}).items():
        told.append(target(f"libraries.{name}", "all found", f"missing: {', '.join(gone)}", False))
    if real and "benchmarks" in report:
        told += judge_benchmarks(report["benchmarks"])
    if real and "plain" in report:
        told += judge_plain(report["plain"])
    told += [judge_test(name, test, gpus) for name, test in report.get("tests", {}).items()]
    told += judge_nvdec(report.get("nvdec", {}), gpus) + judge_network(report.get("network", {}), gpus) + judge_tools(report)
    for step, error in report.get("broken", {}).items():
        told.append(target(step, "done", error, False))
    return told
