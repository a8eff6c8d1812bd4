"""zones: events of objects that the test moves, with their times, in records of their own, across turns and nodes.

The network here reads its objects from the picture: two pixels of the first row give the middle and the lower edge of
each box, which is 12 wide and 20 high."""
import csv
import json
import subprocess

import numpy as np
from onnx import helper

from harness import Case
from objects import save_graph

SIDE, MOST = 128, 4
GATE = "lines: {gate: [[0, 0.5], [1, 0.5]]}"
ROOM = "areas: {room: [[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]]}"
EMPTY_STREET = "street: [[0, 0], [0.1, 0], [0, 0.1]]"


def save(path, batch=1):
    known = {"begin": np.array([0, 0, 0]), "end": np.array([1, 1, 2 * MOST]), "axes": np.array([1, 2, 3]),
             "shape": np.array([-1, MOST, 2]),
             "spread": np.array([[1, 0, 1, 0, 0, 0], [0, 1, 0, 1, 0, 0]], np.float32),
             "box": np.array([-6, -20, 6, 0, 0, 0], np.float32),
             "far": np.array([[[0, 0, 0, 0, 0.9, 0]]], np.float32), "one": np.array(1, np.float32)}
    nodes = [helper.make_node("Slice", ["image", "begin", "end", "axes"], ["row"]),
             helper.make_node("Reshape", ["row", "shape"], ["points"]),
             helper.make_node("MatMul", ["points", "spread"], ["places"]),
             helper.make_node("Add", ["places", "box"], ["boxes"]),
             helper.make_node("ReduceMax", ["points"], ["most"], axes=[2], keepdims=1),
             helper.make_node("Min", ["most", "one"], ["seen"]),
             helper.make_node("Mul", ["far", "seen"], ["scores"]),
             helper.make_node("Add", ["boxes", "scores"], ["o"])]
    save_graph(path, nodes, known, {"o": (batch, MOST, 6)}, (batch, 3, SIDE, SIDE))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Zones(Case):
    def film(self, *objects, fps=20, name="film.mkv"):
        """Each object: a list with (x, y) for each frame; None: absent."""
        pictures = np.zeros((len(objects[0]), SIDE, SIDE, 3), np.uint8)
        for number, places in enumerate(objects):
            for at, place in enumerate(places):
                pictures[at, 0, 2 * number:2 * number + 2] = np.array(place or (0, 0))[:, None]
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIDE}x{SIDE}",
                        "-r", str(fps), "-i", "-", "-c:v", "ffv1", self.folder / name], input=pictures.tobytes(),
                       check=True)

    def run_zones(self, options, source="", more="", top="", code=0, detect=""):
        save(self.folder / "placed.onnx")
        text = (f"version: 1\npipeline: zones\n{top}sources: {{film: {{uri: film.mkv{source}}}}}\nstages:\n"
                "  decode: {input: film}\n"
                f"  preprocess: {{input: decode, size: {SIDE}x{SIDE}}}\n"
                f"  detect: {{input: preprocess, model: placed.onnx, head: end2end{detect}}}\n"
                "  track: {input: detect, confirm: 100ms}\n"
                f"  zones: {{input: track, {options}}}\n"
                "  rows: {type: jsonl, input: zones, path: rows.jsonl}\n"
                "  events: {type: jsonl, input: zones, results: events, path: events.jsonl}\n"
                "  table: {type: csv, input: zones, results: events, path: events.csv}\n" + more)
        run = self.run_pipeline(text, code=code, rows=False)
        if not code:
            run.rows = lines_of(self.folder / "rows.jsonl")
            run.events = lines_of(self.folder / "events.jsonl")
            self.assert_balanced(run)
        return run

    def test_events(self):
        """One walks down through the line, another stands, a third is never confirmed."""
        walk = [(64, 10 + 2 * i) for i in range(50)]
        self.film(walk, [(20, 40)] * 50, [(100, 50 + 20 * (i % 2)) if 20 <= i < 22 else None for i in range(50)])
        run = self.run_zones(f"{GATE}, {ROOM}, dwell: 500ms, anchor: bottom")
        seen = [(one["event"], one["zone"], one.get("direction"), one["time"], one["count"]) for one in run.events]
        # The lower edge is at 10 + 2 i: in the area from 32, and beyond the line from 66.
        self.assertEqual(seen, [("enter", "room", None, 0.55, 1), ("count", "room", None, 0.85, 1),
                                ("dwell", "room", None, 1.05, 1), ("cross", "gate", "in", 1.4, 1)])
        self.assertEqual({one.get("track") for one in run.events}, {1, None})
        self.assertEqual([one["seq"] for one in run.events], [17, 17, 21, 34])
        self.assertEqual([one["pts"] for one in run.events], [0.85, 0.85, 1.05, 1.7])
        self.assertEqual([one["dwell"] for one in run.events if "dwell" in one], [0.5])
        with (self.folder / "events.csv").open(newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual([(row["event"], row["time"], row["seq"]) for row in table],
                         [(one["event"], str(one["time"]), str(one["seq"])) for one in run.events])
        self.assertEqual([row["seq"] for row in run.rows], list(range(50)))
        self.assertEqual([(row["seq"], len(row["events"])) for row in run.rows if "events" in row],
                         [(17, 2), (21, 1), (34, 1)])
        dwells = {row["seq"]: one["zones"] for row in run.rows for one in row["objects"] if "zones" in one}
        self.assertEqual(dwells, {i: [{"stage": "zones", "zone": "room", "dwell": round((i - 11) / 20, 2)}]
                                  for i in range(17, 50)})

    def test_a_quiet_camera_writes_nothing(self):
        self.film([(20, 20)] * 30)
        run = self.run_zones(f"{GATE}, {ROOM}")
        self.assertEqual(run.events, [])
        self.assertEqual(len((self.folder / "events.csv").read_text().splitlines()), 1)
        self.assertEqual(len(run.rows), 30)

    def test_pixels_classes_and_chosen_events(self):
        self.film([(64, 10 + 2 * i) for i in range(50)])
        whole = self.run_zones(f"{GATE}, {ROOM}").events
        pixels = self.run_zones("units: pixels, lines: {gate: [[0, 64], [128, 64]]}, "
                                "areas: {room: [[32, 32], [96, 32], [96, 96], [32, 96]]}").events
        self.assertEqual(pixels, whole)
        self.assertEqual(self.run_zones(f"{GATE}, {ROOM}, events: cross").events,
                         [one for one in whole if one["event"] == "cross"])
        self.assertEqual(self.run_zones(f"{GATE}, {ROOM}, classes: [0]").events, whole)
        self.assertEqual(self.run_zones(f"{GATE}, {ROOM}, classes: [7]").events, [])
        self.assertIn("detect has no label \"person\", so no object would count; it gives none: add `labels` to it",
                      self.run_zones(f"{GATE}, classes: [person]", code=78).err)
        (self.folder / "names.txt").write_text("person\n")
        labels = {"detect": ", labels: names.txt"}
        self.assertEqual([one["label"] for one in self.run_zones(f"{GATE}, classes: [person]", **labels).events],
                         ["person"])
        run = self.run_zones(f"{GATE}, classes: [persn]", code=78, **labels)
        self.assertIn('has no label "persn", so no object would count; did you mean "person"?', run.err)
        run = self.run_zones("units: pixels, lines: {gate: [[0, 64], [200, 64]]}", code=78)
        self.assertIn('"gate" has a point outside of the picture, which is 128x128', run.err)

    def test_turns(self):
        """Who is inside at the end of a turn leaves in the first frame of the next one."""
        self.film([(64, 64)] * 20)
        run = self.run_zones(ROOM, source=", loop: 2")
        self.assertEqual([(one["event"], one.get("epoch"), one["seq"], one["time"], one.get("gone"), one["total"])
                          for one in run.events if one["event"] != "count"],
                         [("enter", None, 8, 0.1, None, 1), ("leave", 1, 0, 0.95, True, 1),
                          ("enter", 1, 8, 0.1, None, 2)])
        self.assertEqual([one["dwell"] for one in run.events if one["event"] == "leave"], [0.85])

    def test_over_nodes(self):
        """Events, and the areas of objects, over a cut."""
        self.film([(64, 10 + 2 * i) for i in range(50)])
        whole = self.run_zones(f"{GATE}, {ROOM}, scale: 20")
        nodes = ("nodes:\n  front: {sources: [film], stages: [decode, preprocess, detect, track, zones]}\n"
                 "  back: {stages: [rows, events, table]}\n")
        cut = self.run_zones(f"{GATE}, {ROOM}, scale: 20", top=nodes)
        self.assertEqual(cut.events, whole.events)
        self.assertEqual(cut.rows, whole.rows)
        self.assertTrue(any("zones" in one for row in cut.rows for one in row["objects"]))

    def test_recordings(self):
        """The packets around a crossing; entries of another zone, and other classes, record nothing."""
        self.film([(64, 10 + 2 * i) for i in range(50)])
        record = "{{type: record, input: [film, zones], path: {0}, name: '{{source}}-{{number}}.mkv', {1}}}\n"
        more = "".join(f"  {name}: " + record.format(name, f"{options}, before: 200ms, after: 200ms") for name, options
                       in {"gate": "events: cross, zones: gate", "street": "zones: street",
                           "cars": "events: enter, classes: [2]", "people": "events: enter, classes: ['00']"}.items())
        self.run_zones(f"{GATE}, {ROOM[:-1]}, {EMPTY_STREET}}}", more=more)
        made = {name: [json.loads(path.read_text()) for path in (self.folder / name).glob("*.json")]
                for name in ("gate", "street", "cars", "people")}
        self.assertEqual({name: len(files) for name, files in made.items()},
                         {"gate": 1, "street": 0, "cars": 0, "people": 1})
        file = made["gate"][0]
        self.assertEqual([(one["seq"], one["stage"], one["event"], one["zone"]) for one in file["triggers"]],
                         [(34, "zones", "cross", "gate")])
        self.assertTrue(file["complete"])
        # There is a key frame each 12 pictures.
        self.assertEqual((file["packets"]["first_seq"], file["packets"]["last_seq"]), (24, 38))
        self.assertEqual(made["people"][0]["triggers"][0]["event"], "enter")

    def test_frames_with_events_pass(self):
        """filter lets through the frames of chosen events, zones and classes, and `again` counts for the source."""
        self.film([(64, 10 + 2 * i) for i in range(50)], [(20, 40)] * 20 + [(64, 40)] * 30)
        filters = {"dwells": "events: dwell", "room": "zones: room, events: enter", "all": "zones: [room, gate]",
                   "seldom": "zones: [room, gate], again: 300ms", "cars": "events: enter, classes: [2]",
                   "street": "zones: street"}
        more = "".join(f"  {name}: {{type: filter, input: zones, {options}}}\n  {name}_rows: {{type: jsonl, "
                       f"input: {name}, path: {name}.jsonl}}\n" for name, options in filters.items())
        run = self.run_zones(f"{GATE}, {ROOM[:-1]}, {EMPTY_STREET}}}, dwell: 500ms", more=more)
        seqs = {name: [row["seq"] for row in lines_of(self.folder / f"{name}.jsonl")] for name in filters}
        of = lambda kinds: sorted({one["seq"] for one in run.events if one["event"] in kinds})
        self.assertEqual((seqs["dwells"], seqs["room"]), (of({"dwell"}), of({"enter"})))
        self.assertGreater(len(seqs["room"]), 1)
        self.assertEqual(seqs["all"], of({"enter", "leave", "count", "dwell", "cross"}))
        seldom = []
        for seq in seqs["all"]:
            if not seldom or seq - seldom[-1] >= 6:
                seldom.append(seq)
        self.assertEqual(seqs["seldom"], seldom)
        self.assertLess(len(seldom), len(seqs["all"]))
        self.assertEqual((seqs["cars"], seqs["street"]), ([], []))

    def test_one_frame_of_five_is_searched(self):
        """The tracker predicts the others, with batches across sources too."""
        self.film([(64, 10 + 2 * i) for i in range(50)])
        run = self.run_zones(f"{GATE}, {ROOM}", detect=", every: 5")
        self.assertEqual([row["seq"] for row in run.rows], list(range(50)))
        self.assertEqual([row["seq"] for row in run.rows if "objects_by_stage" in row and
                          "detect" in row["objects_by_stage"]], list(range(0, 50, 5)))
        for row in run.rows[15:]:
            self.assertAlmostEqual(row["objects"][0]["bottom"], 10 + 2 * row["seq"], delta=2)
        crossing, = [one for one in run.events if one["event"] == "cross"]
        self.assertAlmostEqual(crossing["time"], 1.4, delta=0.11)
        timed = self.run_zones(f"{GATE}, {ROOM}", detect=", every: 250ms")
        self.assertEqual(timed.rows, run.rows)

        save(self.folder / "many.onnx", "N")
        text = ("version: 1\npipeline: many\nsources: {a: {uri: film.mkv}, b: {uri: film.mkv}, c: {uri: film.mkv}}\n"
                "stages:\n  decode: {input: [a, b, c]}\n"
                f"  preprocess: {{input: decode, size: {SIDE}x{SIDE}}}\n"
                "  detect: {input: preprocess, model: many.onnx, head: end2end, every: 5, batch: {size: 3}}\n"
                "  track: {input: detect, confirm: 100ms}\n"
                "  both: {type: join, join: {pictures: decode, objects: track}}\n"
                "  rows: {type: jsonl, input: both, path: '${OUTPUT:--}'}\n")
        several = self.run_pipeline(text)
        self.assert_balanced(several)
        for source in "abc":
            self.assertEqual([row["objects"] for row in several.rows if row["source"] == source],
                             [[{key: value for key, value in one.items() if key not in ("zones",)}
                               for one in row["objects"]] for row in run.rows])

    def test_speed(self):
        """40 pixels a second: at 20 pixels a metre, 2 m/s. The same by a rectangle on the ground."""
        self.film([(64, 30 + 2 * i) for i in range(40)])
        ground = "ground: {corners: [[0, 0], [1, 0], [1, 1], [0, 1]], width: 6.4, height: 6.4}"
        for scale in ("scale: 20", ground):
            run = self.run_zones(f"{GATE}, {scale}")
            crossing = [one for one in run.events if one["event"] == "cross"]
            self.assertEqual(len(crossing), 1)
            self.assertAlmostEqual(crossing[0]["speed"], 2, 4)
            speeds = [one["speed"] for row in run.rows for one in row["objects"] if "speed" in one]
            self.assertEqual(len(speeds), 37)
            self.assertTrue(np.allclose(speeds, 2, atol=1e-4))
            ways = [one["distance"] for row in run.rows for one in row["objects"] if "distance" in one]
            self.assertAlmostEqual(ways[-1], 37 * 0.1, 4)
