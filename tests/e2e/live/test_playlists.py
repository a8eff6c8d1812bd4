"""HLS: recorded and live playlists; each test decides what is served at any moment."""
import gzip
import pathlib
import subprocess
import urllib.parse

import streams
from streams import SOON, Live

AT_ONCE = 4


class Scripted(streams.Web):
    """Serves files, and what `texts` has: {path: text, bytes, or a function that makes one}."""
    texts = {}

    def do_GET(self):
        self.path = urllib.parse.unquote(self.path.partition("?")[0])
        text = self.texts.get(self.path)
        if self.path == "/sweet.m3u8":
            return self.answer(200, text.encode(), Set_Cookie="key=1234; Path=/")
        if self.path == "/sweet.ts" and self.headers.get("Cookie") != "key=1234":
            return self.answer(403)
        if self.path.endswith("short.ts"):
            self.send_response(200)
            self.send_header("Content-Length", "99999")
            self.end_headers()
            return self.wfile.write((pathlib.Path(self.folder) / "a1.ts").read_bytes()[:3000])
        if self.path == "/rangeless.ts":
            return self.answer(200, (pathlib.Path(self.folder) / "range.ts").read_bytes())
        if text is None:
            return super().do_GET()
        self.asked.append((self.path, self.headers.get("Authorization")))
        text = text() if callable(text) else text
        if text is None:
            return self.answer(404)
        if isinstance(text, bytes):
            return self.answer(200, text, Content_Encoding="gzip")
        return self.answer(200, text.encode())


def listed(segments, first=0, end=False, head=""):
    """A playlist with one-second segments. A line that begins with "#" is a tag."""
    lines = [f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:{first}\n{head}"]
    lines += [f"{line}\n" if line.startswith("#") else f"#EXTINF:1.0,\n{line}\n" for line in segments]
    return "".join(lines) + ("#EXT-X-ENDLIST\n" if end else "")


class Playlists(Live):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        streams.need("ffmpeg")

    def make(self, name, *options, size="96x64", seconds=5, rate=10, end="ts"):
        """Makes one-second segments NAME0.ts and so on, with the playlist NAME.m3u8. Returns the segments' names."""
        subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}", "-t",
                        str(seconds), "-pix_fmt", "yuv420p", "-c:v", "libx264", "-g", str(rate), "-sc_threshold", "0",
                        "-bf", "2", "-hls_time", "1", "-hls_list_size", "0", *options,
                        str(self.folder / f"{name}.m3u8")], check=True, stdin=subprocess.DEVNULL)
        return [f"{name}{i}.{end}" for i in range(seconds)]

    def serve(self, **texts):
        self.texts = {f"/{name}.m3u8": text for name, text in texts.items()}
        self.url, self.asked = streams.web(self, self.folder, base=Scripted, texts=self.texts)

    def read(self, names, options="", **given):
        """Reads these recordings at once, to the end."""
        child = self.begin({name: f"uri: '{self.url}/{name}.m3u8'{options}" for name in names}, **given)
        return self.summary_of(child)

    def assert_continue(self, name, count, step=0.1):
        times = [row["pts"] for row in self.rows(name)]
        self.assertEqual(len(times), count, name)
        for before, after in zip(times, times[1:]):
            self.assertAlmostEqual(after - before, step, places=3, msg=name)

    def test_recordings(self):
        """Recordings joined from two whose clocks restart, as transport streams and MP4 fragments, with two sizes and
        two headers; one byte range each; compressed by the server; names with a space, an accent and a query; a server
        whose segments need a cookie; and 300 segments, which two demuxers read."""
        fmp4 = ["-hls_segment_type", "fmp4", "-hls_fmp4_init_filename"]
        cut = "#EXT-X-DISCONTINUITY"
        a, b = self.make("a"), self.make("b", size="160x96")
        one = self.make("one", *fmp4, "one.mp4", end="m4s")
        two = self.make("two", *fmp4, "two.mp4", size="160x96", end="m4s")
        self.make("range", "-hls_flags", "single_file")
        self.make("many", *fmp4, "many.mp4", "-g", "1", "-hls_time", "0.1", seconds=30, end="m4s")
        for name in ("a é", "sweet"):
            (self.folder / f"{name}.ts").write_bytes((self.folder / a[0]).read_bytes())
        header = '#EXT-X-MAP:URI="{}.mp4"'
        self.serve(joined=listed([*a, cut, *b], end=True), same=listed([*a, cut, *a, cut, *a], end=True),
                   packed=lambda: gzip.compress(listed(a, end=True).encode()),
                   maps=listed([header.format("one"), *one, cut, header.format("two"), *two], end=True),
                   named=listed(["a é.ts?x=1#y", *a[1:]], end=True), type=listed(a, head="#EXT-X-PLAYLIST-TYPE:VOD\n"),
                   sweet=listed(["sweet.ts", *a[1:]], end=True))
        counts = {"joined": 100, "same": 150, "packed": 50, "maps": 100, "named": 50, "type": 50, "range": 50,
                  "sweet": 50, "many": 300}
        sources = self.read(counts, results="}\n  sizes: {type: images, input: decode, path: pictures")
        for name, count in counts.items():
            self.assert_continue(name, count)
            self.assertEqual(self.rows(name)[0]["pts"], 0)
            self.assertEqual(sources[name]["connection"]["state"], "ended")
            self.assertEqual(sources[name]["dropped"], [])
        self.assertEqual([path for path, _ in self.asked].count("/many.mp4"), 2)
        for name in ("joined", "maps"):
            for number, width in ((49, 96), (50, 160)):
                picture = (self.folder / f"pictures/{name}-{number:06}.png").read_bytes()
                self.assertEqual(int.from_bytes(picture[16:20], "big"), width, name)

    def test_recordings_that_are_not_whole(self):
        """A segment is missing, empty, a text page or too short, or a server supports no ranges: the source fails
        with a reason, and no picture may be wrong."""
        a = self.make("a")
        (self.folder / "empty.ts").touch()
        (self.folder / "page.ts").write_text("<html>FAILED TO CONNECT</html>")
        self.make("range", "-hls_flags", "single_file")
        ranges = (self.folder / "range.m3u8").read_text().replace("range.ts", "rangeless.ts")
        whys = {"missing": "404", "empty": "its segment 2 cannot be read: it is empty", "page": "it is a page of text"}
        self.serve(**{name: listed([*a[:2], f"{name}.ts", *a[3:]], end=True) for name in whys}, rangeless=ranges,
                   short=listed([a[0], "short.ts", *a[2:]], end=True))
        child = self.begin({name: f"uri: '{self.url}/{name}.m3u8'" for name in (*whys, "short")})
        sources = self.summary_of(child, 74)
        for name, why in whys.items():
            self.assertIn(why, sources[name]["error"])
            self.assertEqual(len(self.rows(name)), 20)
        self.assertIn("error", sources["short"])
        self.assertLess(len(self.rows("short")), 20)
        child = self.begin({"rangeless": f"uri: '{self.url}/rangeless.m3u8'"})
        self.assertIn("does not give ranges of bytes", self.summary_of(child, 69)["rangeless"]["error"])
        self.assertLessEqual(len(self.rows("rangeless")), 10)

    def encrypt(self, names, key, first, iv=None):
        """Encrypts files with the file number as IV, which no playlist states, unless it is given; returns the files'
        names."""
        for number, name in enumerate(names, first):
            subprocess.run(["openssl", "enc", "-aes-128-cbc", "-K", key.hex(), "-iv", iv or f"{number:032x}", "-in",
                            self.folder / name, "-out", self.folder / f"{first}-{name}"], check=True)
        return [f"{first}-{name}" for name in names]

    def test_encrypted(self):
        """AES-128, with and without an IV, and also with an encrypted fragment header."""
        streams.need("openssl")
        key, tag = bytes(range(16)), '#EXT-X-KEY:METHOD=AES-128,URI="key.bin"'
        (self.folder / "key.bin").write_bytes(key)
        (self.folder / "key.txt").write_text(
            f"key.bin\n{self.folder / 'key.bin'}\n00112233445566778899aabbccddeeff\n")
        self.make("iv", "-hls_key_info_file", self.folder / "key.txt")
        fmp4 = ("-hls_segment_type", "fmp4", "-hls_fmp4_init_filename", "one.mp4")
        a, b, one = self.make("a"), self.make("b"), self.make("one", *fmp4, end="m4s")
        (self.folder / "short.bin").write_bytes(key[1:])
        text = listed([tag, *self.encrypt(a, key, 7)], 7, end=True)
        for name in (*a, *b):  # without the service table, the program table is in the bytes that an IV changes
            path = self.folder / name
            path.write_bytes(path.read_bytes()[188:])
        old, new = (listed([tag, *self.encrypt(parts, key, 0)]) for parts in (a, b))
        now = [old]
        header, *parts = self.encrypt(["one.mp4", *one], key, 1, key[::-1].hex())
        given = f"{tag},IV=0x{key[::-1].hex()}"
        self.serve(plain=text, parts=listed([given, f'#EXT-X-MAP:URI="{header}"', *parts], end=True),
                   live=lambda: now[0], short=text.replace("key.bin", "short.bin"),
                   sample=text.replace("AES-128", "SAMPLE-AES"),
                   drm=text.replace("AES-128,", 'AES-128,KEYFORMAT="com.apple.streamingkeydelivery",'))
        self.read(("plain", "iv", "parts"))
        for name in ("plain", "iv", "parts"):
            self.assert_continue(name, 50)
        self.assertEqual(sum(path == "/key.bin" for path, _ in self.asked), 3)
        child = self.begin({name: f"uri: '{self.url}/{name}.m3u8', {SOON}" for name in ("short", "sample", "drm")})
        for name, words in (("short", "does not have 16 bytes"), ("sample", "only AES-128 is"),
                            ("drm", "a system that is not supported")):
            self.assertIn(words, self.await_state(child, name, "away")["why"])
        self.finish(child)
        # An encoder that restarts at number 0, from which IVs are made.
        child = self.begin({"live": f"uri: '{self.url}/live.m3u8', stall: 20s"})
        self.wait_until(lambda: len(self.rows()) > 20, child)
        now[0] = new
        self.wait_until(lambda: len(self.rows()) > 50, child)
        self.finish(child)
        self.assert_times_go_on(self.rows())

    def test_variants(self):
        """The variant with the most pixels that max_pixels allows, wherever it is listed; or the one with a number."""
        self.make("low")
        self.make("high", size="160x96")
        self.make("rich", "-b:v", "900k", size="160x96")
        low, high, rich = (f"#EXT-X-STREAM-INF:{'RESOLUTION=' + size + ',' if size else ''}BANDWIDTH={rate},"
                           f'CODECS="avc1.42c00a,mp4a.40.2",AUDIO="a"\n{name}.m3u8\n'
                           for name, size, rate in (("low", "96x64", 900000), ("high", "160x96", 100000),
                                                    ("rich", "160x96", 500000)))
        sound = '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="x",URI="none.m3u8"\n'
        sound += '#EXT-X-STREAM-INF:BANDWIDTH=9000000,CODECS="mp4a.40.2"\nnone.m3u8\n'
        self.serve(up=f"#EXTM3U\n{sound}{low}{high}{rich}", down=f"#EXTM3U\n{rich}{high}{low}",
                   bare="#EXTM3U\n" + (low + rich).replace("RESOLUTION=96x64,", "").replace("RESOLUTION=160x96,", ""),
                   loud=f"#EXTM3U\n{sound}")
        wanted = {"up": ("up", "", "rich"), "down": ("down", "", "rich"), "first": ("down", ", stream: 1", "high"),
                  "small": ("up", ", max_pixels: 10000", "low"), "bare": ("bare", "", "low")}
        child = self.begin({name: f"uri: '{self.url}/{of}.m3u8'{options}" for name, (of, options, _) in wanted.items()})
        self.summary_of(child)
        for name in wanted:
            self.assertEqual(len(self.rows(name)), 50)
        asked = [path[1:-4] for path, _ in self.asked if path.endswith("0.ts")]
        self.assertEqual(sorted(asked), sorted(of for _, _, of in wanted.values()))
        child = self.begin({"large": f"uri: '{self.url}/up.m3u8', max_pixels: 1000",
                            "loud": f"uri: '{self.url}/loud.m3u8'",
                            "none": f"uri: '{self.url}/up.m3u8', stream: 9"})
        for name, words in (("large", "larger than max_pixels (1000) allows"), ("loud", "of sound only"),
                            ("none", "stream 9 is not there; its playlist has 4 variants")):
            self.assertIn(words, self.await_state(child, name, "away")["why"])
        self.finish(child)

    def test_an_encoder_that_dies(self):
        """The web server still has the last playlist. Nothing may be given twice, and the source stays away until a new
        segment appears: from the same encoder, from another that restarts at 0, or from one that reuses the names."""
        a, b = self.make("a", seconds=9), self.make("b")
        now = {"text": listed(a[:5])}
        self.serve(cam=lambda: now["text"])
        child = self.begin({"cam": f"uri: '{self.url}/cam.m3u8', stall: 300ms, {SOON}"})
        self.wait_until(lambda: "no picture came for 1.3 s" in self.errors.read_text(), child)
        away = self.await_state(child, "cam", "away")
        self.assertIn("its playlist has no new segment", away["why"])
        self.wait_until(lambda: self.ask()["cam"]["tries"] > away["tries"] + 5, child)
        self.assertEqual(self.ask()["cam"]["connections"], 1)
        given = len(self.rows())
        self.assertTrue(25 <= given <= 30, given)  # three segments; the last one's end waits for the next
        self.assertEqual([path for path, _ in self.asked if path.endswith(".ts")], ["/a2.ts", "/a3.ts", "/a4.ts"])
        steps = ((listed(a[3:7], 3), 1), (listed(b[:2]), 2), (listed(["#EXT-X-DISCONTINUITY", b[0]], 90), 3),
                 (listed(b[:1]), 4))
        for text, epoch in steps:
            now["text"] = text
            self.wait_until(lambda: any(row.get("epoch") == epoch for row in self.rows()), child)
            self.await_state(child, "cam", "away")
        self.finish(child)
        asked = [path[1:] for path, _ in self.asked if path.endswith(".ts")]
        self.assertEqual(asked[3:], [*a[5:7], *b[:2], b[0], b[0]])
        self.assert_times_go_on(self.rows())

    def test_live(self):
        """A live stream survives server faults in one connection: a missing segment, a playlist that is missing,
        empty or older than the one before, a restarted sequence, and skipped segments."""
        a, b = self.make("a", seconds=9), self.make("b")
        versions = [listed(a[:2]), listed([*a[:2], "none.ts", a[3]]), None, "", listed(a[:2]), listed(a[:5]),
                    listed(["#EXT-X-GAP", *a[5:7]], 5), listed(b[:2]), listed(b[:3]),
                    listed(["#EXT-X-DISCONTINUITY", *a[:4]], 50)]
        looks = []

        def version():
            looks.append(1)
            return versions[min(len(looks), len(versions)) - 1]

        self.serve(cam=version)
        child = self.begin({"cam": f"uri: '{self.url}/cam.m3u8', stall: 10s, {SOON}"})
        self.wait_until(lambda: sum(path == "/a3.ts" for path, _ in self.asked) == 2, child)
        self.assertEqual(self.await_state(child, "cam", "live")["connections"], 1)
        sources = self.finish(child)
        self.assert_times_go_on(self.rows())
        asked = [path[1:] for path, _ in self.asked if path.endswith(".ts")]
        self.assertEqual([name for i, name in enumerate(asked) if name != asked[i - 1]],
                         [a[0], a[1], "none.ts", a[3], a[4], a[6], b[0], b[1], b[2], a[1], a[2], a[3]])
        self.assertFalse([line for line in sources["cam"]["dropped"] if line["reason"] != "stopped"])

    def test_answers_without_a_length(self):
        """HTTP/1.1 answers that end when the connection closes, without a header that says so: the stream is read
        completely."""
        a = self.make("a", seconds=3)

        class Unsized(Scripted):
            def do_GET(self):
                path = pathlib.Path(self.folder) / self.path.lstrip("/")
                body = path.read_bytes() if path.suffix == ".ts" else self.texts[self.path].encode()
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)

        self.url, self.asked = streams.web(self, self.folder, base=Unsized, texts={"/cam.m3u8": listed(a)})
        child = self.begin({"cam": f"uri: '{self.url}/cam.m3u8', {SOON}"})
        self.wait_until(lambda: len(self.rows()) >= 25, child)  # the last one's end waits for the next
        self.assertEqual(self.finish(child)["cam"]["connection"]["connections"], 1)
        self.assert_continue("cam", len(self.rows()))

    def test_hostile(self):
        """A playlist that crashes libavformat's own reader, an endless one, one that leads away from HTTP, one whose
        variant is itself, segments without pictures, video in an unknown format: none may harm the other source."""
        a = self.make("a")
        looks = []

        def dying():
            looks.append(1)
            return listed(a[:1], 100) if len(looks) < 2 else listed(["gopher://x"], 710)

        class Endless(Scripted):
            def do_GET(self):
                if self.path != "/endless.m3u8":
                    return super().do_GET()
                self.send_response(200)
                self.end_headers()
                try:
                    self.wfile.write(b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n")
                    while True:
                        self.wfile.write(b"#EXTINF:1,\na.ts\n" * 4096)
                except OSError:
                    pass  # the client has gone

        (self.folder / "page.ts").write_text("<html>" * 1000)
        strange = self.make("strange", "-hls_segment_type", "fmp4", "-hls_fmp4_init_filename", "strange.mp4", end="m4s")
        header = self.folder / "strange.mp4"
        header.write_bytes(header.read_bytes().replace(b"avc1", b"zzzz"))
        self.serve(dying=dying, away=listed([f"file://{self.folder}/a0.ts"], end=True),
                   turn="#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nturn.m3u8\n", page=listed(["page.ts"], end=True),
                   strange=listed(['#EXT-X-MAP:URI="strange.mp4"', *strange], end=True),
                   dash="<?xml version='1.0'?>\n<MPD></MPD>\n", good=listed(a, end=True))
        self.url, self.asked = streams.web(self, self.folder, base=Endless, texts=self.texts)
        wanted = {"dying": "an address that is not of http", "away": "an address that is not of http",
                  "turn": "its variant is a list of variants", "page": "", "dash": "give the address of",
                  "endless": "more than 8 MiB", "strange": "of a format that is not known"}
        child = self.begin({name: f"uri: '{self.url}/{name}.m3u8', stall: 10s, {SOON}" for name in (*wanted, "good")})
        for name, words in wanted.items():
            self.assertIn(words, self.await_state(child, name, "away", "failed")["why"])
        self.wait_until(lambda: len(self.rows("good")) == 50, child)
        child.kill()
        self.assertGreater(len(self.rows("dying")), 5)
