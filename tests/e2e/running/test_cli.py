"""The command itself: help, errors, exit codes, the summary as JSON, and what goes where. test_signals.py covers
signals."""
import json
import os
import pty
import re
import select
import subprocess

from harness import MILLRACE, ROOT, TIMEOUT, Case, call, pipeline, start

AT_ONCE = 4

ENDLESS = pipeline(dict(clock='type: "null", rate: 200fps'), name="endless", **{"pass": 'type: "null"'},
                   results='type: jsonl, path: "${OUTPUT:--}"')
SHORT = ENDLESS.replace("rate: 200fps", "frames: 100")


def verbs():
    return re.findall(r"^  (\w+) ", call([MILLRACE, "--help"]).stdout, flags=re.MULTILINE)


class Words(Case):
    def test_short_options(self):
        """-i, -o and -q, in verbs that accept the long forms."""
        out = self.folder / "out.jsonl"
        done = call([MILLRACE, "run", self.write(SHORT), "-q", "-o", out])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(len(out.read_text().splitlines()), 100)
        self.millrace("run", self.write(SHORT), "-o", code=64, says="--output needs a value")
        self.millrace("list", "-o", out, code=64, says="unknown option")
        self.millrace("check", self.write(SHORT), "-i", "none.mp4", code=78, says="--input")

    def test_an_option_of_another_verb(self):
        self.millrace("run", self.write(SHORT), "--assume", "cuda:1x8GiB", code=64,
                      says=('unknown option "--assume"', "hint: --assume is for check, plan, graph"))

    def test_help_and_version_everywhere(self):
        version = self.millrace("--version")
        self.assertRegex(version.stdout, r"^millrace \d+\.\d+\.\d+\n$")
        self.assertEqual(call([MILLRACE, "version"]).stdout, version.stdout)
        self.assertIn("usage: millrace", call([MILLRACE, "--help"]).stdout)
        self.assertLessEqual({"run", "ctl", "deploy", "keygen"}, set(verbs()))
        for verb in verbs():
            told = self.millrace(verb, "--help")
            self.assertIn(f"usage: millrace {verb}", told.stdout)
            self.assertRegex(told.stdout, rf"\nExamples:\n\n(  millrace {verb}( .*)?\n)+\n")
            self.assertNotRegex(told.stdout, r" \n|.{115}", verb)
            explained = call([MILLRACE, "help", verb]).stdout
            # A topic can have the same name, and comes second.
            self.assertEqual(explained[:len(told.stdout)] if verb in ("devices", "models") else explained, told.stdout)
            self.assertEqual(told.stderr, "")
            self.assertEqual(call([MILLRACE, verb, "--version"]).stdout, version.stdout)

    def test_wrong_words_are_answered_with_the_nearest(self):
        for words, near in ((["rnu"], "run"), (["run", "x.yaml", "--outptu", "y"], "--output"),
                            (["inspect", "jsnol"], "jsonl"), (["bench", "pacd"], "paced"),
                            (["--verison"], "millrace --help")):
            told = self.millrace(*words, code=64, says=near)
            self.assertEqual(told.stdout, "")

    def test_wrong_arguments_are_usage_errors(self):
        for words in ([], ["run"], ["check"], ["inspect"], ["bench"], ["run", "a.yaml", "b.yaml"],
                      ["run", "a.yaml", "--set", "novalue"], ["run", "a.yaml", "--workers", "0"],
                      ["run", "a.yaml", "--workers", "two"], ["run", "a.yaml", "--log", "loud"], ["list", "x"],
                      ["schema", "x"], ["run", "a.yaml", "--output"], ["check", "a.yaml", "--format", "xml"],
                      ["check", "a.yaml", "--assume", "cuda"], ["plan", "a.yaml", "--assume", "cuda:8x"],
                      ["run", "a.yaml", "--quiet=yes"], ["run", "a.yaml", "--grace", "0s"],
                      ["run", "a.yaml", "--grace", "soon"], ["bench", "null", "--frames", "0"]):
            told = self.millrace(*words, code=64)
            self.assertNotEqual(told.stderr, "")

    def test_a_usage_error_ends_in_its_reason(self):
        for words in (["run"], ["ctl"], ["run", "a.yaml", "--workers", "0"], ["bench", "null", "--frames", "0"]):
            lines = call([MILLRACE, *words]).stderr.splitlines()
            self.assertRegex(lines[0], rf"^millrace {words[0]}: error: ")
            self.assertEqual(lines[1:], [f'  hint: "millrace {words[0]} --help" shows how it is called'])

    def test_an_input_in_the_place_of_the_pipeline(self):
        (clip, photo) = (self.folder / name for name in ("clip.mp4", "photo.JPG"))
        clip.write_bytes(b"\0\0\0\x20ftypisom" + bytes(100))
        photo.write_bytes(b"\xff\xd8\xff")
        example = "millrace run pipelines/classify-{}.yaml --input {}\n"
        for path, code, hint in ((clip, 78, example.format("video", clip)),
                                 (photo, 78, example.format("images", photo)),
                                 (self.folder, 66, example.format("images", self.folder)),
                                 ("no/*.png", 66, example.format("images", "'no/*.png'")),
                                 ("no.mkv", 66, example.format("video", "no.mkv")),
                                 ("rtsp://u:secret@10.0.0.7/1", 66, "pipelines/camera.yaml --input URL\n"),
                                 ("a.onnx", 66, "`millrace inspect a.onnx` prints a pipeline")):
            for verb in ("run", "check", "plan"):
                told = self.millrace(verb, path, code=code, says=hint)
                self.assertNotIn("secret", told.stderr)
        self.assertNotIn("hint", call([MILLRACE, "run", "no.yaml"]).stderr)
        self.millrace("inspect", clip, code=64, says="millrace plan PIPELINE.yaml --input FILE")
        self.millrace("inspect", "a.yaml", code=64, says="`millrace plan` shows a pipeline")

    def test_command_lines_as_people_write_them_at_first(self):
        pipeline = self.write(SHORT)
        video = self.write(SHORT.replace('"null", frames: 100', "media, uri: a.mp4"), "video.yaml")
        for words, code, hint in ((["a.yaml"], 64, "name what to do with it first: check, plan or run"),
                                  (["-v"], 64, 'did you mean "--version"?'),
                                  (["run", pipeline, "--gpu", "0"], 64,
                                   "the pipeline says where a stage computes: --set stages.ID.device=cuda:0"),
                                  (["run", pipeline, "-j", "4"], 64, "--workers N says how many threads run stages"),
                                  (["run", "--config", pipeline], 64, "name the pipeline without an option"),
                                  (["run", pipeline, "--verbose"], 64, "--log info or --log debug tells more"),
                                  (["devices", "--gpu"], 64, '"millrace devices --help" lists the options'),
                                  (["run", pipeline, "--set", "fps=2"], 78,
                                   "name the source or stage: --set sources.clock.fps=..., or stages.pass.fps=..."),
                                  (["run", pipeline, "--set", "worker=2"], 78, 'did you mean "workers"?'),
                                  (["run", pipeline, "--output", "/"], 74, "name a file in it"),
                                  (["plan", video, "--input", ""], 78,
                                   "it is empty: is a variable of the shell not set?")):
            self.millrace(*words, code=code, says=f"hint: {hint}\n")
        for words, said in ((["--grace", "5"], 'such as 10s, not "5"'),
                            (["--resume", "/no/folder/a"], "there is no folder /no/folder"),
                            (["--trace", "/no/folder/a"], "there is no folder /no/folder")):
            self.assertIn(said, call([MILLRACE, "run", pipeline, *words, "--output", os.devnull]).stderr)

    def test_keys_and_variables_as_other_programs_write_them(self):
        """--set without its section, or for no stage; a variable without braces."""
        pipeline = self.write(SHORT)
        for key, hint in (("pass.workers=3", "write --set stages.pass.workers=..."),
                          ("clock.rate=3", "write --set sources.clock.rate=..."),
                          ("stages.foo.x=1", "it has pass, results")):
            self.millrace("check", pipeline, "--set", key, code=78, says=f"hint: {hint}\n")
        for said, hint in (("$VIDEO/a.mp4", 'write "${VIDEO}/a.mp4", with braces'),
                           ("$(VIDEO)/a.mp4", 'write "${VIDEO}/a.mp4", with braces'),
                           ("clips/%VIDEO%", 'write "clips/${VIDEO}", with braces'),
                           ("C:\\clips\\a.mp4", "write / between the folders of a path")):
            video = self.write(SHORT.replace('{type: "null", frames: 100}', f"{{uri: '{said}'}}"), "variable.yaml")
            self.millrace("plan", video, code=66, says=f"hint: {hint}\n")

    def test_addresses_of_cameras_as_people_write_them_at_first(self):
        """OpenCV's device number, a single slash, and a host alone."""
        for said, hint in (("0", "write /dev/video0 for a camera of this machine"),
                           ("rtsp:/10.0.0.1/stream", 'write "rtsp://10.0.0.1/stream", with two slashes'),
                           ("10.0.0.1:554", 'such as "rtsp://10.0.0.1:554/..."')):
            pipeline = self.write(SHORT.replace('{type: "null", frames: 100}', f'{{uri: "{said}"}}'), "camera.yaml")
            self.millrace("plan", pipeline, code=66, says=hint)

    def test_a_type_is_described_on_a_screen(self):
        """Every stage's keys are named, and not explained again for each type."""
        told = call([MILLRACE, "inspect", "phash"]).stdout
        self.assertIn("keys of every stage (`millrace help pipeline`)\n  type, input, join, ", told)
        self.assertLess(len(told.splitlines()), 40)

    def test_keygen_makes_pairs_and_writes_over_none(self):
        told = self.millrace("keygen", "camera", "--output", self.folder / "keys")
        private, public = self.folder / "keys/camera.key", self.folder / "keys/camera.pub"
        self.assertEqual(told.stdout.splitlines()[:2], [str(private), str(public)])
        self.assertEqual((self.folder / "keys").stat().st_mode & 0o777, 0o700)
        self.assertEqual(private.stat().st_mode & 0o777, 0o600)
        self.assertIn(f'public-key = "{told.stdout.splitlines()[2]}"', public.read_text())
        self.assertNotIn("secret-key", public.read_text())
        before = private.read_text()
        self.millrace("keygen", "camera", "--output", self.folder / "keys", code=74, says="not overwritten")
        self.assertEqual(private.read_text(), before)
        for words in (["a/b"], ["a", "b"], [""]):
            self.assertEqual(call([MILLRACE, "keygen", *words], cwd=self.folder).returncode, 64)

    def test_runs_are_entered_in_the_audit_log(self):
        log = self.folder / "audit.jsonl"
        pipeline = self.write(SHORT)
        self.run_pipeline(pipeline, "--audit", log)
        self.run_pipeline(pipeline, "--audit", log)
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([one["event"] for one in entries], ["run begins", "run ends"] * 2)
        self.assertEqual({one["pipeline"] for one in entries}, {"endless"})
        self.assertEqual(entries[0]["file"], str(pipeline))
        self.assertRegex(entries[0]["digest"], "^[0-9a-f]{64}$")
        self.assertEqual(entries[0]["digest"], entries[2]["digest"])
        self.assertEqual(entries[0]["pid"], entries[1]["pid"])
        self.assertNotEqual(entries[0]["pid"], entries[2]["pid"])
        self.assertEqual((entries[1]["status"], entries[1]["in"], entries[1]["delivered"]), ("ok", 100, 100))
        self.assertRegex(entries[0]["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        (self.folder / "results.jsonl").unlink()
        self.assertEqual(self.run_pipeline(pipeline, "--audit", "/nonexistent/log", code=74).rows, [])

    def test_list_and_inspect_tell_the_same_types(self):
        types = json.loads(call([MILLRACE, "list", "--json"]).stdout)
        text = call([MILLRACE, "list"]).stdout
        names = {one["name"] for one in types}
        self.assertLessEqual({"media", "decode", "preprocess", "jsonl", "csv", "null", "push", "callback"}, names)
        for name in names:
            self.assertIn(f"\n{name} ", text)
        for name in ("media", "null", "preprocess", "zmq.pull", *sorted(names)[::5]):
            shown = json.loads(call([MILLRACE, "inspect", name, "--json"]).stdout)
            self.assertEqual([one["summary"] for one in shown],
                             [one["summary"] for one in types if one["name"] == name])
            told = call([MILLRACE, "inspect", name]).stdout
            for one in shown:
                for option in one["options"]:
                    self.assertTrue(option["help"], f"{name}.{option['name']} has no help")
                    self.assertIn(f"  {option['name']}: {option['type']}", told)

    def test_inspect_shows_ranges_and_defaults(self):
        (jsonl,) = json.loads(call([MILLRACE, "inspect", "jsonl", "--json"]).stdout)
        options = {one["name"]: one for one in jsonl["options"]}
        self.assertEqual(options["path"]["default"], "-")
        self.assertEqual(options["features"]["type"], "true | false")
        self.assertEqual(jsonl["kind"], "sink")
        kinds = [one["kind"] for one in json.loads(call([MILLRACE, "inspect", "null", "--json"]).stdout)]
        self.assertEqual(sorted(kinds), ["source", "stage, sink"])

    def test_full_standard_output_is_told(self):
        with open("/dev/full", "w") as full:
            for words in (["list"], ["inspect", "null", "--json"], ["--help"]):
                done = subprocess.run([MILLRACE, *words], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 74, words)
                self.assertIn("No space left on device", done.stderr)


class Check(Case):
    def test_a_right_pipeline_is_ok(self):
        path = self.write(SHORT)
        told = call([MILLRACE, "check", path])
        self.assertEqual((told.returncode, told.stdout, told.stderr), (0, f"{path}: ok\n", ""))

    def test_the_pipelines_that_come_with_millrace_are_ok(self):
        for path in sorted((ROOT / "pipelines").glob("*.yaml")):
            self.millrace("check", path)

    def test_all_errors_at_once_each_with_its_place(self):
        path = self.write(pipeline(dict(s='type: "null", frmes: 3'), name="wrong", a="type: jsnol",
                                   b="type: jsonl, input: nobody"))
        told = self.millrace("check", path, code=78)
        self.assertEqual(told.stdout, "")
        places = [line.split(": ")[0] for line in told.stderr.splitlines() if ": error: " in line]
        self.assertEqual([place.rsplit(":", 2)[1] for place in places], ["4", "6", "7"], told.stderr)
        for hint in ("frames", "jsonl"):
            self.assertRegex(told.stderr, rf"hint: .*{hint}")

    def test_what_the_command_line_changes_is_checked_too(self):
        self.millrace("check", self.write(SHORT), "--set", "sources.clock.frames=many", code=78, says="many")

    def test_the_first_of_several_files_gives_the_exit_code(self):
        good = self.write(SHORT, "good.yaml")
        missing, wrong = self.folder / "missing.yaml", self.write("version: 1\n", "wrong.yaml")
        self.assertEqual(call([MILLRACE, "check", good, missing, wrong]).returncode, 66)
        self.assertEqual(call([MILLRACE, "check", wrong, missing, good]).returncode, 78)


class Formats(Case):
    """check --format: what scripts and workflows read."""

    WRONG = (pipeline(dict(s='type: "null", frmes: 3'), name="wrong",
                      a='type: jsonl, path: "100%,a:b.jsonl", features: "50%"'))
    WARNED = SHORT.replace("stages:", "  unread: {type: \"null\"}\nstages:")

    def check(self, *words, code, text=None):
        done = subprocess.run([MILLRACE, "check", *map(str, words)], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_json(self):
        good, wrong = self.write(SHORT, "good.yaml"), self.write(self.WRONG, "wrong.yaml")
        done = self.check("--format", "json", good, wrong, self.folder / "missing.yaml", code=78)
        self.assertEqual(done.stderr, "")
        told = json.loads(done.stdout)
        self.assertEqual((told["ok"], told["exit_code"]), (False, 78))
        self.assertEqual([(one["ok"], one["exit_code"], one["more"]) for one in told["files"]],
                         [(True, 0, 0), (False, 78, 0), (False, 66, 0)])
        key, value = told["files"][1]["diagnostics"]
        self.assertEqual(key, {"file": str(wrong), "line": 4, "column": 21, "severity": "error", "exit_code": 78,
                               "message": 'sources.s: unknown key "frmes"', "hint": 'did you mean "frames"?',
                               "status": "wrong pipeline"})
        self.assertEqual((value["line"], value["column"], value["hint"]), (6, 64, None))
        (missing,) = told["files"][2]["diagnostics"]
        self.assertEqual((missing["line"], missing["exit_code"]), (None, 66))

    def test_github(self):
        """Undoes the escapes in workflow commands as GitHub does: %25 last."""
        folder = self.folder / "100%,a:b"
        folder.mkdir()
        path = folder / "wrong.yaml"
        path.write_text(self.WRONG)
        done = self.check("--format", "github", path, self.folder / "missing.yaml", code=78)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        properties = dict(one.split("=") for one in lines[1].split("::")[1].removeprefix("error ").split(","))
        for name in properties:
            for escape, meant in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
                properties[name] = properties[name].replace(escape, meant)
        self.assertEqual(properties, {"file": str(path), "line": "6", "col": "64"})
        self.assertTrue(lines[0].endswith('::sources.s: unknown key "frmes"%0Ahint: did you mean "frames"?'), lines[0])
        self.assertIn('found "50%25"', lines[1])
        self.assertRegex(lines[2], r"^::error::.*missing\.yaml: cannot read")

    def test_standard_input(self):
        self.assertEqual(self.check("-", code=0, text=SHORT).stdout, "-: ok\n")
        self.assertIn("<stdin>:4:21: error:", self.check("-", code=78, text=self.WRONG).stderr)
        self.assertIn("zero byte", self.check("-", code=78, text=SHORT + "\0").stderr)
        self.assertIn("longer than", self.check("-", code=78, text="# " + "x" * (1 << 20)).stderr)

    def test_warnings_may_be_denied(self):
        path = self.write(self.WARNED)
        self.assertIn("warning: ", self.check(path, code=0).stderr)
        done = self.check(path, "--deny-warnings", code=78)
        self.assertEqual(done.stdout, "")
        self.assertIn("--deny-warnings", done.stderr)
        told = json.loads(self.check(path, "--deny-warnings", "--format", "json", code=78).stdout)
        self.assertEqual([one["severity"] for one in told["files"][0]["diagnostics"]], ["warning"])
        self.assertIn("::warning file=", self.check(path, "--deny-warnings", "--format", "github", code=78).stdout)
        run = call([MILLRACE, "run", path, "--deny-warnings"])
        self.assertEqual((run.returncode, run.stdout), (78, ""))
        self.assertEqual(call([MILLRACE, "run", self.write(SHORT), "--deny-warnings"]).returncode, 0)

    def test_a_hostile_file_is_answered_shortly(self):
        path = self.write("version: 1\n" + "".join(f"k{n}: 1\n" for n in range(70000)))
        done = self.check(path, code=78)
        self.assertEqual(done.stderr.count(" error: "), 100)
        self.assertRegex(done.stderr, r"\n\d{5} more errors and warnings are not shown\n$")
        (told,) = json.loads(self.check(path, "--format", "json", code=78).stdout)["files"]
        self.assertEqual(len(told["diagnostics"]), 100)
        self.assertEqual(told["more"], 70003 - 100)  # pipeline, sources and stages are also missing
        self.assertEqual(len(self.check(path, "--format", "github", code=78).stdout.splitlines()), 101)


class Streams(Case):
    def terminal(self):
        try:
            return pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal can be had here: {error}")

    def test_in_a_pipe_only_results(self):
        told = call([MILLRACE, "run", self.write(SHORT)])
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        rows = [json.loads(line) for line in told.stdout.splitlines()]
        self.assertEqual([row["seq"] for row in rows], list(range(100)))

    def test_the_summary_as_json(self):
        run = self.run_pipeline(SHORT)
        self.assertEqual(len(run.out.splitlines()), 1)
        self.assertEqual(run.err, "")
        self.assert_balanced(run)
        self.assertEqual(set(run.ledger), {"in", "delivered", "dropped", "absorbed", "in_flight", "balanced"})
        self.assertEqual(run.ledger["delivered"], 100)
        self.assertLess(0, run.summary["wall_s"])
        self.assertLess(0, run.summary["cpu_s"])
        self.assertEqual([one["id"] for one in run.summary["sources"]], ["clock"])
        self.assertEqual([one["id"] for one in run.summary["stages"]], ["clock", "pass", "results"])
        self.assertEqual([one["in"] for one in run.summary["stages"]][1:], [100, 100])

    def test_where_results_take_standard_output_the_summary_goes_to_standard_error(self):
        told = call([MILLRACE, "run", self.write(SHORT), "--json"])
        self.assertEqual(len(told.stdout.splitlines()), 100)
        self.assertTrue(json.loads(told.stderr)["ledger"]["balanced"])

    def test_set_changes_one_value(self):
        run = self.run_pipeline(SHORT, "--set", "sources.clock.frames=7")
        self.assertEqual(len(run.rows), 7)
        path = self.write(SHORT.replace("${OUTPUT:--}", str(self.folder / "rows")))
        told = call([MILLRACE, "run", path, "--set", "stages.results.path=-"])
        self.assertEqual(len(told.stdout.splitlines()), 100, told.stderr)
        self.assertFalse((self.folder / "rows").exists())

    def test_a_source_that_only_a_program_can_feed_is_refused(self):
        self.millrace("run", self.write(SHORT.replace('"null", frames: 100', "push, format: u8 4")), code=64,
                      says="clock")

    def test_a_full_disk_is_74_with_the_ledger(self):
        self.millrace("run", self.write(SHORT), "--output", "/dev/full", code=74,
                      says=("No space left", "ledger: ", " balanced"))
        with open("/dev/full", "w") as full:
            done = subprocess.run([MILLRACE, "run", str(self.write(SHORT))], stdout=full, stderr=subprocess.PIPE,
                                  text=True)
        self.assertEqual(done.returncode, 74, done.stderr)

    def closed_after_a_line(self, command):
        """Reads one line, closes the pipe, and returns the exit code and the messages."""
        run = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertTrue(run.stdout.readline())
        run.stdout.close()
        code = run.wait(timeout=TIMEOUT)
        told = run.stderr.read().decode()
        run.stderr.close()
        return code, told

    def test_a_reader_that_has_seen_enough_ends_an_endless_run_quietly(self):
        """Like `yes | head`: 141, silently. A named pipe is different."""
        self.assertEqual(self.closed_after_a_line([MILLRACE, "run", self.write(ENDLESS)]), (141, ""))
        nodes = ENDLESS + "nodes: {a: {stages: [pass]}, b: {stages: [results]}}\n"
        self.assertEqual(self.closed_after_a_line([MILLRACE, "run", self.write(nodes)]), (141, ""))
        code, told = self.closed_after_a_line([MILLRACE, "run", self.write(ENDLESS), "--json"])
        summary = json.loads(told)
        self.assertEqual((code, summary["exit_code"], summary["error"]),
                         (141, 141, "the reader of standard output has closed it"))
        self.assertTrue(summary["ledger"]["balanced"])
        shell = subprocess.run(["bash", "-c", '"$0" run "$1" | head -n 2; echo "${PIPESTATUS[@]}"', MILLRACE,
                                str(self.write(ENDLESS))], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual((shell.stdout.splitlines()[2:], shell.stderr), (["141 0"], ""))
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        run = start([MILLRACE, "run", self.write(ENDLESS), "--output", fifo], stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE)
        select.select([reader], [], [], TIMEOUT)
        os.close(reader)
        self.assertEqual(run.wait(timeout=TIMEOUT), 74)
        self.assertIn(b"Broken pipe", run.stderr.read())
        run.stderr.close()

    def test_a_fifo_without_a_reader_is_waited_for(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        run = start([MILLRACE, "run", self.write(SHORT), "--output", fifo], stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, text=True)
        self.assertIn("waits until a program reads", run.stderr.readline())
        self.assertEqual(len(fifo.read_text().splitlines()), 100)
        self.assertEqual(run.wait(timeout=TIMEOUT), 0)
        run.stderr.close()

    def test_a_terminal_that_cannot_go_back_is_not_asked_to(self):
        pipeline = self.write(ENDLESS)
        nodes = self.write(ENDLESS + "nodes: {a: {stages: [pass]}, b: {stages: [results]}}\n", "nodes.yaml")
        for path in (pipeline, nodes):
            for kind, erases in (("dumb", False), ("", False), ("xterm", True)):
                with self.subTest(path=path, kind=kind):
                    leader, follower = self.terminal()
                    run = start([MILLRACE, "run", path, "--set", "sources.clock.frames=200", "--output", os.devnull],
                                stdout=subprocess.DEVNULL, stderr=follower, env={**os.environ, "TERM": kind})
                    os.close(follower)
                    told = drain(leader)
                    self.assertEqual(run.wait(timeout=TIMEOUT), 0)
                    self.assertEqual("\x1b[K" in told, erases, told)
                    self.assertIn("ledger: 200 in = 200 delivered", told)

    def test_every_verb_ends_quietly_when_its_reader_has_gone(self):
        pipeline = self.write(SHORT)
        for arguments in (["list"], ["list", "--json"], ["inspect", "preprocess"], ["inspect", "--json", "preprocess"],
                          ["schema"], ["plan", pipeline], ["plan", pipeline, "--json"], ["graph", pipeline], ["--help"],
                          ["run", "--help"], ["check", pipeline], ["check", pipeline, "--format", "json"],
                          ["run", pipeline, "--json", "--output", "/dev/null"]):
            with self.subTest(arguments=arguments):
                reader, writer = os.pipe()
                os.close(reader)
                with os.fdopen(writer, "w") as gone:
                    done = subprocess.run([MILLRACE, *map(str, arguments)], stdout=gone, stderr=subprocess.PIPE,
                                          text=True, timeout=TIMEOUT)
                self.assertEqual((done.returncode, done.stderr), (141, ""))

    def test_closed_streams_are_no_place_for_results(self):
        """Files opened next do not get the closed streams' numbers."""
        pipeline = self.write(SHORT)
        for closed, arguments, code in ((1, ["run", pipeline], 74), (2, ["run", pipeline], 0), (1, ["--version"], 74),
                                        (0, ["check", "-"], 74)):
            with self.subTest(arguments=arguments, closed=closed):
                done = call(["sh", "-c", f'exec "$0" "$@" {closed}>&-', MILLRACE, *arguments])
                self.assertEqual(done.returncode, code, done.stderr)

    def test_a_terminal_shows_progress_and_a_summary(self):
        leader, follower = self.terminal()
        run = start([MILLRACE, "run", self.write(ENDLESS), "--set", "sources.clock.frames=200",
                     "--output", self.folder / "out.jsonl"], stdout=subprocess.DEVNULL, stderr=follower)
        os.close(follower)
        text = drain(leader)
        self.assertEqual(run.wait(timeout=TIMEOUT), 0)
        self.assertRegex(text, r"\rframes \d+|frames \d+.* fps, 0 dropped")
        self.assertRegex(text, r"ledger: 200 in = 200 delivered \+ 0 dropped \+ 0 absorbed \+ 0 in flight: balanced")
        self.assertIn("p99", text)

    def test_the_summary_is_as_narrow_as_the_terminal(self):
        """A stage's row is one line, or each is a paragraph; no word may be cut."""
        named = SHORT.replace("clock", "clock-of-the-long-name-that-a-camera-may-have")
        for columns in ("80", "60"):
            leader, follower = self.terminal()
            run = start([MILLRACE, "run", self.write(named), "--output", self.folder / "out.jsonl"],
                        stdout=subprocess.DEVNULL, stderr=follower, env={**os.environ, "COLUMNS": columns})
            os.close(follower)
            lines = drain(leader).replace("\r", "").splitlines()
            self.assertEqual(run.wait(timeout=TIMEOUT), 0)
            of_stages = lines[next(n for n, line in enumerate(lines) if " in " in line and "a second" in line) + 1:]
            of_stages = of_stages[:next(n for n, line in enumerate(of_stages) if "ledger:" in line)]
            self.assertGreater(len(of_stages), 5, lines)
            self.assertEqual([line for line in of_stages if len(line) > int(columns)], [])

    def test_quiet_is_quiet_on_a_terminal(self):
        leader, follower = self.terminal()
        run = start([MILLRACE, "run", self.write(SHORT), "--quiet", "--output", self.folder / "out.jsonl"],
                    stdout=subprocess.DEVNULL, stderr=follower)
        os.close(follower)
        self.assertEqual(drain(leader), "")
        self.assertEqual(run.wait(timeout=TIMEOUT), 0)


def drain(leader):
    """The text written to a terminal until the other side closed."""
    text = b""
    while select.select([leader], [], [], TIMEOUT)[0]:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux returns EIO when nobody has the terminal open
            break
        text += piece
    os.close(leader)
    return text.decode()


class Bench(Case):
    def test_null_counts_every_hop(self):
        told = self.millrace("bench", "null", "--frames", "1000", "--stages", "3", "--json")
        figures = json.loads(told.stdout)
        self.assertEqual((figures["frames"], figures["stages"]), (1000, 3))
        self.assertLess(0, figures["wall_ns_per_hop"])

    def test_paced_sources_keep_their_pace(self):
        told = self.millrace("bench", "paced", "--sources", "20", "--seconds", "1", "--json")
        figures = json.loads(told.stdout)
        self.assertEqual(figures["frames"], 20 * 30)
        self.assertLess(0, figures["worst_ms"])

    def test_nothing_is_allocated_for_a_frame(self):
        told = self.millrace("bench", "soak", "--frames", "20000", "--json")
        figures = json.loads(told.stdout)
        self.assertEqual(figures["frames"], 20000)
        self.assertLess(figures["allocations_per_frame"], 0.01)
