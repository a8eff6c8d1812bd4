"""zmq.push, zmq.pub, zmq.pull and zmq.sub with real clients: pyzmq and protobuf's Python library. What they receive is
compared with what jsonl writes for the same frames; what they send is NumPy's."""
import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import zmq
import zmq.auth
from PIL import Image

from harness import MILLRACE, MODELS, PICTURES, ROOT, SAMPLES, TIMEOUT, Case, call, free_port, need_models, pipeline, \
    rows_in

if not shutil.which("protoc"):
    print("skipped: no protoc")
    sys.exit(77)

GENERATED = tempfile.TemporaryDirectory(prefix="millrace-")
subprocess.run(["protoc", f"-I{ROOT}/proto", f"--python_out={GENERATED.name}", "results.proto"], check=True)
sys.path.insert(0, GENERATED.name)
import results_pb2

README = (ROOT / "pipelines/README.md").read_text()


def of_video(sink):
    return pipeline(dict(short=f"uri: {SAMPLES}/realshort.mp4"), decode="",
                    small="type: preprocess, size: 8x8, dtype: u8, layout: nhwc", hash="type: phash, input: decode",
                    both="type: join, join: {small: small, hash: hash}",
                    results=f"tensors: true, features: true, {sink}")


def lingering(frames, linger, endpoint):
    return pipeline(dict(made=f'type: "null", frames: {frames}, format: RGB24 640x480'), name="lingers",
                    out=f'type: zmq.push, payload: raw, linger: {linger}, endpoint: "{endpoint}"')


class Zmq(Case):
    def setUp(self):
        super().setUp()
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, linger=0)
        self.endpoint = f"ipc://{self.folder}/socket"

    def socket(self, kind, **options):
        socket = self.context.socket(kind)
        socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        socket.setsockopt(zmq.SNDTIMEO, int(TIMEOUT * 1000))
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name), value)
        socket.connect(self.endpoint)
        self.addCleanup(socket.close, 0)
        return socket

    def start(self, text, *arguments):
        """Starts the command, with the summary in a file."""
        told = open(self.folder / "told", "w+")
        self.addCleanup(told.close)
        return self.spawn([MILLRACE, "run", self.write(text, "running.yaml"), "--json", *arguments], stdout=told,
                          stderr=told)

    def wait_until(self, happened, running):
        super().wait_until(happened, self.folder / "told", running)

    def end_of(self, running):
        """The summary from a run that ends well, and everything it printed."""
        code = running.wait(TIMEOUT)
        told = (self.folder / "told").read_text()
        self.assertEqual(code, 0, told)
        # Keys in messages may have braces.
        summary, _ = json.JSONDecoder().raw_decode(told, re.search(r"^\{", told, re.MULTILINE).start())
        self.assertTrue(summary["ledger"]["balanced"], told)
        self.assertEqual(summary["ledger"]["in_flight"], 0, told)
        return summary, told

    def dropped(self, summary):
        return {(line["stage"], line["reason"]): line["frames"] for line in summary["ledger"]["dropped"]}

    def reference(self):
        run = self.run_pipeline(of_video("type: jsonl, path: '${OUTPUT}'"))
        self.assertGreater(len(run.rows), 30)
        return run.rows

    # ---- what is sent

    def test_json_is_what_jsonl_writes(self):
        sink = f"type: zmq.push, linger: 300s, endpoint: '{self.endpoint}'"
        running = self.start(of_video(sink))
        socket, rows = self.socket(zmq.PULL), []
        while not (row := socket.recv_json()).get("end"):
            rows.append(row)
        self.assertEqual(row, {"source": "short", "end": True})
        self.assertEqual(rows, self.reference())
        self.assertEqual(self.end_of(running)[0]["ledger"]["delivered"], len(rows))

    def test_protobuf_says_the_same(self):
        running = self.start(of_video("type: zmq.push, encoding: protobuf, payload: raw, linger: 300s, "
                                      f"endpoint: '{self.endpoint}'"))
        socket, count = self.socket(zmq.PULL), 0
        for row in self.reference():
            record, payload = socket.recv_multipart()
            record = results_pb2.Record.FromString(record)
            self.assertEqual((record.source, record.epoch, record.seq, record.sub), ("short", 0, row["seq"], 0))
            self.assertEqual(record.pts_ns, round(row["pts"] * 1e9))
            self.assertEqual((record.format, payload), ("u8 8x8x3", bytes(row["features"])))
            self.assertEqual((record.features.dtype, list(record.features.shape), record.features.data),
                             ("u8", [8, 8, 3], payload))
            (tensor,), (expected,) = record.tensors, row["tensors"]
            self.assertEqual([tensor.stage, tensor.name, tensor.dtype, list(tensor.shape)],
                             [expected[key] for key in ("stage", "name", "dtype", "shape")])
            dtype = {"u8": "u1", "f32": "<f4", "i32": "<i4", "i64": "<i8"}[tensor.dtype]
            self.assertEqual(numpy.frombuffer(tensor.data, dtype).tolist(), expected["data"])
            count += 1
        self.assertTrue(results_pb2.Record.FromString(socket.recv()).end)
        self.assertEqual(self.end_of(running)[0]["ledger"]["delivered"], count)

    def test_pictures_come_as_they_are(self):
        sink = ("type: zmq.pub, subscribers: 1, payload: raw, high_water: 1000, linger: 300s, "
                f"endpoint: '{self.endpoint}'")
        running = self.start(of_video("input: decode, " + sink).replace("tensors: true, features: true, ", ""))
        socket = self.socket(zmq.SUB, SUBSCRIBE=b"sho", RCVHWM=1000)
        self.checked(["ffmpeg", "-v", "error", "-i", SAMPLES / "realshort.mp4", "-f", "rawvideo", self.folder / "raw"])
        raw, at = (self.folder / "raw").read_bytes(), 0
        while len(parts := socket.recv_multipart()) == 3:
            topic, record, picture = parts
            self.assertEqual(topic, b"short")
            self.assertEqual(json.loads(record)["format"], "I420 320x240")
            self.assertEqual(picture, raw[at:at + len(picture)])
            at += len(picture)
        self.assertEqual(at, len(raw))
        self.assertEqual(json.loads(parts[1]), {"source": "short", "end": True})
        self.end_of(running)

    def test_what_a_slow_subscriber_misses_is_counted(self):
        text = pipeline(dict(made='type: "null", frames: 300, format: RGB24 320x240'), name="slow",
                        out='type: zmq.pub, payload: raw, subscribers: 2, high_water: 2, linger: 300s, '
                            f'endpoint: "{self.endpoint}"')
        running = self.start(text, "--control", self.folder / "control")
        sockets = [self.socket(zmq.SUB, SUBSCRIBE=b"", RCVHWM=2) for _ in range(2)]
        status = [MILLRACE, "ctl", "--control", self.folder / "control", "--json", "status"]

        def all_came():
            """Whether all frames came, by the run's report; a run that had room may already have printed the
            summary."""
            if '"balanced"' in (self.folder / "told").read_text():
                return True
            done = call(status)
            ledger = json.loads(done.stdout)["status"]["ledger"] if done.returncode == 0 else {"in": 0}
            return ledger["in"] == 300

        self.wait_until(all_came, running)
        taken, poller = {socket: [] for socket in sockets}, zmq.Poller()
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        while poller.sockets:  # both at once: the end is sent when both have room
            ready = poller.poll(TIMEOUT * 1000)
            self.assertTrue(ready)
            for socket, _ in ready:
                _, record, *payload = socket.recv_multipart()
                taken[socket].append(json.loads(record))
                if not payload:
                    poller.unregister(socket)
        summary, _ = self.end_of(running)
        lost = self.dropped(summary)["out", "slow subscriber"]
        self.assertGreater(lost, 0)
        for rows in taken.values():
            self.assertEqual(rows.pop(), {"source": "made", "end": True})
            self.assertEqual(len({row["seq"] for row in rows}), 300 - lost)
        self.assertEqual(*taken.values())
        self.assertEqual(summary["ledger"]["delivered"], 300 - lost)

    def start_lingering(self, *arguments, frames=20, linger="300s"):
        """A run whose frames have all reached the sink; most are still in flight to a slow program."""
        control = self.folder / "control"
        running = self.start(lingering(endpoint=self.endpoint, frames=frames, linger=linger), "--control", control,
                             *arguments)
        socket = self.socket(zmq.PULL, RCVHWM=1)

        def lingers():
            done = call([MILLRACE, "ctl", "--control", control, "--json", "status"])
            return done.returncode == 0 and json.loads(done.stdout)["status"]["ledger"]["in"] == frames

        self.wait_until(lingers, running)
        return running, socket

    def test_a_slow_program_gets_everything(self):
        """The run waits longer than `linger` while messages are being taken. A busy machine may hold this program up
        for seconds."""
        running, socket = self.start_lingering(linger="5s")
        began = time.monotonic()
        for _ in range(20):
            time.sleep(0.3)
            self.assertEqual(len(socket.recv_multipart()), 2)
        self.assertGreater(time.monotonic() - began, 5)
        self.assertEqual(socket.recv_json(), {"source": "made", "end": True})
        summary, _ = self.end_of(running)
        self.assertEqual(summary["ledger"]["delivered"], 20)

    def test_what_a_program_does_not_take_is_dropped(self):
        running = self.start(lingering(endpoint=self.endpoint, frames=20, linger="3s"))
        socket = self.socket(zmq.PULL, RCVHWM=1)
        for _ in range(3):
            socket.recv_multipart()
        summary, told = self.end_of(running)
        delivered, lost = summary["ledger"]["delivered"], self.dropped(summary)["out", "not taken"]
        self.assertEqual(delivered + lost, 20)
        self.assertIn(f"{lost} messages are dropped", told)
        # The other sent messages are in buffers, the system's and the program's.
        for _ in range(delivered - 3):
            self.assertEqual(len(socket.recv_multipart()), 2)
        socket.setsockopt(zmq.RCVTIMEO, 1000)
        with self.assertRaises(zmq.Again):
            socket.recv_multipart()

    def test_the_end_reaches_each_program(self):
        running = self.start(lingering(endpoint=self.endpoint, frames=1000, linger="300s"))
        sockets, ended = [self.socket(zmq.PULL, RCVHWM=1) for _ in range(3)], []
        poller = zmq.Poller()
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        while len(ended) < 3:
            for socket, _ in poller.poll(TIMEOUT * 1000):
                record, *_ = socket.recv_multipart()
                if json.loads(record).get("end"):
                    ended.append(socket)
        self.end_of(running)
        self.assertEqual(set(ended), set(sockets))

    def test_the_end_waits_for_nobody(self):
        """No program has ever come for the message of the end."""
        source = f"ipc://{self.folder}/source"
        for kind, why in (("zmq.push", "no program took it for 1.0 s (linger)"),
                          ("zmq.pub, subscribers: 1", "too few subscribers came")):
            with self.subTest(kind):
                running = self.start(pipeline(dict(app=f'type: zmq.pull, format: u8 4, endpoint: "{source}"'),
                                              out=f'type: {kind}, linger: 1s, endpoint: "{self.endpoint}"'))
                asking = self.context.socket(zmq.PUSH)
                asking.connect(source)
                asking.send_json({"end": True})
                _, told = self.end_of(running)
                asking.close()
                self.assertIn(f"out: the message of the end was not sent: {why}", told)

    def test_it_says_that_it_waits_for_a_program(self):
        running = self.start(lingering(endpoint=self.endpoint, frames=5, linger="300s"))
        said = f"out: waits until a program takes messages at {self.endpoint}\n"
        self.wait_until(lambda: said in (self.folder / "told").read_text(), running)
        socket = self.socket(zmq.PULL)
        for seq in range(5):
            self.assertEqual(json.loads(socket.recv_multipart()[0])["seq"], seq)
        self.assertEqual(socket.recv_json(), {"source": "made", "end": True})
        self.assertEqual(self.end_of(running)[0]["ledger"]["delivered"], 5)

    def test_a_run_that_lingers_is_stopped(self):
        """The run waits for a reader as long as allowed, and counts the lost frames."""
        running, _ = self.start_lingering("--grace", "1s")
        running.terminate()
        summary, told = self.end_of(running)
        self.assertIn("frames in flight are dropped", told)
        self.assertEqual(summary["ledger"]["delivered"] + self.dropped(summary)["out", "stopped"], 20)

    def test_a_run_that_lingers_is_stopped_at_once(self):
        audit = self.folder / "audit.jsonl"
        running, _ = self.start_lingering("--grace", f"{TIMEOUT:.0f}s", "--audit", audit)
        running.terminate()
        self.wait_until(lambda: any(one["event"] == "signal" for one in rows_in(audit)), running)
        time.sleep(0.6)  # signals that come together count as one
        running.send_signal(signal.SIGINT)
        self.assertIn(running.wait(TIMEOUT), (128 + signal.SIGTERM, 128 + signal.SIGINT))

    def test_a_stop_does_not_wait_for_programs(self):
        for kind in ("push", "pub, subscribers: 1"):
            with self.subTest(kind):
                running = self.start(pipeline(dict(made='type: "null", frames: 1000'),
                                              out=f'type: zmq.{kind}, endpoint: "{self.endpoint}"'), "--log", "info")
                self.wait_until(lambda: "listens at" in (self.folder / "told").read_text(), running)
                running.terminate()
                summary, told = self.end_of(running)
                self.assertIn("frames in flight are dropped", told)
                self.assertEqual(summary["ledger"]["delivered"], 0)
                self.assertEqual(sum(self.dropped(summary).values()), summary["ledger"]["in"])

    def test_a_stop_ends_a_source_that_nobody_feeds(self):
        for kind in ("pull", "sub"):
            running, output = self.take(kind, "format: u8 4")
            self.wait_until((self.folder / "socket").exists, running)
            running.terminate()
            self.assertEqual(self.end_of(running)[0]["ledger"]["in"], 0)
            (self.folder / "socket").unlink(missing_ok=True)

    def test_push_waits_and_finds_its_peer_again(self):
        """The first program takes a few and goes; a second one gets the rest."""
        text = pipeline(dict(made='type: "null", frames: 500, format: RGB24 320x240'), name="waits",
                        out=f'type: zmq.push, payload: raw, high_water: 1, linger: 300s, endpoint: "{self.endpoint}"')
        running = self.start(text)
        first = self.socket(zmq.PULL, RCVHWM=1)
        taken = [json.loads(first.recv_multipart()[0])["seq"] for _ in range(5)]
        self.assertEqual(taken, list(range(5)))
        first.close(0)
        second, rest = self.socket(zmq.PULL), []
        while "seq" in (row := json.loads(second.recv_multipart()[0])):
            rest.append(row["seq"])
        self.assertEqual(rest, sorted(set(rest)))
        self.assertEqual((rest[0] >= 5, rest[-1]), (True, 499))
        summary, _ = self.end_of(running)
        self.assertEqual(summary["ledger"]["delivered"], 500)

    # ---- what is taken

    def take(self, kind="pull", options="", more=(), **stages):
        output = self.folder / "results.jsonl"
        text = pipeline(dict(app=f'type: zmq.{kind}, endpoint: "{self.endpoint}", {options}'),
                        **(stages or {"last": 'type: "null"'}), results="type: jsonl, features: true, path: '-'")
        return self.start(text, "--output", output, *more), output

    def test_tensors_of_numpy(self):
        running, output = self.take(options="format: f32 2x3")
        socket = self.socket(zmq.PUSH)
        sent = [numpy.random.default_rng(i).random((2, 3), numpy.float32) for i in range(50)]
        for i, tensor in enumerate(sent):
            record = json.dumps({"pts": i / 8, "more": [[{}]]}).encode() if i % 2 else (
                results_pb2.Record(pts_ns=i * 125000000, format="f32 2x3").SerializeToString())
            socket.send_multipart([record, tensor.tobytes()])
        socket.send(results_pb2.Record(end=True).SerializeToString())
        summary, _ = self.end_of(running)
        rows = rows_in(output)
        self.assertEqual([row["seq"] for row in rows], list(range(50)))
        self.assertEqual([row["pts"] for row in rows], [i / 8 for i in range(50)])
        for row, tensor in zip(rows, sent):
            numpy.testing.assert_array_equal(numpy.array(row["features"], numpy.float32), tensor.ravel())
        self.assertEqual(summary["ledger"]["delivered"], 50)

    def test_pictures_of_numpy_of_any_size(self):
        running, output = self.take(options="format: RGB24, ends: 2",
                                    small="type: preprocess, size: 1x1, dtype: u8, layout: nhwc, fit: stretch")
        first, second = self.socket(zmq.PUSH), self.socket(zmq.PUSH)
        for size in (4, 7):
            picture = numpy.full((size, size + 1, 3), (10 * size, 20, 30), numpy.uint8)
            first.send_multipart([json.dumps({"format": f"RGB24 {size + 1}x{size}"}).encode(), picture.tobytes()])
        first.send_json({"end": True})
        second.send_json({"end": True})
        self.end_of(running)
        self.assertEqual([row["features"] for row in rows_in(output)], [[40, 20, 30], [70, 20, 30]])

    def test_encoded_images(self):
        names = [name for name in ("orange.jpg", "baboon.jpg", "squirrel_cls.jpg") if (PICTURES / name).exists()]
        if not names:
            self.skipTest(f"no pictures in {PICTURES}")
        payloads = [(PICTURES / name).read_bytes() for name in names]
        for orientation, ending in ((6, "AVIF"), (8, "AVIF"), (3, "PNG")):
            exif, file = Image.Exif(), io.BytesIO()
            exif[274] = orientation
            Image.linear_gradient("L").convert("RGB").save(file, ending, exif=exif)
            payloads.append(file.getvalue())
        if shutil.which("heif-enc"):
            Image.radial_gradient("L").convert("RGB").save(self.folder / "a.png")
            subprocess.run(["heif-enc", "-o", self.folder / "a.heic", self.folder / "a.png"], check=True,
                           capture_output=True)
            payloads.append((self.folder / "a.heic").read_bytes())
        stages = {"decode": "", "small": "type: preprocess, size: 8x8"}
        running, output = self.take("sub", "topic: camera, idle: 0s, size: 4000x4000", **stages)
        socket = self.context.socket(zmq.XPUB)
        socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        socket.connect(self.endpoint)
        self.assertEqual(socket.recv(), b"\x01camera")
        socket.send_multipart([b"other", b"{}", b"nobody asked"])
        for payload in payloads:
            socket.send_multipart([b"camera-1", b"{}", payload])
        socket.send_multipart([b"camera-1", b'{"end":true}'])
        self.end_of(running)
        folder = self.folder / "in"
        folder.mkdir()
        for i, payload in enumerate(payloads):
            (folder / f"{i}.jpg").write_bytes(payload)
        expected = self.run_pipeline(pipeline(dict(app=f"uri: {folder}"), **stages,
                                              results="type: jsonl, features: true, path: '${OUTPUT}'")).rows
        self.assertEqual([row["features"] for row in rows_in(output)], [row["features"] for row in expected])
        self.assertEqual(len(expected), len(payloads))

    def test_nothing_that_comes_ends_the_run(self):
        running, output = self.take(options="format: u8 4, max_message: 1KiB")
        bad = ([b"{}"], [b'{"id":"job-7"}', b"123"], [b"{}", b"12345"], [b"{", b"1234"], [b"\xff" * 9, b"1234"],
               [b"[1]", b"1234"], [b"{}", b"1234", b"more"], [b"{}", b"1234"] + [b""] * 50,
               [b'{"format":"f32 1"}', b"1234"], [b'{"format":"u8 99999999999999x99999999999"}', b"1234"],
               [b'{"pts":1e300}', b"1234"], [b"{" * 900, b"1234"],
               [b'{"a":' * 150 + b"1" + b"}" * 150, b"1234"], [b"", b""], [b"", b"", b""])
        socket = self.socket(zmq.PUSH)
        for parts in bad:
            socket.send_multipart(parts)
        socket.send_multipart([b"", b"good"])
        flood = self.socket(zmq.PUSH, LINGER=0)
        flood.send_multipart([b"{}", bytes(5000)])  # more than max_message: the peer is disconnected
        socket.send_multipart([b"{}", b"well"])
        socket.send_json({"end": True})
        summary, told = self.end_of(running)
        self.assertEqual([bytes(row["features"]) for row in rows_in(output)], [b"good", b"well"])
        self.assertEqual([(line["reason"], line["frames"]) for line in summary["ledger"]["dropped"]],
                         [("bad message", len(bad))])
        self.assertIn("a message was refused: a message has 1 part: expected record and payload", told)
        self.assertIn("a message job-7 was refused: the payload has 3 bytes, and 4 were expected", told)

    def test_idle_sources_end(self):
        running, output = self.take(options="format: u8 1, idle: 200ms")
        self.assertEqual(self.end_of(running)[0]["ledger"]["in"], 0)

    def test_a_pipeline_feeds_another(self):
        picture = "format: RGB24 32x32"
        running, output = self.take(options=picture, hog="size: 32x32")
        self.run_pipeline(pipeline(dict(made=f'type: "null", frames: 20, {picture}'), name="first",
                                   out=f'type: zmq.push, endpoint: "{self.endpoint}", bind: false, payload: raw'),
                          rows=False)
        self.assertEqual(self.end_of(running)[0]["ledger"]["delivered"], 20)

    def test_answers_have_the_names_of_their_question(self):
        """Through a join, another node and back, in JSON, as a table and in protobuf."""
        text = pipeline(dict(app=f'type: zmq.pull, endpoint: "{self.endpoint}", format: u8 1'), name="asked",
                        left='type: "null"', right='type: "null", input: app',
                        both="type: join, join: {left: left, right: right}",
                        results=f'type: jsonl, path: "{self.folder}/results.jsonl"',
                        table=f'type: csv, input: both, id: true, path: "{self.folder}/results.csv"',
                        out=f'type: zmq.push, input: both, encoding: protobuf, endpoint: "ipc://{self.folder}/out"')
        asked = [{"id": "job-3", "file": "/x/\u00e9 a.jpg"}, {"id": 17, "label": "dog"}, {}, {"id": "x" * 255},
                 {"file": "y" * 4095}, {"id": "proto", "file": "a.jpg", "label": "cat"}]
        wanted = [tuple(str(one.get(key, "")) for key in ("id", "file", "label")) for one in asked]
        for nodes in ("", "nodes: {first: {stages: [left, right]}, last: {stages: [both, results, table, out]}}"):
            running = self.start(text + nodes)
            socket = self.socket(zmq.PUSH)
            for one in asked[:-1]:
                socket.send_multipart([json.dumps(one).encode(), b"a"])
            socket.send_multipart([results_pb2.Record(**asked[-1]).SerializeToString(), b"a"])
            socket.send_multipart([json.dumps({"id": "y" * 256}).encode(), b"a"])  # too long
            socket.send_json({"end": True})
            answers = self.context.socket(zmq.PULL)
            self.addCleanup(answers.close, 0)
            answers.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
            answers.connect(f"ipc://{self.folder}/out")
            got = []
            while not (record := results_pb2.Record.FromString(answers.recv())).end:
                got.append((record.id, record.file, record.label))
            self.assertEqual(got, wanted)
            self.assertEqual(self.dropped(self.end_of(running)[0]), {("app", "bad message"): 1})
            rows = rows_in(self.folder / "results.jsonl")
            self.assertEqual([tuple(row.get(key, "") for key in ("id", "file", "label")) for row in rows], wanted)
            with open(self.folder / "results.csv", newline="", encoding="utf-8") as table:
                self.assertEqual([(row["id"], row["file"], row["label"]) for row in csv.DictReader(table)], wanted)
            socket.close()
            answers.close(0)  # otherwise the next run would share answers between both

    def test_two_programs_ask_at_once(self):
        """The service of pipelines/serve.yaml."""
        need_models()
        names = sorted(PICTURES.glob("b*.jpg"))[:5]
        if not names:
            self.skipTest(f"no pictures in {PICTURES}")
        served = (ROOT / "pipelines/serve.yaml").read_text().replace("${ENDPOINT:-tcp://127.0.0.1:5555}", self.endpoint)
        running = self.start(served, "--set", "sources.app.ends=2", "--output", self.folder / "results.jsonl")
        clients = {name: self.socket(zmq.PUSH) for name in ("left", "right")}
        for i, path in enumerate(names):
            for name, socket in clients.items():
                socket.send_multipart([json.dumps({"id": f"{name} {i}", "file": str(path)}).encode(),
                                       path.read_bytes()])
        for socket in clients.values():
            socket.send_json({"end": True})
        self.end_of(running)
        rows = rows_in(self.folder / "results.jsonl")
        answers = {name: [row for row in rows if row["id"].startswith(name)] for name in clients}
        for name, got in answers.items():
            self.assertEqual([(row["id"], row["file"]) for row in got],
                             [(f"{name} {i}", str(path)) for i, path in enumerate(names)])
        self.assertEqual(*([row["classes"] for row in got] for got in answers.values()))

    # ---- who may

    def test_only_known_keys(self):
        for name in ("center", "friend", "stranger"):
            self.assertEqual(call([MILLRACE, "keygen", name, "--output", self.folder]).returncode, 0)
        options = (f"format: u8 4, key: {self.folder}/center.key, allow: {self.folder}/friend.pub")
        audit = self.folder / "audit.jsonl"
        self.endpoint = f"tcp://127.0.0.1:{free_port()}"
        running, output = self.take(options=options, more=("--audit", audit, "--log", "info"))
        # A client whose handshake fails does not try again, whatever was there before.
        self.wait_until(lambda: "listens at" in (self.folder / "told").read_text(), running)
        server = zmq.auth.load_certificate(self.folder / "center.pub")[0]
        sockets = []
        for name in ("stranger", "friend"):
            public, secret = zmq.auth.load_certificate(self.folder / f"{name}.key")
            sockets.append(self.socket(zmq.PUSH, CURVE_SERVERKEY=server, CURVE_PUBLICKEY=public,
                                       CURVE_SECRETKEY=secret, LINGER=0))
            sockets[-1].send_multipart([b"{}", name[:4].encode()])
            if name == "stranger":
                self.wait_until(lambda: audit.exists() and "peer refused" in audit.read_text(), running)
        sockets[-1].send_json({"end": True})
        summary, _ = self.end_of(running)
        self.assertEqual([bytes(row["features"]) for row in rows_in(output)], [b"frie"])
        entries = [json.loads(line) for line in audit.read_text().splitlines()]
        keys = {name: zmq.auth.load_certificate(self.folder / f"{name}.pub")[0].decode()
                for name in ("stranger", "friend")}
        self.assertEqual({one["key"] for one in entries if one["event"] == "peer accepted"}, {keys["friend"]})
        self.assertIn((keys["stranger"], "key not allowed"),
                      {(one["key"], one["reason"]) for one in entries if one["event"] == "peer refused"})

    def test_only_so_many(self):
        audit = self.folder / "audit.jsonl"
        running, output = self.take(options="format: u8 1, max_peers: 2", more=("--audit", audit))
        first, second = (self.socket(zmq.PUSH) for _ in range(2))
        for socket in (first, second):
            socket.send_multipart([b"", b"a"])
        self.wait_until(lambda: output.exists() and len(rows_in(output)) == 2, running)
        third = self.socket(zmq.PUSH)
        third.send_multipart([b"", b"b"])
        self.wait_until(lambda: "too many peers" in audit.read_text(), running)
        first.close()  # makes room for the third, which retries by itself
        self.wait_until(lambda: len(rows_in(output)) == 3, running)
        third.send_json({"end": True})
        self.assertEqual(self.end_of(running)[0]["ledger"]["delivered"], 3)

    # ---- README

    def test_the_programs_of_readme(self):
        section = README.split("## Other programs, over ZeroMQ\n")[1].split("\n## ")[0]
        yaml, = re.findall(r"^```yaml\n(.*?)^```$", section, re.M | re.S)
        program, = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
        self.assertLessEqual(len(program.splitlines()), 10)
        for port in ("5555", "5556"):
            self.assertIn(port, yaml)
            yaml = yaml.replace(f"tcp://127.0.0.1:{port}", f"ipc://{self.folder}/{port}")
            program = program.replace(f"tcp://127.0.0.1:{port}", f"ipc://{self.folder}/{port}")
        self.assertNotIn("127.0.0.1", program)
        pictures = sorted(PICTURES.glob("b*.jpg"))[:3]
        if not pictures:
            self.skipTest(f"no pictures in {PICTURES}")
        running = self.start(yaml)
        done = self.checked([sys.executable, self.write(program, "program.py"), *pictures],
                            environment={"PYTHONPATH": GENERATED.name})
        self.end_of(running)
        folder = self.folder / "in"
        folder.mkdir()
        for path in pictures:
            shutil.copy(path, folder)
        rows = self.run_pipeline(pipeline(dict(app=f"uri: {folder}"), name="folder", decode="", phash="",
                                          out="type: jsonl, tensors: true, path: '${OUTPUT}'")).rows
        self.assertEqual([line.split() for line in done.stdout.splitlines()],
                         [[str(row["seq"]), bytes(row["tensors"][0]["data"]).hex()] for row in rows])
