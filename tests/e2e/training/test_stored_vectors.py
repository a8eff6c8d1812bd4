"""train and evaluate with existing vectors: the head must be the same, to the bit, as from the files that they were
made from; and what a vector file may not contain."""
import json

import numpy

import digits
from harness import MILLRACE, call


class Stored(digits.Kept):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = digits.files(digits.cut(), 30)
        cls.rows = [[path, label, f"group {i // 2}", part] for i, ((path, label), part) in
                    enumerate(zip(files, [part for part in digits.parts(len(files) // 2) for _ in range(2)]))]
        cls.files = digits.write_list(cls.kept / "files.csv", cls.rows)
        cls.head = cls.kept / "head"
        cls.told = cls.train(cls.files, cls.head)
        cls.vectors = digits.read_cache(cls.told["vectors"]["cache"])
        numpy.save(cls.kept / "vectors.npy", cls.vectors)
        cls.list = digits.write_list(cls.kept / "rows.csv", [row[1:] for row in cls.rows], ("label", "group", "split"))

    @classmethod
    def train(cls, data, head, *arguments):
        done = call([MILLRACE, "train", digits.PIPELINE, "--data", data, "--output", head, "--cache",
                     cls.kept / "cache", "--penalty", "0.01", "--no-look-alikes", "--json", *arguments])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self, vectors, words, data=None, code=65, verb=("train", "--output", "head")):
        self.millrace(verb[0], digits.PIPELINE, "--data", data or self.list, "--vectors", vectors, *verb[1:], code=code,
                      says=words, cwd=self.folder, environment={"HEAD": str(self.head)})
        self.assertFalse((self.folder / "head").exists())

    def evaluate(self, data, *arguments):
        done = self.millrace("evaluate", digits.PIPELINE, "--data", data, "--json", *arguments,
                             environment={"HEAD": str(self.head)})
        return json.loads(done.stdout)

    def test_the_same_head(self):
        head = self.folder / "head"
        told = self.train(self.list, head, "--vectors", self.kept / "vectors.npy")
        for name in ("weights.npy", "labels.txt"):
            self.assertEqual((head / name).read_bytes(), (self.head / name).read_bytes())
        for name in ("test", "classes", "temperature", "doubtful"):
            self.assertEqual(told[name], self.told[name])
        self.assertEqual(told["vectors"]["digest"], self.told["vectors"]["digest"])
        # Its card must say so, and so must the report.
        split = json.loads((head / "head.json").read_text())["split"]
        self.assertEqual(json.loads(split)["stored_vectors"], str(self.kept / "vectors.npy"))
        done = call([MILLRACE, "train", digits.PIPELINE, "--data", self.list, "--output", head, "--cache",
                     self.kept / "cache", "--penalty", "0.01", "--vectors", self.kept / "vectors.npy"])
        self.assertIn("is taken on trust", done.stdout)
        # The pipeline can serve with it.
        self.millrace("run", digits.PIPELINE, "--input", self.rows[0][0], environment={"HEAD": str(head)})

    def test_evaluate(self):
        for part in ("test", "all"):
            told = self.evaluate(self.list, "--part", part, "--vectors", self.kept / "vectors.npy")
            expected = self.evaluate(self.files, "--part", part)
            for name in ("accuracy", "log_loss", "confusion", "intervals", "classes", "temperature"):
                self.assertEqual(told[name], expected[name], name)

    def test_rows_that_are_left_out(self):
        """For two rows with the same vector, and two with it under different labels."""
        rows = [[label, group, part] for _, label, group, part in self.rows]
        rows += [rows[0], ["7" if rows[5][0] != "7" else "3", "", "train"]]
        data = digits.write_list(self.folder / "rows.csv", rows, ("label", "group", "split"))
        numpy.save(self.folder / "more.npy", numpy.concatenate([self.vectors, self.vectors[[0, 5]]]))
        told = self.train(data, self.folder / "head", "--vectors", self.folder / "more.npy")
        self.assertEqual([(row["line"], row["reason"], row["as_line"]) for row in told["left_out"]],
                         [(7, "contradicts", len(rows) + 1), (len(rows), "copy", 2),
                          (len(rows) + 1, "contradicts", 7)])
        kept = [row for i, row in enumerate(self.rows) if i != 5]
        other = self.train(digits.write_list(self.folder / "files.csv", kept), self.folder / "other")
        self.assertEqual((self.folder / "head/weights.npy").read_bytes(),
                         (self.folder / "other/weights.npy").read_bytes())
        self.assertEqual(told["test"], other["test"])

    def test_files_that_are_none(self):
        bad = self.folder / "bad.npy"

        def refused(array, words, **options):
            numpy.save(bad, array, **options)
            self.refused(bad, words)

        x = self.vectors
        refused(x.astype("f8"), "its numbers are f8; save array.astype('<f4')")
        refused(x.astype("i4"), "its numbers are of the type i4")
        refused(x.astype(">f4"), "its numbers are big-endian")
        refused(numpy.asfortranarray(x), "it is in Fortran order")
        refused(x[0], "has 1 dimension;")
        refused(x[:, :, None], "has 3 dimensions")
        refused(x[:0], "is empty")
        refused(x[:-1], f"has {len(x)} rows, and there are {len(x) - 1} vectors")
        for value, text in ((numpy.nan, "nan"), (numpy.inf, "inf")):
            broken = x.copy()
            broken[7, 3] = value
            refused(broken, f"row 7, column 3 is {text}, which is not a finite number")
        whole = (self.kept / "vectors.npy").read_bytes()
        for text, words in ((whole[:-4], "the file is cut off"), (whole[:50], "the file is cut off"),
                            (whole + b"more", "longer than its header declares"), (b"\x93NUMPY\x03\x00", "version 3"),
                            (b"PK\x03\x04" + whole, "it is not a .npy file")):
            bad.write_bytes(text)
            self.refused(bad, words)
        self.refused(self.folder / "none.npy", "cannot read", code=66)
        good = self.kept / "vectors.npy"
        self.refused(good, "is not a list (*.csv, *.jsonl) with a row for each vector", data=digits.cut())
        numpy.save(bad, x[:, :-1])
        self.refused(bad, f"its vectors have {x.shape[1] - 1} numbers, and those of decode, hog in {digits.PIPELINE} "
                          f"have {x.shape[1]}")
        self.refused(bad, f"its vectors have {x.shape[1] - 1} numbers, and the head takes {x.shape[1]}",
                     verb=("evaluate",))
        self.millrace("evaluate", digits.PIPELINE, "--data", self.list, "--vectors", good, "--set",
                      "stages.hog.size=32x32", code=65, says="was trained after other stages",
                      environment={"HEAD": str(self.head)})
