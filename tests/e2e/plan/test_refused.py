"""What cannot run is refused before anything starts, with the place, the reason and the exit code from sysexits.h. Bad
input only ends the source that has it."""
import os
import pathlib
import struct
import subprocess
import zlib

import clips
import harness
from harness import pipeline

GOOD = pipeline(dict(clip='uri: "%s"'), name="good", decode="", preprocess="size: 64x64",
                results='type: jsonl, input: decode, path: "-"') % clips.COCKATOO


class Configuration(harness.Case):
    """Exit 78, `file:line:column: message`, a hint if there is one; nothing is started."""

    def refused(self, text, place, *words, code=78, verb="check"):
        path = self.write(text)
        done = harness.call([harness.MILLRACE, verb, path])
        told = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, told)
        if place:
            self.assertIn(f"{path}:{place}", told)
        for word in words:
            self.assertRegex(told, word)
        return told

    def good(self, old="", new=""):
        self.assertIn(old, GOOD)
        return GOOD.replace(old, new)

    def test_each_mistake(self):
        """One of each kind, with both verbs; test_wrong has all."""
        line = GOOD[:GOOD.index("  preprocess:")].count("\n") + 1
        mistakes = [
            ("unknown key", "size: 64x64", "sise: 64x64", line, ["sise", "size"]),
            ("cycle", "{input: clip}", "{input: preprocess}", None, ["cycle|circle|loop", "preprocess"]),
            ("formats", "input: decode, size", "input: clip, size", line, ["preprocess", "clip"]),
            ("missing variable", "64x64", "'${MR_TEST_MISSING}'", line, ["MR_TEST_MISSING"]),
            ("not YAML", "{input: clip}", "{input: clip", None, []),
        ]
        for what, old, new, place, words in mistakes:
            with self.subTest(what):
                for verb in ("check", "run"):
                    self.refused(self.good(old, new), place, *words, verb=verb)

    def test_nothing_is_started(self):
        output = self.folder / "none.jsonl"
        path = self.write(self.good("size: 64x64", "sise: 64x64").replace('"-"', str(output)))
        harness.call([harness.MILLRACE, "run", path])
        self.assertFalse(output.exists())


class Media(harness.Case):
    """Missing input is 66, unreadable media 65; nothing may be followed or waited for without end."""

    def refused(self, uri, code, *words):
        pipeline = self.write(GOOD.replace(str(clips.COCKATOO), str(uri)))
        done = harness.call([harness.MILLRACE, "run", pipeline])
        codes = code if isinstance(code, tuple) else (code,)
        self.assertIn(done.returncode, codes, f"{uri}\n{done.stderr}")
        self.assertEqual([line for line in done.stdout.splitlines() if line.startswith("{")], [])
        for word in (pathlib.Path(str(uri)).name, *words):
            self.assertIn(word, done.stderr)

    def file(self, name, data):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def test_missing(self):
        self.refused(self.folder / "none.mp4", 66)

    def test_where_paths_begin(self):
        """A missing file is named with the folder where it was looked for."""
        pipeline = self.write(GOOD.replace(str(clips.COCKATOO), "none.mp4"))
        for arguments, told in (([], f"start in its folder, {self.folder}\n"),
                                (["--input", "none.mp4"], f"starts in the working directory, {os.getcwd()}\n"),
                                (["--input", "/none.mp4"], None)):
            with self.subTest(arguments):
                done = self.millrace("plan", pipeline, *arguments, code=66, says="none.mp4: No such file")
                self.assertIn(told, done.stderr) if told else self.assertNotIn("relative", done.stderr)

    def test_a_glob_without_match(self):
        self.refused(self.folder / "*.jpg", 66)

    def test_a_folder_of_other_files(self):
        (self.folder / "a.txt").write_text("neither a picture nor a video")
        self.refused(self.folder, 65, "holds no images and no videos")

    def test_none_of_the_frames_announced(self):
        picture = harness.PICTURES / "orange.jpg"
        whole = clips.made("still.gif", "still gif", lambda path: clips.ffmpeg("-i", picture, path))
        cut = self.file("cut.gif", whole.read_bytes()[:whole.stat().st_size // 2])
        self.assertEqual(clips.raw_times(cut), [])
        self.refused(cut, 65, "frames that its header announces")

    def test_not_media(self):
        self.refused(self.file("text.mp4", "this is no video\n" * 100), 65)
        self.refused(self.file("noise.mp4", bytes(range(256)) * 100), 65)
        self.refused(self.file("empty.mp4", b""), 65, "is empty")

    def test_head_of_a_file(self):
        self.refused(self.file("head.mp4", clips.COCKATOO.read_bytes()[:2000]), 65)

    def test_empty_folder(self):
        folder = self.folder / "empty"
        folder.mkdir()
        self.refused(folder, (65, 66))

    def test_pictures_of_a_folder_that_cannot_be_read(self):
        """Bad files are counted and named, and cost no others: cut off, empty, not a picture, a dangling link."""
        whole = (harness.PICTURES / "orange.jpg").read_bytes()
        (self.folder / "pictures").mkdir()
        for name, data in (("1.jpg", whole), ("2.jpg", whole[:len(whole) * 6 // 10]), ("3.png", b""),
                           ("4.bmp", b"no picture"), ("6.jpg", whole)):
            self.file(f"pictures/{name}", data)
        (self.folder / "pictures/5.jpg").symlink_to("nowhere")
        (self.folder / "pictures/folder.jpg").mkdir()
        text = GOOD.replace(str(clips.COCKATOO), str(self.folder / "pictures"))
        for damaged, lost in (("drop", "2345"), ("keep", "345")):
            with self.subTest(damaged):
                run = self.run_pipeline(text, "--set", f"stages.decode.damaged={damaged}", "--log", "info")
                self.assert_balanced(run)
                self.assertEqual([int(pathlib.Path(row["file"]).stem) for row in run.rows],
                                 [number for number in range(1, 7) if str(number) not in lost])
                self.assertEqual(run.ledger["dropped"],
                                 [{"stage": "decode", "reason": "corrupt", "frames": len(lost)}])
                for number in lost:
                    self.assertEqual(run.err.count(f"pictures/{number}."), 1, run.err)

    def test_no_permission(self):
        if os.geteuid() == 0:
            self.skipTest("root may read everything")
        path = self.file("secret.mp4", clips.COCKATOO.read_bytes())
        path.chmod(0)
        self.refused(path, 77)

    def test_fifo(self):
        path = self.folder / "pipe.mp4"
        os.mkfifo(path)
        self.refused(path, (65, 66))

    def test_devices(self):
        self.refused("/dev/zero", (65, 66))
        self.refused("/dev/null", (65, 66))

    def test_playlists_and_scripts(self):
        target = clips.codec("h264 4:2:0")
        lists = {
            "list.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nfile://{target}\n#EXT-X-ENDLIST\n",
            "list.ffconcat": f"ffconcat version 1.0\nfile '{target}'\n",
            "list.mp4": f"ffconcat version 1.0\nfile '{target}'\n",
            "list.mpd": "<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011' type='static'>"
                        f"<Period><AdaptationSet><Representation id='1'><BaseURL>{target}</BaseURL>"
                        "</Representation></AdaptationSet></Period></MPD>",
        }
        for name, text in lists.items():
            with self.subTest(name):
                self.refused(self.file(name, text), 65)

    def test_protocols_that_are_not_read(self):
        for uri in ("concat:a.ts|b.ts", "subfile:,,:x.mp4", "ftp://127.0.0.1:9/x.mp4", "file:///x.mp4"):
            with self.subTest(uri):
                pipeline = self.write(GOOD.replace(str(clips.COCKATOO), uri))
                done = harness.call([harness.MILLRACE, "run", pipeline])
                self.assertIn(done.returncode, (65, 66, 69, 78), done.stderr)

    def test_absurd_sizes(self):
        """Files with a few hundred bytes whose pictures claim gigabytes."""
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40000, 40000, 8, 2, 0, 0, 0)) +
               chunk(b"IDAT", zlib.compress(bytes(100000))) + chunk(b"IEND", b""))
        pipeline = self.write(GOOD.replace(str(clips.COCKATOO), str(self.file("bomb.png", png))))
        child = harness.start([harness.MILLRACE, "run", pipeline], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              text=True)
        with child:
            told = child.stderr.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 65, told)
        if "san" not in os.path.basename(os.path.dirname(harness.MILLRACE)):
            self.assertLess(usage.ru_maxrss, 512 << 10)

    def test_one_failure_leaves_the_others_alone(self):
        """One source fails while others run; the exit code is that source's."""
        pipeline = GOOD.replace("input: clip", "input: sources.*")
        inputs = [clips.codec("h264 4:2:0"), clips.rotten(), clips.codec("vp9")]
        run = self.run_pipeline(pipeline, *(word for path in inputs for word in ("--input", path)), code=65)
        self.assert_balanced(run)
        self.assertIn("rotten", run.err)
        counts = {source["id"]: len(run.of(source["id"])) for source in run.summary["sources"]}
        self.assertEqual(sorted(counts.values()), [0, 24, 24], counts)


class Models(harness.Case):
    def refused(self, code, *words, environment=None, output="-", **changes):
        options = {"model": harness.MODELS / "lite0-features.onnx", "weights": harness.MODELS / "lite0-head.npy",
                   "labels": harness.MODELS / "imagenet.txt", "size": "224x224", "tensor": "features", **changes}
        text = (pipeline(dict(clip='uri: "%s"'), decode="", preprocess="size: %s, mean: 127, std: 128",
                         features="model: %s, tensor: %s", classify="weights: %s, labels: %s",
                         results="type: jsonl, path: '%s'") %
                (clips.COCKATOO, options["size"], options["model"], options["tensor"], options["weights"],
                 options["labels"], output))
        done = harness.call([harness.MILLRACE, "run", self.write(text)], environment=environment)
        self.assertIn(done.returncode, code if isinstance(code, tuple) else (code,), done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertRegex(done.stderr, word)

    def test_models(self):
        harness.need_models()
        garbage = self.folder / "garbage.onnx"
        garbage.write_bytes(b"this is no network")
        few = self.folder / "few.txt"
        few.write_text("one\ntwo\n")
        self.refused(66, "none\\.onnx", model=self.folder / "none.onnx")
        self.refused((65, 78), "garbage\\.onnx", model=garbage)
        self.refused(78, "no-such-tensor", "lite0-features\\.onnx", tensor="no-such-tensor")
        self.refused(78, "lite0-features\\.onnx", "3x200x200|3, *200, *200", "3x224x224|3, *224, *224",
                     size="200x200")
        self.refused(78, "few\\.txt", "\\b2\\b", "1000", labels=few)
        self.refused((65, 78), "imagenet\\.txt", weights=harness.MODELS / "imagenet.txt")

    def test_what_only_the_runtime_finds(self):
        """The file shows inputs and outputs. Whether the network runs shows only when it is loaded, while frames are
        already decoded. An earlier run's output is still there."""
        harness.need_models()
        strange = self.folder / "strange.onnx"
        network = (harness.MODELS / "lite0-features.onnx").read_bytes()
        strange.write_bytes(network.replace(b"\x04Conv", b"\x04Xonv"))
        results = self.folder / "results.jsonl"
        results.write_text("kept")
        self.refused(65, "pipeline\\.yaml:8:3: features: .*strange\\.onnx", "Xonv", model=strange, output=results)
        self.refused(69, "pipeline\\.yaml:8:3: features: .*/nowhere", output=results,
                     environment={"MILLRACE_ONNXRUNTIME": "/nowhere"})
        self.assertEqual(results.read_text(), "kept")


class Outputs(harness.Case):
    def test_no_such_folder(self):
        """Must be found before anything starts, with the folder that a relative path begins in; `check` looks nothing
        up. A stage makes the folder that it writes to, but none above it."""
        other = self.folder / "other"
        other.mkdir()
        (other / "shut").mkdir()
        (other / "shut").chmod(0o500)
        cases = [("none/more/x.jsonl", 74, f'no folder "{self.folder}/none"', f"start in its folder, {self.folder};"),
                 ("~/x.jsonl", 74, 'no folder "', "${HOME}/x.jsonl"), ("other", 74, "it is a folder"),
                 ("$HOME/x.jsonl", 74, 'no folder "', "${HOME}/x.jsonl"), ("~me/x.jsonl", 74, 'no folder "'),
                 ("t{time}/x-{number}.jsonl", 74, "/t{time}", "only a file's name can have {time};"),
                 ("none/{number}/x.jsonl", 74, 'no folder "', "only a file's name can have {number};"),
                 ("pipeline.yaml/x.jsonl", 74, "Not a directory"), ("none/", 74, 'no folder "')]
        cases += [("other/shut/x.jsonl", 77, "Permission denied")] if os.geteuid() else []
        for path, code, *words in cases:
            for kind in ("jsonl", "csv", "images") if path != "other" else ("jsonl", "csv"):
                if kind == "images" and path == "none/":
                    continue
                with self.subTest(path=path, kind=kind):
                    named = path.replace("/more", "") if kind == "images" else path
                    text = GOOD.replace("type: jsonl", f"type: {kind}").replace('"-"', f'"{named}"')
                    pipeline = self.write(text)
                    self.millrace("plan", pipeline, code=code,
                                  says=("pipeline.yaml:8:", "stages.results.path: cannot write", *words))
                    self.millrace("run", pipeline, code=code)
                    self.millrace("check", pipeline)
        self.millrace("run", self.write(GOOD), "--output", "none/more/x.jsonl", code=74,
                      says=f"starts in the working directory, {other};", cwd=other)
        for path, says in (("~", "${HOME}"), ("$OUT", "${OUT}"),
                           ("of-{source}/", "only a file's name can have {source};")):
            pipeline = self.write(GOOD.replace("type: jsonl", "type: images").replace('"-"', f'"{path}"'))
            self.millrace("run", pipeline, code=74, says=says)
        self.assertEqual(sorted(one.name for one in self.folder.iterdir()), ["other", "pipeline.yaml"])

    def test_a_folder_is_made(self):
        """By every stage that writes files, whichever comes first; two may share it. A plan makes nothing."""
        pipeline = self.write("""\
version: 1
pipeline: p
sources: {s: {uri: "lavfi:testsrc=duration=1:rate=2"}}
stages:
  decode: {input: s}
  lines:  {type: jsonl, input: decode, path: new/lines.jsonl}
  stills: {type: images, input: decode, path: new, overwrite: true}
  cells:  {type: csv, input: decode, path: "cells/{number}.csv"}
  rows:   {type: sqlite, input: decode, path: rows/rows.db}
""")
        self.millrace("plan", pipeline)
        self.assertEqual([one.name for one in self.folder.iterdir()], ["pipeline.yaml"])
        for _ in range(2):
            self.millrace("run", pipeline, "--quiet")
            self.assertEqual(len((self.folder / "new" / "lines.jsonl").read_text().splitlines()), 2)
            self.assertEqual(len(list((self.folder / "new").glob("*.png"))), 2)
            self.assertTrue(list((self.folder / "cells").glob("*.csv")) and (self.folder / "rows" / "rows.db").exists())
