"""What looking into a run costs: a scrape of a thousand sources, 200 readers of the page's events, and a run that is
scraped, watched by ten readers and traced, beside the same run without.

    build/venv/bin/python tools/bench/observed.py [--millrace build/millrace] [--rounds 5]

Times are those of a processor, which other programs disturb less than the clock: of the server's thread, and of the
whole process for each frame."""
import argparse
import http.server
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
SCRAPES, READERS, FEW, SECONDS = 20, 200, 10, 20


class Run:
    def __init__(self, given, folder, text, *arguments):
        path, self.log = folder / "pipeline.yaml", folder / "log"
        path.write_text(text)
        self.began = time.monotonic()
        self.process = subprocess.Popen([given.millrace, "run", path, "--http", "127.0.0.1:0", "--json", *arguments],
                                        stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True)
        while not (found := re.search(r"http listens at http://(\S+):(\d+)/", self.log.read_text())):
            time.sleep(0.05)
        self.address = found[1], int(found[2])

    def get(self, path):
        return urllib.request.urlopen(f"http://{self.address[0]}:{self.address[1]}{path}", timeout=60).read()

    def server_s(self):
        """Seconds of a processor that the server's thread has used."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text() == "mr-http\n":
                return int((task / "schedstat").read_text().split()[0]) / 1e9
        raise SystemExit("there is no thread mr-http")

    def read_events(self, count):
        """Readers that take what comes, in one thread."""
        readers = [socket.create_connection(self.address) for _ in range(count)]
        for one in readers:
            one.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            one.setblocking(False)

        def read():
            while self.process.poll() is None:
                for one in readers:
                    try:
                        one.recv(1 << 20)
                    except OSError:
                        pass
                time.sleep(0.2)

        threading.Thread(target=read, daemon=True).start()

    def end(self):
        self.process.terminate()
        return self.process.communicate()[0]


def scrape(given, folder):
    sources = "".join(f'  s{i:04d}: {{uri: "lavfi:testsrc=size=32x32:rate=1", realtime: true}}\n' for i in range(1000))
    run = Run(given, folder, "version: 1\npipeline: many\nsources:\n" + sources +
              "stages:\n  decode: {input: sources.*}\n  out: {type: \"null\", input: decode}\n")
    while not (text := run.get("/metrics")).count(b"millrace_source_up{") == 1000:
        time.sleep(0.5)
    before, took = run.server_s(), []
    for _ in range(SCRAPES):
        began = time.monotonic()
        text = run.get("/metrics")
        took.append(time.monotonic() - began)
    used = (run.server_s() - before) / SCRAPES
    print(f"scrape of 1,000 sources: {len(text):,} bytes, {1e3 * used:.1f} ms of a processor, "
          f"{1e3 * statistics.median(took):.1f} ms by the clock")
    run.end()


def readers(given, folder):
    run = Run(given, folder, 'version: 1\npipeline: one\nsources:\n  a: {uri: "lavfi:testsrc=size=64x64:rate=50", '
              'realtime: true}\nstages:\n  decode: {input: a}\n  out: {type: "null", input: decode}\n')
    run.read_events(READERS)
    time.sleep(2)
    before = run.server_s()
    time.sleep(SECONDS)
    print(f"{READERS} readers of events: {100 * (run.server_s() - before) / SECONDS:.2f}% of a core")
    run.end()


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def watched(given, folder):
    """Microseconds of a processor for each frame, of runs in turn."""
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    found = {"alone": [], "watched": []}
    for turn in range(2 * given.rounds):
        what = ("alone", "watched")[turn % 2]
        arguments = [given.millrace, "run", given.pipeline, "--json", "--output", "/dev/null"]
        if what == "watched":
            arguments += ["--http", "127.0.0.1:0", "--otlp", f"http://127.0.0.1:{collector.server_port}",
                          "--trace-sample", "0.01"]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
            if what == "watched":
                while not (at := re.search(r"http listens at http://(\S+):(\d+)/", (folder / "log").read_text())):
                    time.sleep(0.02)
                run = Run.__new__(Run)
                run.process, run.address = process, (at[1], int(at[2]))
                run.read_events(FEW)
            out = process.communicate()[0]
            if process.returncode:
                raise SystemExit((folder / "log").read_text())
            summary = json.loads(out)
        found[what].append(summary["cpu_s"] / summary["ledger"]["in"] * 1e6)
    alone, seen = (statistics.median(found[what]) for what in ("alone", "watched"))
    print(f"a run with metrics, {FEW} readers and 1% of its frames traced: {seen:.1f} us of a processor a frame, "
          f"{alone:.1f} without: {100 * (seen / alone - 1):+.2f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=ROOT / "build/millrace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=("scrape", "readers", "watched"),
                        default=("scrape", "readers", "watched"))
    parser.add_argument("--pipeline", default=ROOT / "pipelines/classify-video.yaml")
    given = parser.parse_args()
    os.environ.setdefault("MILLRACE_MODELS", str(ROOT / "build/models"))
    for part in (globals()[name] for name in given.only):
        with tempfile.TemporaryDirectory() as folder:
            part(given, pathlib.Path(folder))


main()
