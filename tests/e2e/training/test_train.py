"""millrace train: handwritten digits compared with scikit-learn on the same vectors and parts, invalid data sets, and
what is left after an interrupt or on a full disk."""
import fcntl
import importlib.util
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import digits
from harness import MILLRACE, MODELS, PICTURES, ROOT, Case, call, need_models, start


AT_ONCE = 4


class Training(Case):
    def setUp(self):
        super().setUp()
        self.digits, self.head = digits.cut(), self.folder / "head"
        # Not beside the head: some cases list its folder.
        kept = tempfile.TemporaryDirectory(prefix="millrace-")
        self.addCleanup(kept.cleanup)
        self.kept = pathlib.Path(kept.name)
        self.cache = self.kept / "cache"

    def command(self, data, *arguments):
        output = () if "--output" in arguments else ("--output", self.head)
        return [MILLRACE, "train", digits.PIPELINE, "--data", data, *output, "--cache", self.cache, *arguments]

    def train(self, data, *arguments, code=0):
        done = call(self.command(data, *arguments))
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def train_json(self, data, *arguments):
        return json.loads(self.train(data, "--json", *arguments).stdout)

    def refused(self, data, words, code=65):
        done = self.train(data, code=code)
        self.assertIn(words, done.stderr)
        self.assertFalse(self.head.exists())

    def some(self, each=12, **changed):
        """A list with a few digits, with a part for each; `changed` replaces labels."""
        rows = digits.files(self.digits, each)
        split = digits.parts(len(rows))
        return [[path, changed.get(label, label), "", part] for (path, label), part in zip(rows, split)]


class Digits(Training):
    def setUp(self):
        super().setUp()
        rows = digits.files(self.digits, 200)
        self.split = numpy.array(digits.parts(len(rows)))
        self.truth = numpy.array([int(label) for _, label in rows])
        self.rows = [[path, label, "", part] for (path, label), part in zip(rows, self.split)]
        self.cache = self.folder / "cache"
        self.list = digits.write_list(self.folder / "digits.csv", self.rows)

    def vectors(self, told):
        return digits.read_cache(told["vectors"]["cache"]).astype(numpy.float64)

    def test_softmax_as_scikit_learn(self):
        told = self.train_json(self.list, "--penalty", "0.01", "--doubles")
        x, train, test = self.vectors(told), self.split == "train", self.split == "test"
        scaler = StandardScaler().fit(x[train])
        peer = LogisticRegression(C=0.01, tol=1e-7, max_iter=2000).fit(scaler.transform(x[train]), self.truth[train])
        ours = numpy.load(self.head / "weights.npy").astype(numpy.float64)
        logits = x[test] @ ours[:, :-1].T + ours[:, -1]
        theirs = peer.predict_proba(scaler.transform(x[test]))
        self.assertLess(numpy.abs(softmax(logits, axis=1) - theirs).max(), 1e-3)
        accuracy = accuracy_score(self.truth[test], theirs.argmax(axis=1))
        self.assertGreaterEqual(told["test"]["accuracy"], 0.94)
        self.assertAlmostEqual(told["test"]["accuracy"], accuracy, delta=0.005)
        self.assertEqual(told["test"]["rows"], int(test.sum()))

        # Vectors are made once; other models must use the cache.
        told = self.train_json(self.list, "--model", "neighbors", "--neighbors", "5")
        self.assertEqual(told["vectors"]["made"], 0)
        peer = KNeighborsClassifier(5).fit(x[train], self.truth[train])
        self.assertGreaterEqual(told["test"]["accuracy"], 0.92)
        self.assertAlmostEqual(told["test"]["accuracy"], peer.score(x[test], self.truth[test]), delta=0.007)

        # Random labels cannot be learnt, so nothing leaks from the test part.
        labels = [row[1] for row in self.rows]
        random.Random(5).shuffle(labels)
        mixed = [[row[0], label, "", row[3]] for row, label in zip(self.rows, labels)]
        told = self.train_json(digits.write_list(self.folder / "mixed.csv", mixed), "--penalty", "0.001")
        self.assertEqual(told["vectors"]["made"], 0)
        self.assertLess(abs(told["test"]["accuracy"] - 0.1), 0.05)

        # The pipeline must report what was trained.
        self.train(self.list, "--penalty", "0.01", "--doubles")
        test_files = [row[0] for row in self.rows if row[3] == "test"]
        results = self.folder / "results.jsonl"
        done = call([MILLRACE, "run", digits.PIPELINE, "--input", self.list, "--output", results],
                    environment={"HEAD": str(self.head)})
        self.assertEqual(done.returncode, 0, done.stderr)
        first = {}
        for line in results.read_text().splitlines():
            row = json.loads(line)
            first[row["file"]] = row["classes"][0]["label"]
        self.assertEqual([int(first[str(path)]) for path in test_files], logits.argmax(axis=1).tolist())


class Example(Case):
    def setUp(self):
        super().setUp()
        for name in ("build", "pipelines"):
            (self.folder / name).mkdir()
        (self.folder / "build/millrace").symlink_to(MILLRACE)
        for name in ("digits", "classify-images"):
            shutil.copy(ROOT / f"pipelines/{name}.yaml", self.folder / "pipelines")

    def shell(self, line):
        done = call(["bash", "-c", line], cwd=self.folder,
                    environment={"XDG_CACHE_HOME": str(self.folder / "cache"), "MODELS": str(MODELS)})
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stderr}")
        return done.stdout

    def test_pictures_of_ones_own(self):
        need_models()
        for path, label in digits.files(digits.cut(), 12):
            if label in "147":
                (self.folder / "photos" / label).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, self.folder / "photos" / label)
        (shown,) = re.findall(r"^```sh\n(build/millrace train .*?)^```$", (ROOT / "pipelines/TRAINING.md").read_text(),
                              flags=re.M | re.S)
        train, evaluate, run = shown.replace("\\\n", "").splitlines()
        self.assertIn("numbers of decode, preprocess, network", self.shell(train))
        self.assertIn("the part for test", self.shell(evaluate))
        self.assertIn('"accuracy"', (self.folder / "photos.html").read_text())
        rows = [json.loads(line) for line in self.shell(run).splitlines()]
        self.assertEqual(len(rows), sum(1 for path in (self.folder / "photos").rglob("*.png")))
        for row in rows:
            self.assertEqual(row["label"], row["file"].split("/")[-2])
            self.assertEqual({one["label"] for one in row["classes"]}, {"1", "4", "7"})

    def test_it_runs_as_its_comment_says(self):
        """In a folder that looks like the repository's root."""
        (self.folder / "build/digits").symlink_to(digits.cut())
        out, lines = [], re.findall(r"^#     (.*)$", digits.PIPELINE.read_text(), flags=re.MULTILINE)
        shown = re.findall(r"^```sh\n(tools/digits .*?)^```$", (ROOT / "pipelines/TRAINING.md").read_text(),
                           flags=re.M | re.S)
        self.assertEqual(shown, ["\n".join(lines) + "\n"])
        self.assertIn("`" + " && ".join(lines[:2]) + "`", (ROOT / "README.md").read_text())
        self.assertEqual(lines[0], "tools/digits build/digits")
        for line in lines[1:]:
            out.append(self.shell(line))
        trained, evaluated, told = out
        self.assertGreaterEqual(float(re.search(r"accuracy ([\d.]+) \(95%", trained)[1]), 0.96)
        figures = [re.search(r"accuracy .*\n.*\n", text)[0] for text in (trained, evaluated)]
        self.assertEqual(figures[0], figures[1])
        self.assertIn('"accuracy"', (self.folder / "build/digits.html").read_text())
        self.assertEqual(json.loads(told)["classes"][0]["label"], "7")
        self.check_the_export()

    def check_the_export(self):
        text = (ROOT / "pipelines/TRAINING.md").read_text()
        (shown,) = re.findall(r"^```sh\n(build/millrace export .*?)\n```$", text, flags=re.M | re.S)
        self.assertRegex(self.shell(shown), r"largest difference from classify is .*e-0[678], of 64 pictures")
        (program,) = re.findall(r"^```python\n(import json, numpy, onnxruntime\n.*?)^```$", text, flags=re.M | re.S)
        done = call([sys.executable, "-c", program], cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        label, score = done.stdout.split()
        self.assertIn(label, "0123456789")
        self.assertTrue(0.1 <= float(score) <= 1, score)


class Sets(Training):
    def test_report(self):
        done = self.train(digits.write_list(self.folder / "some.csv", self.some()), "--penalty", "0.01,0.1")
        for words in ("120 pictures of 10 classes", "as the list says", "900 numbers of decode, hog", "<- taken",
                      "accuracy 0.", "mixed up", f"written    {self.head}"):
            self.assertIn(words, done.stdout)
        self.assertNotIn("\r", done.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["head", "some.csv"])

    def test_classes_that_the_test_part_lacks(self):
        """The others' figures are not figures for all, and a single class has no ROC curve."""
        rows = self.some()
        for missing, words in ((0, None), (1, 'no picture of "0" was among them'),
                               (9, 'no pictures of 9 of the 10 classes, such as "0", were among them')):
            kept = [[*row[:3], "train" if int(row[1]) < missing else row[3]] for row in rows]
            told = self.train(digits.write_list(self.folder / "some.csv", kept), "--penalty", "0.1").stdout
            self.assertEqual("among them" in told, missing > 0, told)
            self.assertIn(words or "ROC area", told)
            self.assertEqual("ROC area" in told, missing < 9, told)
            self.assertNotIn("nan", told)

    def test_left_out(self):
        rows = self.some()
        copy = self.folder / "copy.png"
        shutil.copy(rows[0][0], copy)
        other = self.folder / "other.png"
        shutil.copy(rows[20][0], other)
        damaged = self.folder / "damaged.png"
        damaged.write_bytes(pathlib.Path(rows[1][0]).read_bytes()[:60])
        rows += [[copy, "0", "", "test"], [other, "7", "", "test"], [damaged, "0", "", "test"],
                 [self.folder / "nothing.png", "0", "", "test"]]
        rows.append([self.folder, "0", "", "test"])
        for name, data in (("garbage.jpg", random.Random(1).randbytes(3000)), ("empty.jpg", b"")):
            (self.folder / name).write_bytes(data)
            rows.append([self.folder / name, "7", "", "test"])
        done = self.train(digits.write_list(self.folder / "some.csv", rows), "--penalty", "0.1", "--json")
        told = json.loads(done.stdout)
        self.assertIn(f"{self.folder}: is a folder, and a file is needed", done.stderr)
        self.assertEqual(len(told["left_out"]), 8)
        self.assertEqual({(pathlib.Path(row["file"]).name, row["reason"]) for row in told["left_out"]},
                         {("copy.png", "copy"), ("other.png", "contradicts"),
                          (pathlib.Path(rows[20][0]).name, "contradicts"),
                          ("damaged.png", "damaged"), ("nothing.png", "unreadable"), ("garbage.jpg", "damaged"),
                          ("empty.jpg", "unreadable"), (self.folder.name, "unreadable")})
        self.assertEqual(told["files"], 127)
        self.assertEqual(told["vectors"]["rows"], 119)

        # The others come from the cache, and nothing that is read can be decoded: a warning must name a file.
        done = self.train(self.folder / "some.csv", "--penalty", "0.1", "--json")
        again = json.loads(done.stdout)
        self.assertEqual((again["vectors"]["made"], again["left_out"]), (0, told["left_out"]))
        self.assertRegex(done.stderr, rf"millrace: warning: pictures: nothing could be decoded of 2 files, such as "
                                      rf"{self.folder}/(damaged.png|garbage.jpg): ")
        self.assertNotIn("error", done.stderr)
        self.assertNotIn("--set", done.stderr)

    def test_names_that_are_not_text(self):
        """The pipeline reads a text list: such files are left out, and the others are used for training."""
        folder = self.folder / "digits"
        strange = (b"\xff.png", b"\xed\xa0\x80.png", b"\xc0\xaf.png", b"two\nlines.png")
        for path, label in digits.files(self.digits, 15):
            (folder / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / label / path.name)
        for name, path in zip(strange, sorted((self.digits / "3").iterdir())[20:]):
            shutil.copy(path, os.fsencode(folder / "3") + b"/" + name)
        told = self.train_json(folder, "--penalty", "0.1")
        self.assertEqual((told["files"], told["vectors"]["rows"]), (154, 150))
        self.assertEqual({(row["file"], row["reason"]) for row in told["left_out"]},
                         {(f"{folder}/3/{name}", "name") for name in ("?.png", "??.png", "???.png", "two\nlines.png")})
        said = self.train(folder, "--penalty", "0.1").stdout
        self.assertIn("left out   4 of the files have names that are not UTF-8, or line breaks or the like in them",
                      said)
        self.assertIn(f"{folder}/3/\\xed\\xa0\\x80.png", said)
        done = call([MILLRACE, "evaluate", digits.PIPELINE, "--data", folder, "--json"],
                    environment={"HEAD": str(self.head)})
        self.assertEqual((done.returncode, json.loads(done.stdout)["left_out"]), (0, told["left_out"]), done.stderr)
        # The pipeline itself can read files with any name, and records are JSON.
        records = self.folder / "records.jsonl"
        done = call([MILLRACE, "run", digits.PIPELINE, "--input", folder / "3", "--output", records],
                    environment={"HEAD": str(self.head)})
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {json.loads(line)["file"] for line in records.read_bytes().decode().splitlines()}
        self.assertLess({row["file"] for row in told["left_out"]}, names)

        alone = self.folder / "alone"
        for name, label in zip(strange, "ab"):
            (alone / label).mkdir(parents=True)
            shutil.copy(path, os.fsencode(alone / label) + b"/" + name)
        shutil.rmtree(self.head)
        self.refused(alone, "none of the 2 files can be used: 2 have names that are not UTF-8", code=65)
        shutil.copytree(folder / "3", folder / os.fsdecode(b"\xff"))
        self.refused(folder, 'the name of the class "\\xff" is not UTF-8: rename its folder')

    def test_look_alikes(self):
        """Photographs for training, and the same ones for the test, smaller and more compressed."""
        import PIL.Image
        rows, pairs = [], set()
        for i, photo in enumerate(sorted(PICTURES.glob("*.jpg"))[:6]):
            name = photo.stem
            with PIL.Image.open(photo) as whole:
                picture = whole.convert("RGB")
            for part, side, quality in (("train", 320, 95), ("test", 200, 60)):
                path = self.folder / f"{name}-{part}.jpg"
                picture.resize((side, side)).save(path, quality=quality)
                rows.append([path, "ab"[i % 2], "", part])
            pairs.add((str(self.folder / f"{name}-train.jpg"), str(self.folder / f"{name}-test.jpg")))
        told = self.train_json(digits.write_list(self.folder / "photos.csv", rows), "--penalty", "0.1")
        self.assertEqual({(row["file"], row["other"]) for row in told["look_alike"]["listed"]}, pairs)
        self.assertEqual(told["look_alike"]["pairs"], len(pairs))
        self.assertFalse(told["look_alike"]["cut_short"])
        told = self.train_json(self.folder / "photos.csv", "--penalty", "0.1", "--no-look-alikes")
        self.assertNotIn("look_alike", told)

    def test_small_pictures_that_are_equal(self):
        """Digits have no hash: the same pixels with another compression are found by vector."""
        import PIL.Image
        rows, pairs = self.some(), set()
        trained = [row for row in rows if row[3] == "train"][:5]
        for path, label, group, _ in trained:
            copy = self.folder / f"copy-{label}-{pathlib.Path(path).name}"
            with PIL.Image.open(path) as picture:
                picture.save(copy, compress_level=1)
            rows.append([copy, label, group, "test"])
            pairs.add((str(path), str(copy)))
        told = self.train_json(digits.write_list(self.folder / "copies.csv", rows), "--penalty", "0.1")["look_alike"]
        self.assertEqual({(row["file"], row["other"]) for row in told["listed"]}, pairs)
        self.assertEqual((told["pairs"], told["by_vector"]), (len(pairs), len(rows)))

    def test_groups_stay_together(self):
        rows = [[path, label, f"writer {i % 40}", ""] for i, (path, label, _, _) in enumerate(self.some(20))]
        told = self.train_json(digits.write_list(self.folder / "some.csv", rows), "--penalty", "0.1", "--seed", "3")
        split = told["split"]
        self.assertEqual((split["by"], split["seed"], split["named"]), ("group", 3, 0))
        split = self.train_json(digits.write_list(self.folder / "some.csv", self.some()), "--penalty", "0.1")["split"]
        self.assertEqual((split["by"], split["named"]), ("list", 120))
        # 40 groups with 5 pictures each: no part may split a group.
        for part in ("train", "validation", "test"):
            self.assertEqual(sum(row[part] for row in told["classes"]) % 5, 0)

    def test_added_files_move_none(self):
        folder = self.folder / "digits"
        for path, label in digits.files(self.digits, 30):
            (folder / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / label / path.name)
        before = self.train_json(folder, "--penalty", "0.1")
        for path in sorted((self.digits / "3").iterdir())[30:60]:
            shutil.copy(path, folder / "3" / ("a" + path.name))
        after = self.train_json(folder, "--penalty", "0.1")
        for old, new in zip(before["classes"], after["classes"]):
            if old["label"] != "3":
                self.assertEqual(old, new)
        self.assertEqual(sum(after["classes"][3][part] for part in ("train", "validation", "test")), 60)

    def test_refused(self):
        def write(rows):
            return digits.write_list(self.folder / "bad.csv", rows)

        rows = self.some()
        self.refused(write([row for row in rows if row[1] == "4"]), 'has one class, "4"')
        self.refused(write(self.some() + [[rows[0][0], "", "", ""]]), "bad.csv:122: the row has no label")
        self.refused(write([[row[0], {"1": "cat", "2": "Cat"}.get(row[1], row[1]), "", row[3]] for row in rows]),
                     'the classes "Cat" and "cat" differ by case alone')
        for one, other in (("Äpfel", "äpfel"), ("ΓΆΤΟΣ", "γάτος"), ("Щука", "щука")):
            self.refused(write([[row[0], {"1": one, "2": other}.get(row[1], row[1]), "", row[3]] for row in rows]),
                         f'the classes "{one}" and "{other}" differ by case alone')
        self.refused(write([[*rows[0][:2], "a", "train"], [*rows[20][:2], "a", "test"]]),
                     'the group "a" is for train in line 2, and for test in line 3')
        self.refused(write([[*row[:3], "training"] for row in rows]), "bad.csv:2: split is train, validation or test")
        self.refused(write([[*row[:3], "test" if row[1] == "4" else "train"] for row in rows]), '"4"')
        self.refused(self.folder / "nothing.csv", "nothing.csv", code=66)
        empty = self.folder / "empty"
        for label in "ab":
            (empty / label).mkdir(parents=True)
        self.refused(empty, "the folders in it hold no images")
        shutil.copy(rows[0][0], empty / "a")
        self.refused(empty, 'the class "b" has no pictures')
        (empty / "c").mkdir()
        (empty / "__MACOSX").mkdir()
        self.refused(empty, '2 classes have no pictures: "b", "c": remove their folders')
        (empty / "c").rmdir()
        self.refused(empty / "a", "a: there are no folders in it")
        (empty / "a" / pathlib.Path(rows[0][0]).name).rename(empty / "b" / "1.cr2")
        self.refused(empty, "the folders in it hold no images, but 1 file of another kind (.cr2)")

    def test_the_head_is_no_class(self):
        """It would be one the next time, and the state is beside it."""
        folder = self.folder / "digits"
        for path, label in digits.files(self.digits, 12):
            (folder / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / label / path.name)
        for self.head in (folder / "head", f"{self.folder}/./digits//head/"):
            self.assertIn("where each folder is a class: name another folder", self.train(folder, code=64).stderr)
        self.assertFalse((folder / "head").exists())

    def test_a_pipeline_of_standard_input(self):
        text = pathlib.Path(digits.PIPELINE).read_text()
        some = digits.write_list(self.folder / "some.csv", self.some())
        self.train(some, "--penalty", "0.1")
        expected = (self.head / "weights.npy").read_bytes()
        shutil.rmtree(self.head)
        words = [MILLRACE, "train", "-", *self.command(some, "--penalty", "0.1")[3:]]
        nodes = "nodes: {one: {stages: decode}, two: {stages: [hog, classify, results]}}\n"
        for typed, code, said in ((text, 0, ""), ("", 78, "the file is empty"), ("a\0b", 65, "a zero byte"),
                                  (text + nodes, 64, "save it to a file")):
            done = subprocess.run(words, input=typed, capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
        self.assertEqual((self.head / "weights.npy").read_bytes(), expected)
        done = subprocess.run([MILLRACE, "evaluate", "-", "--data", some, "--json"], input=text, capture_output=True,
                              text=True, env={**os.environ, "HEAD": str(self.head)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["accuracy"], 0.9)

    def test_what_is_not_used_is_said(self):
        folder = self.folder / "digits"
        for path, label in digits.files(self.digits, 15):
            (folder / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / label / path.name)
        self.assertEqual(self.train(folder, "--penalty", "0.1").stderr.count("leaves out"), 0)
        (folder / "3" / "more").mkdir()
        for name in ("3/a.cr2", "3/more/1.png", "loose.png", "3/.hidden", "README.txt"):
            shutil.copy(path, folder / name)
        warned = self.train(folder, "--penalty", "0.1").stderr
        self.assertIn(f"{folder}: reads 150 pictures and leaves out 1 picture in no folder of a class, 1 file of "
                      "another kind (.cr2) and 1 folder", warned)

    def test_a_class_that_is_left_out_is_explained(self):
        rows = self.some()
        path = self.folder / "alone.png"
        shutil.copy(rows[0][0], path)
        for row in rows:
            row[3] = ""
        said = self.train(digits.write_list(self.folder / "bad.csv", rows + [[path, "alone", "", ""]]), code=65).stderr
        self.assertIn('there are no training rows of "alone"', said)
        self.assertIn("2 of the files are the same as ones of other classes", said)
        self.assertIn(str(path), said)

    def test_a_class_of_other_parts_is_explained(self):
        """All rows in a class were drawn for validation or the test."""
        rows = [[path, label, f"writer {label}", ""] for path, label, _, _ in self.some(4)]
        said = self.train(digits.write_list(self.folder / "bad.csv", rows), "--seed", "5", "--validation", "0.5",
                          code=65).stderr
        self.assertIn("there are no training rows of ", said)
        self.assertRegex(said, r'  parts      "\d": (4 for validation and 0|0 for validation and 4) for the test, none')
        self.assertIn("they were drawn by group, seed 5: more groups, a split in the list", said)
        rows = [[*row[:2], "", "test" if row[1] == "4" else "train"] for row in rows]
        said = self.train(digits.write_list(self.folder / "bad.csv", rows), code=65).stderr
        self.assertIn('"4": 0 for validation and 4 for the test', said)
        self.assertNotIn("drawn", said)

    def test_nothing_that_can_be_used(self):
        """The message must say why; missing files have another exit code."""
        path = self.some()[0][0]
        bad = digits.write_list(self.folder / "bad.csv", [[path, "a", "", ""], [path, "b", "", ""]])
        said = self.train(bad, code=65).stderr
        self.assertIn(f"none of the 2 files can be used: 2 are the same as ones of other classes, such as {bad}:2: "
                      f"{path}, as {bad}:3: {path}", said)
        bad = digits.write_list(self.folder / "bad.csv", [["no.png", "a", "", ""], ["none.png", "b", "", ""]])
        self.assertIn(f"2 cannot be read, such as {bad}:2: ", self.train(bad, code=66).stderr)

    def test_refused_before_anything_is_done(self):
        some = digits.write_list(self.folder / "some.csv", self.some())
        self.head.mkdir()
        (self.head / "mine").write_text("mine")
        self.assertIn("is not a head", self.train(some, code=64).stderr)
        self.assertEqual((self.head / "mine").read_text(), "mine")
        shutil.rmtree(self.head)
        for arguments, words in ((("--model", "svm"), "softmax"), (("--penalty", "0"), "--penalty takes"),
                                 (("--data", some), "--data can be given once"),
                                 (("--test", "1"), "--test takes"), (("--hidden", "9"), "is for --model perceptron"),
                                 (("--doubles", "--model", "prototypes"), "--doubles is not for --model")):
            self.assertIn(words, self.train(some, *arguments, code=64).stderr)
        self.assertIn("no stage of type classify has the id", self.train(some, "--stage", "hog", code=78).stderr)
        done = call([MILLRACE, "train", ROOT / "pipelines/classify-images.yaml", "--data", some, "--output", self.head,
                     "--set", "stages.network.model=none"])
        self.assertRegex(done.stderr, r'^[^\n]*: error: stages.network.model: there is no "none" here')
        self.assertEqual((done.returncode, done.stderr.count("error")), (66, 1))


class Broken(Training):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.data = digits.write_list(self.kept / "data.csv", self.some(100))

    def left(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def test_full_disk(self):
        some = digits.write_list(self.folder / "some.csv", self.some())

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

        done = call(self.command(some, "--penalty", "0.1"), preexec_fn=limit)
        self.assertEqual(done.returncode, 74, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual([name for name in self.left() if not name.startswith("cache/")], ["some.csv"])
        self.assertLess(self.train_json(some, "--penalty", "0.1")["vectors"]["made"], 120)

    def test_interrupted(self):
        some = digits.write_list(self.folder / "some.csv", self.some(200))
        process = start(self.command(some, "--penalty", "0.0001"), stderr=subprocess.DEVNULL)
        self.wait_until(lambda: process.poll() is not None or
                        any(path.stat().st_size for path in self.cache.glob("*.made")), pause=0.001)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 143)
        self.assertFalse(self.head.exists())
        self.assertEqual([name for name in self.left() if not name.endswith((".vectors", ".made"))], ["some.csv"])
        told = self.train_json(some, "--penalty", "0.0001", "--resume")
        self.assertEqual(told["vectors"]["rows"], 2000)
        self.assertLess(told["vectors"]["made"], 2000)

    def interrupt_after_the_fit(self, *arguments):
        process = start(self.command(self.data, *arguments), stderr=subprocess.PIPE, text=True)
        state = self.head.parent / "head.state"
        self.wait_until(lambda: process.poll() is not None or state.exists(), pause=0.001)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("--resume", errors)
        self.assertFalse(self.head.exists())
        return state

    def test_interrupted_after_the_fit(self):
        slashed = ("--output", f"{self.head}/")
        for model, arguments in (("softmax", ("--penalty", "0.001")),
                                 ("perceptron", ("--model", "perceptron", "--hidden", "16", *slashed))):
            self.train(self.data, *arguments)
            expected = [path.read_bytes() for path in sorted(self.head.iterdir())]
            shutil.rmtree(self.head)
            state = self.interrupt_after_the_fit(*arguments)
            self.train(self.data, *arguments, "--resume")
            self.assertEqual([path.read_bytes() for path in sorted(self.head.iterdir())], expected, model)
            self.assertFalse(state.exists())
            shutil.rmtree(self.head)

    def test_files_of_others(self):
        """They must be refused before the work begins: no vectors may be made."""
        some = digits.write_list(self.folder / "some.csv", self.some())
        self.train(some, "--penalty", "0.1")
        shutil.rmtree(self.cache)
        before = (self.head / "weights.npy").read_bytes()
        (self.head / "notes").mkdir()
        (self.head / "notes/mine.txt").write_text("mine")
        errors = self.train(some, "--penalty", "1", code=74).stderr
        self.assertIn(f'{self.head} holds "notes", which is not of a classifier', errors)
        self.assertEqual((self.head / "notes/mine.txt").read_text(), "mine")
        self.assertEqual((self.head / "weights.npy").read_bytes(), before)
        self.assertFalse(self.cache.exists() and list(self.cache.iterdir()))
        shutil.rmtree(self.head / "notes")
        self.train(some, "--penalty", "1")
        self.assertNotEqual((self.head / "weights.npy").read_bytes(), before)
        self.assertEqual(list(self.folder.glob("head?*")), [])

    def test_full_disk_at_the_end(self):
        """There is room for the fit's state, and none for the head."""
        self.train(self.data, "--penalty", "0.001")
        expected = (self.head / "weights.npy").read_bytes()
        small = self.folder / "small"
        small.mkdir()
        if call(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small]).returncode:
            self.skipTest("a file system cannot be mounted here")
        self.addCleanup(call, ["umount", small])
        self.head = small / "head"
        state = self.interrupt_after_the_fit("--penalty", "0.001")
        pages = -(-state.stat().st_size // 4096) + 3
        state.unlink()
        room = os.statvfs(small)
        (small / "filler").write_bytes(bytes((room.f_bavail * room.f_frsize // 4096 - pages) * 4096))
        errors = self.train(self.data, "--penalty", "0.001", code=74).stderr
        self.assertIn("No space left on device", errors)
        self.assertIn(f"the fit is kept in {state}: the same command with --resume saves it", errors)
        self.assertEqual(sorted(path.name for path in small.iterdir()), ["filler", "head.state"])
        (small / "filler").unlink()
        self.train(self.data, "--penalty", "0.001", "--resume")
        self.assertEqual((self.head / "weights.npy").read_bytes(), expected)
        self.assertEqual(sorted(path.name for path in small.iterdir()), ["head"])

    def test_two_that_share_a_cache(self):
        """One makes the vectors; the other must wait and find them."""
        some = digits.write_list(self.folder / "some.csv", self.some(150))
        both = [start(self.command(some, "--penalty", "0.01", "--json", "--output", self.folder / name),
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name in ("one", "other")]
        said = [process.communicate() for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], said)
        self.assertEqual(sorted(json.loads(told)["vectors"]["made"] for told, _ in said), [0, 1500])
        self.assertEqual(*((self.folder / name / "weights.npy").read_bytes() for name in ("one", "other")))

        # It must begin when the lock is released, and end while waiting if asked to.
        vectors = max(self.cache.glob("*.vectors"), key=lambda path: path.stat().st_size)
        vectors.unlink()
        for interrupted in (True, False):
            with open(vectors, "a") as locked:
                fcntl.flock(locked, fcntl.LOCK_EX)
                process = start(self.command(some, "--penalty", "0.01"), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)
                self.assertIn("another program makes vectors for the same cache: waiting", process.stderr.readline())
                if interrupted:
                    process.send_signal(signal.SIGINT)
                    self.assertEqual(process.wait(), 130)
            process.communicate()
            self.assertEqual((process.returncode, vectors.stat().st_size > 0),
                             (130, False) if interrupted else (0, True))
        self.assertEqual((self.head / "weights.npy").read_bytes(), (self.folder / "one/weights.npy").read_bytes())

    def test_two_that_make_one_head(self):
        """The second must be refused at once, without harm to the first; what a killed one left is taken over."""
        some = digits.write_list(self.folder / "some.csv", self.some())
        with open(self.folder / "head.lock", "w") as lock:
            lock.write("4711\n")
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            for output in (self.head, f"{self.head}/"):
                said = self.train(some, "--penalty", "0.1", "--output", output, code=74).stderr
                self.assertIn(f"{self.head} is in use by another run (process 4711)", said)
            self.assertFalse(self.cache.exists() and list(self.cache.iterdir()))
        self.train(some, "--penalty", "0.1")
        self.assertEqual(sorted(path.name for path in self.folder.glob("head*")), ["head"])

    def test_vectors_of_another_device(self):
        """The processors' vectors must not be mistaken for a card's, nor the other way round."""
        some = digits.write_list(self.folder / "some.csv", self.some())
        arguments = ("--penalty", "0.1", "--no-look-alikes")
        for on, made in (("cpu", 120), ("sim:0", 120), ("cpu", 0), ("sim:1", 0)):
            told = self.train_json(some, *arguments, "--set", f"stages.hog.device={on}")
            self.assertEqual(told["vectors"]["made"], made, on)
        self.assertEqual(len(list(self.cache.glob("*.vectors"))), 2)

    @unittest.skipUnless(importlib.util.find_spec("xxhash"), "no xxhash")
    def test_vectors_that_are_not_finite(self):
        """They must be left out, and all listed, in one run."""
        rows = self.some()
        some = digits.write_list(self.folder / "some.csv", rows)
        cache = pathlib.Path(self.train_json(some, "--penalty", "0.1")["vectors"]["cache"])
        bad = set()
        for part, value in (("train", "nan"), ("test", "inf")):
            at = next(i for i, row in enumerate(rows) if row[3] == part)
            digits.change_number(cache, at, 7, float(value))
            bad.add(str(rows[at][0]))
        told = self.train_json(some, "--penalty", "0.1")
        self.assertEqual({row["file"] for row in told["left_out"] if row["reason"] == "not finite"}, bad)
        others = digits.write_list(self.folder / "others.csv", [row for row in rows if str(row[0]) not in bad])
        self.assertEqual(told["test"]["accuracy"], self.train_json(others, "--penalty", "0.1")["test"]["accuracy"])
        for at in range(len(rows)):
            digits.change_number(cache, at, 7, float("nan"))
        self.assertIn("each vector has a NaN or an infinity in it", self.train(some, code=65).stderr)

    def test_cache_that_is_none(self):
        some = digits.write_list(self.folder / "some.csv", self.some())
        told = self.train_json(some, "--penalty", "0.1")
        before = (self.head / "weights.npy").read_bytes()
        cache = pathlib.Path(told["vectors"]["cache"])
        made = cache.with_suffix(".made")
        made.write_bytes(b"MRMADE01" + made.read_bytes()[8:])
        done = self.train(some, "--penalty", "0.1", "--json")
        self.assertIn("is not a cache of these vectors", done.stderr)
        self.assertEqual(json.loads(done.stdout)["vectors"]["made"], 120)
        self.assertEqual(done.stderr.count("is not a cache"), 1)
        self.assertEqual((self.head / "weights.npy").read_bytes(), before)
        cache.unlink()
        cache.mkdir()
        self.assertIn(f"{cache} is not a file: remove it", self.train(some, code=74).stderr)

    def test_cache_that_was_damaged(self):
        """A bit in a vector, or in what belongs to it, has changed on disk."""
        some = digits.write_list(self.folder / "some.csv", self.some())
        arguments = ("--penalty", "0.1", "--no-look-alikes", "--json")
        told = self.train_json(some, *arguments)
        before = (self.head / "weights.npy").read_bytes()
        cache = pathlib.Path(told["vectors"]["cache"])
        for path, place in ((cache, 5000), (cache, 2), (cache.with_suffix(".made"), 64 + 7 * digits.RECORD.size + 40)):
            damaged = bytearray(path.read_bytes())
            damaged[place] ^= 1
            path.write_bytes(damaged)
            done = self.train(some, *arguments)
            self.assertEqual(done.stderr.count(f"{cache}: the file was damaged"), 1, place)
            self.assertEqual(json.loads(done.stdout)["vectors"]["made"], 1, place)
            self.assertEqual((self.head / "weights.npy").read_bytes(), before, place)
            done = self.train(some, *arguments)
            self.assertNotIn("damaged", done.stderr)
            self.assertEqual(json.loads(done.stdout)["vectors"]["made"], 0, place)
