"""jsonl and csv on real pictures: files and labels of folders, read back by the parsers of Python's library."""
import csv
import shutil

from harness import PICTURES, Case, main

LABELLED = """
version: 1
pipeline: labelled
sources:
  pictures: {{uri: "{folder}", labels: true}}
stages:
  decode: {{input: pictures}}
  results: {{type: {type}, input: decode, path: "{output}"}}
"""


class Folders(Case):
    def setUp(self):
        super().setUp()
        self.expected = {}
        for label, name in (("fruit, ripe", "orange.jpg"), ("monkey \"big\"", "baboon.jpg"), ("squirrel", "squirrel_cls.jpg")):
            if not (PICTURES / name).exists():
                self.skipTest(f"no {PICTURES / name}")
            (self.folder / "pictures" / label).mkdir(parents=True)
            path = self.folder / "pictures" / label / name
            shutil.copy(PICTURES / name, path)
            self.expected[str(path)] = label

    def text(self, kind, output=""):
        return LABELLED.format(folder=self.folder / "pictures", type=kind, output=output or "-")

    def test_jsonl_says_file_and_label(self):
        run = self.run_pipeline(self.text("jsonl"))
        self.assertEqual({row["file"]: row["label"] for row in run.rows}, self.expected)
        self.assertTrue(all(row["classes"] == [] for row in run.rows))

    def test_csv_says_file_and_label(self):
        output = self.folder / "table.csv"
        self.run_pipeline(self.text("csv", output), rows=False)
        with open(output, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["file"]: row["label"] for row in rows}, self.expected)
        self.assertEqual([row["seq"] for row in rows], ["0", "1", "2"])


if __name__ == "__main__":
    main()
