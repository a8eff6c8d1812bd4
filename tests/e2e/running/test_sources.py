"""Sources added, changed and removed while a pipeline runs: `sources: {max: N}` and `millrace ctl`."""
import base64
import collections
import http.server
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

import harness
from harness import MILLRACE, TIMEOUT, call, pipeline

Y4M = b"YUV4MPEG2 W16 H16 F25:1 C420jpeg\n" + (b"FRAME\n" + bytes(384)) * 9
PATTERN = "lavfi:testsrc=size={size}:rate=25:duration={seconds}"


def changing(most, top="", **named):
    return pipeline(dict(max=most, **named), top=top, decode="input: sources.*, max_pixels: 2000000", phash="",
                    results='type: jsonl, tensors: true, path: "-"')


class Sources(harness.Controlled):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out.jsonl"

    def start(self, text, *arguments):
        child = self.spawn([MILLRACE, "run", self.write(text), "--output", self.out, "--json", *harness.PATIENT,
                            *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: self.ctl("status", code=None).returncode == 0, running=child)
        return child

    def refused(self, *arguments, code=78):
        before = self.of()
        words = self.ctl(*arguments, code=code).stderr
        self.assertEqual(sorted(before), sorted(self.of()))
        return words

    def of(self):
        """Each source's latest row."""
        return {row["id"]: row for row in json.loads(self.ctl("--json", "status").stdout)["status"]["sources"]}

    def end_of(self, child):
        self.ctl("drain")
        out = self.ended(child)[0]
        summary = json.loads(out)
        self.assertTrue(summary["ledger"]["balanced"])
        for row in summary["sources"]:
            lost = sum(line["frames"] for what in ("dropped", "absorbed") for line in row[what])
            self.assertEqual(row["in"], row["delivered"] + lost, row)
            self.assertEqual(row["in_flight"], 0)
        return summary

    def records(self):
        """Lines by source and epoch."""
        found = collections.defaultdict(list)
        for line in self.out.read_text().splitlines():
            row = json.loads(line)
            found[row.pop("source"), row.pop("epoch", 0)].append(row)
        return found

    def test_passwords_of_urls_that_are_mistyped(self):
        """No verb, answer or log may show them, and they do not reach a name server."""
        wrong = ("htp://user:hunter2@host/x", "rtsp:/user:hunter2@host/x", "rtsp//user:hunter2@host/x",
                 "rtsp;//user:hunter2@host/x", "rtsp:user:hunter2@host/x", "user:hunter2@host/x",
                 "rtsp://user:p@hunter2/w#rd@host")
        audit, shown = self.folder / "audit.jsonl", []
        child = self.start(changing(3), "--audit", audit, "--log", "debug")
        for uri in wrong:
            code = 78 if "//" in uri or ":/" in uri else 66
            code = 66 if "htp" in uri else code
            shown.append(self.ctl("add", "cam", f"uri={uri}", code=code).stderr)
        self.assertIn("in a password write / as %2F", shown[-1])
        self.assertIn("has no \"://\"", shown[1])
        child.terminate()
        shown += [*child.communicate(timeout=TIMEOUT), audit.read_text()]
        for verb, uri in itertools.product(("check", "plan", "run"), wrong):
            path = self.write(pipeline(dict(cam=f"uri: '{uri}'"), decode="", out="type: 'null'"))
            done = call([MILLRACE, verb, path])
            if verb != "check" or "//" in uri:
                self.assertNotEqual(done.returncode, 0, (verb, uri))
            shown += [done.stdout, done.stderr]
            done = call([MILLRACE, verb, path, "--input", uri])
            shown += [done.stdout, done.stderr]
        for text in shown:
            self.assertNotIn("hunter2", text)

    def test_they_come_and_go(self):
        child = self.start(changing(3))
        self.assertEqual(self.of(), {})
        self.ctl("add", "one", "uri=" + PATTERN.format(size="160x120", seconds=2))
        self.ctl("add", "two", "uri=" + PATTERN.format(size="320x240", seconds=100), "realtime=true", "every=2")
        self.ctl("add", "three", "uri=" + PATTERN.format(size="96x64", seconds=100), "realtime=true")
        self.wait_until(lambda: self.of()["one"]["ended"] and self.of()["two"]["delivered"] > 2)
        # The ended one's slot is free.
        self.ctl("add", "four", "uri=" + PATTERN.format(size="64x64", seconds=1))
        self.wait_until(lambda: self.of()["four"]["ended"])
        self.assertRegex(self.ctl("remove", "two").stdout, r"two is removed: \d+ frames, \d+ delivered, 0 dropped")
        self.assertTrue(self.of()["two"]["removed"])
        self.ctl("remove", "two", code=64)
        self.assertIn('has no source "thre": did you mean "three"?', self.ctl("remove", "thre", code=64).stderr)
        self.ctl("add", "two", "uri=" + PATTERN.format(size="80x60", seconds=1))
        self.wait_until(lambda: self.of()["two"]["ended"])
        self.ctl("set", "three", "uri=" + PATTERN.format(size="96x64", seconds=1), "realtime=false")
        self.wait_until(lambda: self.of()["three"]["ended"])
        self.end_of(child)
        rows = self.records()
        self.assertEqual([row["seq"] for row in rows["one", 0]], list(range(50)))
        self.assertEqual([row["seq"] for row in rows["two", 1]], list(range(25)))
        self.assertEqual([row["seq"] for row in rows["three", 1]], list(range(25)))
        # A source gives what it would give in a separate pipeline.
        alone = changing(3, one='uri: "%s"' % PATTERN.format(size="160x120", seconds=2))
        plain = self.run_pipeline(self.write(alone.replace("  max: 3\n", ""), "alone.yaml"))
        self.assertEqual([{key: row[key] for key in row if key != "source"} for row in plain.rows], rows["one", 0])

    def test_wrong_ones_change_nothing(self):
        text = changing(2, like='uri: "%s"' % PATTERN.format(size="160x120", seconds=1))
        broken = self.folder / "broken.mp4"
        broken.write_text("no video")
        child = self.start(text, "--audit", self.folder / "audit.jsonl")
        self.assertIn("did you mean", self.refused("add", "a", "evry=2"))
        self.assertIn("sources.a.every", self.refused("add", "a", "every=-3"))
        self.assertIn("No such file", self.refused("add", "a", "uri=missing.mp4", code=66))
        self.refused("add", "a", f"uri={broken}", code=65)
        self.assertIn("planned for", self.refused("add", "a", "uri=" + PATTERN.format(size="320x240", seconds=1)))
        self.assertIn("cannot be the id", self.refused("add", "a\nb"))
        told = self.refused("add", "../x", "uri=a.mp4")
        self.assertIn('"../x" cannot be the id of a source: use letters, digits, - and _, up to 64 bytes', told)
        self.assertNotIn(";", told)
        self.assertIn("has the id of a source", self.refused("add", "decode"))
        self.assertIn("KEY=VALUE", self.refused("add", "a", "every", code=64))
        self.assertIn("at most 2047", self.refused("add", "a", "uri=rtsp://127.0.0.1/" + 3000 * "a"))
        self.assertIn("at most 4096", self.refused("add", "a", "uri=" + 5000 * "a", code=64))
        self.assertIn("line break", self.refused("add", "a", "uri=\"rtsp://127.0.0.1/\\nTEARDOWN\""))
        self.refused("set", "a", "every=2", code=64)
        self.ctl("add", "a", "uri=" + PATTERN.format(size="160x120", seconds=100), "realtime=true")
        self.assertIn("already", self.refused("add", "a", code=64))
        self.ctl("add", "b")
        self.wait_until(lambda: self.of()["b"]["ended"])
        self.ctl("set", "b", "loop=true", "realtime=true")
        for nothing in ((), ("realtime=true",)):
            self.assertEqual(self.ctl("set", "a", *nothing).stdout, "a: nothing to change: it has these options\n")
        self.assertEqual((self.of()["a"]["first_epoch"], self.of()["a"]["ended"]), (0, False))
        self.assertIn("remove one first", self.refused("add", "c", code=69))
        self.assertIn("every", self.refused("set", "a", "every=none"))
        larger = "uri=" + PATTERN.format(size="320x240", seconds=1)
        self.assertIn("remove it, and add it", self.refused("set", "a", larger))
        self.assertFalse(self.of()["a"]["ended"])
        self.end_of(child)
        audit = [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]
        control = [line for line in audit if line["event"] == "control" and line["do"] == "add"]
        self.assertEqual({line["argument"] for line in control}, {"a", "a\nb", "../x", "decode", "b", "c"})
        self.assertNotIn("testsrc", json.dumps(control))

    def test_warnings_of_the_new_plan(self):
        """Whoever adds a source gets those that `check` would show with it, but none that the run began with."""
        (self.folder / "short.y4m").write_bytes(Y4M)
        self.listed({})
        self.out = self.folder / "x.csv"
        child = self.start(changing(4, top="sources_from: cameras.yaml"))
        clip = "uri=" + str(self.folder / "short.y4m")
        late = ": it starts at 100 s, and"
        self.assertRegex(self.ctl("add", "a", clip, "start=100s").stdout,
                         f"^a is added\na: start: warning: sources.a{late} .*short.y4m lasts 0.36 s: .*\n$")
        answer = json.loads(self.ctl("--json", "set", "a", "start=100s", "every=2").stdout)
        self.assertRegex(answer["text"], f"^a starts again with these options\na: start: warning: sources.a{late}")
        self.assertEqual([(one["severity"], one["file"]) for one in answer["diagnostics"]], [("warning", "a: start")])
        self.assertEqual(answer["more"], 0)
        self.assertEqual(self.ctl("add", "b", clip).stdout, "b is added\n")
        wrong = json.loads(self.ctl("--json", "add", "c", clip, "start=100s", "every=-1", code=78).stdout)
        self.assertRegex(wrong["error"], "^sources.c.every: -1 is out of range")
        self.assertEqual([one["severity"] for one in wrong["diagnostics"]], ["error"])
        self.listed({"d": f"uri: {self.folder / 'short.y4m'}, start: 100s"})
        self.wait_until(lambda: self.of().get("d", {}).get("ended"))
        self.ctl("drain")
        told = self.ended(child)[1]
        self.assertRegex(told, f"cameras.yaml:1:.*sources.d{late}")
        self.assertEqual(told.count("ends like those of csv"), 1, told)

    def test_what_does_not_go_with_it(self):
        text = changing(2)
        plan = self.run_pipeline(self.write(text), verb="plan", rows=False)
        self.assertIn("+1 .. +2 (2)", plan.out)
        self.assertIn("up to 2 sources at a time", plan.out)
        for wrong, words in ((text + "jobs: 2\n", "sources.max"),
                             (text.replace("max: 2", "max: none"), "sources.max"),
                             (text.replace("max: 2", "max: 0"), "sources.max"),
                             (text.replace("max: 2", "max: 1\n  a: {uri: a.mp4}\n  b: {uri: b.mp4}"), "at most 1"),
                             (text.replace("sources.*", "sources"), "no source or stage"),
                             (text.replace("max: 2", "max: 2\n  like: {evry: 2}"), "did you mean")):
            done = call([MILLRACE, "check", self.write(wrong)])
            self.assertNotEqual(done.returncode, 0, wrong)
            self.assertIn(words, done.stdout + done.stderr)
        self.millrace("run", self.write(text), "--resume", self.folder / "checkpoint", code=64,
                      says="pipeline.yaml:4:8: sources.max: ")
        self.assertFalse(list(self.folder.glob("checkpoint*")))
        self.millrace("verify", self.write(text), code=78, says="sources.max")
        # These words can still be ids.
        named = changing("uri: max.mp4", like="uri: like.mp4")
        self.assertEqual(call([MILLRACE, "check", self.write(named)]).returncode, 0)

    def test_many_come_and_go_among_others(self):
        clip = self.folder / "clip.y4m"
        clip.write_bytes(b"YUV4MPEG2 W64 H48 F50:1 C420jpeg\n" + (b"FRAME\n" + os.urandom(64 * 48 * 3 // 2)) * 20)
        named = {f"s{i}": f"uri: {clip}, realtime: true, loop: true" for i in range(16)}
        child = self.start(changing(18, like="realtime: true, loop: true", **named))
        path, = self.runtime.glob("millrace/*.sock")
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(path))
            lines = control.makefile("rw")

            def ask(**request):
                lines.write(json.dumps({"millrace": 1, **request}) + "\n")
                lines.flush()
                answer = json.loads(lines.readline())
                self.assertTrue(answer["ok"], answer)
                return answer

            def state():
                process = pathlib.Path("/proc", str(child.pid))
                resident, = re.findall(r"VmRSS:\s+(\d+)", (process / "status").read_text())
                return (harness.threads_of(child.pid), len(list((process / "fd").iterdir()))), int(resident)

            for turn in range(300):
                ask(do="add", argument=f"g{turn % 5}", options={"uri": str(clip)})
                self.assertIn("is removed", ask(do="remove", argument=f"g{turn % 5}")["text"])
                if turn == 100:
                    before = state()
            # The last answer's thread may still be ending.
            self.wait_until(lambda: state()[0] <= before[0])
            grown = state()[1] - before[1]
            sanitizer = harness.sanitizer_of(child.pid)
        summary = self.end_of(child)
        steady = [row for row in summary["sources"] if row["id"].startswith("s") and row["id"] != ""]
        self.assertEqual([row["first_epoch"] for row in steady], [0] * 16)
        self.assertEqual(len(summary["sources"]), 16 + 256 + 1)
        if sanitizer:
            self.skipTest(f"the bound of memory: {sanitizer} keeps what was freed")
        self.assertLess(grown, 5 * 1024)

    def listed(self, entries):
        """Replaces the list at once."""
        new = self.folder / "new"
        new.write_text("".join(f"{id}: {{{options}}}\n" for id, options in entries.items()) or "{}\n")
        new.rename(self.folder / "cameras.yaml")

    def test_a_list_is_followed(self):
        steady = 'uri: "%s", realtime: true' % PATTERN.format(size="96x64", seconds=1000)
        other = 'uri: "%s", realtime: true' % PATTERN.format(size="64x64", seconds=1000)
        text = changing(4, top="sources_from: cameras.yaml")
        self.listed({"one": steady, "two": steady})
        errors = self.folder / "errors"
        with errors.open("w") as stream:
            child = self.spawn([MILLRACE, "run", self.write(text), "--output", self.out, "--audit",
                                self.folder / "audit.jsonl", *harness.PATIENT], stderr=stream)
        self.wait_until(lambda: self.ctl("status", code=None).returncode == 0 and len(self.of()) == 2)
        self.listed({"one": steady, "two": other, "three": steady, "four": "uri: missing.mp4"})
        self.wait_until(lambda: self.of().get("three", {}).get("delivered") and self.of()["two"]["first_epoch"] == 1)
        self.assertEqual(self.of()["one"]["first_epoch"], 0)
        self.assertIn("cameras.yaml:4:13: ", errors.read_text())
        # Each of these changes nothing, and says why.
        for wrong, words in (("one: {uri: a.mp4}\none: {uri: b.mp4}\n", "cameras.yaml:2:1: "),
                             ('"a\\nb": {uri: a.mp4}\n', "cannot be the id of a source"),
                             ('"a\\e[31mb": {uri: a.mp4}\n', r'cameras.yaml:1:1: "a\x1b[31mb" cannot be the id'),
                             (f"{'n' * 65}: {{uri: a.mp4}}\n", "up to 64 bytes"),
                             ("one: {uri: a.mp4, evry: 2}\n", "cameras.yaml:1:19: "),
                             ("one: a.mp4\n", "expected a map of options"),
                             ("decode: {uri: a.mp4}\n", 'has a stage "decode"'),
                             ("", "write {} for a list without sources"),
                             ("- one\n", "expected a map with an id for each"),
                             ("".join(f"s{i}: {{uri: a.mp4}}\n" for i in range(10000)), "10000 sources in the list")):
            before, there = len(errors.read_text()), {id for id, row in self.of().items() if not row["removed"]}
            (self.folder / "cameras.yaml").write_text(wrong)
            self.wait_until(lambda: words in errors.read_text()[before:])
            self.wait_until(lambda: "no source has changed" in errors.read_text()[before:])
            self.assertEqual({id for id, row in self.of().items() if not row["removed"]}, there)
            self.assertEqual(call([MILLRACE, "check", self.folder / "pipeline.yaml"]).returncode, 78, wrong)
        self.listed({"one": steady})
        self.wait_until(lambda: {id for id, row in self.of().items() if not row["removed"]} == {"one"})
        self.assertEqual((self.of()["one"]["first_epoch"], self.of()["one"]["ended"]), (0, False))
        # A hangup reads it again: what could not be read may exist by now.
        (self.folder / "cameras.yaml").write_text(f"one: {{{steady}}}\nlate: {{uri: late.y4m}}\n")
        self.wait_until(lambda: "late.y4m" in errors.read_text())
        (self.folder / "late.y4m").write_bytes(Y4M)
        child.send_signal(signal.SIGHUP)
        self.wait_until(lambda: self.of().get("late", {}).get("delivered") == 9)
        self.listed({})
        self.wait_until(lambda: all(row["removed"] for row in self.of().values()))
        self.ctl("drain")
        self.assertEqual(child.wait(TIMEOUT), 0, errors.read_text())
        rows = self.records()
        self.assertEqual([row["seq"] for row in rows["one", 0]], list(range(len(rows["one", 0]))))
        audit = [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]
        read = [line for line in audit if line["event"] == "sources read"]
        self.assertEqual([(line["added"], line["changed"], line["removed"], line["refused"]) for line in read[:2]],
                         [(2, 0, 0, 0), (1, 1, 0, 1)])

    def test_a_password_that_changes(self):
        """A password is not shown, and a new one is still a change, by command and in a list. Other changes keep it."""
        seen = []

        class Camera(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                word = self.headers["Authorization"]
                seen.append(word and base64.b64decode(word.split()[1]).decode())
                self.send_response(503 if word else 401)
                self.send_header("WWW-Authenticate", 'Basic realm="camera"')
                self.end_headers()

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        camera = f"http://u:%s@127.0.0.1:{server.server_port}/"
        audit, cameras = self.folder / "audit.jsonl", self.folder / "cameras.yaml"

        def changed():
            lines = [json.loads(line) for line in audit.read_text().splitlines()]
            return sum(line["changed"] for line in lines if line["event"] == "sources read")

        def listed(password):
            cameras.write_text(f"one: {{uri: '{camera % password}', reconnect: {{most: 1s}}}}\n")
        listed("first")
        child = self.start(changing(2, top="sources_from: cameras.yaml"), "--audit", audit)
        self.wait_until(lambda: "u:first" in seen)
        listed("second")
        self.wait_until(lambda: changed() == 1 and "u:second" in seen)
        third = ("set", "one", "uri=" + camera % "third")
        self.assertEqual(self.ctl(*third).stdout, "one starts again with these options\n")
        self.wait_until(lambda: "u:third" in seen)
        self.assertIn("nothing to change", self.ctl(*third).stdout)
        self.ctl("set", "one", "reconnect={most: 2s}")
        seen.clear()
        self.wait_until(lambda: self.of()["one"]["first_epoch"] == 3 and seen[-1:] not in ([], [None]))
        self.assertLessEqual(set(seen), {None, "u:third"})
        word = self.folder / "word.txt"
        word.touch(mode=0o600)
        word.write_text("fourth\n")
        self.ctl("set", "one", f"uri=http://127.0.0.1:{server.server_port}/", "user=v", f"password_file={word}")
        self.wait_until(lambda: "v:fourth" in seen)
        word.write_text("fifth\n")
        self.ctl("set", "one", f"password_file={word}")
        self.wait_until(lambda: "v:fifth" in seen)
        child.kill()
        words = audit.read_text() + child.communicate()[1]
        for password in ("first", "second", "third", "fourth", "fifth"):
            self.assertNotIn(password, words)

    def test_a_list_whose_folder_is_replaced(self):
        """A list is replaced as deployments do: another folder with the same name, and a link that leads elsewhere."""
        steady = 'uri: "%s", realtime: true' % PATTERN.format(size="64x64", seconds=1000)
        for name in ("one", "two", "three"):
            (self.folder / name).mkdir()
            (self.folder / name / "list.yaml").write_text(f"{name}: {{{steady}}}\n")
        (self.folder / "linked").symlink_to("one")
        child = self.start(changing(4, top="sources_from: linked"))

        def has(id):
            self.wait_until(lambda: {name for name, row in self.of().items() if not row["removed"]} == {id})
        has("one")
        (self.folder / "new").symlink_to("two")
        (self.folder / "new").rename(self.folder / "linked")
        has("two")
        (self.folder / "linked").unlink()
        (self.folder / "three").rename(self.folder / "linked")
        has("three")
        self.end_of(child)

    def test_urls_of_a_list(self):
        """Invalid ones are refused before anything starts; in a watched list, each separately."""
        text = changing(4, top="sources_from: cameras.yaml")
        listed = self.folder / "cameras.yaml"
        for url, words in (("rtsp://127.0.0.1/a\\nTEARDOWN", "line break"),
                           ("http://127.0.0.1/\\r\\nHost: a", "line break"),
                           ("rtsp://127.0.0.1:99999/a", "the port is not a number"), ("rtsp:///a", "name of the host"),
                           ("rtsp://127.0.0.1/" + 100000 * "a", "too long")):
            listed.write_text('good: {uri: "rtsp://127.0.0.1/a"}\nbad: {uri: "%s"}\n' % url)
            done = self.millrace("check", self.write(text), code=78)
            self.assertIn("cameras.yaml:2:12: error: sources.bad: ", done.stdout + done.stderr)
            self.assertIn(words, done.stdout + done.stderr)
            self.assertEqual((done.stdout + done.stderr).count("error"), 1)
        listed.write_text("{}\n")
        child = self.start(text, "--audit", self.folder / "audit.jsonl")
        self.listed({"bad": r'uri: "rtsp://127.0.0.1/a\nTEARDOWN"',
                     "good": 'uri: "%s"' % PATTERN.format(size="64x64", seconds=1)})
        self.wait_until(lambda: set(self.of()) == {"good"})
        self.end_of(child)
        audit = [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]
        read = [line for line in audit if line["event"] == "sources read"]
        self.assertEqual((read[-1]["added"], read[-1]["refused"]), (1, 1))

    def test_a_folder_is_a_list(self):
        folder = self.folder / "cameras"
        folder.mkdir()
        (folder / "a.yaml").write_text("one: {uri: \"%s\"}\n" % PATTERN.format(size="64x64", seconds=1))
        (folder / "notes.txt").write_text("no list")
        child = self.start(changing(4, like="realtime: true", top="sources_from: cameras"))
        self.wait_until(lambda: set(self.of()) == {"one"})
        (folder / "b.yml").write_text("two: {uri: \"%s\"}\n" % PATTERN.format(size="64x64", seconds=1000))
        self.wait_until(lambda: set(self.of()) == {"one", "two"})
        (folder / "b.yml").unlink()
        self.wait_until(lambda: self.of()["two"]["removed"])
        self.assertFalse(self.of()["one"]["removed"])
        self.end_of(child)

    def test_a_list_needs_room(self):
        text = changing(2, top="sources_from: missing.yaml")
        done = self.millrace("check", self.write(text), code=66)
        self.assertIn("missing.yaml: error: cannot read the list of sources", done.stdout + done.stderr)
        text = changing("uri: max.mp4", top="sources_from: cameras.yaml")
        done = call([MILLRACE, "check", self.write(text)])
        self.assertIn("needs sources.max", done.stdout + done.stderr)
