"""What sinks write for real pictures, read back with Python's parsers: files and folder labels, and what several stages
found about one frame."""
import csv
import os
import shutil

from harness import PICTURES, Case, main

LABELLED = """
version: 1
pipeline: labelled
sources:
  pictures: {{uri: "{folder}", labels: true}}
stages:
  decode: {{input: pictures}}
  encode: {{input: decode, codec: mjpeg}}
  results: {{type: {type}, input: {input}, path: "{output}"}}
"""
VECTORS = """
version: 1
pipeline: vectors
sources:
  pattern: {{uri: "lavfi:testsrc=size=64x48:rate=25:duration=1"}}
stages:
  decode: {{input: pattern}}
  sharpness: {{input: decode}}
  hog: {{input: sharpness, size: 32x32}}
  histogram: {{input: decode, bins: 4, device: "{device}"}}
  raw: {{type: preprocess, input: decode, size: 16x16}}
  both: {{type: join, join: {{shapes: hog, colours: histogram, pixels: raw}}}}
  {results}
"""
RESULTS = "results: {type: jsonl, input: both, features: true, tensors: true}"


class Joined(Case):
    def rows_of(self, results=RESULTS, device="cpu"):
        return self.run_pipeline(VECTORS.format(results=results, device=device)).rows

    def test_vectors_of_all_inputs_are_kept(self):
        """The first one's vector is the frame itself; others have the inputs' names. What is not a vector is left
        out."""
        alone = self.rows_of("results: {type: jsonl, input: histogram, features: true}\n"
                             "  rest: {type: 'null', input: both}")
        three = ("\nnodes:\n  one: {stages: [decode, sharpness, hog]}\n  two: {stages: [histogram, raw]}\n"
                 "  three: {stages: [both, results]}")
        for device, nodes in (("cpu", ""), ("sim:0", ""), ("cpu", three)):
            with self.subTest(device=device, nodes=bool(nodes)):
                rows = self.rows_of(RESULTS + nodes, device)
                self.assertEqual([row["seq"] for row in rows], list(range(25)))
                for row, one in zip(rows, alone, strict=True):
                    self.assertEqual(len(row["features"]), 324)
                    colours, sharpness = row["tensors"]
                    self.assertEqual(colours, {"stage": "histogram", "name": "colours", "dtype": "f32", "shape": [12],
                                               "data": one["features"]})
                    self.assertEqual((sharpness["stage"], sharpness["shape"]), ("sharpness", [1]))

    def test_such_a_vector_can_be_classified(self):
        for classify in ("classify: {input: both, tensor: colours, activation: softmax, top_k: 12}",
                         "classify: {input: histogram, activation: softmax, top_k: 12}"):
            results = f"{classify}\n  results: {{type: jsonl, input: classify}}"
            with self.subTest(classify):
                rows = self.rows_of(results + ("" if "both" in classify else "\n  rest: {type: 'null', input: both}"))
                classes = [[(one["index"], one["score"]) for one in row["classes"]] for row in rows]
                self.assertEqual({len(found) for found in classes}, {12})
                self.first = getattr(self, "first", classes)
                self.assertEqual(classes, self.first)


class Folders(Case):
    def setUp(self):
        super().setUp()
        self.expected = {}
        for label, name in (("fruit, ripe", "orange.jpg"), ("monkey \"big\"", "baboon.jpg"),
                            ("squirrel", "squirrel_cls.jpg")):
            if not (PICTURES / name).exists():
                self.skipTest(f"no {PICTURES / name}")
            (self.folder / "pictures" / label).mkdir(parents=True)
            path = self.folder / "pictures" / label / name
            shutil.copy(PICTURES / name, path)
            self.expected[str(path)] = label

    def text(self, kind, output="", input="encode"):
        text = LABELLED.format(folder=self.folder / "pictures", type=kind, output=output or "-", input=input)
        return text if input == "encode" else text.replace("  encode: {input: decode, codec: mjpeg}\n", "")

    def test_jsonl_says_file_and_label(self):
        """For pictures, and for packets in the one stream that they are encoded to."""
        for input in ("decode", "encode"):
            run = self.run_pipeline(self.text("jsonl", input=input))
            self.assertEqual({row["file"]: row["label"] for row in run.rows}, self.expected)
            self.assertTrue(all(row["classes"] == [] for row in run.rows))

    def test_csv_says_file_and_label(self):
        output = self.folder / "table.csv"
        self.run_pipeline(self.text("csv", output), rows=False)
        with open(output, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["file"]: row["label"] for row in rows}, self.expected)
        self.assertEqual([row["seq"] for row in rows], ["0", "1", "2"])

    def test_names_that_are_no_text(self):
        """Bytes that are not characters become question marks; everything else stays."""
        output = self.folder / "table.csv"
        for folder in (self.folder / "pictures").iterdir():
            shutil.rmtree(folder)
        folder = self.folder / "pictures/\u00e4"
        folder.mkdir()
        shutil.copy(PICTURES / "orange.jpg", folder / os.fsdecode(b"\xc3\xa9\xff\xf0\x9f\x98\x80,.jpg"))
        self.run_pipeline(self.text("csv", output), rows=False)
        with open(output, newline="", encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        self.assertEqual((row["file"], row["label"]), (f"{folder}/\u00e9?\U0001f600,.jpg", "\u00e4"))
        (line,) = self.run_pipeline(self.text("jsonl")).rows
        self.assertEqual((line["file"], line["label"]), (row["file"], row["label"]))


if __name__ == "__main__":
    main()
