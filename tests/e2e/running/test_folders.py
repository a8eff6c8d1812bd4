"""Folders and globs with videos: one source each, named after the file."""
import shutil

import clips
import harness
from harness import pipeline


def folders(sources, input="clip"):
    return pipeline(sources, decode=f"input: {input}", results='type: jsonl, path: "${OUTPUT:--}"')


class Folders(harness.Case):
    def videos(self, *names, folder="clips"):
        (self.folder / folder).mkdir(exist_ok=True)
        for name in names:
            shutil.copy(clips.one_frame(), self.folder / folder / name)
        return self.folder / folder

    def files(self, source, input="clip", *arguments):
        run = self.run_pipeline(folders(dict(clip=source), input), *arguments)
        self.assert_balanced(run)
        self.assertEqual([each["in"] for each in run.summary["sources"]], [1] * len(run.summary["sources"]))
        return {row["source"]: row["file"] for row in run.rows}, [each["id"] for each in run.summary["sources"]]

    def test_each_video_is_a_source(self):
        folder = self.videos("b10.mp4", "b9.mp4", "ü.mp4")
        expected = {name: f"{folder}/{name}.mp4" for name in ("b9", "b10", "ü")}
        for uri in (folder, f"{folder}/", f"{folder}/*.mp4", f"file://{folder}"):
            for source, arguments in ((f'uri: "{uri}"', ()), ('uri: "${INPUT:-none}"', ("--input", uri))):
                with self.subTest(uri=uri, arguments=arguments):
                    rows, ids = self.files(source, "clip", *arguments)
                    self.assertEqual({id: path.replace("//", "/") for id, path in rows.items()}, expected)
                    self.assertEqual(ids, ["b9", "b10", "ü"])

    def test_relative_to_the_pipeline(self):
        self.videos("a.mp4", "b.mp4")
        rows, _ = self.files("uri: clips")
        self.assertEqual(set(rows), {"a", "b"})

    def test_the_name_stands_for_all_beside_others(self):
        folder, one = self.videos("a.mp4", "other.mp4"), clips.one_frame()
        sources = dict(clip=f'uri: "{folder}"', other=f'uri: "{one}"')
        for input, expected in (("clip", ["a", "other-2"]), ("sources.clip", ["a", "other-2"]), ("other", ["other"]),
                                ("[clip, other]", ["a", "other-2", "other"]),
                                ("sources.*", ["a", "other-2", "other"])):
            with self.subTest(input):
                run = self.run_pipeline(folders(sources, input), code=None)
                if run.code == 0:
                    self.assertEqual(sorted(row["source"] for row in run.rows), sorted(expected))
                else:  # a source that nothing uses is refused
                    self.assertIn("nothing", run.err)

    def test_one_video_is_a_source_of_its_own_name(self):
        rows, ids = self.files(f'uri: "{self.videos("a.mp4")}/*.mp4"')
        self.assertEqual(ids, ["a"])

    def test_pictures_stay_one_source(self):
        folder = clips.pictures("png")
        for uri in (folder, f"{folder}/*.png"):
            run = self.run_pipeline(folders(dict(clip=f'uri: "{uri}"')))
            self.assertEqual({row["source"] for row in run.rows}, {"clip"})

    def test_options_hold_for_each(self):
        folder = self.videos("a.mp4", "b.mp4")
        run = self.run_pipeline(folders(dict(clip=f'uri: "{folder}", loop: 2')))
        self.assertEqual(sorted((row["source"], row.get("epoch", 0)) for row in run.rows),
                         [("a", 0), ("a", 1), ("b", 0), ("b", 1)])

    def test_an_unquoted_glob_says_how(self):
        self.millrace("run", self.write(folders(dict(clip="uri: x"))), "--input", "a.mp4", "b.mp4", code=64,
                      says="quote a glob of inputs: --input 'clips/*.mp4'")

    def test_numbered_videos_are_refused(self):
        folder = self.videos("0.mp4", "1.mp4")
        run = self.run_pipeline(folders(dict(clip=f'uri: "{folder}/%d.mp4"')), code=65)
        self.assertIn("is not a picture", run.err)
