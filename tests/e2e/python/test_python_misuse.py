"""The Python module used by many threads at once, with arrays, answers and arguments that are wrong in odd ways, and
out of order: each call ends, without a crash, with an exception that names the fault."""
import collections
import gc
import pathlib
import pickle
import random
import subprocess
import sys
import threading
import time

import numpy as np

from harness import MILLRACE, Case

AT_ONCE = 4
MODULE = pathlib.Path(MILLRACE).parent / "python"
sys.path.insert(0, str(MODULE))
try:
    import millrace
except ModuleNotFoundError:
    millrace = None

ENDLESS = """version: 1
pipeline: endless
sources:
  numbers: {type: "null", rate: 500fps}
stages:
  answers: {type: callback, input: numbers}
"""
LATER = "  others: {type: callback, input: numbers}\n"  # its frames end with the run
PUSHED = """version: 1
pipeline: pushed
sources:
  camera: {type: push, format: FORMAT}
stages:
  answers: {type: callback, input: camera}
"""
CHANGING = """version: 1
pipeline: changing
sources: {max: 3, like: {LIKE}}
stages:
  answers: {type: callback, input: sources.*}
"""
ANSWERED = """version: 1
pipeline: answered
sources:
  numbers: {type: "null", frames: 1}
stages:
  asked: {type: test.asked, input: numbers, on_error: fail}
  answers: {type: callback, input: asked}
"""
ASKED = {}  # by source

if millrace:
    @millrace.stage(name="test.asked", tensors={"tensor": "f32 1"}, classes=True, objects=True)
    def asked(frames):
        return [ASKED[frame.source]() for frame in frames]


class Interface:
    """An object that says where its numbers are, and may lie."""
    def __init__(self, **rows):
        self.memory = np.zeros(256, np.uint8)
        data = (self.memory.ctypes.data, False)
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (4, 4, 3), "data": data, **rows}


class Calls:
    """A number that runs code of the program when it is read."""
    def __init__(self, function):
        self.function = function

    def __float__(self):
        self.function()
        gc.collect()
        return 1.0


def together(calls, errors=(Exception,)):
    """Runs all calls at once, and returns how often each ended in which way."""
    ended, begun = [], threading.Barrier(len(calls))  # a list: threads that count lose some

    def run(call):
        begun.wait()
        try:
            call()
            ended.append("done")
        except errors as error:
            ended.append(type(error).__name__)
    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return collections.Counter(ended)


class Misuse(Case):
    def setUp(self):
        if millrace is None:
            self.skipTest("the module is not built (Debian: python3-dev)")
        super().setUp()

    # ---- threads

    def test_threads_that_start_and_close_the_same_pipeline(self):
        for seed in range(40):
            p = millrace.Pipeline(text=ENDLESS)
            calls = [p.start] * 3 + [p.summary, lambda: p.wait(0.02), lambda: p.subscribe("answers", id),
                                     lambda: next(p.frames("answers"))] + [lambda: p.close(0)] * (seed % 3)
            random.Random(seed).shuffle(calls)
            ended = together(calls, (millrace.Error, StopIteration))
            self.assertEqual(sum(ended.values()), len(calls))
            p.close(0)

    def test_one_start_alone_begins(self):
        for _ in range(20):
            with millrace.Pipeline(text=ENDLESS) as p:
                ended = together([p.start] * 4, millrace.Error)
                self.assertEqual(ended, {"done": 1, "Error": 3})
                with self.assertRaisesRegex(millrace.Error, "already started"):
                    p.start()

    def test_a_close_while_others_read_shared_arrays(self):
        """A closed queue lets go of pushed arrays, which needs the interpreter. Its readers may have that."""
        for _ in range(10):
            p = millrace.Pipeline(text=PUSHED.replace("FORMAT", "u8 8"))
            frames = p.frames("answers", hold=4096)
            p.start()
            for _ in range(1000):
                p.push("camera", np.zeros(8, np.uint8), copy=False)
            time.sleep(0.1)
            close = threading.Thread(target=p.close, args=(0,), daemon=True)
            close.start()
            collections.deque(frames, 0)
            close.join(30)
            self.assertFalse(close.is_alive())

    def test_names_of_sources_that_leave(self):
        """Plans and messages name sources that another thread removes. (The sanitizers' builds see the fault.)"""
        end = time.monotonic() + 3
        with millrace.Pipeline(text=CHANGING.replace("LIKE", "type: 'null', rate: 500fps")) as p:
            p.start()

            def work(seed):
                draw = random.Random(seed)
                while time.monotonic() < end:
                    one = f"s{draw.randrange(4)}"
                    for call in (lambda: p.add_source(one), lambda: p.remove_source(one, timeout=0), p.plan,
                                 lambda: p.enable_device("cpu", False)):
                        try:
                            call()
                        except millrace.Error:
                            pass
            self.assertEqual(together([lambda seed=seed: work(seed) for seed in range(6)]), {"done": 6})

    def test_random_calls(self):
        """Every method with random arguments, in any order, by several threads."""
        end = time.monotonic() + 4
        texts = [ENDLESS, PUSHED.replace("FORMAT", "u8 8"), CHANGING.replace("LIKE", "type: 'null', rate: 200fps")]
        values = [None, 0, -1, 2**70, 0.01, float("nan"), "answers", "camera", "s1", "", "x\0y", "\udc80", b"\xff", [],
                  {}, (1, 2), np.zeros(8, np.uint8), np.zeros((4, 4, 3), np.uint8)[::-1], print, True, object()]
        names = [name for name in dir(millrace.Pipeline) if name[0] != "_" and name not in ("wait", "tap", "close")]
        shared = {}

        def step(draw):
            key, value = draw.randrange(4), draw.choice(values)
            if key not in shared or draw.random() < 0.1:
                shared[key] = millrace.Pipeline(text=draw.choice(texts))
                if draw.random() < 0.7:
                    shared[key].start()
            p, name = shared[key], draw.choice(names)
            if name == "push":
                p.push(draw.choice(["camera", value]), value, timeout=0, copy=draw.random() < 0.5)
            elif name == "remove_source":
                p.remove_source(draw.choice(["s1", value]), timeout=0)
            elif name in ("add_source", "set_source"):
                getattr(p, name)(draw.choice(["s1", "s2", value]), **draw.choice([{}, {"rate": value}]))
            else:
                getattr(p, name)(*[draw.choice(values) for _ in range(draw.randrange(3))])
            p.wait(0)
            if draw.random() < 0.1:
                p.tap("answers", 0)
                p.close(0)

        def work(seed):
            draw = random.Random(seed)
            while time.monotonic() < end:
                try:
                    step(draw)
                except (millrace.Error, TypeError, ValueError, OverflowError):
                    pass
        try:
            self.assertEqual(together([lambda seed=seed: work(seed) for seed in range(4)]), {"done": 4})
        finally:
            for p in shared.values():
                p.close(0)

    # ---- arrays

    def test_arrays_that_lie(self):
        cases = [(Interface(shape=shape), "a size that no memory has")
                 for shape in ((-4, 4, 3), (4, -4, 3), (2**40, 2**40, 2**40))]
        cases += [(Interface(data=(0, False)), "its address is 0"), (Interface(typestr=5), "needs shape, typestr"),
                  (Interface(shape=(1,) * 9), "at most 6 dimensions")]
        cases += [(Interface(data=data), "needs shape, typestr and data") for data in ((), None)]
        cases += [(np.zeros((1, 4, 4, 3), np.uint8), r"1x4x4x3, but .*any number of rows, columns"),
                  (np.zeros((0, 4, 3), np.uint8), "empty"), (np.zeros((4, 0, 3), np.uint8), "empty"),
                  (np.broadcast_to(np.zeros((4, 3), np.uint8), (4, 4, 3)), None),
                  (np.zeros((4, 8, 3), np.uint8)[::-1, :4], None)]
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "RGB24")) as p:
            p.subscribe("answers", lambda frame: frame.array.sum())
            p.start()
            for array, says in cases:
                for copy in (True, False):
                    with self.subTest(says, copy=copy):
                        if says is None:
                            p.push("camera", array, copy=copy)
                            continue
                        with self.assertRaisesRegex((TypeError, ValueError, millrace.Error), says):
                            p.push("camera", array, copy=copy)

    def test_dlpack_arrays_outlive_the_interpreter(self):
        """A consumer may free its arrays when the process ends. Without NumPy the arrays are the module's own."""
        text = ("version: 1\npipeline: p\nsources: {test: {uri: 'lavfi:testsrc=size=16x16:duration=1'}}\n"
                "stages:\n  decode: {input: test}\n  answers: {type: callback, input: decode}\n")
        done = subprocess.run([sys.executable, "-c", f"""
import ctypes, sys
sys.path.insert(0, {str(MODULE)!r})
sys.modules["numpy"] = None
import millrace
frame = next(millrace.run(text={text!r}))
plane = frame.planes[0]
for device in ((2, 0), (13, 0)):
    try:
        plane.__dlpack__(max_version=(1, 0), dl_device=device)
    except BufferError as error:
        print(error)
plane.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
capsule = plane.__dlpack__(max_version=(1, 0))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
tensor = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
taken = ctypes.create_string_buffer(b"used_dltensor_versioned")
ctypes.pythonapi.PyCapsule_SetName(capsule, ctypes.cast(taken, ctypes.c_char_p))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(taken))
deleter = ctypes.c_void_p.from_address(tensor + 16)  # after the version and the context
ctypes.CDLL(None).__cxa_atexit(deleter, ctypes.c_void_p(tensor), taken)
print("the end")
"""], capture_output=True, text=True, timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        refused = "the memory is the host's, dl_device=(1, 0): copy it to another device"
        self.assertEqual(done.stdout.splitlines(), [refused, refused, "the end"])

    # ---- answers of stages

    def answered(self, answer):
        """The only frame, with what a stage answers; cases run at the same time."""
        source = self.id().rpartition(".")[2]
        ASKED[source] = answer
        frame, = [frame.detach() for frame in millrace.run(text=ANSWERED.replace("numbers", source))]
        return frame

    def test_answers_that_change_while_they_are_read(self):
        def emptied():
            answer = {}
            answer["classes"] = [(Calls(answer.clear), Calls(answer.clear)) for _ in range(50)]
            answer["tensor"] = [1]
            return answer

        def grown():
            answer = {}
            answer["classes"] = [(Calls(lambda: answer.update({f"k{n}": n for n in range(999)})), 1)]
            return answer

        def shortened():
            rows = []
            rows += [(Calls(rows.clear), 1) for _ in range(50)]
            return {"classes": rows}
        self.assertEqual(len(self.answered(emptied).classes), 50)
        self.assertEqual(len(self.answered(grown).classes), 1)
        with self.assertRaisesRegex(millrace.StageError, "IndexError"):
            self.answered(shortened)

    def test_answers_that_no_result_can_have(self):
        def refused():
            raise ValueError("no truth")
        truth = type("bool_", (), {"__bool__": lambda self: refused()})
        box = dict(left=0, top=0, right=1, bottom=1)
        nan, infinity = float("nan"), float("inf")
        for answer, says in ((truth(), "ValueError: no truth"), ({"classes": [(nan, 1)]}, '"index" must be an integer'),
                             ({"classes": [(2**31, 1)]}, "of 32 bits"), ({"classes": [(1, nan)]}, "a finite number"),
                             ({"classes": [(1.5, 1)]}, '"index" must be an integer'),
                             ({"objects": [{**box, "right": infinity}]}, '"right" is not'),
                             ({"objects": [{**box, "score": infinity}]}, "a finite number"),
                             ({"objects": [{**box, "track": 1e300}]}, '"track" must be an integer')):
            with self.subTest(says), self.assertRaisesRegex(millrace.StageError, says):
                self.answered(lambda answer=answer: answer)
        frame = self.answered(lambda: {"classes": [(2**31 - 1, 0.5)], "objects": [{**box, "track": 2**53 - 1}]})
        self.assertEqual((frame.classes[0].index, frame.objects[0].track), (2**31 - 1, 2**53 - 1))

    def test_runs_that_fail_at_once_have_their_own_causes(self):
        def check(number):
            error = KeyError(number)

            def function(frame):
                raise error
            p = millrace.Pipeline(text=ENDLESS.replace("callback", "callback, on_error: fail"))
            p.subscribe("answers", function)
            p.start()
            begun.wait()
            with self.assertRaisesRegex(millrace.StageError, f"raised KeyError: {number} ") as raised:
                p.wait(30)
            p.close()
            self.assertIs(raised.exception.__cause__, error)
        begun = threading.Barrier(8)
        self.assertEqual(together([lambda number=number: check(number) for number in range(8)]), {"done": 8})

    def test_failures_that_are_asked_for_late(self):
        """All are StageErrors, and those of the last sixteen functions have a cause. A process of its own, since other
        cases raise too."""
        done = subprocess.run([sys.executable, "-c", f"""
import collections, sys
sys.path.insert(0, {str(MODULE)!r})
import millrace
def failed(number):
    def function(frame):
        raise KeyError(number)
    p = millrace.Pipeline(text={ENDLESS.replace("callback", "callback, on_error: fail") + LATER!r}, workers=1)
    p.subscribe("answers", function)
    frames = p.frames("others")
    p.start()
    collections.deque(frames, 0)
    return p
for p in [failed(number) for number in range(18)]:
    try:
        p.wait(30)
    except millrace.StageError as error:
        print(repr(error.__cause__))
"""], capture_output=True, text=True, timeout=60)
        causes = ["None"] * 2 + [f"KeyError({number})" for number in range(2, 18)]
        self.assertEqual(done.stdout.splitlines(), causes, done.stderr)

    # ---- arguments

    def test_arguments_of_other_types(self):
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "u8 8")) as p:
            for wrong, says in ((lambda: p.trigger(5), "the id must be a str, not int"),
                                (lambda: p.push([], 1), "the id must be a str, not list"),
                                (lambda: p.push("camera", [1], pixel="RGB"), 'no pixel layout "RGB": use GRAY8, '),
                                (lambda: p.push("camera", [1], pts=float("nan")), "a number of seconds"),
                                (lambda: p.add_source("a", rate=object()), "of type object cannot be written as YAML"),
                                (lambda: p.frames("answers", hold="x"), "hold must be an int from 0"),
                                (lambda: millrace.check(text=b"x"), "the text must be a str, not bytes"),
                                (lambda: millrace.check(text=ENDLESS, settings=[1]), "settings must be a dict"),
                                (lambda: millrace.check(text=ENDLESS, settings={1: 2}), "the setting must be a str"),
                                (lambda: millrace.plan(text=ENDLESS, workers=-1), "workers must be an int from 0"),
                                (lambda: millrace.Pipeline(text=ENDLESS, grace=-1), "grace must be at least 0"),
                                (lambda: millrace.stage(5), "a stage must be a function")):
                with self.subTest(says), self.assertRaisesRegex((TypeError, ValueError), says):
                    wrong()
            with self.assertRaisesRegex(millrace.Error, 'no source "answers"'):
                p.push("answers", np.zeros(8, np.uint8))
            with self.assertRaisesRegex(millrace.Error, "unknown log level"):
                millrace.set_log_level(3)
            with self.assertRaisesRegex(millrace.Error, "cannot open the plugin"):
                millrace.load_plugin(self.folder / "missing.so")
            with self.assertRaisesRegex(TypeError, "open it in the process that uses it"):
                pickle.dumps(p)
        with millrace.Pipeline(text=ENDLESS, settings={"stages.answers.queue": np.int64(7)}, workers=np.int8(1)) as p:
            self.assertEqual([stage["queue"] for stage in p.plan().stages if stage["id"] == "answers"], [7])

    def test_pushing_to_sources_that_are_added_later(self):
        with millrace.Pipeline(text=CHANGING.replace("LIKE", "type: push, format: u8 8")) as p:
            frames = p.frames("answers")
            p.start()
            for name in ("one", "two"):
                with self.assertRaisesRegex(millrace.Error, 'no stage or source "two"; it has (one, )?answers$'):
                    p.push("two", np.zeros(8, np.uint8))
                p.add_source(name)
                p.push(name, np.zeros(8, np.uint8))
                self.assertEqual(next(frames).source, name)

    def test_no_descriptor_is_left(self):
        """What is not an error in the file has its own message, and a check does not call the file right."""
        done = subprocess.run([sys.executable, "-c", f"""
import resource, sys
sys.path.insert(0, {str(MODULE)!r})
import millrace
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    millrace.Pipeline(text={ENDLESS!r})
except millrace.Error as error:
    print(error.exit_code, error)
"""], capture_output=True, text=True, timeout=60)
        self.assertRegex(done.stdout, "^69 .*Too many open files", done.stderr)

    def test_a_start_that_failed_cannot_be_repeated(self):
        with millrace.Pipeline(text=ENDLESS, trace=self.folder / "missing" / "trace.json") as p:
            frames = p.frames("answers")
            with self.assertRaisesRegex(millrace.Error, "trace.json"):
                p.start()
            with self.assertRaisesRegex(millrace.Error, "could not be started: open it again"):
                p.start()
            self.assertEqual(list(frames), [])
