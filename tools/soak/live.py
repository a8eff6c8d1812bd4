"""Live cameras in number: what they cost, and what one that fails costs the others.

    tools/soak/live.py [--cameras 24] [--seconds 60] [--reconnects 1000] [--bad 16] [--away 20] [--stopped 60]
                       [--parts throughput,faults,reconnects,changes] [--millrace build/millrace] [--seed N]

Cameras are those of tools/camera (RTSP, 720p, 20 pictures and 2 Mbit a second), in four servers, behind a proxy if they
are to fail. Needs gst-rtsp-server; peers that are not installed are left out, with a word.

    throughput  receiving, and receiving with decoding, beside GStreamer and a loop of OpenCV: processor time, pictures
    faults      one camera beside good ones is killed and comes back, is stopped, sends a picture in three seconds: when
                the run says so, when its pictures are back, and the longest gaps of the good ones
    reconnects  one camera that breaks off again and again beside good ones: descriptors, threads and memory
    changes     sources that are added and removed while others run, by `millrace ctl add` and `remove`; the same counts

Prints one line of JSON for each part. Exit code 1 if a promise does not hold: a stall seen within `stall` and a second,
pictures back within two seconds of the server, descriptors and threads as before, memory within 5 MB."""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVERS = 4
STALL = 2
PATIENCE = 60
SOURCE = '  {id}: {{uri: "{url}", transport: tcp, stall: {stall}s, reconnect: {{first: 100ms, most: {most}}}}}\n'
OPENCV = """
import cv2, os, sys, threading, time
os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "rtsp_transport;tcp|threads;1"
counts = [0] * (len(sys.argv) - 2)
def run(n, url, until):
    capture = cv2.VideoCapture(url, cv2.CAP_FFMPEG)
    while time.monotonic() < until and capture.grab():
        capture.retrieve()
        counts[n] += 1
threads = [threading.Thread(target=run, args=(n, url, time.monotonic() + float(sys.argv[1])), daemon=True)
           for n, url in enumerate(sys.argv[2:])]
for one in threads: one.start()
for one in threads: one.join(float(sys.argv[1]) + 10)
print(sum(counts), flush=True)
os._exit(0)
"""

GSTREAMER = """
import sys, time, gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
pipelines = [Gst.parse_launch(f"rtspsrc location={url} protocols=tcp latency=200 ! rtph264depay ! h264parse ! "
                              "avdec_h264 max-threads=1 ! fakesink name=sink sync=false async=false")
             for url in sys.argv[2:]]
for one in pipelines: one.set_state(Gst.State.PLAYING)
time.sleep(float(sys.argv[1]))
print(sum(one.get_by_name("sink").get_property("stats").get_uint64("rendered")[1] for one in pipelines), flush=True)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=24, help="of throughput")
    parser.add_argument("--seconds", type=float, default=60, help="of each run of throughput")
    parser.add_argument("--bad", type=int, default=16, help="cameras of the other parts, one of which is bad")
    parser.add_argument("--away", type=float, default=20, help="seconds without the server that was killed")
    parser.add_argument("--stopped", type=float, default=60, help="seconds that the server stands still")
    parser.add_argument("--reconnects", type=int, default=1000, help="and changes")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--bitrate", default="2M")
    parser.add_argument("--parts", default="throughput,faults,reconnects,changes")
    parser.add_argument("--millrace", type=pathlib.Path, default=ROOT / "build/millrace")
    return parser.parse_args()


# ---- servers ---------------------------------------------------------------------------------------------------------

class Server:
    """tools/camera with some cameras."""

    def __init__(self, given, count, port=0):
        command = [ROOT / "tools/camera", "--port", port, "--count", count, "--size", given.size, "--rate", given.rate,
                   "--bitrate", given.bitrate]
        self.child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        self.urls = [self.child.stdout.readline().strip() for _ in range(count)]
        if not self.urls[-1].startswith("rtsp:"):
            sys.exit("tools/camera serves no RTSP here (gst-rtsp-server is not installed)")
        self.port = int(re.search(r":(\d+)/", self.urls[0])[1])

    def end(self):
        self.child.send_signal(signal.SIGCONT)
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


class Proxy:
    """Between a client and a server, over TCP: cuts connections, or lets bytes through slowly."""

    def __init__(self, port):
        self.to = port
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.cut_after = None    # bytes from the server
        self.slow = None         # bytes a second from the server
        self.connections = 0
        self.lock = threading.Lock()
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                self.connections += 1
                threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        with contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self.to))
            with self.lock:
                self.open |= {client, server}
            done = 0
            while True:
                for one in select.select([client, server], [], [])[0]:
                    piece = one.recv(1 << 16 if self.slow is None else 1024)
                    if not piece:
                        raise OSError
                    (server if one is client else client).sendall(piece)
                    if one is server:
                        done += len(piece)
                        if self.slow:
                            time.sleep(len(piece) / self.slow)
                        if self.cut_after and done > self.cut_after:
                            raise OSError
        with self.lock:
            self.open -= {client}
        client.close()
        with contextlib.suppress(UnboundLocalError):
            server.close()

    def end(self):
        self.listening.close()
        with self.lock:
            for one in self.open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


# ---- runs ------------------------------------------------------------------------------------------------------------

class Run:
    """A pipeline of cameras, whose rows and messages are read as they come, with the time of each."""

    def __init__(self, given, folder, sources, most=None, wait="1s"):
        path = pathlib.Path(folder) / "live.yaml"
        text = f"  max: {most}\n" if most else ""
        text += "".join(SOURCE.format(id=id, url=url, stall=STALL, most=wait) for id, url in sources.items())
        path.write_text(f"version: 1\npipeline: live\nsources:\n{text}stages:\n  decode: {{input: sources.*}}\n"
                        f"  rows: {{type: jsonl, input: decode, path: \"-\"}}\n")
        self.child = subprocess.Popen([str(given.millrace), "run", str(path), "--log", "info", "--control",
                                       str(pathlib.Path(folder) / "control"), "--quiet"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.control = pathlib.Path(folder) / "control"
        self.times = collections.defaultdict(list)
        self.told = []
        for function in (self.read_rows, self.read_log):
            threading.Thread(target=function, daemon=True).start()

    def read_rows(self):
        for line in self.child.stdout:
            now = time.monotonic()
            found = re.match(r'\{"source":"([^"]+)"', line)
            if found:
                self.times[found[1]].append(now)

    def read_log(self):
        for line in self.child.stderr:
            self.told.append((time.monotonic(), line.rstrip()))

    def said_since(self, begin, pattern):
        return next((when for when, line in list(self.told) if when >= begin and re.search(pattern, line)), None)

    def wait_for(self, what, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not (found := what()) and time.monotonic() < end and self.child.poll() is None:
            time.sleep(0.02)
        return found

    def rows_since(self, source, begin):
        return [when for when in list(self.times[source]) if when >= begin]

    def gaps(self, sources, begin, end):
        """The longest and the 99th percentile of the times from one row to the next, in ms."""
        found = []
        for source in sources:
            times = [when for when in list(self.times[source]) if begin <= when <= end]
            found += [b - a for a, b in zip(times, times[1:])]
        found.sort()
        if not found:
            return {}
        return {"p99_ms": round(1000 * found[int(len(found) * 0.99)], 1), "longest_ms": round(1000 * found[-1], 1)}

    def counts(self):
        folder = pathlib.Path(f"/proc/{self.child.pid}")
        memory = int(re.search(r"VmRSS:\s+(\d+)", (folder / "status").read_text())[1])
        return {"descriptors": len(list((folder / "fd").iterdir())), "threads": len(list((folder / "task").iterdir())),
                "memory_kib": memory}

    def end(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return None


def bits_of(text):
    return float(text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1)


def begin_all(run, sources):
    if not run.wait_for(lambda: all(len(run.times[one]) > 5 for one in sources)):
        sys.exit("not all cameras came: " + "\n".join(line for _, line in run.told[-10:]))


# ---- throughput ------------------------------------------------------------------------------------------------------

def measured(command, seconds):
    """Processor seconds and what it printed, of a command that ends by itself or is asked to."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out, err


def run_millrace(given, folder, urls, stages, last):
    path = pathlib.Path(folder) / "throughput.yaml"
    sources = "".join(SOURCE.format(id=f"c{n}", url=url, stall=STALL, most="1s") for n, url in enumerate(urls))
    path.write_text(f"version: 1\npipeline: throughput\nsources:\n{sources}stages:\n{stages}"
                    f"  end: {{type: 'null', input: {last}}}\n")
    cpu, out, _ = measured([given.millrace, "run", path, "--json", "--quiet"], given.seconds)
    ledger = json.loads(out)["ledger"]
    dropped = sum(line["frames"] for line in ledger["dropped"])
    return {"cpu_s": round(cpu, 2), "pictures": ledger["delivered"], "dropped": dropped}


def run_gstreamer(given, urls):
    if subprocess.run(["gst-inspect-1.0", "avdec_h264"], capture_output=True).returncode:
        return "not installed (gstreamer1.0-libav)"
    cpu, out, err = measured(["/usr/bin/python3", "-c", GSTREAMER, given.seconds, *urls], given.seconds + PATIENCE)
    return {"cpu_s": round(cpu, 2), "pictures": int(out.split()[-1])} if out.split() else err[-300:]


def run_opencv(given, urls):
    python = ROOT / "build/venv/bin/python"
    if not python.exists() or subprocess.run([python, "-c", "import cv2"], capture_output=True).returncode:
        return "not installed (tools/test makes build/venv)"
    cpu, out, _ = measured([python, "-c", OPENCV, given.seconds, *urls], given.seconds + PATIENCE)
    return {"cpu_s": round(cpu, 2), "pictures": int(out.split()[-1]) if out.split() else 0}


def throughput(given, folder):
    each = max(1, given.cameras // SERVERS)
    servers = [Server(given, max(2, each)) for _ in range(min(SERVERS, given.cameras))]
    urls = [url for server in servers for url in server.urls[:each]][:given.cameras]
    try:
        found = {"cameras": len(urls), "seconds": given.seconds, "sent": round(len(urls) * given.seconds * given.rate),
                 "receive": run_millrace(given, folder, urls, "", "sources.*"),
                 "decode": run_millrace(given, folder, urls, "  decode: {input: sources.*}\n", "decode"),
                 "gstreamer": run_gstreamer(given, urls), "opencv": run_opencv(given, urls)}
    finally:
        for server in servers:
            server.end()
    for kind in ("receive", "decode", "gstreamer", "opencv"):
        if isinstance(found[kind], dict):
            found[kind]["percent_of_a_core_each"] = round(100 * found[kind]["cpu_s"] / given.seconds / len(urls), 2)
            found[kind]["ms_a_picture"] = round(1000 * found[kind]["cpu_s"] / max(1, found[kind]["pictures"]), 3)
    for peer in ("gstreamer", "opencv"):
        if isinstance(found[peer], dict):
            found[f"{peer}_over_millrace"] = round(found[peer]["ms_a_picture"] / found["decode"]["ms_a_picture"], 2)
    return found, []


# ---- faults ----------------------------------------------------------------------------------------------------------

def fault(run, good, name, spoil, mend, seconds, allowed):
    """Spoils the camera `bad` for some seconds, and mends it."""
    begun = time.monotonic()
    quiet = run.gaps(good, begun - 10, begun)
    spoil()
    seen = run.wait_for(lambda: run.said_since(begun, r"bad: (stalled|away)"), max(seconds, PATIENCE / 4))
    left = seconds - (time.monotonic() - begun)
    if left > 0:
        time.sleep(left)
    mend()
    ready = time.monotonic()  # a server that starts takes its time
    back = run.wait_for(lambda: (rows := run.rows_since("bad", ready)) and rows[0])
    found = {"seen_after_s": round(seen - begun, 2) if seen else None,
             "back_after_s": round(back - ready, 2) if back else None,
             "good_before": quiet, "good_while": run.gaps(good, begun, back or time.monotonic())}
    wrong = []
    if not seen or seen - begun > allowed:
        wrong.append(f"{name}: seen after {found['seen_after_s']} s, {allowed} s are allowed")
    if not back or back - ready > 2:
        wrong.append(f"{name}: back after {found['back_after_s']} s, 2 s are allowed")
    time.sleep(2)
    return found, wrong


def faults(given, folder):
    servers = [Server(given, max(2, (given.bad - 1 + SERVERS - 1) // SERVERS)) for _ in range(SERVERS)]
    urls = [url for server in servers for url in server.urls][:given.bad - 1]
    good = {f"good{n}": url for n, url in enumerate(urls)}
    bad = [Server(given, 1)]
    proxy = Proxy(bad[0].port)
    run = Run(given, folder, {**good, "bad": f"rtsp://127.0.0.1:{proxy.port}/camera"})
    found, wrong = {"cameras": given.bad}, []

    def again():
        bad[0] = Server(given, 1, bad[0].port)

    def slow():
        proxy.slow = bits_of(given.bitrate) / 8 / given.rate / 3  # a picture in three seconds

    def fast():
        proxy.slow = None
        for one in list(proxy.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    try:
        begin_all(run, [*good, "bad"])
        time.sleep(10)
        for name, spoil, mend, seconds, allowed in (
                ("killed", bad[0].end, again, given.away, 1),
                ("stopped", lambda: bad[0].child.send_signal(signal.SIGSTOP),
                 lambda: bad[0].child.send_signal(signal.SIGCONT), given.stopped, STALL + 1),
                ("trickle", slow, fast, 15, 15)):
            found[name], more = fault(run, list(good), name, spoil, mend, seconds, allowed)
            wrong += more
        code = run.end()
        if code != 0:
            wrong.append(f"the run ended with {code}")
    finally:
        run.child.kill()
        proxy.end()
        for server in servers + bad:
            server.end()
    return found, wrong


# ---- reconnects and changes ------------------------------------------------------------------------------------------

def compare(found, before, after, good):
    found |= {"before": before, "after": after, "good": good}
    wrong = [f"{what}: {before[what]} before, {after[what]} after" for what in ("descriptors", "threads")
             if after[what] > before[what]]
    if after["memory_kib"] - before["memory_kib"] > 5000:
        wrong.append(f"memory grew by {after['memory_kib'] - before['memory_kib']} KiB")
    return found, wrong


def settled(run):
    """Counts, once they stand still."""
    last = run.counts()
    for _ in range(20):
        time.sleep(0.5)
        now = run.counts()
        if (now["descriptors"], now["threads"]) == (last["descriptors"], last["threads"]):
            return now
        last = now
    return last


def reconnects(given, folder):
    server = Server(given, max(2, given.bad))
    proxy = Proxy(server.port)
    good = {f"good{n}": url for n, url in enumerate(server.urls[:given.bad - 1])}
    bad = {"bad": server.urls[-1].replace(f":{server.port}/", f":{proxy.port}/")}
    run = Run(given, folder, {**good, **bad}, wait="100ms")
    try:
        begin_all(run, [*good, *bad])
        proxy.cut_after = 4000 + bits_of(given.bitrate) / 8 / 5  # of a fifth of a second
        for one in list(proxy.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        warm = min(50, given.reconnects // 4)
        run.wait_for(lambda: proxy.connections >= warm, PATIENCE)
        before, begun, first = settled(run), time.monotonic(), proxy.connections
        run.wait_for(lambda: proxy.connections >= first + given.reconnects, 10 + given.reconnects * 2)
        taken, made = time.monotonic() - begun, proxy.connections - first
        gaps = run.gaps(list(good), begun, time.monotonic())
        proxy.cut_after = None
        rows = time.monotonic()
        run.wait_for(lambda: len(run.rows_since("bad", rows)) > 20)
        return compare({"reconnects": made, "seconds": round(taken, 1)}, before, settled(run), gaps)
    finally:
        run.end()
        proxy.end()
        server.end()


def control(given, run, *words):
    command = [str(given.millrace), "ctl", "--control", str(run.control), *words]
    return subprocess.run(command, capture_output=True, text=True)


def changes(given, folder):
    told = subprocess.run([str(given.millrace), "ctl", "--help"], capture_output=True, text=True).stdout
    if not re.search(r"^  add ", told, re.M):
        return {"left_out": "this millrace has no `ctl add`"}, []
    server = Server(given, max(2, given.bad))
    good = {f"good{n}": url for n, url in enumerate(server.urls[:given.bad - 1])}
    run = Run(given, folder, good, most=given.bad)
    try:
        begin_all(run, good)
        refused = 0
        for n in range(given.reconnects + 50):
            if n == 50:  # from here on it counts
                before, begun = settled(run), time.monotonic()
            now = time.monotonic()
            refused += control(given, run, "add", "extra", f"uri={server.urls[-1]}", "transport=tcp").returncode != 0
            if n % 10 == 0:
                run.wait_for(lambda since=now: run.rows_since("extra", since))
            refused += control(given, run, "remove", "extra").returncode != 0
        taken = time.monotonic() - begun
        found = {"changes": 2 * given.reconnects, "seconds": round(taken, 1), "refused": refused}
        found, wrong = compare(found, before, settled(run), run.gaps(list(good), begun, begun + taken))
        return found, wrong + ([f"{refused} changes were refused"] if refused else [])
    finally:
        run.end()
        server.end()


def main():
    given = arguments()
    parts = {"throughput": throughput, "faults": faults, "reconnects": reconnects, "changes": changes}
    wrong = []
    for name in given.parts.split(","):
        if name not in parts:
            sys.exit(f"there is no part {name}; parts are {', '.join(parts)}")
        with tempfile.TemporaryDirectory(prefix="millrace-live-") as folder:
            found, more = parts[name](given, folder)
        wrong += more
        print(json.dumps({"part": name, **found, "wrong": more}), flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
