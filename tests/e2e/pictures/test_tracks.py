"""track, and what follows it: objects that move, hide and come again; their classes; a preview of them."""
import contextlib
import json
import re
import signal
import urllib.error
import urllib.request

import numpy as np

from harness import MILLRACE, TIMEOUT
from objects import HEAD, ObjectsCase


class Tracks(ObjectsCase):
    def test_tracks(self):
        """An object that moves, hides for half a second, and comes again in each turn of a loop."""
        self.moving(gap=range(15, 25))
        text = HEAD.format(uri=f"{self.folder}/moving.mkv', loop: '2") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
            "  track: {input: detect, confirm: 100ms, lost: 1s}\n"
            "  rows: {type: jsonl, input: track, path: '${OUTPUT:--}'}\n")
        for options in ("", ", lost: 300ms"):
            run = self.run_pipeline(text.replace(", lost: 1s", options or ", lost: 1s"))
            self.assert_balanced(run)
            tracks = [[one["track"] for one in row["objects"]] for row in run.rows]
            second = 1000000001
            again = 1 if not options else 2
            self.assertEqual(len(tracks), 80)
            self.assertEqual(tracks[:15], [[None]] * 2 + [[1]] * 13)
            self.assertEqual(tracks[15:25], [[]] * 10)
            self.assertEqual(tracks[27:40], [[again]] * 13)
            self.assertEqual(tracks[40:55], [[None]] * 2 + [[second]] * 13)
        self.assertEqual(list(run.rows[0]["objects_by_stage"]), ["track", "detect"])
        text = text.replace("lost: 1s", "lost: 300ms")
        newest = self.run_pipeline(text.replace("input: track,", "input: track, by_stage: false,"))
        for row in run.rows:
            del row["objects_by_stage"]
        self.assertEqual(newest.rows, run.rows)
        confirmed = self.run_pipeline(text.replace("lost: 300ms", "lost: 300ms, unconfirmed: drop"))
        self.assert_balanced(confirmed)
        self.assertEqual([row["objects"] for row in confirmed.rows],
                         [[one for one in row["objects"] if one["track"]] for row in run.rows])

    def test_tracks_that_coast(self):
        """An object that is not found stays where it should be, with its number, for as long as asked."""
        self.moving(gap=range(15, 25))
        text = HEAD.format(uri=self.folder / "moving.mkv") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
            "  track: {input: detect, confirm: 100ms, lost: 1s, coast: 300ms}\n"
            "  rows: {type: jsonl, input: track, path: '${OUTPUT:--}'}\n")
        run = self.run_pipeline(text)
        self.assert_balanced(run)
        tracks = [[one["track"] for one in row["objects"]] for row in run.rows]
        self.assertEqual(tracks[2:], [[1]] * 19 + [[]] * 4 + [[1]] * 15)
        lefts = [row["objects"][0]["left"] for row in run.rows[:21]]
        self.assertLess(np.abs(np.diff(lefts) - 1).max(), 0.3)
        run = self.run_pipeline(text.replace("300ms}", "2s}"), code=78, verb="check", rows=False)
        self.assertIn("coast must be at most lost", run.err)

    def test_tracks_refused(self):
        self.moving(2)
        text = HEAD.format(uri=self.folder / "moving.mkv") + (
            "  track: {input: decode}\n  rows: {type: jsonl, input: track}\n")
        run = self.run_pipeline(text, code=78, verb="check", rows=False)
        self.assertIn("no frame that comes here has objects: name a stage after detect as its input", run.err)

    def test_classes_of_objects(self):
        """filter and record look at the newest objects; the plan knows the labels of a detector."""
        gap = range(15, 25)
        self.moving(gap=gap)
        (self.folder / "labels.txt").write_text("dog\ncat\n")
        text = HEAD.format(uri=f"{self.folder}/moving.mkv") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end, labels: labels.txt}\n"
            "  track: {input: detect, confirm: 100ms}\n"
            "  filter: {input: track, classes: [dog]}\n"
            "  rows: {type: jsonl, input: filter, path: rows.jsonl}\n"
            "  record: {input: [photos, track], path: events, name: '{number}.mkv', before: 0s, after: 100ms, "
            "classes: [dog], score: 0.8}\n")
        run = self.run_pipeline(text, rows=False)
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        self.assertEqual([row["seq"] for row in rows], [i for i in range(40) if i not in gap])
        events = [json.loads(path.read_text()) for path in sorted((self.folder / "events").glob("*.json"))]
        self.assertEqual([event["trigger_count"] for event in events], [15, 15])
        for event, first in zip(events, (0, 25)):
            self.assertEqual([(one["stage"], one["label"], one["seq"]) for one in event["triggers"]][0],
                             ("track", "dog", first))
        for old, new, words in (
                ("filter: {input: track, classes: [dog]", "filter: {input: track, classes: [horse]",
                 'detect has no label "horse", so no frame would ever pass; it has "dog", "cat"'),
                ("classes: [dog], score", "classes: [dogs], score", 'detect has no label "dogs", so nothing would ever '
                 "be recorded"),
                ("labels: labels.txt", "labels: labels.txt, classes: [cat]", 'detect has no label "dog"'),
                ("score: 0.8", "score: 80", "no score is above 1, so nothing would ever be recorded; write score: 0.8"),
                ("filter: {input: track", "filter: {input: decode", "no frame that comes here has classes or objects")):
            with self.subTest(new):
                self.assertIn(old, text)
                self.assertIn(words, self.run_pipeline(text.replace(old, new), code=78, verb="plan", rows=False).err)

    def test_a_preview_tells_of_objects(self):
        self.moving(4)
        text = HEAD.format(uri=f"{self.folder}/moving.mkv', realtime: true, loop: 'true") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
            "  shown: {type: join, join: {picture: decode, found: detect}}\n"
            "  look: {type: preview, input: shown, listen: '127.0.0.1:0'}\n")
        log = self.folder / "log"
        with log.open("w") as to:
            child = self.spawn([MILLRACE, "run", self.write(text), "--log", "info"], stderr=to, stdout=to)
        port = self.wait_until(lambda: re.search(r"listens at http://127\.0\.0\.1:(\d+)/", log.read_text()), log,
                               child)[1]

        def row():
            with contextlib.suppress(urllib.error.HTTPError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/photos.json") as answer:
                    return json.load(answer)
        found = self.wait_until(row, log, child)["objects"]
        self.assertEqual([(one["top"], one["number"]) for one in found], [(20, 1)])
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(TIMEOUT), 0)
