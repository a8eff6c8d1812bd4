"""Shared by the end-to-end tests: running the command, reading what it wrote, and checking what the summary promises.

MILLRACE is the command under test; models and clips are in the working copy's build folder. A test that lacks something
must skip and say what."""
import concurrent.futures
import contextlib
import importlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MILLRACE = os.environ.get("MILLRACE", str(ROOT / "build/millrace"))
VERSION = re.search(r'MILLRACE_VERSION "(.*)"', (ROOT / "engine/include/millrace/version.h").read_text())[1]
MODELS = pathlib.Path(os.environ.get("MILLRACE_MODELS", ROOT / "build/models"))
CENTERFACE = MODELS / "centerface.onnx"
SAMPLES = pathlib.Path("/usr/lib/python3/dist-packages/imageio/resources/images")
PICTURES = pathlib.Path("/usr/share/doc/opencv-doc/examples/data")
# A command built elsewhere cannot find them by itself.
os.environ.setdefault("MILLRACE_MODELS", str(MODELS))
# Tests make sockets in folders of theirs, and the path of a socket has at most 107 bytes.
if len(tempfile.gettempdir()) > 32:
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"
# NumPy's threads would wait for each other, spinning, on a busy machine. Scripts import NumPy after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A command built elsewhere cannot find the library in build/venv by itself.
for library in sorted(ROOT.glob("build/venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*")):
    os.environ.setdefault("MILLRACE_ONNXRUNTIME", str(library))
# A script's background jobs and nohup ignore some signals, and so does what they start. If a signal has a function
# here, it has its default action in what this process starts.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler)
# For runs that are asked to end and that deliver everything in flight, however little processor time they get.
PATIENT = ("--grace", "60s")
# Sanitizers slow everything down. A hang fails and does not wait for ever.
TIMEOUT = float(os.environ.get("MILLRACE_TEST_TIMEOUT", "300"))


# Sockets that reserve ports for processes that a test starts.
KEPT = []


def free_port(count=1):
    """The first of that many ports in a row that nobody else gets until the test ends. They are below the system's
    ephemeral range, since a connection to elsewhere would take the ports after the first one there (replicas of a node
    listen at a row of them), and bound here without listening: those that set SO_REUSEADDR, as libzmq and Slurm do,
    can bind them too."""
    while True:
        first, kept = random.randrange(20000, 30000), []
        try:
            for port in range(first, first + count):
                kept.append(socket.socket())
                kept[-1].bind(("127.0.0.1", port))
        except OSError:
            for one in kept:
                one.close()
            continue
        for one in kept:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        KEPT.extend(kept)
        return first


def free_ports(count):
    return [free_port() for _ in range(count)]


def pipeline(sources, name="p", top="", devices=(), nodes=(), **stages):
    """A pipeline as YAML. Options of sources, devices, nodes and stages are YAML without outer braces. A stage with
    neither `input` nor `join` follows the stage before it, the first stage all sources. `top` has other keys."""
    last, lines = "sources.*" if len(sources) > 1 else next(iter(sources)), {}
    for stage, options in stages.items():
        kind, options = re.fullmatch(r"(?s)(type: [^,]+|)(.*)", str(options).strip(", ")).groups()
        follows = "" if "input:" in options or "join:" in options else f"input: {quoted(last)}"
        lines[stage] = ", ".join(part for part in (kind, follows, options.strip(", ")) if part)
        last = stage
    sections = {"sources": sources, "devices": devices, "stages": lines, "nodes": nodes}
    text = f"version: 1\npipeline: {name}\n" + (top and top + "\n")
    for section, entries in sections.items():
        text += f"{section}:\n" if entries else ""
        for one, options in dict(entries).items():
            text += f"  {quoted(one)}: " + (f"{{{options}}}\n" if isinstance(options, str) else f"{options}\n")
    return text


def quoted(name):
    return '"null"' if name == "null" else name


class Run:
    """A run's exit code, outputs, summary (--json) and result rows."""

    def __init__(self, done, rows=None):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.rows = rows if rows is not None else []
        self.summary = None
        for line in self.out.splitlines():
            if line.startswith("{") and '"ledger"' in line:
                self.summary = json.loads(line)
        if self.summary is None and self.out.lstrip().startswith("{") and '"ledger"' in self.out:
            self.summary = json.loads(self.out)

    @property
    def ledger(self):
        return self.summary["ledger"]

    def of(self, source):
        return [row for row in self.rows if row["source"] == source]


class Case(unittest.TestCase):
    """A test case with a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, text, name="pipeline.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def run_pipeline(self, pipeline, *arguments, code=0, rows=True, environment=None, verb="run"):
        """Runs a pipeline (YAML text or a file's path) with results in a file, and checks the exit code (None: any)."""
        path = pipeline if isinstance(pipeline, pathlib.Path) else self.write(pipeline)
        output = self.folder / "results.jsonl"
        command = [MILLRACE, verb, str(path), *map(str, arguments)]
        if verb == "run":
            command += ["--json"] + (["--output", str(output)] if rows else [])
        run = Run(call(command, environment=environment))
        if rows and output.exists():
            run.rows = [json.loads(line) for line in output.read_text().splitlines()]
        told = f"{' '.join(command)}\n{run.err}\n{run.out[-2000:]}"
        self.assertNotIn(run.code, range(-64, 0), told)  # killed by a signal
        if code is not None:
            self.assertEqual(run.code, code, told)
        return run

    def checked(self, command, code=0, says=(), **options):
        """Runs a command, and checks the exit code (None: any) and what the messages say."""
        done = call(command, **options)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{command}\n{done.stderr}\n{done.stdout[-2000:]}")
        for said in [says] if isinstance(says, str) else says:
            self.assertIn(said, done.stderr)
        return done

    def spawn(self, command, **options):
        """Starts a command that is killed when the test ends."""
        child = start(command, **options)
        for pipe in filter(None, (child.stdout, child.stderr)):
            self.addCleanup(pipe.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def ended(self, child, sign=None, code=0):
        """Both outputs of a command that ends, after this signal if there is one; checks the exit code."""
        if sign:
            child.send_signal(sign)
        out, err = child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, code, err)
        return out, err

    def millrace(self, *words, **options):
        return self.checked([MILLRACE, *words], **options)

    def planned(self, pipeline, *arguments, **options):
        """A pipeline's plan (YAML text or a file's path)."""
        path = pipeline if isinstance(pipeline, pathlib.Path) else self.write(pipeline)
        return json.loads(self.millrace("plan", path, "--json", *arguments, **options).stdout)

    def assert_balanced(self, run):
        """Every frame is accounted for, in total and in the ledger's lines."""
        ledger = run.ledger
        self.assertTrue(ledger["balanced"], ledger)
        self.assertEqual(ledger["in_flight"], 0, ledger)
        gone = sum(line["frames"] for what in ("dropped", "absorbed") for line in ledger[what])
        self.assertEqual(ledger["in"], ledger["delivered"] + gone, ledger)

    def assert_in_order(self, rows):
        places = [(row.get("epoch", 0), row["seq"]) for row in rows]
        self.assertEqual(places, sorted(set(places)))

    def wait_until(self, happened, why="", running=None, pause=0.02):
        """What `happened` returns, once that is true. Fails if `running` ends first. `why` is the message; it may be a
        function or a file with the message. A look that runs a command takes a processor from what it waits for: pauses
        are at least as long as looks, unless `pause` is 0."""
        end = time.monotonic() + TIMEOUT
        looked = time.monotonic()
        while not (found := happened()):
            took = time.monotonic() - looked
            ended = running and running.poll() is not None
            if found := ended and happened():  # just before the end
                break
            if ended or time.monotonic() > end:
                why = why.read_text() if isinstance(why, pathlib.Path) else why() if callable(why) else why
                self.fail(f"it has ended: {why}" if ended else f"it does not happen: {why}")
            time.sleep(pause and max(pause, took))
            looked = time.monotonic()
        return found


class Controlled(Case):
    """A case with a separate runtime folder, where `millrace ctl` can find the only run."""

    def setUp(self):
        super().setUp()
        self.runtime = self.folder / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.environment = {"MILLRACE_CONTROL": str(self.runtime / "millrace")}

    def spawn(self, command, environment=None, **options):
        return super().spawn(command, **{"env": {**os.environ, **self.environment, **(environment or {})}, **options})

    def ctl(self, *arguments, code=0):
        return self.millrace("ctl", *arguments, code=code, environment=self.environment)


def call(command, **options):
    environment = {**os.environ, **(options.pop("environment", None) or {})}
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=TIMEOUT, env=environment, **options)


def start(command, **options):
    """Starts the command, for tests that send signals or close pipes."""
    return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, **options)


def rows_in(path):
    """The file's JSON lines. The last line may be incomplete and is left out."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def serve(case, talk):
    """The port of a server that calls `talk(connection)` for each client, on a separate thread."""
    server = socket.create_server(("127.0.0.1", 0))
    case.addCleanup(server.close)

    def accept():
        with contextlib.suppress(OSError):  # it is closed
            while True:
                connection, _ = server.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return server.getsockname()[1]


def threads_of(pid):
    """The number of threads, without the one that sums up log lines and ends when there are none."""
    names = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:  # it has ended
            pass
    return sum(name != "mr-log" for name in names)


def blocks(pid, what):
    """Whether the process handles a signal: one that it blocks waits for the signal thread."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
    return bool(int(mask, 16) & 1 << (what - 1))


def sanitizer_of(pid):
    """The sanitizer that this process was built with; None: none."""
    loaded = pathlib.Path(f"/proc/{pid}/maps").read_text()
    return next((name for name in ("libasan", "libtsan") if name in loaded), None)


def need_models():
    if not (MODELS / "lite0-features.onnx").exists():
        raise unittest.SkipTest(f"no models in {MODELS} (tools/test makes them)")


def spent():
    """Seconds of processor time that this process and its ended children have used."""
    return sum(os.times()[:4])


class AtOnce(unittest.TestSuite):
    """Runs several cases at the same time: a script whose cases mostly wait sets AT_ONCE, their number. A class with
    fixtures, and all classes before it, end before the next one begins."""
    threads, started = None, []

    def run(self, result, debug=False):
        fixtures = False
        for case in self:
            if isinstance(case, unittest.TestCase):
                case.run = lambda result, run=case.run: self.started.append(self.threads.submit(run, result))
                fixtures = case.setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__
        super().run(result, debug)
        if fixtures:
            concurrent.futures.wait(self.started)
        return result


class Timed(unittest.TextTestResult):
    """Prints each case with its seconds, by the clock, and of a processor where only one case runs at a time."""
    lock = threading.RLock()

    def startTest(self, test):
        with self.lock:
            super().startTest(test)
        test.began = time.monotonic(), spent()

    def stopTest(self, test):
        of_processor = f" {spent() - test.began[1]:8.2f}" if AtOnce.threads is None else ""
        with self.lock:
            super().stopTest(test)
            self.stream.writeln(f"{time.monotonic() - test.began[0]:8.2f}{of_processor}  {test.id()}")

    def stopTestRun(self):
        if AtOnce.threads:
            AtOnce.threads.shutdown()
        super().stopTestRun()


def main():
    """Runs the tests of the script that the first argument names; others name cases. A script without a module that it
    needs, or with all tests skipped, is reported to ctest as skipped (77)."""
    script = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(script.parent))
    try:
        module = importlib.import_module(script.stem)
    except ModuleNotFoundError as missing:
        print(f"skipped: {missing}")
        raise SystemExit(77)
    loader = unittest.TestLoader()
    if hasattr(module, "AT_ONCE"):
        AtOnce.threads, loader.suiteClass = concurrent.futures.ThreadPoolExecutor(module.AT_ONCE), AtOnce
    result = unittest.main(module, argv=sys.argv[1:], exit=False, verbosity=0, testLoader=loader,
                           testRunner=unittest.TextTestRunner(resultclass=Timed, verbosity=0)).result
    print(f"{spent():.2f} s of a processor", file=sys.stderr)
    if result.skipped and len(result.skipped) >= result.testsRun:
        raise SystemExit(77)
    raise SystemExit(not result.wasSuccessful() or result.testsRun == 0)


if __name__ == "__main__":
    import harness  # as the scripts see it

    harness.main()
