"""File names in any language, and the source names made from them."""
import csv
import json
import os
import pathlib

import clips
import harness
from harness import pipeline


def named(sink, more=""):
    return pipeline(dict(clip='uri: "${INPUT:-none}"'), name="names", decode="", results=f"type: {sink}") + more


NODES = "nodes: {reads: {stages: [decode]}, writes: {stages: [results]}}\n"
# The name without its ending, and the source name made from it.
NAMES = {"日本": "日本", "é": "é", "e\u0301te\u0301": "e\u0301te\u0301", "файл": "файл", "a b": "a_b", "-x": "_x",
         "x.y": "x_y", "no\u00a0space": "no_space", "bi\u202edi": "bi_di", "tab\tand\nline": "tab_and_line",
         "日" * 30: "日" * 16, "🎬 film": "🎬_film"}


class Names(harness.Case):
    def linked(self, name, folder="."):
        path = self.folder / folder / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(clips.one_frame())
        return path

    def inputs(self, paths):
        return [word for path in paths for word in ("--input", path)]

    def run_names(self, paths, sink, *arguments, more=""):
        run = self.run_pipeline(named(sink, more=more), *self.inputs(paths), *arguments, rows=False)
        self.assert_balanced(run)
        return run

    def test_sources_are_called_as_their_files(self):
        paths = {self.linked(f"{name}.mp4"): source for name, source in NAMES.items()}
        run = self.run_pipeline(named("jsonl, input: decode, path: '${OUTPUT}'"), *self.inputs(paths))
        self.assertEqual({row["file"]: row["source"] for row in run.rows},
                         {str(path): source for path, source in paths.items()})
        self.assertEqual([source["id"] for source in run.summary["sources"]], list(NAMES.values()))

    def test_names_that_are_equal_are_numbered(self):
        paths = [self.linked("日本.mp4", folder) for folder in ("a", "b", "c")] + [self.linked("日本-2.mp4")]
        run = self.run_names(paths, "'null', input: decode")
        self.assertEqual([source["id"] for source in run.summary["sources"]], ["日本", "日本-2", "日本-3", "日本-2-2"])

    def test_bytes_that_are_no_text(self):
        path = os.fsencode(self.folder) + b"/\xff\xe6\x97.mp4"
        os.symlink(os.fsencode(clips.one_frame()), path)
        done = self.millrace("run", self.write(named("csv, input: decode, path: '-'")), "--input",
                             os.fsdecode(path), "--input", self.linked("日.mp4"))
        self.assertEqual({row["source"] for row in csv.DictReader(done.stdout.splitlines())}, {"___", "日"})

    def test_files_over_nodes_and_again(self):
        paths, output = [self.linked("日本.mp4"), self.linked("é.mp4")], self.folder / "rows"
        expected = sorted((path.stem, str(path)) for path in paths)
        self.run_names(paths, f"csv, input: decode, path: '{output}'", more=NODES)
        self.assertEqual(sorted((row["source"], row["file"])
                                for row in csv.DictReader(output.read_text().splitlines())), expected)
        output.unlink()
        for _ in range(2):  # the second run continues where the first ended: at the end
            self.run_names(paths, f"jsonl, input: decode, path: '{output}'", "--resume", self.folder / "check",
                           more=NODES)
            rows = [json.loads(line) for line in output.read_text().splitlines()]
            self.assertEqual(sorted((row["source"], row["file"]) for row in rows), expected)

    def test_pictures_are_written_under_the_names(self):
        paths = [self.linked("日本.mp4"), self.linked("é.mp4")]
        self.run_names(paths, f"images, input: decode, path: '{self.folder}/out', name: '{{source}}-{{seq}}.png'")
        self.assertEqual({path.name for path in pathlib.Path(self.folder, "out").iterdir()},
                         {"日本-000000.png", "é-000000.png"})

    def test_sources_may_be_written_so_stages_not(self):
        written = pipeline({"cam\u00e9ra-1": 'uri: "%s"'}, name="names", decode="", **{"%s": 'type: "null"'})
        run = self.run_pipeline(written % (clips.one_frame(), "out"), rows=False)
        self.assertEqual([source["id"] for source in run.summary["sources"]], ["caméra-1"])
        for refused in ("dé", "\u202ex"):
            self.assertIn("cannot be the id", self.run_pipeline(written % (clips.one_frame(), refused), rows=False,
                                                                code=78).err)
