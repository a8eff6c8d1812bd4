"""on_away: picture: while a camera is away, a still that says since when replaces its pictures."""
import csv
import hashlib
import struct
import subprocess

import streams
from harness import MILLRACE, call, free_port, pipeline
from streams import SOON, Live

STAGES = """}
  hist: {type: histogram, input: decode}
  classes: {type: classify, input: hist, top_k: 1}
  rows: {type: jsonl, input: classes, path: classes.jsonl}
  table: {type: csv, input: classes, path: classes.csv, state: true}
  pictures: {type: images, input: decode, path: pictures}
  copy: {type: video, input: cam, path: copy, name: "{number}.mp4"}
  encode: {input: decode, codec: h264, preset: fastest}
  video: {input: encode, path: encoded, name: "{number}.mp4"}
  events: {type: record, input: [cam, classes], path: events, name: "{number}.mp4", before: 0s, after: 1s"""


class Away(Live):
    def epochs(self, **wanted):
        """Epochs whose rows have `away`, or have not, in order."""
        found = {}
        for row in self.rows():
            found.setdefault(row.get("epoch", 0), []).append(row)
        return [rows for _, rows in sorted(found.items())
                if all(row.get("away", False) == wanted["away"] for row in rows)]

    def shown(self, row):
        """A picture's size and digest."""
        epoch = f"{row['epoch']}-" if row.get("epoch") else ""
        data = (self.folder / "pictures" / f"cam-{epoch}{row['seq']:06}.png").read_bytes()
        return struct.unpack(">II", data[16:24]), hashlib.sha256(data).hexdigest()

    def recorded(self, folder):
        """The number of pictures in the files there."""
        told = [subprocess.run(["ffprobe", "-v", "error", "-count_packets", "-show_entries", "stream=nb_read_packets",
                                "-of", "csv=p=0", path], check=True, capture_output=True, text=True).stdout
                for path in (self.folder / folder).glob("*.mp4")]
        return sum(map(int, told))

    def await_rows(self, child, count, number, **wanted):
        """Waits until the epoch of that number, from 0, has that many rows."""
        return self.wait_until(lambda: len(epochs := self.epochs(**wanted)) > number and
                               len(epochs[number]) >= count, child)

    def test_killed_stopped_and_back(self):
        """A camera that is missing at first, then there, stopped, killed, and back with pictures of the same size."""
        at = free_port()
        child = self.begin({"cam": f"uri: 'rtsp://127.0.0.1:{at}/a', on_away: picture, size: 640x360, "
                                   f"stall: 1s, {SOON}"},
                           results=STAGES)
        self.await_rows(child, 2, 0, away=True)
        self.assertIn(self.ask()["cam"]["state"], ("away", "connecting"))
        server, _ = streams.rtsp(self, f"/a={streams.pattern()}", at=at)
        self.await_rows(child, 20, 0, away=False)
        server.stop()
        self.wait_until(lambda: "no picture came for 1 s" in self.errors.read_text(), child)
        self.await_rows(child, 5, 1, away=True)
        server.kill()
        self.await_state(child, "cam", "away")
        rows = len(self.rows())
        self.wait_until(lambda: len(self.rows()) > rows + 20, child)
        server, _ = streams.rtsp(self, f"/a={streams.pattern()}", at=at)
        self.await_rows(child, 20, 1, away=False)
        self.wait_until(lambda: len(list((self.folder / "pictures").glob("*.png"))) >= len(self.rows()), child)
        summary = self.finish(child)["cam"]
        stills = self.epochs(away=True)
        self.assertEqual(len(stills), 2)
        self.assertEqual(len(self.epochs(away=False)), 2)
        self.assertEqual({row.get("epoch", 0) for rows in stills for row in rows}, {0, 2})
        self.assert_times_go_on(self.rows())
        self.check_pictures(*stills)
        # The ledger has all, and also counts them separately; the stage that copies the camera's packets have
        # none.
        self.assertEqual(summary["connection"]["stills"], sum(map(len, stills)))
        self.assertEqual(summary["in"], len(self.rows()) + sum(line["frames"] for line in summary["dropped"]
                                                               if line["reason"] != "away"))
        self.check_classes()
        # A recording of pictures continues meanwhile; a recording of packets only has the camera's.
        live = sum(map(len, self.epochs(away=False)))
        self.assertEqual(self.recorded("encoded"), len(self.rows()))
        self.assertEqual(self.recorded("copy"), live)
        self.assertEqual(self.recorded("events"), live)

    def check_pictures(self, first, second):
        """Once a second with the planned size, then with the stream's rate and size; another picture for each state."""
        self.assertEqual({self.shown(row)[0] for row in first}, {(640, 360)})
        self.assertEqual({self.shown(row)[0] for row in second}, {(320, 240)})
        self.assertTrue(all(row["pts"] == int(row["pts"]) for row in first))
        for row in second:
            self.assertAlmostEqual(row["pts"] * 20, round(row["pts"] * 20), places=6)
        self.assertEqual(len({self.shown(row)[1] for row in first}), 1)
        looks = [self.shown(row)[1] for row in second]
        self.assertGreater(len(set(looks)), 1)  # stalled, then away
        self.assertEqual(looks, sorted(looks, key=looks.index))  # each state's are contiguous

    def check_classes(self):
        rows = self.rows(file="classes.jsonl")
        self.assertEqual(len(rows), len(self.rows()))
        for row in rows:
            self.assertEqual(bool(row["classes"]), not row.get("away"))
        with open(self.folder / "classes.csv", newline="") as file:
            table = {(int(line["epoch"]), int(line["seq"])): line["state"] for line in csv.DictReader(file)}
        self.assertEqual(table, {(row.get("epoch", 0), row["seq"]): "away" if row.get("away") else "" for row in rows})

    def test_that_it_can_be_drawn_is_known_before(self):
        """Without a font a run does not begin; check, which opens nothing, does not ask."""
        path = self.write(pipeline(dict(cam="uri: 'rtsp://camera.invalid/a', on_away: picture"), decode="",
                                   out="type: 'null'"))
        (self.folder / "fonts.conf").write_text("<?xml version='1.0'?><fontconfig></fontconfig>")
        environment = {"FONTCONFIG_FILE": str(self.folder / "fonts.conf")}
        self.millrace("run", path, code=69, says=("pipeline.yaml:4:", "words cannot be drawn"), environment=environment)
        self.assertEqual(call([MILLRACE, "check", path], environment=environment).returncode, 0)
