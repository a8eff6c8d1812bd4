"""track with features: a red and a blue square that hide, meet and come again, told apart by their colours."""
import json
import subprocess

import numpy as np
from onnx import helper

from harness import pipeline
from objects import SIDE, ObjectsCase, save_graph

AT_ONCE = 2
HALF, TOP, BOTTOM = 6, 20, 44
COLOURS = ((220, 30, 30), (30, 30, 220), (30, 200, 40))
AWAY = 200

STAGES = dict(
    decode="", preprocess=f"size: {SIDE}x{SIDE}, fit: stretch", detect="model: squares.onnx, head: end2end",
    pictures="type: join, join: {picture: decode, objects: detect}", crop="", colours="type: histogram, input: crop",
    gather="join: {frames: detect, crops: colours}, features: true",
    track="confirm: 100ms, lost: 1s, features: gather", rows='type: jsonl, by_stage: false, path: "${OUTPUT:--}"')


class Looks(ObjectsCase):
    def film(self, places):
        """Squares whose centres are in these columns, frame by frame; the first row tells the detector so."""
        places = np.asarray(places)
        known = {"left": np.array([[[-HALF, TOP, HALF, BOTTOM, 0.9 - 0.01 * i, 0]
                                    for i in range(places.shape[1])]], np.float32),
                 "moves": np.array([1, 0, 1, 0, 0, 0], np.float32), "last": np.array([1]),
                 "from": np.array([0, 0, 0, 0]), "to": np.array([1, 1, 1, places.shape[1]])}
        nodes = [helper.make_node("Slice", ["image", "from", "to"], ["pixels"]),
                 helper.make_node("Squeeze", ["pixels", "last"], ["row"]),
                 helper.make_node("Transpose", ["row"], ["columns"], perm=[0, 2, 1]),
                 helper.make_node("Mul", ["columns", "moves"], ["shift"]),
                 helper.make_node("Add", ["left", "shift"], ["o"])]
        save_graph(self.folder / "squares.onnx", nodes, known, {"o": (1, places.shape[1], 6)})
        pictures = np.full((len(places), SIDE, SIDE, 3), 90, np.uint8)
        for picture, columns in zip(pictures, places):
            for column, colour in zip(columns, COLOURS):
                if column < SIDE:
                    picture[TOP:BOTTOM, max(column - HALF, 0):column + HALF] = colour
            picture[0, :len(columns)] = columns[:, None]
        subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIDE}x{SIDE}", "-r",
                        "20", "-i", "-", "-c:v", "ffv1", "-y", self.folder / "squares.mkv"], input=pictures.tobytes(),
                       check=True)

    def text(self, nodes=(), **changes):
        stages = {name: text for name, text in {**STAGES, **changes}.items() if text is not None}
        return pipeline({"squares": f"uri: '{self.folder}/squares.mkv'"}, nodes=nodes, **stages)

    def tracks(self, places, **changes):
        """The tracks of the squares in each frame; None: not confirmed, or away."""
        run = self.run_pipeline(self.text(**changes))
        self.assert_balanced(run)
        found = []
        for columns, row in zip(places, run.rows):
            by_place = {round((one["left"] + one["right"]) / 2): one["track"] for one in row["objects"]}
            found.append(tuple(by_place.get(int(column)) for column in columns))
        self.assertEqual(len(run.rows), len(places))
        return found, run

    ALONE = "confirm: 100ms, lost: 1s"
    # Red leaves for two seconds. Blue appears where it was, and goes; then red comes again, elsewhere.
    RETURN = [(20, AWAY)] * 20 + [(AWAY, AWAY)] * 10 + [(AWAY, 22)] * 20 + [(AWAY, AWAY)] * 10 + [(45, AWAY)] * 20

    def test_a_lost_object_gets_its_number_again(self):
        self.film(self.RETURN)
        found, _ = self.tracks(self.RETURN)
        self.assertEqual((found[19], found[49], found[79]), ((1, None), (None, 2), (1, None)))
        alone, _ = self.tracks(self.RETURN, track=self.ALONE)
        self.assertEqual((alone[19], alone[49], alone[79]), ((1, None), (None, 1), (2, None)))
        for track, last in (("remember: 1500ms", 3), ("reach: 0", 3), ("dissimilar: 2, reach: 9", 1)):
            found, _ = self.tracks(self.RETURN, track=f"{STAGES['track']}, {track}")
            with self.subTest(track):
                self.assertEqual(found[79][0], last)

    def test_objects_that_meet_keep_their_numbers(self):
        """They meet, stand before each other, and each turns back: by boxes alone they seem to have passed."""
        way = [10 + i for i in range(21)]
        places = [(x, 62 - x) for x in way] + [(30, 32)] * 3 + [(x, 62 - x) for x in reversed(way)]
        self.film(places)
        found, _ = self.tracks(places)
        alone, _ = self.tracks(places, track=self.ALONE)
        self.assertEqual((found[10], found[-1]), ((1, 2), (1, 2)))
        self.assertEqual((alone[10], alone[-1]), ((1, 2), (2, 1)))

    def test_the_same_everywhere(self):
        """With any number of workers, in several processes, and on a device; and frames that are not searched."""
        self.film(self.RETURN)
        rows = self.tracks(self.RETURN)[1].rows
        for workers in (1, 8):
            again = self.run_pipeline(self.text(), "--workers", workers)
            self.assertEqual(again.rows, rows)
        nodes = {"camera": "stages: [decode, preprocess, detect, pictures, crop]", "looks": "stages: [colours, gather]",
                 "center": "stages: [track, rows]"}
        cut = self.run_pipeline(self.text(nodes))
        self.assertEqual(cut.rows, rows)
        told = json.loads(self.millrace("verify", self.write(self.text()), "--json", "--against", "sim:0",
                                        "--tolerance", "0").stdout)
        given = {one["stage"]: {what["name"] or what["kind"]: what for what in one["gives"]} for one in told["outputs"]}
        self.assertEqual((given["gather"]["features"]["values"], told["within"]), (60 * 96, True))
        self.assertEqual(given["track"]["objects"]["largest"], 0)
        found, _ = self.tracks(self.RETURN, detect=STAGES["detect"] + ", every: 4")
        self.assertEqual((found[16][0], found[48][1], found[76][0]), (1, 2, 1))

    def test_features_in_records(self):
        self.film([(20, 40)] * 3 + [(AWAY, AWAY)])
        run = self.run_pipeline(self.text(crop="max: 1", rows=STAGES["rows"] + ", tensors: true"))
        for row in run.rows[:3]:
            tensor = row["tensors"][0]
            self.assertEqual((tensor["name"], tensor["stage"], tensor["shape"]), ("features", "gather", [2, 96]))
            values = np.array(tensor["data"], float).reshape(2, 96)
            self.assertAlmostEqual(values[0].sum(), 3, 4)
            self.assertTrue(np.isnan(values[1]).all())
        self.assertEqual(run.rows[3]["tensors"], [])

    def test_refused(self):
        self.film(self.RETURN)
        for changes, words in (
                (dict(track="features: colours"), "colours gives objects no features; gather does: write features: "
                 "gather"),
                (dict(gather="join: {frames: detect, crops: crop}, features: true"),
                 "for each object, and no vector; let features, infer, hog or histogram look"),
                (dict(gather="join: {frames: detect, crops: colours}, features: true, tensor: x"),
                 'no vector called "x" is among the results that come from colours'),
                (dict(gather="join: {frames: detect, crops: colours}"), "or write features: true to give vectors to "
                 "track"),
                (dict(track="input: detect, features: gather", rows="type: jsonl, input: track"),
                 "the frames from detect have no features of objects: let gather put them onto objects"),
                (dict(track="remember: 5s"), "remember is about features, and there are none"),
                (dict(track="features: gather, remember: 1s, lost: 2s"), "remember must be at least lost")):
            with self.subTest(changes):
                run = self.run_pipeline(self.text(**changes), code=78, verb="plan", rows=False)
                self.assertIn(words, " ".join(run.err.split()))
