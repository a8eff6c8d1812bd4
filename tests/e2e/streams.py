"""Shared by the live source tests: servers that are real programs, and runs whose sources' states are read through the
control socket."""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import unittest

import harness
from harness import MILLRACE, call

# A live source that is retried soon.
SOON = "reconnect: {first: 100ms, most: 400ms}"


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            raise unittest.SkipTest(f"no {program}")


class Server:
    """A server program; killed at the end of the test."""

    def __init__(self, case, *command, **options):
        need(command[0])
        self.child = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, **options)
        case.addCleanup(self.kill)

    def kill(self):
        self.child.send_signal(signal.SIGCONT)
        self.child.kill()
        self.child.wait()

    def stop(self):
        self.child.send_signal(signal.SIGSTOP)

    def resume(self):
        self.child.send_signal(signal.SIGCONT)


def ffmpeg(case, size, rate, *output, codec=("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency"),
           key=None):
    """A test pattern in real time."""
    return Server(case, "ffmpeg", "-loglevel", "error", "-re", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}",
                  "-pix_fmt", "yuv420p", *codec, "-g", key or rate, *output)


def mjpeg(case, at, size="320x240", rate=20):
    return ffmpeg(case, size, rate, "-f", "mpjpeg", "-listen", 1, f"http://127.0.0.1:{at}/", codec=("-c:v", "mjpeg"))


def peak_mib(child):
    """The process's peak memory."""
    status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) >> 10


def rtsp(case, *factories, at=None, options=()):
    """gst-rtsp-server: the server and its port. A factory is "/path=what GStreamer launches"."""
    script, at = harness.ROOT / "tests/reference/rtsp_server.py", at or harness.free_port()
    server = Server.__new__(Server)
    server.child = subprocess.Popen(["/usr/bin/python3", script, *factories, "--port", str(at), *options],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                    text=True)
    case.addCleanup(server.child.stdout.close)
    case.addCleanup(server.kill)
    said = server.child.stdout.readline().strip()
    if not said.isdigit():
        raise unittest.SkipTest(said or "no gst-rtsp-server for the system's Python")
    return server, int(said)


def pattern(size="320/240", rate=20, key=20):
    """The factory's pipeline: H.264."""
    width, height = size.split("/")
    return (f"( videotestsrc is-live=true ! video/x-raw,format=I420,width={width},height={height},framerate={rate}/1 ! "
            f"x264enc tune=zerolatency speed-preset=ultrafast key-int-max={key} ! rtph264pay name=pay0 pt=96 )")


class Web(http.server.BaseHTTPRequestHandler):
    """Serves a folder's files, with ranges, and status answers: /status/503. Names need no password unless they begin
    with "secret"; /to?URL redirects there."""
    folder = None
    asked = None

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Authorization")))
        if self.path.startswith("/status/"):
            return self.answer(int(self.path.rsplit("/", 1)[1]))
        if self.path.startswith("/to?"):
            return self.answer(302, Location=self.path[4:])
        if self.path.startswith("/secret") and self.headers.get("Authorization") != "Basic dTpAOi8=":  # u and @:/
            return self.answer(401, WWW_Authenticate='Basic realm="here"')
        path = pathlib.Path(self.folder) / self.path.lstrip("/")
        if not path.is_file():
            return self.answer(404)
        body = path.read_bytes()
        wanted = self.headers.get("Range")
        if not wanted:
            return self.answer(200, body, Accept_Ranges="bytes")
        first, last = wanted.split("=")[1].split("-")
        first, last = int(first), int(last or len(body) - 1)
        part = body[first:last + 1]
        self.answer(206, part, Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(body)}")


def web(case, folder, tls=None, base=Web, **fields):
    """An HTTP server for a folder: the address, and the list of requests. With `tls`, an SSLContext, over TLS; `fields`
    are the handler's, whose class is `base`."""
    asked = []
    handler = type("Handler", (base,), {"folder": folder, "asked": asked, **fields})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None
    server.daemon_threads = True
    if tls:
        # Each connection's thread does the handshake: here others would have to wait.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    case.addCleanup(server.server_close)
    case.addCleanup(server.shutdown)
    return f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}", asked


class Live(harness.Controlled):
    def begin(self, sources, *arguments, decode="", environment=None, results="", given=None, decoded=None,
              before=()):
        """A run with these sources, {name: options}, or with `given`, decoded, with a row for each picture. `before`:
        the command that starts it."""
        text = "version: 1\npipeline: live\n"
        text += given or "sources:\n" + "".join(f"  {name}: {{{options}}}\n" for name, options in sources.items())
        text += f"\nstages:\n  decode: {{input: [{decoded or ', '.join(sources)}]{decode}}}\n"
        text += f"  results: {{type: jsonl, input: decode, path: out.jsonl{results}}}\n"
        self.errors = self.folder / "errors.txt"
        errors = self.errors.open("w")
        self.addCleanup(errors.close)
        return self.spawn([*before, MILLRACE, "run", self.write(text), "--json", *harness.PATIENT, *arguments],
                          stdout=subprocess.PIPE, stderr=errors, text=True, environment=environment)

    def wait_until(self, happened, child=None):
        return super().wait_until(happened, self.errors if child else "", child)

    def rows(self, source=None, file="out.jsonl"):
        return [row for row in harness.rows_in(self.folder / file) if source in (None, row["source"])]

    def ask(self):
        done = call([MILLRACE, "ctl", "status", "--json"], environment=self.environment)
        if done.returncode:
            return {}
        return {one["id"]: one["connection"] for one in json.loads(done.stdout)["status"]["sources"]
                if "connection" in one}

    def ctl(self, *arguments):
        return call([MILLRACE, "ctl", *arguments], environment=self.environment).returncode == 0

    def held(self, child):
        """The numbers of threads and descriptors."""
        return harness.threads_of(child.pid), len(list(pathlib.Path(f"/proc/{child.pid}/fd").iterdir()))

    def await_state(self, child, source, *states):
        """ctl's report about the source, once it is in one of these states."""
        return self.wait_until(lambda: (of := self.ask().get(source)) and of["state"] in states and of, child)

    def finish(self, child, code=0):
        """Ctrl-C: every frame in the summary is accounted for."""
        child.send_signal(signal.SIGINT)
        return self.summary_of(child, code)

    def summary_of(self, child, code=0):
        out = self.ended(child, code=code)[0]
        summary = json.loads(out)
        ledger = summary["ledger"]
        self.assertTrue(ledger["balanced"], ledger)
        gone = sum(line["frames"] for what in ("dropped", "absorbed") for line in ledger[what])
        self.assertEqual(ledger["in"], ledger["delivered"] + gone + ledger["in_flight"], ledger)
        self.assertEqual(ledger["delivered"], len(self.rows()))
        return {one["id"]: one for one in summary["sources"]}

    def assert_times_go_on(self, rows):
        """Times in each epoch begin with 0 and never run back."""
        for epoch in {row.get("epoch", 0) for row in rows}:
            times = [row["pts"] for row in rows if row.get("epoch", 0) == epoch]
            self.assertEqual(times, sorted(times))
            self.assertEqual([row["seq"] for row in rows if row.get("epoch", 0) == epoch], list(range(len(times))))
