"""video: a really full disk, and file names: each file in the right folder, and none replacing another."""
import os
import shutil
import subprocess

import clips
from harness import MILLRACE, TIMEOUT, call, pipeline, start
from test_full import Mounted
from test_video import Videos, copy, made, frames, hashes


class Names(Videos):
    """Files are in the right folder, and none replaces another."""

    def two(self, first, second, folder=None, code=0, verb="run", source=""):
        text = copy(uri=clips.codec("h264 4:2:0"), path=self.path, source=source, video=first)
        return self.run_pipeline(f'{text}  other: {{type: video, input: cam, path: "{folder or self.path}", '
                                 f"{second}}}\n",
                                 rows=False, code=code, verb=verb)

    def test_two_stages_in_one_folder(self):
        run = self.two("name: '{source}.mp4'", "name: '{source}.mp4'", f"{self.folder}/../{self.folder.name}/out/",
                       code=78, verb="check")
        self.assertIn("is already written by", run.err)
        # Only creating them shows that these are the same; when paced, the first is still open then.
        run = self.two("name: '{source}.mp4', overwrite: true", "name: 'cam.mp4', overwrite: true", code=74,
                       source=", realtime: true")
        self.assertIn("is being written by another stage", run.err)
        shutil.rmtree(self.path)
        self.two("name: '{source}-{number}.mp4'", "name: 'cam-{number}.mp4', keep_for: 1ms")
        for file in self.files():
            self.assertEqual(hashes(file), hashes(clips.codec("h264 4:2:0")))

    def test_files_that_exist(self):
        """A file that would be replaced is found before the start; other names are not refused."""
        self.copied(clips.codec("h264 4:2:0"))
        held = (self.path / "cam.mp4").read_bytes()
        for name in ("{source}.mp4", "cam.mp4"):
            for verb in ("plan", "run"):
                run = self.copied(clips.codec("h264 4:2:0"), f"name: '{name}'", code=78, verb=verb)
                self.assertIn(f"error: stages.video: {self.path}/cam.mp4 exists already", run.err)
        self.assertEqual((self.path / "cam.mp4").read_bytes(), held)
        for options in ("name: '{source}.mp4', overwrite: true", "name: '{source}-{number}.mp4'", "name: other.mp4"):
            self.copied(clips.codec("h264 4:2:0"), options, verb="plan")

    def test_names_that_leave_the_folder(self):
        for name in ("../{source}.mp4", "a/{source}.mp4", "/tmp/{source}.mp4"):
            run = self.copied(clips.codec("h264 4:2:0"), f"name: '{name}'", code=78, verb="check")
            self.assertIn("and no slash", run.err)

    def test_clips_of_unusual_names(self):
        folder = self.folder / "clips"
        folder.mkdir()
        for name in ("a..b", "-rf", 'a "b"\n\u00e9', "{number}", "%s"):
            shutil.copy(clips.codec("h264 4:2:0"), folder / f"{name}.mp4")
        self.copied(folder)
        self.assertEqual(len(self.files()), 5)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.is_dir()), ["clips", "out"])
        for file in self.files():
            self.assertRegex(file.name, r"^[-\w]+\.mp4$")
            self.assertEqual(hashes(file), hashes(clips.codec("h264 4:2:0")))


class Kept(Videos):
    """Retention may only remove files from the same stage and source, and only those may affect the numbers."""

    def wrote(self, name, sources, **stages):
        clip = clips.codec("h264 4:2:0")
        path = self.write(pipeline({id: f"uri: '{clip}'" for id in sources}, name=name, **stages))
        done = self.millrace("run", path, "--log", "info")
        return done.stderr

    def names(self):
        return {file.name for file in self.path.iterdir() if file.suffix != ".m3u8"}

    def test_files_of_other_sources_stages_and_pipelines_stay(self):
        for pattern, mine, theirs in (("{source}.mp4", "door", "door-2"), ("{number}-{source}.mp4", "door", "door-2"),
                                      ("{time}-{source}.mp4", "door", "door-2"),
                                      ("{source}-{number}.mp4", "cam", "cam-123456"),
                                      ("{source}.m3u8", "cam", "cam-123456")):
            with self.subTest(pattern):
                name = f"name: '{pattern}'"
                few = f"type: video, path: {self.path}, {name}, keep_bytes: 1"
                # Files of another pipeline, and of another stage that keeps everything.
                self.wrote("others", [theirs], all=f"type: video, path: {self.path}, {name}")
                other = self.names()
                self.assertTrue(other)
                for _ in range(2):
                    told = self.wrote("own", [mine], few=few)
                    if pattern == "{source}.mp4":
                        (self.path / "door.mp4").rename(self.path / "door-3.mp4")
                    elif pattern != "{time}-{source}.mp4":
                        self.assertFalse([one for one in self.names() if "123457" in one])
                    self.assertLessEqual(other, self.names(), told)
                # Without marks the pipeline's ids decide.
                for file in self.path.iterdir():
                    if file.name not in other:
                        file.unlink()
                    elif "user.millrace.source" in os.listxattr(file):
                        os.removexattr(file, "user.millrace.source")
                self.wrote("own", [mine, theirs], few=f"{few}, input: {mine}", rest=f'type: "null", input: {theirs}')
                self.assertLessEqual(other, self.names())
                shutil.rmtree(self.path)

    def test_own_files_of_earlier_runs_go(self):
        """Copied files, which have no mark, go too; the log says which."""
        clip, few = clips.codec("h264 4:2:0"), f"type: video, path: {self.path}, name: '{{source}}-{{number}}.mp4'"
        self.path.mkdir()
        shutil.copy(clip, self.path / "cam-000004.mp4")
        self.wrote("own", ["cam"], few=few)
        self.assertEqual(self.names(), {"cam-000004.mp4", "cam-000005.mp4"})
        shutil.copy(clip, self.path / "cam-000007-2.mp4")  # from cam, or from a source cam-000007
        told = self.wrote("own", ["cam"], few=few + ", keep_bytes: 1")
        self.assertEqual(self.names(), {"cam-000006.mp4", "cam-000007-2.mp4"})
        for number in (4, 5):
            self.assertIn(f"info: few: removed {self.path}/cam-00000{number}.mp4\n", told)
        self.assertIn("cam-000007-2.mp4 has no mark, and may be of another source: it stays", told)

    def test_digits_that_run_together(self):
        run = self.copied(clips.codec("h264 4:2:0"), "name: '{source}{number}.mp4'", code=78, verb="check")
        self.assertIn("write a sign that is no digit between them, such as {source}-{number}.mp4", run.err)


class FullDisk(Videos):
    def started(self, video):
        path = self.write(made(5, "keyframes: 500ms", self.path, video))
        self.told = self.folder / "told"
        with open(self.told, "w") as file:
            run = start([MILLRACE, "run", path], stdout=subprocess.DEVNULL, stderr=file)
        self.addCleanup(run.kill)
        return run

    def until_it_waits(self, run, files=0):
        self.wait_until(lambda: "waiting until there is room" in self.told.read_text() and
                        len(self.files("*")) >= files, self.told, run)

    def count(self, pattern):
        return sum(frames(file)[0] for file in self.files(pattern))

    def test_segments_and_playlists_wait(self):
        disk = Mounted(self)
        self.path = disk.folder / "out"
        for video, pattern, most in (("name: '{source}-{number}.mp4', segment: 900ms", "*.mp4", 150),
                                     ("name: '{source}.m3u8', segment: 1s, playlist: 0", "*.m3u8", 150),
                                     ("name: '{source}.m3u8', segment: 500ms, playlist: 2", "*.m3u8", 30)):
            with self.subTest(video):
                disk.fill()
                run = self.started(video + ", on_full: wait")
                self.until_it_waits(run)
                disk.empty()
                self.assertEqual(run.wait(TIMEOUT), 0, self.told.read_text())
                self.assertEqual(self.count(pattern), most)
                self.assertNotIn("LOST", self.told.read_text())
                if pattern == "*.m3u8":
                    self.assertIn("#EXT-X-ENDLIST", self.files(pattern)[0].read_text())
                self.assertEqual(self.files("*.part"), [])
                shutil.rmtree(self.path)
        disk.fill()
        run = self.started("name: '{source}.m3u8', segment: 500ms, on_full: fail")
        self.assertEqual(run.wait(TIMEOUT), 74)
        self.assertIn("with on_full: wait the run would wait for room", self.told.read_text())
        shutil.rmtree(self.path)
        disk.fill()
        run = self.started("name: '{source}-{number}.mp4', segment: 900ms, on_full: wait")
        self.until_it_waits(run)
        run.terminate()
        self.assertEqual(run.wait(TIMEOUT), 0)
        self.assertIn("No space left on device; the run has ended", self.told.read_text())
        self.assertNotIn("would wait", self.told.read_text())

    def test_a_file_that_cannot_be_made_is_waited_for(self):
        """A file system that has room, but only for a few files."""
        disk = Mounted(self)
        self.assertEqual(call(["mount", "-o", "remount,nr_inodes=6", disk.folder]).returncode, 0)
        for video, pattern in (("name: '{source}-{number}.mp4', segment: 900ms", "*.mp4"),
                               ("name: '{source}.m3u8', segment: 500ms, playlist: 0", "*.m3u8")):
            with self.subTest(video):
                self.path = disk.folder / pattern[2:]
                run = self.started(video + ", on_full: wait")
                self.until_it_waits(run, 2)
                self.assertEqual(call(["mount", "-o", "remount,nr_inodes=100", disk.folder]).returncode, 0)
                self.assertEqual(run.wait(TIMEOUT), 0, self.told.read_text())
                self.assertEqual(self.count(pattern), 150)
                shutil.rmtree(self.path)
                self.assertEqual(call(["mount", "-o", "remount,nr_inodes=6", disk.folder]).returncode, 0)
