"""What sinks write for real pictures, read back with Python's parsers: files and folder labels, and what several stages
found about one frame."""
import csv
import os
import shutil

from harness import PICTURES, Case, pipeline

RESULTS = {"results": "type: jsonl, features: true, tensors: true"}
REST = "type: 'null', input: both"


class Joined(Case):
    def rows_of(self, device="cpu", nodes=(), **results):
        return self.run_pipeline(pipeline(
            dict(pattern='uri: "lavfi:testsrc=size=64x48:rate=25:duration=1"'), decode="", sharpness="",
            hog="size: 32x32", histogram=f'input: decode, bins: 4, device: "{device}"',
            raw="type: preprocess, input: decode, size: 16x16",
            both="type: join, join: {shapes: hog, colours: histogram, pixels: raw}", nodes=nodes, **results)).rows

    def test_vectors_of_all_inputs_are_kept(self):
        """The first one's vector is the frame itself; others have the inputs' names. What is not a vector is left
        out."""
        alone = self.rows_of(results="type: jsonl, input: histogram, features: true", rest=REST)
        three = dict(one="stages: [decode, sharpness, hog]", two="stages: [histogram, raw]",
                     three="stages: [both, results]")
        for device, nodes in (("cpu", {}), ("sim:0", {}), ("cpu", three)):
            with self.subTest(device=device, nodes=bool(nodes)):
                rows = self.rows_of(device, nodes, **RESULTS)
                self.assertEqual([row["seq"] for row in rows], list(range(25)))
                for row, one in zip(rows, alone, strict=True):
                    self.assertEqual(len(row["features"]), 324)
                    colours, sharpness = row["tensors"]
                    self.assertEqual(colours, {"stage": "histogram", "name": "colours", "dtype": "f32", "shape": [12],
                                               "data": one["features"]})
                    self.assertEqual((sharpness["stage"], sharpness["shape"]), ("sharpness", [1]))

    def test_such_a_vector_can_be_classified(self):
        for given, rest in (("input: both, tensor: colours", {}), ("input: histogram", {"rest": REST})):
            with self.subTest(given):
                rows = self.rows_of(classify=f"{given}, activation: softmax, top_k: 12", results="type: jsonl", **rest)
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
        text = pipeline(dict(pictures=f'uri: "{self.folder}/pictures", labels: true'), decode="", encode="codec: mjpeg",
                        results=f"type: {kind}, input: {input}, path: \"{output or '-'}\"")
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
