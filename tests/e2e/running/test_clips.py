"""Every codec, container and oddity: the frames and times that ffprobe finds, with a balanced ledger."""
import clips
import harness
from harness import pipeline

# ffprobe prints six digits, both for the time and for the start subtracted from it.
TIME_TOLERANCE = 2e-6


def decoded(uri, options="", decode=""):
    return pipeline(dict(clip=f'uri: "{uri}"{options}'), name="frames", decode=decode, results='type: jsonl, path: "-"')


class Clips(harness.Case):
    def frames(self, uri, code=0, options="", decode=""):
        run = self.run_pipeline(decoded(uri=uri, options=options, decode=decode), code=code)
        self.assert_balanced(run)
        self.assert_in_order(run.rows)
        return run

    def assert_times(self, rows, expected):
        self.assertEqual(len(rows), len(expected))
        for row, time in zip(rows, expected):
            self.assertAlmostEqual(row["pts"], time, delta=TIME_TOLERANCE)

    def assert_as_probed(self, path):
        run = self.frames(path)
        self.assert_times(run.rows, clips.probed(path))
        self.assertEqual(run.ledger["delivered"], len(run.rows))

    def test_codecs(self):
        for name in clips.CODECS:
            with self.subTest(name):
                self.assert_as_probed(clips.codec(name))

    def test_the_samples_themselves(self):
        for path in (clips.COCKATOO, harness.SAMPLES / "realshort.mp4"):
            with self.subTest(path.name):
                self.assert_as_probed(path)

    def test_one_frame(self):
        self.assert_as_probed(clips.one_frame())

    def test_pictures_in_two_fields(self):
        """One frame per picture, as in ffmpeg; the second field's packet is accounted for separately."""
        for container in ("mp4", "mkv", "ts"):
            with self.subTest(container):
                path = clips.in_fields(container)
                run = self.frames(path)
                self.assert_times(run.rows, clips.probed(path))
                self.assertEqual([row["seq"] for row in run.rows], list(range(10)))
                self.assertEqual(run.ledger["in"], 20)
                self.assertEqual(run.ledger["absorbed"],
                                 [{"stage": "decode", "reason": "second field", "frames": 10}])
                chosen = self.frames(path, options=", every: 3")
                self.assert_times(chosen.rows, clips.probed(path)[::3])

    def test_variable_frame_rate(self):
        path = clips.variable_rate()
        gaps = {round(b - a, 3) for a, b in zip(clips.probed(path), clips.probed(path)[1:])}
        self.assertGreater(len(gaps), 1, "the clip's rate should vary")
        self.assert_as_probed(path)

    def test_times_that_do_not_start_at_zero(self):
        self.assertGreater(clips.raw_times(clips.transport_stream())[0], 1)
        self.assert_as_probed(clips.transport_stream())

    def test_rotation_does_not_change_the_count(self):
        for degrees in (90, 180, 270):
            with self.subTest(degrees):
                self.assert_as_probed(clips.rotated(degrees))

    def test_a_cover_picture_is_no_video(self):
        self.assert_as_probed(clips.video_with_cover())

    def test_the_largest_of_two_videos(self):
        for container in ("mkv", "mp4", "ts", "thumb.mp4"):
            with self.subTest(container):
                path = clips.two_videos(container)
                self.assertEqual(len(self.frames(path).rows), 24)
                self.assertEqual(len(self.frames(path, options=", stream: 0").rows), 1 if "thumb" in container else 12)
        self.assertEqual(len(self.frames(clips.two_videos("mkv"), options=", max_pixels: 20000").rows), 12)

    def test_an_encrypted_video_is_named(self):
        run = self.run_pipeline(decoded(uri=clips.encrypted()), code=65)
        self.assertIn("its video is encrypted, which is not supported", run.err)

    def test_sound_alone_is_refused(self):
        for path in (clips.audio_only(), clips.cover_art()):
            with self.subTest(path.name):
                run = self.run_pipeline(decoded(uri=path), code=65)
                self.assertIn("video", run.err)
                self.assertIn(path.name, run.err)

    def test_size_that_changes_in_mid_stream(self):
        self.assert_as_probed(clips.changing_size())

    def test_folders_of_pictures(self):
        for kind, mixed in (("png", False), ("jpg", False), ("jpg", True), ("png", True)):
            folder = clips.pictures(kind, mixed)
            for uri in (f"{folder}/", f"{folder}/*.{kind}"):
                with self.subTest(uri):
                    self.assertEqual(len(self.frames(uri).rows), 6)

    def test_one_picture(self):
        self.assertEqual(len(self.frames(harness.PICTURES / "orange.jpg").rows), 1)

    def test_truncated(self):
        """Readable frames are kept: a file that ends in mid-stream does not lose the first half."""
        for container in ("mp4", "mkv", "ts"):
            with self.subTest(container):
                path = clips.truncated(container)
                run = self.run_pipeline(decoded(uri=path), code=None)
                self.assertIn(run.code, (0, 65))
                self.assert_balanced(run)
                probed = clips.probed(path)
                self.assertGreaterEqual(len(run.rows), len(probed) - 2)
                self.assertLessEqual(len(run.rows), len(probed) + 1)

    def test_damaged_in_the_middle(self):
        """Damage may only cost the frames it hits: the run continues to the end and counts the loss."""
        for container in ("mp4", "mkv", "ts"):
            with self.subTest(container):
                path = clips.damaged(container)
                run = self.frames(path)
                last = clips.probed(clips.longer(container))[-1]
                self.assertGreaterEqual(len(run.rows), len(clips.probed(path)) * 0.75)
                self.assertAlmostEqual(run.rows[-1]["pts"], last, delta=0.2)

    def test_damage_is_counted(self):
        run = self.frames(clips.damaged("mp4"))
        corrupt = [line for line in run.ledger["dropped"] if line["reason"] == "corrupt"]
        self.assertEqual([line["stage"] for line in corrupt], ["decode"], run.ledger)
        self.assertGreater(corrupt[0]["frames"], 0)

    def test_the_same_is_damaged_whatever_threads_decode(self):
        for container in ("mp4", "ts"):
            alone = self.frames(clips.damaged(container), decode=", threads: 1")
            for threads in (2, 5, 16):
                with self.subTest(container, threads=threads):
                    run = self.frames(clips.damaged(container), decode=f", threads: {threads}")
                    self.assertEqual(run.rows, alone.rows)
                    self.assertEqual(run.ledger, alone.ledger)

    def test_every_third_frame(self):
        path = clips.codec("h264 4:2:0")
        run = self.frames(path, options=", every: 3")
        self.assert_times(run.rows, clips.probed(path)[::3])

    def test_start_and_duration(self):
        path = clips.longer("mp4")
        run = self.frames(path, options=", start: 1s, duration: 1500ms")
        self.assert_times(run.rows, [time for time in clips.probed(path) if 1.0 <= time < 2.5])

    def test_a_start_after_the_end(self):
        """It is told, since nothing else would say why there are no rows."""
        run = self.frames(clips.longer("mp4"), options=", start: 1h")
        self.assertEqual(run.rows, [])
        self.assertRegex(run.err, r"warning: sources\.\w+: it starts at 3600 s, and .*\.mp4 lasts [0-9.]+ s")

    def test_two_loops(self):
        path = clips.codec("h264 4:2:0")
        run = self.frames(path, options=", loop: 2")
        self.assertEqual(len(run.rows), 2 * len(clips.probed(path)))

    def test_lavfi(self):
        run = self.frames("lavfi:testsrc=duration=1:size=160x120:rate=25")
        self.assert_times(run.rows, [frame / 25 for frame in range(25)])

    def test_key_frames_only(self):
        path = clips.longer("mp4")
        run = self.frames(path, decode=", skip: nonkey")
        self.assert_times(run.rows, clips.probed(path)[::12])
