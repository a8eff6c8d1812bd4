"""Millrace's own pipelines and the demo, run unchanged and as the comments say."""
import json
import os
import pathlib
import re
import unittest

import numpy as np

import clips
import harness

YOLOX = pathlib.Path(os.environ.get("MILLRACE_YOLOX", "/nonexistent"))


def setUpModule():
    harness.need_models()


class Pipelines(harness.Case):
    """Millrace's own pipelines, unchanged."""
    SEEN = {}

    def rows(self, name, *arguments):
        run = self.run_pipeline(harness.ROOT / f"pipelines/{name}.yaml", *arguments,
                                environment={"MODELS": str(harness.MODELS)})
        self.assert_balanced(run)
        return run

    def seen(self, name, media):
        """Rows from a pipeline that several tests use; it runs once for all."""
        if (name, media) not in self.SEEN:
            self.SEEN[name, media] = self.rows(name, "--input", media).rows
        return self.SEEN[name, media]

    def assert_same_classes(self, rows, expected):
        """The same frames in the same order, with the same classes; scores may only differ by rounding between
        batches."""
        self.assertEqual([(row["seq"], [one["index"] for one in row["classes"]]) for row in rows],
                         [(row["seq"], [one["index"] for one in row["classes"]]) for row in expected])
        for row, other in zip(rows, expected):
            np.testing.assert_allclose([one["score"] for one in row["classes"]],
                                       [one["score"] for one in other["classes"]], atol=1e-5)

    def test_classify_video(self):
        rows = self.rows("classify-video", "--input", clips.codec("h264 4:4:4")).rows
        self.assertEqual(len(rows), 24)
        self.assertEqual({len(row["classes"]) for row in rows}, {5})

    def test_classify_images(self):
        rows = self.seen("classify-images", clips.pictures("jpg", mixed=True))
        self.assertEqual([row["classes"][0]["label"].split(",")[0] for row in rows][:2], ["orange", "baboon"])

    def test_features(self):
        rows = self.rows("features", "--input", clips.codec("h264 4:2:0")).rows
        for row in rows:
            features = np.array(row["features"])
            self.assertEqual(features.shape, (1280,))
            self.assertAlmostEqual(float(np.linalg.norm(features)), 1, delta=1e-4)

    def test_many_videos(self):
        run = self.rows("many-videos", "--set", "sources.cockatoo.duration=2s", "--set", "sources.walkers.duration=2s")
        for source, frames in (("cockatoo", 40), ("short", 36), ("walkers", 20)):
            self.assertEqual(len(run.of(source)), frames)
            self.assert_in_order(run.of(source))

    def test_two_devices(self):
        """A network's halves give what the whole gives, on processors and on two devices."""
        if not (harness.MODELS / "lite0-back.onnx").exists():
            self.skipTest(f"no halves in {harness.MODELS} (tools/test makes them)")
        clip = clips.codec("h264 4:2:0")
        whole = self.seen("classify-video", clip)
        self.assertTrue(whole)
        for front, back in (("cpu", "cpu"), ("sim:0", "sim:1")):
            environment = {"MODELS": str(harness.MODELS), "FRONT": front, "BACK": back}
            run = self.run_pipeline(harness.ROOT / "pipelines/two-devices.yaml", "--input", clip,
                                    environment=environment)
            self.assert_balanced(run)
            devices = {stage["id"]: stage["device"] for stage in run.summary["stages"]}
            self.assertEqual((devices["front"], devices["back"]), (front, back))
            self.assert_same_classes(run.rows, whole)

    def test_two_devices_that_are_assumed(self):
        if not (harness.MODELS / "lite0-back.onnx").exists():
            self.skipTest(f"no halves in {harness.MODELS} (tools/test makes them)")
        done = self.millrace("plan", harness.ROOT / "pipelines/two-devices.yaml", "--input", clips.codec("h264 4:2:0"),
                             "--assume", "cuda:2x80GiB", "--json",
                             environment={"MODELS": str(harness.MODELS), "FRONT": "cuda:0", "BACK": "cuda:1"})
        plan = json.loads(done.stdout)
        self.assertEqual({stage["id"]: stage["device"] for stage in plan["stages"]},
                         {"decode": "cpu", "preprocess": "cuda:0", "front": "cuda:0", "back": "cuda:1",
                          "classify": "cpu", "results": "cpu"})
        between = next(copy for copy in plan["copies"] if copy["id"] == "front->cuda:1")
        self.assertEqual(between["kind"], "peer")
        self.assertEqual(between["frame_bytes"], 80 * 14 * 14 * 4)

    def test_spread(self):
        """Results equal those from one device, in order, with batches on several."""
        clip = clips.codec("h264 4:2:0")
        whole = self.seen("classify-video", clip)
        run = self.rows("spread", "--input", clip)
        stage = next(stage for stage in run.summary["stages"] if stage["id"] == "features")
        self.assertEqual({share["name"] for share in stage["devices"]}, {"sim:0", "sim:1"})
        self.assertEqual(sum(share["frames"] for share in stage["devices"]), len(whole))
        self.assert_same_classes(run.rows, whole)

    def test_replicas(self):
        """The same if two processes share the work."""
        clip = clips.codec("h264 4:2:0")
        whole = self.seen("classify-video", clip)
        run = self.rows("replicas", "--input", clip)
        self.assert_same_classes(run.rows, whole)

    def test_join(self):
        """Each record has what both paths found, and nothing from another picture."""
        photos = clips.pictures("jpg", mixed=True)
        seen = self.seen("classify-images", photos)
        measured = self.rows("fingerprints", "--input", photos).rows
        both = self.rows("join", "--input", photos).rows
        self.assertEqual(len(both), 6)
        self.assertEqual([(row["file"], row["classes"][0]["index"]) for row in both],
                         [(row["file"], row["classes"][0]["index"]) for row in seen])
        self.assertEqual([sorted((one["name"], one["data"]) for one in row["tensors"]) for row in both],
                         [sorted((one["name"], one["data"]) for one in row["tensors"]) for row in measured])

    def test_a_service(self):
        """Images sent from one pipeline to another give the same as from disk."""
        photos = clips.pictures("jpg", mixed=True)
        seen = self.seen("classify-images", photos)
        environment = {"MODELS": str(harness.MODELS), "ENDPOINT": f"ipc://{self.folder}/app"}
        sender = self.spawn([harness.MILLRACE, "run", harness.ROOT / "pipelines/send.yaml", "--input", photos,
                             "--quiet"], env={**os.environ, **environment})
        run = self.run_pipeline(harness.ROOT / "pipelines/serve.yaml", environment=environment)
        self.assertEqual(sender.wait(harness.TIMEOUT), 0)
        self.assert_balanced(run)
        self.assert_same_classes(run.rows, seen)
        self.assertEqual([row["file"] for row in run.rows], [row["file"] for row in seen])

    def test_alarm(self):
        """The cockatoo appears twice: a row and a whole JPEG each."""
        pictures = self.folder / "alarms"
        output = self.folder / "alarms.jsonl"
        run = self.run_pipeline(harness.ROOT / "pipelines/alarm.yaml", rows=False, environment={
            "MODELS": str(harness.MODELS), "PICTURES": str(pictures), "OUTPUT": str(output)})
        self.assert_balanced(run)
        rows = [json.loads(line) for line in output.read_text().splitlines()]
        self.assertEqual({row["classes"][0]["index"] for row in rows}, {89})
        self.assertTrue(1 <= len(rows) < 10, len(rows))
        self.assertEqual(sorted(path.name for path in pictures.iterdir()),
                         [f"video-{row['seq']:06}.jpg" for row in rows])
        self.assertTrue(all(path.read_bytes()[-2:] == b"\xff\xd9" for path in pictures.iterdir()))

    def test_motion(self):
        run = self.rows("motion", "--set", "sources.street.duration=10s")
        self.assertEqual(run.ledger["in"], 100)
        self.assertEqual([(line["stage"], line["reason"]) for line in run.ledger["absorbed"]], [("motion", "still")])
        self.assertTrue(10 < len(run.rows) < 90)
        for row in run.rows[1:]:
            self.assertGreaterEqual(row["tensors"][0]["data"][0], 0.02)

    def test_fingerprints(self):
        run = self.rows("fingerprints", "--input", clips.pictures("jpg", mixed=True))
        self.assertEqual(len(run.rows), 6)
        for row in run.rows:
            self.assertAlmostEqual(sum(row["features"]), 1, places=5)
            self.assertEqual([(one["name"], one["shape"]) for one in row["tensors"]],
                             [("phash", [8]), ("sharpness", [1])])


# Whole in Pipelines; here only their command lines matter.
LONG = {"alarm": ("video",), "people": ("video",), "stay": ("video",),
        "many-videos": ("cockatoo", "walkers"), "motion": ("street",)}


class Comments(harness.Case):
    def setUp(self):
        """A folder that looks like the repository's root to someone with videos and photographs."""
        super().setUp()
        (self.folder / "build").mkdir()
        (self.folder / "build/millrace").symlink_to(harness.MILLRACE)
        (self.folder / "pipelines").symlink_to(harness.ROOT / "pipelines")
        (self.folder / "holiday.mp4").symlink_to(clips.codec("h264 4:2:0"))
        photos = clips.pictures("jpg", mixed=True)
        (self.folder / "photos").symlink_to(photos)
        (self.folder / "photo.jpg").symlink_to(min(pathlib.Path(photos).iterdir()))

    def shell(self, line, folder):
        done = self.checked(["bash", "-c", line], cwd=folder,
                            environment={"MODELS": str(harness.MODELS), "ENDPOINT": f"ipc://{self.folder}/app",
                                         "YOLOX": str(YOLOX), "PEOPLE": str(self.folder),
                                         "CENTERFACE": str(harness.CENTERFACE), "FACES": str(self.folder),
                                         "CUTOUTS": str(self.folder / "cutouts"),
                                         "STAYS": str(self.folder / "stays")})
        return done.stdout

    def test_each_pipeline_runs_as_its_comment_says(self):
        for pipeline in sorted((harness.ROOT / "pipelines").glob("*.yaml")):
            lines = re.findall(r"^#     ((?:[A-Z]+=\S+ )*build/millrace .*)$", pipeline.read_text(), flags=re.MULTILINE)
            self.assertTrue(lines, pipeline.name)
            if "tools/camera" in pipeline.read_text():
                continue  # it runs until ended: test_camera.py
            if "millrace train" in pipeline.read_text():
                continue  # it needs a trained head: test_train.py, test_cascade.py
            if re.search("type: (postgres|webhook|mqtt)", pipeline.read_text()):
                continue  # it needs a server: test_postgres.py, test_webhook.py, test_mqtt.py
            if "CENTERFACE" in pipeline.read_text() and not harness.CENTERFACE.exists():
                continue  # test_faces says that it is skipped
            if "YOLOX" in pipeline.read_text() and not YOLOX.exists():
                continue  # test_people says that it is skipped
            if "ocr-lines" in pipeline.read_text() and not (harness.MODELS / "ocr-lines.onnx").exists():
                continue  # test_text says that it is skipped
            parts = "".join(f" --set sources.{name}.duration=1s" for name in LONG.get(pipeline.stem, ()))
            for line in lines:
                if "models get" in line:
                    continue  # it needs the network: test_models.py
                with self.subTest(line):
                    self.shell(line + parts * ("--input" not in line), self.folder)

    @unittest.skipUnless(YOLOX.exists(), "MILLRACE_YOLOX names no file")
    def test_people(self):
        """The first 12 s: crossings of the line, and a film of all pictures."""
        self.shell("build/millrace run pipelines/people.yaml --set sources.video.duration=12s", self.folder)
        events = [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]
        self.assertGreater(len(events), 1)
        for number, event in enumerate(events):
            self.assertEqual((event["event"], event["zone"], event["label"], event["total"]),
                             ("cross", "path", "person", number + 1))
            self.assertIn(event["direction"], ("in", "out"))
        probed = self.checked(["ffprobe", "-v", "error", "-count_frames", "-show_entries",
                               "stream=width,height,nb_read_frames", "-of", "csv=p=0", self.folder / "people.mp4"])
        self.assertEqual(probed.stdout.strip(), "768,576,120")

    @unittest.skipUnless(YOLOX.exists(), "MILLRACE_YOLOX names no file")
    def test_stay(self):
        """Each picture is of a frame in which somebody has been in the area for five seconds. A hidden person is
        reported later, when seen again: within the two seconds of `lost`."""
        told = self.shell("build/millrace run pipelines/stay.yaml --set sources.video.duration=8s", self.folder)
        rows = [json.loads(line) for line in told.splitlines()]
        stays = [row for row in rows if row["event"] == "dwell"]
        self.assertEqual({(row["zone"], row["label"]) for row in stays}, {("yard", "person")})
        self.assertEqual(min(row["dwell"] for row in stays), 5)
        self.assertLess(max(row["dwell"] for row in stays), 7)
        self.assertEqual([row["time"] for row in stays], [row["pts"] for row in stays])
        self.assertEqual(sorted(path.name for path in (self.folder / "stays").glob("*.jpg")),
                         [f"video-{seq:06}.jpg" for seq in sorted({row["seq"] for row in rows})])

    @unittest.skipUnless(harness.CENTERFACE.exists(), f"no {harness.CENTERFACE}: tools/test makes it")
    def test_faces(self):
        """No face is found again in the video, above the score from which a track begins."""
        self.shell(f"INPUT={harness.PICTURES}/messi5.jpg build/millrace run pipelines/faces.yaml",
                   self.folder)
        (self.folder / "blurred.mp4").rename(self.folder / "again.mp4")
        found = (self.folder / "faces.jsonl").read_text()
        self.shell("build/millrace run pipelines/faces.yaml --input again.mp4", self.folder)
        scores = [[[one["score"] for one in json.loads(line)["objects"]] for line in text.splitlines()]
                  for text in (found, (self.folder / "faces.jsonl").read_text())]
        self.assertEqual(len(scores[0][0]), 1)
        self.assertFalse([score for row in scores[1] for score in row if score >= 0.4])

    def test_demos_refuse(self):
        for word in ("-h", "--help"):
            told = self.checked(["bash", "tools/demo", word], cwd=harness.ROOT).stdout
            self.assertIn("The main job in one command", told)
            self.assertIn("Demos with a name: faces people text\n", told)
        for arguments, code, words in (("nobody", 64, "no demo is called nobody; there are: "),
                                       ("people --model", 64, "usage: tools/demo people [--model FILE]"),
                                       ("people --model README.md", 69, "README.md is not yolox-nano: its SHA-256")):
            with self.subTest(arguments):
                self.checked(["bash", "tools/demo", *arguments.split()], code, words, cwd=harness.ROOT)

    def test_the_demo(self):
        if os.path.realpath(harness.MILLRACE) != str(harness.ROOT / "build/millrace"):
            self.skipTest("the demo runs build/millrace")
        built = os.stat(harness.MILLRACE).st_mtime_ns
        told = self.shell("tools/demo", harness.ROOT)
        self.assertEqual(os.stat(harness.MILLRACE).st_mtime_ns, built, "what is there is built again")
        self.assertRegex(told.splitlines()[-1], "^found: sulphur-crested cockatoo")
