"""The page of figures: tools/bench/README.md holds, between two markers, a table that only this writes, from a report
of tools/bench/gpu. A figure that was never measured says so; none is put in by hand."""
import json

BEGIN = ("<!-- figures: `tools/bench/gpu` writes all between these two lines; `tools/bench/gpu --fill REPORT` does it "
         "from a report -->")
END = "<!-- end of figures -->"
BENCHMARKS, PLAIN, NVDEC, NETWORK = (f"`tools/bench/gpu --only {step}`"
                                     for step in ("benchmarks", "plain", "nvdec", "network"))

# What the predictions are made of, for an H100: about 3.0 TB/s of the 3.35 TB/s of its data sheet; PCIe 5 x16, of which
# 53 GB/s can be used. What is touched of 64 pictures: counted by bench_cuda_preprocess.
COPY_BYTES_PER_S, UPLOAD_BYTES_PER_S = 3.0e12, 53e9
TOUCHED_BYTES, PICTURE_BYTES = 107e6, 1920 * 1080 * 3 // 2


def predictions():
    """{figure: text}"""
    pictures = UPLOAD_BYTES_PER_S / PICTURE_BYTES
    return {"benchmarks.preprocess.copy_gb_per_s": f"{COPY_BYTES_PER_S / 1e9:.0f}",
            "benchmarks.preprocess.fused_ms": f"at least {TOUCHED_BYTES / COPY_BYTES_PER_S * 1e3:.3f}",
            "benchmarks.preprocess.of_copy": "goal 0.7",
            "benchmarks.preprocess.times_unfused": "goal 3",
            "benchmarks.upload.bare_gb_per_s": f"{UPLOAD_BYTES_PER_S / 1e9:.0f}",
            "benchmarks.upload.of_bare": "goal 0.95",
            "benchmarks.flow.upload_per_s": f"{pictures:.0f}",
            "benchmarks.flow.flow_per_s": f"{0.9 * pictures:.0f} to {pictures:.0f}",
            "benchmarks.flow.of_slower": "goal 0.9"}


# Path in the report, what it is, the command that measures it.
FIGURES = [
    ("benchmarks.preprocess.copy_gb_per_s", "copies within the card's memory, read and written, GB/s", BENCHMARKS),
    ("benchmarks.preprocess.fused_ms", "64 pictures of 1080p NV12 to 224x224 f16, ms", BENCHMARKS),
    ("benchmarks.preprocess.of_copy", "the same, as a share of the copy's rate", BENCHMARKS),
    ("benchmarks.preprocess.times_unfused", "times as fast as three kernels in a row", BENCHMARKS),
    ("benchmarks.upload.bare_gb_per_s", "uploads from pinned memory, GB/s", BENCHMARKS),
    ("benchmarks.upload.of_bare", "uploads by the engine, as a share of that", BENCHMARKS),
    ("benchmarks.upload.pageable_gb_per_s", "uploads from pageable memory, GB/s", BENCHMARKS),
    ("benchmarks.upload.results.times", "results of a batch by one copy, times as fast as one by one", BENCHMARKS),
    ("benchmarks.upload.peer.engine_gb_per_s", "from one GPU to another, GB/s", BENCHMARKS),
    ("benchmarks.upload.peer.times", "the same, times as fast as through the host", BENCHMARKS),
    ("benchmarks.flow.upload_per_s", "1080p pictures uploaded a second", BENCHMARKS),
    ("benchmarks.flow.compute_per_s", "1080p pictures preprocessed a second, by batches of 8", BENCHMARKS),
    ("benchmarks.flow.flow_per_s", "1080p pictures through a pipeline a second", BENCHMARKS),
    ("benchmarks.flow.of_slower", "the same, as a share of the slower part", BENCHMARKS),
    ("benchmarks.latency.kernels.graphs", "one picture through five kernels with CUDA graphs, median, us", BENCHMARKS),
    ("benchmarks.latency.kernels.plain", "the same without, us", BENCHMARKS),
    ("plain.flow.flow_per_s", "1080p pictures through a pipeline a second without CUDA graphs", PLAIN),
    ("nvdec.software rate 1.per_s", "1080p H.264 decoded by the processor, 1 stream, frames/s", NVDEC),
    *((f"nvdec.hardware rate {streams}.per_s", f"the same by NVDEC, {streams} streams", NVDEC)
      for streams in (1, 4, 16)),
    ("network.latency.network.graphs", "one image through EfficientNet-Lite0 with CUDA graphs, median, us", NETWORK),
    ("network.latency.network.plain", "the same without, us", NETWORK),
    *((f"network.graph {graph}, {workers} workers.per_s",
       f"clip to classes, graph {graph}, {workers} workers, frames/s", NETWORK)
      for graph in ("off", "on") for workers in (1, 16))]


def latency(results, work, graphs):
    found = [one["median_us"] for one in results.get("latency", []) if one["work"] == work and one["graphs"] is graphs]
    return found[0] if found else None


def value_of(report, path):
    """The figure, or None where it was not measured."""
    step, name, key = path.split(".", 2)
    results = report.get(step, {}).get(name, {})
    if name == "latency":
        work, _, graphs = key.partition(".")
        return latency(results, work, graphs == "graphs")
    group, _, inner = key.rpartition(".")
    return ((results.get(group) or {}) if group else results).get(inner)


def counters(report):
    """Rows of what ncu read."""
    return [(f"ncu: {name}", "", value) for one in report.get("ncu", {}).values()
            for name, value in one.get("counters", {}).items()]


def described(report):
    cuda = report.get("machine", {}).get("cuda", {})
    names = ", ".join(sorted({str(one.get("model") or one.get("name")) for one in cuda.get("devices", [])}))
    machine = f"{names or report['device']}, driver {cuda.get('driver')}"
    return f"Measured on {machine}, with kernels for the build's architectures."


def table(report):
    """The text between the markers."""
    report = report or {}
    expected = predictions()
    lines = [described(report) if report else "No card has been at hand: nothing is measured yet.", "",
             "| figure | predicted | measured | command |", "| --- | --- | --- | --- |"]
    for path, name, command in FIGURES:
        value = value_of(report, path)
        lines.append(f"| {name} | {expected.get(path, '')} | {'not measured' if value is None else value} | "
                     f"{command} |")
    lines += [f"| {name} | {expectation} | {value} | `tools/bench/gpu --only ncu` |"
              for name, expectation, value in counters(report)]
    if "targets" in report:
        missed = [one for one in report["targets"] if not one["met"]]
        lines += ["", f"{len(report['targets']) - len(missed)} of {len(report['targets'])} expectations are met."]
        lines += [f"- {one['figure']}: wanted {one['wanted']}, reached {one['reached']}" for one in missed]
    return "\n".join(lines)


def filled(page, report):
    """The text of the page with the table of this report."""
    before, _, rest = page.partition(BEGIN)
    inside, marker, after = rest.partition(END)
    if not marker:
        raise ValueError(f"no lines \"{BEGIN}\" and \"{END}\" in the page")
    return f"{before}{BEGIN}\n\n{table(report)}\n\n{END}{after}"


def keep(kept, report):
    """Keeps the report that the page is made of."""
    kept.write_text(json.dumps(report, indent=1) + "\n")


def fill(page, kept):
    """Writes the page from the report that is kept beside it, if there is one."""
    page.write_text(filled(page.read_text(), json.loads(kept.read_text()) if kept.exists() else None))
