"""evaluate: figures of detectors and trackers, against COCO's annotations and MOTChallenge's text."""
import contextlib
import json

import numpy as np
from PIL import Image

from harness import MILLRACE, call
from objects import HEAD, SIDE, ObjectsCase, rows_of, save


class Figures(ObjectsCase):
    TRACKED = ("  preprocess: {input: decode, size: 64x64}\n"
               "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
               "  track: {input: detect, confirm: 100ms, lost: 300ms}\n"
               "  rows: {type: jsonl, input: track, path: rows.jsonl}\n")

    def evaluate(self, *more, code=0, model="model.onnx", text=None, data="truth.json"):
        self.write(text or (HEAD.format(uri="nothing.png") + (
            "  preprocess: {input: decode, fit: stretch, size: 64x64}\n"
            f"  detect: {{input: preprocess, model: {model}, head: end2end, labels: labels.txt}}\n"
            "  rows: {type: jsonl, input: detect, path: rows.jsonl}\n")))
        done = call([MILLRACE, "evaluate", self.folder / "pipeline.yaml", "--data", self.folder / data, *more])
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if "--json" in more else done.stdout + done.stderr

    def test_evaluated(self):
        """Against COCO's annotations; the pipeline's own outputs are not written."""
        boxes = [(8, 4, 24, 36, 0.9, 1), (0, 0, 64, 64, 0.8, 0), (30, 20, 40, 30, 0.01, 1), (30, 20, 40, 30, 0.9, 2)]
        save(self.folder / "model.onnx", {"o": rows_of(boxes)})
        (self.folder / "labels.txt").write_text("cat\ndog\nhen\n")
        (self.folder / "photos").mkdir()
        for name in ("photos/1.png", "photos/2.png", "photos/\u00e9 3.png"):
            self.picture(name, 64, 64)
        truth = {"images": [{"id": 7, "file_name": "photos/2.png"}, {"id": 3, "file_name": "photos/\u00e9 3.png"},
                            {"id": 9, "file_name": "photos/1.png"}],
                 "categories": [{"id": 5, "name": "dog"}, {"id": 2, "name": "cat"}, {"id": 8, "name": "cow"}],
                 "annotations": [{"id": 1, "image_id": 7, "category_id": 5, "bbox": [8, 4, 16, 32], "area": 512},
                                 {"id": 2, "image_id": 7, "category_id": 2, "bbox": [0, 0, 64, 64], "area": 4096},
                                 {"id": 3, "image_id": 9, "category_id": 2, "bbox": [0, 0, 64, 32], "area": 2048},
                                 {"id": 4, "image_id": 3, "category_id": 5, "bbox": [30, 20, 10, 10]}]}
        path = self.folder / "truth.json"
        path.write_text(json.dumps(truth))
        found = self.evaluate("--json")
        self.assertEqual((found["pictures"], found["missing_pictures"], found["objects"], found["found"],
                          found["found_of_other_classes"]), (3, 0, 4, 9, 3))
        self.assertEqual([(one["name"], one["objects"], one["found"]) for one in found["classes"]],
                         [("cat", 2, 3), ("dog", 2, 6), ("cow", 0, 0)])
        with contextlib.suppress(ModuleNotFoundError), contextlib.redirect_stdout(None):
            from pycocotools.coco import COCO
            from pycocotools.cocoeval import COCOeval
            coco = COCO()
            coco.dataset = {**truth, "annotations": [{"area": 100, "iscrowd": 0, **one}
                                                     for one in truth["annotations"]]}
            coco.createIndex()
            given = [{"image_id": image, "category_id": (2, 5)[index], "score": float(np.float32(score)),
                      "bbox": [left, top, right - left, bottom - top]}
                     for image in (7, 3, 9) for left, top, right, bottom, score, index in boxes if index < 2]
            judge = COCOeval(coco, coco.loadRes(given), "bbox")
            judge.evaluate()
            judge.accumulate()
            judge.summarize()
            for name, want in zip(("precision", "precision_50", "precision_75", "precision_small", "precision_medium",
                                   "precision_large", "recall_1", "recall_10", "recall_100", "recall_small",
                                   "recall_medium", "recall_large"), judge.stats):
                self.assertAlmostEqual(-1 if found[name] is None else found[name], want, 12, name)
        self.assertIn("mAP        0.397; at an overlap of 0.5 0.583", self.evaluate())
        self.assertFalse((self.folder / "rows.jsonl").exists())
        fewer = self.evaluate("--json", "--set", "stages.detect.score=0.5")
        self.assertEqual((fewer["found"], fewer["classes"][1]["found"]), (6, 3))
        (self.folder / "annotations").mkdir()  # as in COCO's own layout
        path.rename(self.folder / "annotations/truth.json")
        apart = self.evaluate("--json", "--pictures", self.folder, data="annotations/truth.json")
        self.assertEqual({**apart, "data": found["data"]}, found)
        self.assertIn(f"the annotations' paths begin in {self.folder}/annotations, unless --pictures names another",
                      self.evaluate(data="annotations/truth.json", code=66))
        self.assertIn("--pictures is for COCO's annotations",
                      self.evaluate("--pictures", self.folder, data="photos", code=64))
        self.assertIn("--pictures is empty",  # a variable that is not set
                      self.evaluate("--pictures", "", data="annotations/truth.json", code=64))

    def test_sizes_of_pictures(self):
        """Boxes are in pixels: a picture of another size than the annotations say is reported, and so is one that was
        turned after it was labelled."""
        save(self.folder / "model.onnx", {"o": rows_of([(8, 4, 24, 36, 0.9, 0)])})
        (self.folder / "labels.txt").write_text("owl\n")
        self.turned()  # a.png of 200x100, and b.png, which is shown with 100x200
        for sizes, words in (({}, []), ({"a": (200, 100), "b": (100, 200)}, []), ({"a": (0, 0), "b": (None, 7)}, []),
                             ({"a": (200, 100), "b": (200, 100)}, ["b.png has 100x200 pixels, and the annotations say "
                                                                   "200x100"]),
                             ({"a": (400, 200), "b": (100, 100)}, [".png has ",
                                                                   "2 of 2 pictures do not have the size"])):
            images = [{"id": i, "file_name": f"{name}.png",
                       **dict(zip(("width", "height"), sizes.get(name, ())))} for i, name in enumerate("ab")]
            (self.folder / "truth.json").write_text(json.dumps({
                "images": images, "categories": [{"id": 1, "name": "owl"}],
                "annotations": [{"id": 1, "image_id": 0, "category_id": 1, "bbox": [1, 2, 3, 4]}]}))
            err = self.evaluate()
            with self.subTest(sizes):
                self.assertEqual(err.count("warning"), len(words), err)
                for one in words:
                    self.assertIn(one, err)

    def test_evaluation_refused(self):
        save(self.folder / "model.onnx", {"o": rows_of([(8, 4, 24, 36, 0.9, 1)])})
        (self.folder / "labels.txt").write_text("cat\ndog\n")
        self.picture(width=64, height=64)
        path = self.folder / "truth.json"
        image, category = {"id": 1, "file_name": "a.png"}, {"id": 1, "name": "owl"}
        one = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
        whole = {"images": [image], "categories": [category], "annotations": [one]}
        for change, code, words in (
                ({}, 65, "none of the objects that detect gives has a class of the data, such as \"owl\""),
                ({"images": 1}, 65, 'it has no list "images"'),
                ({"images": []}, 65, "annotations[0] has an image_id that no image has"),
                ({"images": [], "annotations": []}, 65, "it lists no images, or no categories"),
                ({"images": [{"id": "1", "file_name": "a.png"}]}, 65, 'images[0] needs a whole number "id"'),
                ({"images": [image, image]}, 65, "two of images have the id 1"),
                ({"images": [image, {**image, "id": 2}]}, 65, "two images have the file"),
                ({"images": [{"id": 1, "file_name": "b.png"}]}, 66, "b.png: No such file"),
                ({"annotations": [{**one, "category_id": 4}]}, 65, "has a category_id that no category has"),
                ({"annotations": [{**one, "bbox": [1, 2, 3]}]}, 65, 'needs a "bbox" of four numbers'),
                ({"annotations": [{**one, "bbox": [1, 2, -3, 4]}]}, 65, 'needs a "bbox" of four numbers'),
                ({"annotations": [{**one, "image_id": "1"}]}, 65, "or that is no whole number"),
                ({"categories": [category, {**category, "id": 2}]}, 65, 'two of categories have the name "owl"'),
                ({"annotations": [[]]}, 65, "annotations[0] has an image_id that no image has")):
            path.write_text("\ufeff" + json.dumps({**whole, **change}))  # with a byte order mark, as from Windows
            with self.subTest(change):
                self.assertIn(words, self.evaluate(code=code))
        path.write_text("{")
        self.assertIn("it is not JSON", self.evaluate(code=65))
        path.write_text(json.dumps(whole))
        for more, code, words in (
                (("--page", "a.html"), 64, "--vectors, --part, --page and --scores are not for objects"),
                (("--stage", "decode"), 78, "decode gives no objects"),
                (("--stage", "cow"), 78, 'no stage has the id "cow"')):
            with self.subTest(more):
                self.assertIn(words, self.evaluate(*more, code=code))
        text = HEAD.format(uri="nothing.png") + "  rows: {type: jsonl, input: decode, path: rows.jsonl}\n"
        self.assertIn("no stage is of type detect", self.evaluate(code=78, text=text))

    def test_tracks_evaluated(self):
        """Against MOTChallenge's text: tracks are confirmed in the third frame, and switch after a gap."""
        self.moving(gap=range(15, 25))
        truth = self.folder / "gt.txt"
        truth.write_text("".join(f"{i + 1},7,{2 + i},20,16,24,1,1,1\n" for i in range(40)) +
                         "3,8,10,10,10,10,0,1,1\n5,9,300,10,10,10,1,3,1\n\n")
        text = HEAD.format(uri=self.folder / "moving.mkv") + self.TRACKED
        found = self.evaluate("--json", data="gt.txt", text=text)
        self.assertEqual([found[key] for key in ("stage", "pictures", "missing_pictures", "objects", "tracks", "found",
                                                 "found_tracks", "matched", "switches")],
                         ["track", 40, 0, 40, 1, 26, 2, 26, 1])
        self.assertEqual((found["mota"], found["mostly_tracked"], found["mostly_lost"]), (25 / 40, 0, 0))
        self.assertAlmostEqual(found["idf1"], 13 / 33, 12)
        self.assertAlmostEqual(found["association"], (13 * 13 / 40 * 2) / 26, 9)
        self.assertAlmostEqual(found["detection"], 26 / 40, 9)
        self.assertAlmostEqual(found["hota"], (26 / 40 * 13 / 40) ** 0.5, 9)
        self.assertIn("MOTA       0.625; 14 missed, 0 wrong, 1 switches; MOTP 1.000\n",
                      self.evaluate(data="gt.txt", text=text))
        self.assertFalse((self.folder / "rows.jsonl").exists())
        for lines, code, words in (("1,2,3,4,5\n", 65, "gt.txt:1: a line has frame, id, left"),
                                   ("1,1,2,3,4,5,1,1\n0,1,2,3,4,5,1,1\n", 65, "gt.txt:2: frames are whole numbers"),
                                   ("1,-1,2,3,4,5,1,1\n", 65, "files of detections have -1 there"),
                                   ("1,1,2,3,-4,5,1,1\n", 65, "the width and the height are at least 0"),
                                   ("1,1,2,3,4,5\n1,1,9,3,4,5\n", 65, "two objects with one track and class"),
                                   ("\n", 65, "it has no objects"),
                                   ("1,1,2,3,4,5,1,1\n", 78, "those of detect have none: name a stage after track"),
                                   ("1,1,2,3,4,5,1,1\n ", 78, "its source has no end, and the truth has one")):
            with self.subTest(lines):
                truth.write_text(lines)
                endless = lines.endswith(" ")
                more = () if code != 78 else ("--set", "sources.photos.loop=true") if endless else ("--stage", "detect")
                self.assertIn(words, self.evaluate(*more, data="gt.txt", text=text, code=code))

    def test_tracks_of_pictures_evaluated(self):
        """Against COCO's annotations with tracks: each video is followed for itself, at its rate."""
        self.moving(2)
        images, annotations = [], []
        for i in range(20):
            pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
            pixels[0, 0] = 10 + i // 2
            Image.fromarray(pixels).save(self.folder / f"{i}.png")
            images.append({"id": i, "file_name": f"{i}.png", "video_id": i % 2, "frame_id": i // 2})
            annotations.append({"id": i, "image_id": i, "category_id": 1, "bbox": [2 + i // 2, 20, 16, 24],
                                "track_id": 0})
        truth = {"images": images[::-1], "annotations": annotations, "categories": [{"id": 1, "name": "owl"}],
                 "videos": [{"id": 0, "fps": 20}, {"id": 1, "fps": 10}]}
        (self.folder / "truth.json").write_text(json.dumps(truth))
        text = HEAD.format(uri="nothing.png") + self.TRACKED
        found = self.evaluate("--json", text=text)
        self.assertEqual([found[key] for key in ("sequences", "pictures", "objects", "tracks", "found", "found_tracks",
                                                 "switches")], [2, 20, 20, 2, 17, 2, 0])
        self.assertEqual(found["mota"], 17 / 20)
        self.assertIn("mAP        1.000", self.evaluate("--stage", "detect", text=text))
        annotations[2]["image_id"] = 0
        (self.folder / "truth.json").write_text(json.dumps(truth))
        self.assertIn("/0.png has two objects with one track and class", self.evaluate(text=text, code=65))
        for track, words in ((None, "annotations[2] has no track_id, and others have one"), (-1, "a track below 0"),
                             (2**63 - 1, "one that is too large")):
            annotations[2].update(image_id=2, track_id=track)
            (self.folder / "truth.json").write_text(json.dumps(truth))
            self.assertIn(words, self.evaluate(text=text, code=65))
