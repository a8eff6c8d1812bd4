"""Parts of live.py: what receiving, decoding and classifying take, and how soon a picture is a row, beside GStreamer,
OpenCV and ffmpeg, in turn."""
import collections
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import clock_camera
from live_run import PATIENCE, ROOT, VENV, Run, cpu_of, in_ms, quantile, serve, source

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
OURS = "millrace"


def missing(kind):
    """Why a program is left out, or None."""
    if kind == OURS:
        return None
    if kind == "ffmpeg":
        return None if shutil.which("ffmpeg") else "not installed"
    if not VENV.exists():
        return "no build/venv (tools/test makes it)"
    if kind == "opencv":
        return "no OpenCV" if subprocess.run([VENV, "-c", "import cv2"], capture_output=True).returncode else None
    found = subprocess.run([VENV, "-c", "import sys; sys.path.append('/usr/lib/python3/dist-packages'); import gi"],
                           capture_output=True).returncode == 0
    found = found and shutil.which("gst-inspect-1.0")
    found = found and subprocess.run(["gst-inspect-1.0", "avdec_h264"], capture_output=True).returncode == 0
    return None if found else "no GStreamer with libav (gstreamer1.0-libav, python3-gi)"


def present(kinds, found):
    """Those that are there; the others are noted."""
    reasons = {kind: missing(kind) for kind in kinds}
    found |= {f"{kind}_left_out": reason for kind, reason in reasons.items() if reason}
    return [kind for kind in kinds if not reasons[kind]]


def start(command, **options):
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, **options)


def end(child):
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


# ---- throughput ------------------------------------------------------------------------------------------------------

def measured(command, seconds):
    """Processor seconds and what it printed, of a command that ends by itself or is asked to."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = start(command, stderr=subprocess.PIPE)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out, err


def receive_by_millrace(given, folder, urls, stages, last):
    path = pathlib.Path(folder) / "throughput.yaml"
    sources = "".join(source(f"c{n}", url) for n, url in enumerate(urls))
    path.write_text(f"version: 1\npipeline: throughput\nsources:\n{sources}stages:\n{stages}"
                    f"  end: {{type: 'null', input: {last}}}\n")
    cpu, out, _ = measured([given.millrace, "run", path, "--json", "--quiet"], given.seconds)
    ledger = json.loads(out)["ledger"]
    dropped = sum(line["frames"] for line in ledger["dropped"])
    return {"cpu_s": round(cpu, 2), "pictures": ledger["delivered"], "dropped": dropped}


def receive_by(kind, given, urls):
    cpu, out, err = measured([VENV, PEERS / "receive.py", kind, given.seconds, *urls], given.seconds + PATIENCE)
    if not out.split():
        sys.exit(f"{kind}: {err[-300:]}")
    return {"cpu_s": round(cpu, 2), "pictures": int(out.split()[-1])}


def throughput(given, folder):
    servers, urls = serve(given, given.cameras)
    found = {"cameras": len(urls), "seconds": given.seconds, "sent": round(len(urls) * given.seconds * given.rate)}
    try:
        runs = {"receive": receive_by_millrace(given, folder, urls, "", "sources.*"),
                "decode": receive_by_millrace(given, folder, urls, "  decode: {input: sources.*}\n", "decode")}
        for kind in present(("gstreamer", "opencv"), found):
            runs[kind] = receive_by(kind, given, urls)
    finally:
        for server in servers:
            server.end()
    for run in runs.values():
        run["percent_of_a_core_each"] = round(100 * run["cpu_s"] / given.seconds / len(urls), 2)
        run["ms_a_picture"] = round(1000 * run["cpu_s"] / max(1, run["pictures"]), 3)
    for run in runs.values():
        run["of_decode"] = round(run["ms_a_picture"] / runs["decode"]["ms_a_picture"], 2)
    return {**found, **runs}, []


# ---- latency ---------------------------------------------------------------------------------------------------------

CLOCK = """\
  decode: {input: sources.*}
  bars: {type: preprocess, input: decode, size: 32x2, interpolation: area, order: gray, dtype: u8}
  rows: {type: jsonl, input: bars, features: true, path: "-"}
"""


def ages_of_rows(given, folder, url, seconds):
    ages = []
    run = Run(given, folder, [source("clock", url)], CLOCK,
              take=lambda now, line: ages.append(clock_camera.age(json.loads(line)["features"][:clock_camera.BARS])))
    try:
        run.wait_for(lambda: len(ages) >= seconds * clock_camera.RATE)
        if wrong := run.end():
            sys.exit(wrong[0])
    finally:
        run.kill()
    return ages


def ages_by(kind, url, seconds):
    child = start([VENV, PEERS / "clock.py", kind, url, seconds + 1], stderr=subprocess.DEVNULL)
    out = child.communicate(timeout=seconds + PATIENCE)[0].split()
    return [None if one == "None" else int(one) for one in out]


def latency(given, folder):
    """Milliseconds from the drawing of a picture to its row, or to the picture in a program's hands; the first second
    of each run is not counted. The camera's encoder is in all of them."""
    camera = start([ROOT / "tools/soak/clock_camera.py"], stderr=subprocess.DEVNULL)
    url = camera.stdout.readline().strip()
    found, ages, unread = {}, collections.defaultdict(list), collections.Counter()
    try:
        if not url.startswith("rtsp:"):
            return {"left_out": "no gst-rtsp-server, or no x264enc"}, []
        kinds = present((OURS, "gstreamer", "ffmpeg", "opencv"), found)
        for _ in range(given.rounds):
            for kind in kinds:
                all_of_it = (ages_of_rows(given, folder, url, given.seconds) if kind == OURS else
                             ages_by(kind, url, given.seconds))
                counted = all_of_it[clock_camera.RATE:]
                ages[kind] += [age for age in counted if age is not None]
                unread[kind] += counted.count(None)
    finally:
        end(camera)
    for kind, of in ages.items():
        found[kind] = {"median_ms": quantile(of, 0.5), "p99_ms": quantile(of, 0.99),
                       "longest_ms": max(of, default=None), "pictures": len(of), "not_read": unread[kind]}
    return found, [] if ages[OURS] else ["no code was read"]


# ---- a crowd ---------------------------------------------------------------------------------------------------------

EVERY = 10
SETTLE = 15  # seconds for a program to begin
CROWD = """\
version: 1
pipeline: crowd
sources:
{sources}stages:
  decode:     {{input: sources.*}}
  preprocess: {{input: decode, fit: center-crop, crop_fraction: 0.875, antialias: false, mean: 127, std: 128}}
  features:   {{input: preprocess, model: "{model}", tensor: features}}
  classify:   {{input: features, weights: "{head}", top_k: 5}}
  rows:       {{type: jsonl, input: classify, path: "-"}}
"""


class Crowd:
    """cameras.py: its cameras, and when the newest connection of each has begun."""

    def __init__(self, given, count):
        self.child = start([sys.executable, ROOT / "tools/soak/cameras.py", "--count", count, "--size", given.size,
                            "--rate", given.rate, "--bitrate", given.bitrate])
        self.urls = [self.child.stdout.readline().strip() for _ in range(count)]
        self.begun = {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.child.stdout:
            number, when = line.split()
            self.begun[f"c{number}"] = float(when)

    def end(self):
        self.child.kill()
        self.child.wait()


def begin_crowd(kind, given, folder, urls):
    if kind != OURS:
        return start([VENV, PEERS / "crowd.py", kind, EVERY, given.size, given.model, *urls], stderr=subprocess.DEVNULL)
    path = pathlib.Path(folder) / "crowd.yaml"
    sources = "".join(source(f"c{n}", url, more=f", every: {EVERY}") for n, url in enumerate(urls))
    path.write_text(CROWD.format(sources=sources, model=given.model, head=given.model.parent / "lite0-head.npy"))
    return start([given.millrace, "run", path, "--quiet"], stderr=subprocess.DEVNULL)


def watch(child, results):
    """When each picture that was classified came out: {source: {its number: time}}."""
    for line in child.stdout:
        now = time.monotonic()
        row = json.loads(line)
        results[row["source"]][row["seq"]] = now


def receive_crowd(kind, given, folder, crowd, count):
    """Late is a result that comes after the next picture to be classified of its camera was sent."""
    crowd.begun.clear()
    results = collections.defaultdict(dict)
    child = begin_crowd(kind, given, folder, crowd.urls[:count])
    reading = threading.Thread(target=watch, args=(child, results), daemon=True)
    reading.start()
    names, late_s = [f"c{n}" for n in range(count)], EVERY / given.rate

    def in_time(name):
        """Whether its newest result was."""
        done = dict(results[name])
        return done and name in crowd.begun and done[max(done)] - crowd.begun[name] - max(done) / given.rate < late_s

    until = time.monotonic() + SETTLE
    while not all(map(in_time, names)) and time.monotonic() < until:  # what came while it started is worked off
        time.sleep(0.05)
    time.sleep(1)
    if child.poll() is not None:
        sys.exit(f"{kind} ended by itself, with {child.returncode}, before {count} cameras were measured")
    cpu, cameras_cpu, begin = cpu_of(child), cpu_of(crowd.child), time.monotonic()
    time.sleep(given.seconds)
    stop = time.monotonic()
    cpu, cameras_cpu = cpu_of(child) - cpu, cpu_of(crowd.child) - cameras_cpu
    time.sleep(2 * late_s)
    done = {name: dict(results[name]) for name in names}
    end(child)
    reading.join()
    delays, absent = [], 0
    for name in names:
        begun = crowd.begun.get(name, begin)
        first = -(-int((begin - begun) * given.rate) // EVERY) * EVERY
        for number in range(first, int((stop - begun) * given.rate), EVERY):
            if number in done[name]:
                delays.append(done[name][number] - begun - number / given.rate)
            else:
                absent += 1
    return {"cameras": count, "due": len(delays) + absent, "late": absent + sum(delay > late_s for delay in delays),
            "median_ms": in_ms(quantile(delays, 0.5)), "p99_ms": in_ms(quantile(delays, 0.99)),
            "cpu_s": round(cpu, 2), "cores": round(cpu / (stop - begin), 2),
            "cameras_cores": round(cameras_cpu / (stop - begin), 3)}


KINDS = (OURS, "gstreamer", "opencv")


def joined(runs):
    """The sums and medians of several runs of one program."""
    return {key: sum(run[key] for run in runs) if key in ("due", "late") else
            quantile([run[key] for run in runs if run[key] is not None], 0.5) for key in runs[0]}


def crowd(given, folder):
    if not given.model.exists():
        return {"left_out": f"no {given.model} (tools/demo makes it)"}, []
    found, runs = {"seconds": given.seconds, "rounds": given.rounds}, collections.defaultdict(list)
    kinds = present(KINDS, found)
    server = Crowd(given, given.cameras)
    try:
        for _ in range(given.rounds):
            for kind in kinds:
                runs[kind].append(receive_crowd(kind, given, folder, server, given.cameras))
    finally:
        server.end()
    found |= {kind: joined(of) for kind, of in runs.items()}
    late = found[OURS]["late"]
    return found, [f"{late} of {found[OURS]['due']} were late"] if late else []


def most(given, folder):
    """The largest number with nothing late, to two cameras, by halving what is left between one that was managed and
    one that was not."""
    if not given.model.exists():
        return {"left_out": f"no {given.model} (tools/demo makes it)"}, []
    found = {"seconds": given.seconds, "highest": given.highest}
    kinds = present(KINDS, found)
    highest = given.highest // 2 * 2
    server = Crowd(given, highest)
    try:
        low, high = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, highest + 2)
        while open_kinds := [kind for kind in kinds if high[kind] - low[kind] > 2]:
            for kind in open_kinds:
                count = (low[kind] + high[kind]) // 4 * 2
                run = receive_crowd(kind, given, folder, server, count)
                if run["late"]:
                    high[kind] = count
                else:
                    low[kind] = count
                    found[kind] = run
    finally:
        server.end()
    return found, [f"{kind} manages {low[kind]}, millrace {low[OURS]}" for kind in kinds if low[kind] > low[OURS]]
