"""Frames from one process to another on one host: through shared memory, as ZeroMQ messages, by memcpy, and by
GStreamer's shmsink. All in turn, round after round; medians over the rounds. First as fast as each can, for pictures of
three sizes; then 100 a second, for how long one is on its way."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import contest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = {"320x240": 115_200, "1920x1080": 3_110_400, "3840x2160": 12_441_600}  # bytes of I420
WAYS = {
    "shm-zmq": "shared memory, references over ZeroMQ",
    "shm-note": "shared memory, and references in it",
    "zmq": "ZeroMQ, whole frames",
    "memcpy": "memcpy in and memcpy out",
}
QUICK, RATE, PACED_SECONDS = 100_000, 100, 5
BYTES = 6_000_000_000  # that whole frames are copied in one run


def frames_of(way, size):
    """So many that start-up and the clock's grain do not matter."""
    return QUICK if way.startswith("shm") else max(500, min(20_000, BYTES // SIZES[size]))


def bench(build, way, size, frames, rate=None):
    command = [str(build / "bench_shm"), way, size, str(frames)] + ([str(rate)] if rate else [])
    told = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if told.returncode:
        raise RuntimeError(f"{' '.join(command)}: {told.stderr}")
    return json.loads(told.stdout)


def gstreamer_run(size, frames, folder):
    """Two gst-launch-1.0: shmsink copies what fakesrc gives into its area,
    shmsrc reads it there until it has enough."""
    path = folder / "gst"
    area = 16 * SIZES[size]
    producer = (f"gst-launch-1.0 -q fakesrc sizetype=fixed sizemax={SIZES[size]} filltype=nothing ! shmsink "
             f"socket-path={path} shm-size={area} wait-for-connection=true sync=false")
    consumer = f"gst-launch-1.0 -q shmsrc socket-path={path} num-buffers={frames} ! fakesink sync=false"
    script = (f"{producer} & producer=$!; while [ ! -S {path} ]; do sleep 0.01; done; {consumer}; status=$?; "
              "kill $producer; wait $producer; exit $status")
    measured = contest.measure(contest.Contestant("GStreamer", [["sh", "-c", script]]))
    path.unlink(missing_ok=True)
    return measured


def gstreamer(size, folder):
    """The difference of a long and a short run, so that its start does not count."""
    long = frames_of("gst", size)
    short = long // 10
    a, b = gstreamer_run(size, short, folder), gstreamer_run(size, long, folder)
    count = long - short
    return {"cpu_us_a_frame": (b.cpu - a.cpu) / count * 1e6, "frames_a_second": count / max(b.wall - a.wall, 1e-9)}


def has_gstreamer():
    return shutil.which("gst-inspect-1.0") and subprocess.run(
        ["gst-inspect-1.0", "shmsink"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def as_fast_as_they_can(build, rounds, folder):
    names = dict(WAYS)
    if has_gstreamer():
        names["gst"] = "GStreamer fakesrc, shmsink, shmsrc"
    runs = {(name, size): [] for name in names for size in SIZES}
    for turn in range(rounds):
        for name, size in runs if turn % 2 == 0 else reversed(runs):
            runs[name, size].append(gstreamer(size, folder) if name == "gst"
                                    else bench(build, name, size, frames_of(name, size)))
    print(f"\n{'as fast as they can, I420':50}" + "".join(f"{size:>24}" for size in SIZES))
    print(f"{'':50}" + "".join(f"{'us of CPU':>12}{'frames/s':>12}" for _ in SIZES))
    for name, words in names.items():
        line = f"{words:50}"
        for size in SIZES:
            cpu, speed = (statistics.median(run[what] for run in runs[name, size])
                          for what in ("cpu_us_a_frame", "frames_a_second"))
            line += f"{cpu:12.1f}{speed:12.0f}"
        print(line, flush=True)


def paced(build, rounds):
    runs = {name: [] for name in WAYS}
    for turn in range(rounds):
        for name in runs if turn % 2 == 0 else reversed(runs):
            runs[name].append(bench(build, name, "1920x1080", RATE * PACED_SECONDS, RATE))
    print(f"\n{f'{RATE} frames a second, 1920x1080':50}{'us of CPU':>12}{'p50 us':>12}{'p99 us':>12}")
    for name, words in WAYS.items():
        print(f"{words:50}" + "".join(f"{statistics.median(run[what] for run in runs[name]):12.1f}"
                                      for what in ("cpu_us_a_frame", "p50_us", "p99_us")), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        as_fast_as_they_can(arguments.build, arguments.rounds, pathlib.Path(folder))
    paced(arguments.build, arguments.rounds)


if __name__ == "__main__":
    main()
