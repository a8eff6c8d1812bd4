"""The pages in pipelines/jobs: their commands and programs do what they say, and their pictures are those of the
pipelines as they are."""
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from harness import CENTERFACE, MILLRACE, MODELS, PICTURES, ROOT, SAMPLES, TIMEOUT, Case, need_models, rows_in

JOBS = ROOT / "pipelines/jobs"
MODULE = pathlib.Path(MILLRACE).parent / "python"
# The pipeline that each page is about.
PIPELINES = {"sort": "sort", "alarm": "alarm", "count": "people", "faces": "faces", "text": "text",
             "duplicates": "fingerprints", "timelapse": "timelapse", "python": "serve", "week": "week",
             "train": "digits"}


class Jobs(Case):
    def setUp(self):
        """A folder in which a page's paths lead to the tree's pipelines, and build/ is empty."""
        super().setUp()
        need_models()
        (self.folder / "build").mkdir()
        (self.folder / "build/millrace").symlink_to(MILLRACE)
        for name in ("pipelines", "tools"):
            (self.folder / name).symlink_to(ROOT / name)

    def page(self, name, more="", environment=None):
        """Runs what the page shows, in order, and gives all that was printed. Models are here already. test_camera.py
        runs the page `week`, which has no end."""
        shown, told = (JOBS / f"{name}.md").read_text(), ""
        for language, text in re.findall(r"^```(sh|python)\n(.*?)^```$", shown, re.M | re.S):
            if language == "python":
                command = [sys.executable, "-c", text]
            else:
                lines = [line for line in text.splitlines() if "models get" not in line]
                command = ["sh", "-ec", "\n".join(line + (more if " run " in line else "") for line in lines)]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT,
                                  env={**os.environ, "PYTHONPATH": str(MODULE), **(environment or {})})
            self.assertEqual(done.returncode, 0, done.stderr)
            told += done.stdout
        return told

    def photos(self):
        (self.folder / "photos").mkdir()
        for name in ("squirrel_cls.jpg", "orange.jpg", "baboon.jpg"):
            shutil.copy(PICTURES / name, self.folder / "photos" / name)

    def test_every_page_has_its_picture(self):
        self.assertEqual(sorted(PIPELINES), sorted(path.stem for path in JOBS.glob("*.md") if path.stem != "README"))
        for page, name in PIPELINES.items():
            with self.subTest(page):
                self.assertIn(f"]({page}.svg)", (JOBS / f"{page}.md").read_text())
                self.assertIn(f"]({page}.md)", (JOBS / "README.md").read_text())
                drawn = self.folder / "drawn.svg"
                # As for a machine with two cores, whatever this one has.
                self.checked([MILLRACE, "graph", ROOT / f"pipelines/{name}.yaml", "--workers", "2", "--output", drawn],
                             cwd=ROOT)
                self.assertEqual(drawn.read_text(), (JOBS / f"{page}.svg").read_text())

    def test_sort(self):
        self.photos()
        self.page("sort")
        found = sorted(str(path.relative_to(self.folder / "build/sorted")) for path in
                       (self.folder / "build/sorted").rglob("*.jpg"))
        self.assertEqual(found, ["baboon/baboon-000000.jpg",
                                 "fox squirrel, eastern fox squirrel, Sciurus niger/squirrel_cls-000002.jpg",
                                 "orange/orange-000001.jpg"])
        with open(self.folder / "build/sorted.csv", newline="") as table:
            self.assertEqual([row["class"].split(",")[0] for row in csv.DictReader(table)],
                             ["baboon", "orange", "fox squirrel"])

    def test_alarm(self):
        rows = [json.loads(line) for line in self.page("alarm").splitlines()]
        self.assertEqual(len(rows), len(list((self.folder / "build/alarms").glob("*.jpg"))))
        self.assertTrue(rows)

    def test_duplicates(self):
        """A smaller copy and a compressed one are found, other photos are not."""
        self.photos()
        for name, scale in (("small.jpg", "320:-2"), ("bad.jpg", "iw:ih")):
            self.checked(["ffmpeg", "-v", "error", "-i", PICTURES / "baboon.jpg", "-vf", f"scale={scale}", "-q:v", "12",
                          self.folder / "photos" / name])
        pairs = [sorted(path.rsplit("/", 1)[1] for path in line.split())
                 for line in self.page("duplicates").splitlines()]
        self.assertEqual(sorted(pairs), [["baboon.jpg", "bad.jpg"], ["baboon.jpg", "small.jpg"],
                                         ["bad.jpg", "small.jpg"]])

    def test_timelapse(self):
        """The sharpest of three pictures, by the rows; all are in the video."""
        (self.folder / "photos").mkdir()
        for number in range(1, 7):
            shutil.copy(PICTURES / f"left0{number}.jpg", self.folder / "photos")
        self.page("timelapse")
        rows = [json.loads(line) for line in (self.folder / "build/photos.jsonl").read_text().splitlines()]
        sharp = {row["file"]: next(one["data"][0] for one in row["tensors"] if one["name"] == "sharpness")
                 for row in rows}
        with open(self.folder / "build/best.csv", newline="") as table:
            chosen = [row["path"] for row in csv.DictReader(table)]
        names = list(sharp)
        self.assertEqual([os.path.relpath(path, self.folder) for path in chosen],
                         [max(names[:3], key=sharp.get), max(names[3:], key=sharp.get)])
        counted = self.checked(["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames",
                                "-of", "csv=p=0", self.folder / "build/timelapse/timelapse.mp4"]).stdout
        self.assertEqual(int(counted.strip().strip(",")), 2)

    def test_train(self):
        told = self.page("train", environment={"HEAD": str(self.folder / "build/head")})
        self.assertGreater(float(re.search(r"\n  test +accuracy ([\d.]+)", told)[1]), 0.95)
        self.assertGreater((self.folder / "build/digits.html").stat().st_size, 1000)
        row = json.loads(told.splitlines()[-1])
        self.assertEqual(row["classes"][0]["label"], "7")

    def test_python(self):
        if not list(MODULE.glob("millrace/_core*.so")):
            self.skipTest("the module is not built (Debian: python3-dev)")
        shutil.copy(SAMPLES / "cockatoo.mp4", self.folder / "lobby.mp4")
        self.photos()
        told = self.page("python", environment={"ENDPOINT": f"ipc://{self.folder}/app"})
        self.assertRegex(told.splitlines()[0], "^[0-9]+ sulphur-crested cockatoo")
        rows = rows_in(self.folder / "build/seen.jsonl")
        self.assertEqual([row["classes"][0]["label"].split(",")[0] for row in rows],
                         ["baboon", "orange", "fox squirrel"])

    def test_faces(self):
        if not CENTERFACE.exists():
            self.skipTest(f"no {CENTERFACE}")
        shutil.copy(SAMPLES / "realshort.mp4", self.folder / "holiday.mp4")
        self.page("faces")
        self.assertTrue((self.folder / "build/hidden/blurred.mp4").exists())

    def test_text(self):
        if not (MODELS / "ocr-lines.onnx").exists():
            self.skipTest("no ocr-lines: millrace models get makes it")
        shutil.copy(PICTURES / "imageTextN.png", self.folder / "page.png")
        self.page("text")
        (row,) = map(json.loads, (self.folder / "build/read.jsonl").read_text().splitlines())
        self.assertTrue(row["objects"])

    def test_count(self):
        if not (MODELS / "yolox-nano.onnx").exists() and not os.environ.get("YOLOX"):
            self.skipTest("no yolox-nano: millrace models get makes it")
        self.page("count", " --set sources.video.duration=4s")
        self.assertTrue((self.folder / "build/people/people.mp4").exists())


if __name__ == "__main__":
    unittest.main()
