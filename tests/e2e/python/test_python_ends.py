"""How programs end that use the Python module: Ctrl-C, the interpreter's end, forks, other interpreters; and the
command as `python -m millrace`. Each case is a process of its own, which must not crash or hang."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from harness import MILLRACE, SAMPLES, Case, call

AT_ONCE = 4
MODULE = pathlib.Path(MILLRACE).parent / "python"
CLIP = SAMPLES / "realshort.mp4"
BEGIN = f"""
import os, sys, threading, time
sys.path.insert(0, {str(MODULE)!r})
import millrace
ENDLESS = '''
version: 1
pipeline: endless
sources:
  numbers: {{type: "null", rate: 200fps}}
stages:
  answers: {{type: callback, input: numbers}}
'''
CLIP = '''
version: 1
pipeline: clip
sources:
  clip: {{uri: "{CLIP}"}}
stages:
  decode: {{input: clip}}
  answers: {{type: callback, input: decode}}
'''
FILED = '''
version: 1
pipeline: filed
sources:
  numbers: {{type: "null", rate: 200fps}}
stages:
  same: {{type: "null", input: numbers}}
  answers: {{type: callback, input: same}}
  rows: {{type: jsonl, input: same, path: rows.jsonl}}
'''
"""


class Ends(Case):
    def setUp(self):
        if not MODULE.exists() or not list(MODULE.glob("millrace/_core*")):
            self.skipTest("the module is not built (Debian: python3-dev)")
        super().setUp()

    def program(self, text, code=0):
        done = subprocess.run([sys.executable, "-c", BEGIN + text], capture_output=True, text=True, cwd=self.folder,
                              timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("Fatal", done.stderr)
        return done

    def interrupted(self, text, number=signal.SIGINT, **options):
        """Starts a program, sends it a signal once it has printed a line, and returns it."""
        with subprocess.Popen([sys.executable, "-uc", BEGIN + text], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, cwd=self.folder, **options) as child:
            self.assertEqual(child.stdout.readline(), "ready\n")
            time.sleep(0.1)
            started = time.monotonic()
            child.send_signal(number)
            try:
                out, err = child.communicate(timeout=30)
            finally:
                child.kill()
            return child.returncode, out, err, time.monotonic() - started

    def test_ctrl_c_in_a_loop_ends_the_run_in_order(self):
        code, out, err, seconds = self.interrupted("""
seen = 0
run = millrace.run(text=FILED, stage="same")
try:
    for frame in run:
        seen += 1
        if seen == 5: print("ready")
except KeyboardInterrupt:
    run.close()
    rows = len(open("rows.jsonl").read().splitlines())
    print(seen, rows, run.summary["ledger"]["balanced"])
    raise
""")
        self.assertEqual(code, -signal.SIGINT, err)
        self.assertIn("KeyboardInterrupt", err)
        seen, rows, balanced = out.split()
        self.assertGreaterEqual(int(rows), int(seen))
        self.assertEqual(balanced, "True")
        self.assertLess(seconds, 5)

    def test_ctrl_c_ends_every_wait(self):
        for wait in ("p.wait()", "next(frames)", "p.tap('answers')", "p.push('numbers', [0]*8)"):
            with self.subTest(wait):
                text = "ENDLESS.replace('\"null\", rate: 200fps', 'push, format: u8 8')"
                code, out, err, seconds = self.interrupted(f"""
p = millrace.Pipeline(text={text})
frames = p.frames("answers", hold=2)
p.start()
data = __import__("array").array("B", [0] * 8)
class Numbers:
    __array_interface__ = dict(version=3, shape=(8,), typestr="|u1", data=(data.buffer_info()[0], True))
if "push" in {wait!r}:
    try:
        while True: p.push("numbers", Numbers(), timeout=0.1)
    except millrace.Timeout: pass
print("ready")
{wait.replace("[0]*8", "Numbers()")}
""")
                self.assertEqual(code, -signal.SIGINT, out + err)
                self.assertIn("KeyboardInterrupt", err)
                self.assertLess(seconds, 5)

    def test_a_timeout_lasts_no_longer_while_another_thread_computes(self):
        """A wait takes the interpreter many times. It counted only the time between."""
        done = self.program("""
p, kept, over = millrace.Pipeline(text=ENDLESS), [], threading.Event()
def compute():
    while not over.is_set():
        began = time.monotonic()
        sum(range(5_000_000))
        kept.append(time.monotonic() - began)
p.start()
thread = threading.Thread(target=compute)
thread.start()
began = time.monotonic()
ended = p.wait(1)
took = time.monotonic() - began
over.set()
thread.join()
p.close(0)
print(ended, took < 1 + 5 * max(kept), took, max(kept))
""")
        self.assertRegex(done.stdout, "^False True ")

    def test_the_interpreter_ends_with_a_run_under_way(self):
        self.program("""
p = millrace.Pipeline(text=FILED)
p.start()
while p.summary()["ledger"]["delivered"] < 3:
    time.sleep(0.01)
""")
        self.assertGreater(len((self.folder / "rows.jsonl").read_text().splitlines()), 2)
        self.program("for frame in millrace.run(text=ENDLESS): sys.exit(3)", code=3)
        self.program("""
p = millrace.Pipeline(text=ENDLESS)
p.subscribe("answers", lambda frame: time.sleep(0.001))
p.start()
time.sleep(0.1)
raise SystemExit(4)""", code=4)

    def test_the_interpreter_ends_while_a_daemon_thread_waits(self):
        self.program("""
run = millrace.run(text=ENDLESS)
seen = []
threading.Thread(target=lambda: [seen.append(f.detach()) for f in run], daemon=True).start()
while not seen: time.sleep(0.01)
""")
        self.program("""
p = millrace.Pipeline(text=ENDLESS.replace('rate: 200fps', 'rate: 1fps'))
frames = p.frames("answers")
p.start()
for wait in (p.wait, lambda: list(frames), lambda: p.tap("answers")):
    threading.Thread(target=wait, daemon=True).start()
time.sleep(0.2)
""")

    def test_frames_and_arrays_outlive_the_pipeline(self):
        done = self.program("""
run = millrace.run(text=CLIP)
frame = next(run)
planes = frame.planes
run.close()
total = sum(planes[0].tobytes())
assert total == sum(frame.detach().planes[0].tobytes()) > 0
print(frame, total)
kept = planes[1]
""")
        self.assertIn("picture I420 320x240", done.stdout)

    def test_arrays_outlive_a_subscription(self):
        done = self.program("""
import gc
kept = []
with millrace.Pipeline(text=CLIP) as p:
    p.subscribe("answers", lambda frame: kept.append(frame.planes[0]) if frame.seq < 3 else None)
    p.start()
    p.wait()
sums = [int(one.sum()) for one in kept]
kept.clear()
gc.collect()
print(len(sums), min(sums) > 0)
""")
        self.assertEqual(done.stdout, "3 True\n")

    def test_a_fork_inside_a_function_leaves_frames_to_the_parent(self):
        """A child that lets go of an array must not release the frame: pushed memory would return to the program."""
        done = self.program("""
memory = __import__("array").array("B", [7] * 8)
released, codes, kept = [], [], []
class Numbers:
    __array_interface__ = dict(version=3, shape=(8,), typestr="|u1", data=(memory.buffer_info()[0], True))
    def __del__(self): released.append(os.getpid())
def function(frame):
    if frame.seq == 0:
        kept.append(frame.array)
        return
    pid = os.fork()
    if pid == 0:
        kept.clear()
        os._exit(len(released))
    codes.append(os.waitpid(pid, 0)[1])
    kept.clear()
text = ENDLESS.replace('"null", rate: 200fps', 'push, format: u8 8')
with millrace.Pipeline(text=text) as p:
    p.subscribe("answers", function)
    p.start()
    p.push("numbers", Numbers(), copy=False)
    p.push("numbers", Numbers(), copy=False)
    p.end("numbers")
    p.wait()
print(codes, released == [os.getpid()] * 2)
""")
        self.assertEqual(done.stdout, "[0] True\n")

    def test_ctrl_c_ends_a_close_that_a_function_holds_up(self):
        code, out, err, seconds = self.interrupted("""
p = millrace.Pipeline(text=ENDLESS)
p.subscribe("answers", lambda frame: threading.Event().wait())
p.start()
time.sleep(0.2)
threading.Timer(1, lambda: print("ready")).start()
p.close(timeout=0.2)
""")
        self.assertEqual(code, -signal.SIGINT, out + err)
        self.assertIn("KeyboardInterrupt", err)
        self.assertIn("the function of stage answers does not return", err)
        self.assertLess(seconds, 10)

    def test_ctrl_c_while_a_run_ends_that_was_left(self):
        """Python drops exceptions of destructors, and the program must not go on as if nothing had happened."""
        code, out, err, seconds = self.interrupted("""
@millrace.stage
def slow(frames): time.sleep(0.5)
text = ENDLESS.replace("{type: callback, input: numbers}", "{type: callback, input: slow}").replace(
    "stages:", "stages:\\n  slow: {input: numbers, batch: {size: 1}}")
for frame in millrace.run(text=text):
    threading.Timer(0.5, print, ["ready"]).start()
    break
time.sleep(0.1)
print("went on")
""")
        self.assertEqual((code, out), (-signal.SIGINT, ""), err)
        self.assertIn("KeyboardInterrupt", err)
        self.assertNotIn("ignored", err)
        self.assertLess(seconds, 5)

    LEFT = """
import signal
@millrace.stage
def stuck(frames):
    if frames[0].seq:
        inside.set()
        threading.Event().wait()
text = ENDLESS.replace("{type: callback, input: numbers}", "{type: callback, input: stuck}").replace(
    "stages:", "stages:\\n  stuck: {input: numbers, batch: {size: 1}}")
asked, inside = [], threading.Event()
signal.signal(signal.SIGTERM, lambda *_: HANDLER)
for frame in millrace.run(text=text):
    inside.wait()
    threading.Timer(0.5, print, ["ready"]).start()
    break
time.sleep(0.1)
print("went on", asked)
"""

    def test_a_signal_ends_the_wait_for_a_run_that_was_left(self):
        code, out, err, seconds = self.interrupted(self.LEFT.replace("HANDLER", "sys.exit(7)"), signal.SIGTERM)
        self.assertEqual((code, out), (7, ""), err)
        self.assertIn("the function of stage stuck does not return", err)
        self.assertNotIn("ignored", err)
        self.assertLess(seconds, 10)

    def test_the_wait_for_a_run_that_was_left_has_a_limit(self):
        code, out, err, seconds = self.interrupted(self.LEFT.replace("HANDLER", "asked.append(1)"), signal.SIGTERM)
        self.assertEqual((code, out), (0, "went on [1]\n"), err)
        self.assertIn("does not return, so the run does not end: the program goes on without it", err)
        self.assertLess(seconds, 25)

    def test_the_collector_ends_a_run_that_refers_to_itself(self):
        done = self.program("""
import gc, weakref
run = millrace.run(text=FILED)
next(run)
run.pipeline.owner = run
seen = weakref.ref(run)
threads = len(os.listdir('/proc/self/task'))
del run
gc.collect()
print(seen(), threads > len(os.listdir('/proc/self/task')), open("rows.jsonl").read()[-1:] == chr(10))
""")
        self.assertEqual(done.stdout, "None True True\n")

    def test_the_interpreter_ends_although_a_function_never_returns(self):
        started = time.monotonic()
        done = self.program("""
inside = threading.Event()
p = millrace.Pipeline(text=ENDLESS)
p.subscribe("answers", lambda frame: (inside.set(), threading.Event().wait()))
p.start()
inside.wait()
""")
        self.assertIn("the function of stage answers does not return", done.stderr)
        self.assertLess(time.monotonic() - started, 30)

    def test_ctrl_c_ends_the_removal_of_a_source(self):
        code, out, err, seconds = self.interrupted("""
text = "version: 1\\npipeline: p\\nsources:\\n  max: 2\\n  like: {type: 'null', rate: 200fps}\\n"
p = millrace.Pipeline(text=text + "stages:\\n  answers: {type: callback, input: sources.*}\\n")
go, inside = threading.Event(), threading.Event()
p.subscribe("answers", lambda frame: inside.set() or go.wait())
p.start()
p.add_source("one")
inside.wait()
print("ready")
try:
    p.remove_source("one")
finally:
    go.set()
""")
        self.assertEqual(code, -signal.SIGINT, out + err)
        self.assertIn("KeyboardInterrupt", err)
        self.assertLess(seconds, 5)

    def test_functions_may_not_change_sources(self):
        done = self.program("""
text = "version: 1\\npipeline: p\\nsources:\\n  max: 2\\n  like: {type: 'null', rate: 200fps}\\n"
p = millrace.Pipeline(text=text + "stages:\\n  answers: {type: callback, input: sources.*}\\n")
said = []
def function(frame):
    for change in (lambda: p.remove_source("one"), lambda: p.add_source("two"),
                   lambda: p.set_source("one", rate="1fps"), p.reload_sources):
        if len(said) < 4:
            try:
                change()
            except millrace.Error as error:
                said.append((error.exit_code, str(error)))
p.subscribe("answers", function)
p.start()
p.add_source("one")
while len(said) < 4: time.sleep(0.01)
p.close()
assert all(code == 64 and "change its sources" in text for code, text in said), said
try:
    p.trigger("answers")
except millrace.Stopped as error:
    print(error.exit_code, error)
""")
        self.assertEqual(done.stdout, "75 the pipeline is closed\n")

    def test_a_forgotten_pipeline_ends_by_itself(self):
        self.program("""
import gc
for i in range(20):
    p = millrace.Pipeline(text=ENDLESS)
    p.subscribe("answers", lambda frame: None)
    p.start()
    del p
gc.collect()
end = time.monotonic() + 20
while threads() > 3 and time.monotonic() < end: time.sleep(0.05)
assert threads() <= 3, threads()
""".replace("threads()", "len(os.listdir('/proc/self/task'))"))

    def test_a_loop_that_breaks_ends_the_run(self):
        done = self.program("""
for i in range(3):
    for frame in millrace.run(text=ENDLESS):
        break
    del frame
print(len(os.listdir('/proc/self/task')))
""")
        self.assertLess(int(done.stdout), 5)

    def test_a_child_of_a_fork_is_refused(self):
        done = self.program("""
run = millrace.run(text=ENDLESS)
next(run)
pid = os.fork()
if pid == 0:
    for call in (lambda: next(run), lambda: run.pipeline.stop(), lambda: run.pipeline.wait(), run.pipeline.summary,
                 lambda: millrace.Pipeline(text=ENDLESS)):
        try:
            call()
        except millrace.Error as error:
            print(error)
    run.pipeline.close()
    del run
    sys.exit(0)
code = os.waitpid(pid, 0)[1]
next(run)
run.close()
sys.exit(code)
""")
        self.assertEqual(len(re.findall("spawn", done.stdout)), 5, done.stdout)

    def test_a_fork_before_any_pipeline_works(self):
        self.program("""
pid = os.fork()
if pid == 0:
    sys.exit(0 if next(millrace.run(text=ENDLESS)).seq == 0 else 9)
sys.exit(os.waitpid(pid, 0)[1])
""")

    def test_a_sub_interpreter_is_refused(self):
        done = self.program("""
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
one = interpreters.create()
try:
    print(interpreters.run_string(one, f"import sys; sys.path.insert(0, {sys.path[0]!r}); import millrace"))
except Exception as error:
    print(error)
""")
        self.assertIn("main interpreter alone", done.stdout + done.stderr)

    def test_builds_that_cannot_work_are_refused(self):
        """With words of ours, where the loader would find no module or crash."""
        for claim, says in (("import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1",
                             "does not support free-threaded builds of Python"),
                            ("import sys; sys.implementation.name = 'pypy'", "for CPython, and this is pypy")):
            done = call([sys.executable, "-c", f"{claim}\nimport millrace"], environment={"PYTHONPATH": str(MODULE)})
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.splitlines()[-1], f"^ImportError: millrace .*{says}")

    def test_without_numpy_arrays_are_the_modules(self):
        done = self.program("""
sys.modules["numpy"] = None
for frame in millrace.run(text=CLIP):
    luma = frame.planes[0]
    print(type(luma).__name__, luma.shape, luma.strides, luma.dtype, len(luma.tobytes()), sum(luma.tobytes()))
    try:
        luma > 5
    except TypeError as error:
        print(error, luma == luma, luma == 5, luma in {luma})
    break
""")
        self.assertRegex(done.stdout, r"^Array \(240, 320\) \(\d+, 1\) uint8 76800 \d\d+")
        self.assertRegex(done.stdout, r"needs NumPy.*pip install numpy True False True\n$")

    def test_the_command(self):
        def module(*arguments, code=0):
            done = call([sys.executable, "-m", "millrace", *arguments], environment={"PYTHONPATH": str(MODULE)})
            self.assertEqual(done.returncode, code, done.stderr)
            return done
        self.assertRegex(module("--version").stdout, r"^millrace \d")
        self.assertEqual(module("list").stdout, call([MILLRACE, "list"]).stdout)
        path = self.write("version: 1\npipeline: p\n")
        self.assertEqual(module("check", str(path), code=78).stderr, call([MILLRACE, "check", str(path)]).stderr)
        self.assertIn("needs a file", module("--stages", code=64).stderr)
        self.assertEqual(module("--stages", "missing.py", "list", code=66).stderr,
                         "millrace: error: --stages missing.py: No such file or directory\n")
