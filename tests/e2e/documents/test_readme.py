"""The documents are true: YAML is valid, C compiles, commands run, links lead somewhere, and named files exist."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import PIL.Image

from harness import MILLRACE, MODELS, PICTURES, ROOT, SAMPLES, VERSION, Case, call, need_models, pipeline

README, PIPELINES, TRAINING, COMMAND, WRITING = (ROOT / name for name in (
    "README.md", "pipelines/README.md", "pipelines/TRAINING.md", "tools/README.md", "stages/WRITING.md"))
FOLDERS = ("engine", "kernels", "pipelines", "proto", "stages", "tests", "tools")
DOCUMENTS = {path: path.read_text()
             for path in (ROOT / "README.md", *sorted(path for name in FOLDERS
                                                      for path in (ROOT / name).rglob("*.md")))}


def blocks(language, document):
    """Texts between fences that name the language; "": fences that name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENTS[document], re.M | re.S)
    return [block for named, block in found if named == language]


def headings(text, depth="##+"):
    return re.findall(rf"^{depth} (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)


def anchors(text):
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings(text)}


def table(heading, document):
    """The first cells in the table whose header starts with `heading`."""
    rows = DOCUMENTS[document].split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [row.split("|")[1].strip() for row in rows]


# The lessons' C: whole files, then parts of others.
LESSONS = ("stages/sink/null.c", "pipelines/plugin/darkness.c", "pipelines/plugin/negative.c",
           "pipelines/plugin/bright.c")
EXCERPTS = ("kernels/classical/classical_rows.c", "kernels/classical/classical_avx2.c",
            "tests/kernels/classical/test_classical.c")

# Where documents name millrace's version.
NAMED = re.compile(r"(?:millrace[-:]|tools/release |dist/|git tag -s v|prints the version, )(\d+\.\d+\.\d+)")


class Readme(Case):
    def build_plugin(self):
        """Builds the lesson's stage with the command after it, where no header is installed."""
        self.write(next(text for text in blocks("c", WRITING) if "MR_PLUGIN" in text), "darkness.c")
        self.compile(re.search(r"^    (cc .*darkness.c .*)$", DOCUMENTS[WRITING], re.M)[1])

    def compile(self, command):
        words = command.replace("$(pkg-config --cflags millrace)", f"-I{ROOT}/engine/include")
        self.checked(shlex.split(words), cwd=self.folder)

    def test_the_lesson_runs(self):
        self.build_plugin()
        (pipeline,) = blocks("yaml", WRITING)
        self.assertEqual(pipeline, (ROOT / "pipelines/plugin/darkness.yaml").read_text())
        self.write(pipeline, "darkness.yaml")
        (self.folder / "lobby.mp4").symlink_to(SAMPLES / "realshort.mp4")
        commands = re.findall(r"^    millrace ((?:inspect|run) darkness.*)$", DOCUMENTS[WRITING], re.M)
        self.assertEqual(len(commands), 2)
        for command in commands:
            done = self.millrace(*shlex.split(command), cwd=self.folder)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["tensors"][0]["name"] for row in rows], ["darkness"] * 36)

    def test_the_yaml_is_proven(self):
        self.build_plugin()
        for document in DOCUMENTS:
            for text in blocks("yaml", document):
                self.run_pipeline(text, "--plugins", verb="check", rows=False)

    def test_the_c_compiles(self):
        count = 0
        for document in DOCUMENTS:
            for text in blocks("c", document):
                whole = [ROOT / name for name in EXCERPTS if text in (ROOT / name).read_text()]
                path = whole[0] if whole else self.write(text, "program.c")
                done = call(["cc", "-std=c11", "-D_GNU_SOURCE", "-mavx2", "-Wall", "-Wextra", "-Werror",
                             "-Wno-unused-parameter", "-fsyntax-only", f"-I{ROOT}/engine/include", f"-I{ROOT}", path])
                self.assertEqual(done.returncode, 0, f"{document}\n{done.stderr}")
                count += 1
        self.assertGreaterEqual(count, 4)

    def test_the_lessons_show_the_files(self):
        shown = blocks("c", WRITING)
        self.assertEqual(shown[:len(LESSONS)], [(ROOT / name).read_text() for name in LESSONS])
        excerpts = shown[len(LESSONS):]
        self.assertEqual(len(excerpts), len(EXCERPTS))
        for excerpt, name in zip(excerpts, EXCERPTS):
            self.assertIn("\n" + excerpt, (ROOT / name).read_text(), name)

    def test_the_stage_of_readme_runs(self):
        _, stage = blocks("c", README)
        self.write(stage, "evens.c")
        self.compile(re.search(r"`(cc .* evens.c [^`]*)`", DOCUMENTS[README])[1])
        option = re.search(r"`(--plugin\s+./libevens.so)`", DOCUMENTS[README])[1].split()
        path = self.write(pipeline(dict(count='type: "null", frames: 7'), name="evens", evens="", null=""))
        done = self.millrace("run", path, *option, "--json", cwd=self.folder)
        ledger = json.loads(done.stdout)["ledger"]
        self.assertEqual((ledger["delivered"], ledger["absorbed"]),
                         (4, [{"stage": "evens", "reason": "odd", "frames": 3}]))

    def test_the_commands_run(self):
        commands = [command for text in DOCUMENTS.values()
                    for command in re.findall(r"^    (build/millrace .*)$", text, re.M)]
        self.assertTrue(commands)
        need_models()
        shop = self.shop()
        for command in commands:
            command, _, kept = command.partition(" > ")
            here = ("units", "jobs", "lobby.jsonl", "lobby.svg", "keys", "trace.json", "costs.json",
                    "lobby.checkpoint", "shop.jsonl")
            files = {"lobby.mp4": SAMPLES / "realshort.mp4", "shop": shop,
                     **{name: self.folder / name for name in here}}
            words = [files.get(word, word) for word in shlex.split(command)[1:]]
            done = subprocess.run([MILLRACE, *map(str, words)], cwd=ROOT, capture_output=True, text=True,
                                  env={**os.environ, "MODELS": str(MODELS)})
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
            if kept in files:
                files[kept].write_text(done.stdout)

    def shop(self):
        """Two folders, one per class, with pictures that a network can tell apart."""
        for name, picture in (("bird", "squirrel_cls.jpg"), ("fruit", "orange.jpg")):
            folder = self.folder / "shop" / name
            folder.mkdir(parents=True)
            with PIL.Image.open(PICTURES / picture) as whole:
                width, height = whole.size
                for number in range(4):
                    part = whole.convert("RGB").crop((number * width // 16, 0, width, height - number * height // 16))
                    part.save(folder / f"{number}.png")
        return self.folder / "shop"

    def test_a_classifier_of_ones_own(self):
        """Runs the documented recipe and checks the accuracy that the summary reports."""
        need_models()
        shop = self.shop()
        environment = {**os.environ, "MODELS": str(MODELS)}
        command = re.search(r"^    build/millrace (run .* --input shop .*)$", DOCUMENTS[TRAINING], re.M)[1]
        words = [{"shop": shop, "shop.jsonl": self.folder / "shop.jsonl"}.get(word, word)
                 for word in shlex.split(command)]
        done = subprocess.run([MILLRACE, *map(str, words)], cwd=ROOT, capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        (recipe,) = [text for text in blocks("python", TRAINING) if "linalg" in text]
        done = subprocess.run([sys.executable, "-c", recipe], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = re.search(r"`(classify: \{input: features, weights: shop.npy.*\})`", DOCUMENTS[TRAINING])[1]
        text = (ROOT / "pipelines/features.yaml").read_text().replace("input: features, features: true",
                                                                      "input: classify")
        path = self.write(text.replace("  results:", f"  {line}\n  results:"))
        run = self.run_pipeline(path, "--input", shop, "--set", "sources.video.labels=true", environment=environment)
        self.assertEqual(len(run.rows), 8)
        self.assertEqual([row["classes"][0]["label"] for row in run.rows], [row["label"] for row in run.rows])
        accuracy = run.summary["sources"][0]["accuracy"]
        self.assertEqual((accuracy["frames"], accuracy["top_1"], accuracy["k"]), (8, 1, 2))

    def test_the_plan_is_what_is_printed(self):
        need_models()
        command = re.search(r"^    build/millrace (plan .* --workers 2)$", DOCUMENTS[COMMAND], re.M)[1]
        shown = next(text for text in blocks("", COMMAND) if "  source  type" in text)
        done = subprocess.run([MILLRACE, *shlex.split(command)], cwd=ROOT, capture_output=True, text=True,
                              env={**os.environ, "MODELS": str(MODELS)})
        # The digest covers what is written, if no variable changes it.
        without = {name: value for name, value in os.environ.items() if name not in ("INPUT", "OUTPUT", "MODELS")}
        plain = subprocess.run([MILLRACE, *shlex.split(command), "--offline"], cwd=ROOT, capture_output=True, text=True,
                               env=without)
        digest = re.compile("^digest .*$", re.M)
        self.assertEqual(digest.sub(digest.search(plain.stdout)[0], done.stdout), shown)

    def test_a_result_is_what_is_printed(self):
        need_models()
        shown = json.loads(blocks("json", README)[0])
        done = subprocess.run([MILLRACE, "run", "pipelines/classify-video.yaml", "--set", "stages.classify.top_k=2"],
                              cwd=ROOT, capture_output=True, text=True, env={**os.environ, "MODELS": str(MODELS)})
        self.assertEqual(done.returncode, 0, done.stderr)
        (row,) = [row for row in map(json.loads, done.stdout.splitlines()) if row["seq"] == shown["seq"]]
        for one, other in zip(row["classes"], shown["classes"], strict=True):
            self.assertAlmostEqual(one.pop("score"), other.pop("score"), delta=0.01)
        self.assertEqual(row, shown)

    def test_links_lead_somewhere(self):
        for document, text in DOCUMENTS.items():
            for path, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^)]*)\)", text)):
                if path.startswith("https://"):
                    continue
                place = (document.parent / path).resolve() if path else document
                self.assertTrue(place.exists(), f"{document}: {path}")
                if anchor:
                    self.assertIn(anchor, anchors(place.read_text()), f"{document}: {path}")

    def test_every_section_is_linked_to_on_top(self):
        for document, text in DOCUMENTS.items():
            above = text.split("\n## ", 1)[0]
            for section in headings(text, "##") if ") ·\n" in above else []:
                self.assertIn(f"[{section}](#", above, document)

    def test_readme_is_short_and_leads_to_all(self):
        self.assertLessEqual(len(DOCUMENTS[README].splitlines()), 250)
        linked = re.findall(r"^\| \[([^]]*)\]\(", DOCUMENTS[README], re.M)
        # The pages of jobs are in their folder's README; test_jobs.py checks that.
        pages = {path for path in DOCUMENTS if path.parent.name == "jobs" and path.name != "README.md"}
        self.assertEqual(sorted(linked), sorted(str(path.relative_to(ROOT)) for path in DOCUMENTS
                                                if path != README and path not in pages))

    def test_the_folders_of_the_engine_are_in_its_table(self):
        told = {name.strip("`/") for name in table("folder", ROOT / "engine/README.md")}
        self.assertEqual(told, {path.name for path in (ROOT / "engine").iterdir() if path.is_dir()} - {"include"}
                         | {"include/millrace"})

    def test_the_version_is_that_of_the_headers(self):
        self.assertEqual(headings(DOCUMENTS[ROOT / "tools/CHANGELOG.md"], "##")[0], VERSION)
        named = [(f"{path.relative_to(ROOT)}:{number}", version) for path, text in DOCUMENTS.items()
                 for number, line in enumerate(text.split("\n"), 1) for version in NAMED.findall(line)]
        self.assertGreater(len(named), 5)
        self.assertIn("README.md", {place.split(":")[0] for place, _ in named})
        self.assertEqual([one for one in named if one[1] != VERSION], [])

    def test_files_that_are_named_are_there(self):
        """C sources and headers, by path in the tree or in the document's folder."""
        count = 0
        for document, text in DOCUMENTS.items():
            for name in re.findall(r"`((?:\w+/)+[a-z]\w+\.(?:[ch]|cpp|py|yaml))`", text):
                places = (ROOT / name, document.parent / name, ROOT / "engine/include" / name)
                self.assertTrue(any(place.exists() for place in places), f"{document}: {name}")
                count += 1
        self.assertGreater(count, 30)

    def test_programs_of_the_tests_are_there(self):
        named = {name for text in DOCUMENTS.values() for name in re.findall(r"^    build/(test_\w+)", text, re.M)}
        suites = {path.stem for path in (ROOT / "tests").rglob("test_*.c")}
        self.assertTrue(named)
        self.assertLessEqual(named, suites)

    def test_the_two_commands_are_there(self):
        for name in ("tools/demo", "tools/test"):
            self.assertIn(f"\n    {name}\n", DOCUMENTS[README])

    def test_suites_that_are_run_are_there(self):
        named = [name for text in DOCUMENTS.values()
                 for name in re.findall(r"ctest --test-dir \S+\s-R\s([a-z_]+)", text)]
        suites = {path.stem for path in (ROOT / "tests").rglob("test_*.c")} | {"layers"}
        self.assertTrue(named)
        self.assertLessEqual(set(named), suites)

    def test_scripts_are_there(self):
        """test_bundle and test_gpu_script test what they do."""
        named = {name for text in DOCUMENTS.values()
                 for name in re.findall(r"(?:^    |`)(tools/[a-z/_]+)(?= |$|`)", text, re.M)}
        self.assertGreater(len(named), 5)
        for name in named:
            path = ROOT / name
            self.assertTrue(path.is_dir() or path.stat().st_mode & 0o100, name)

    def test_the_types_are_those_there_are(self):
        types = [one["name"] for one in json.loads(call([MILLRACE, "list", "--json"]).stdout)]
        self.assertEqual(sorted(name.strip("`") for name in table("stage type", PIPELINES)), sorted(types))

    def test_the_pipelines_are_those_there_are(self):
        told = [name for names in table("file", PIPELINES) for name in re.findall(r"`([a-z-]+\.yaml)`", names)]
        self.assertEqual(sorted(told), sorted(path.name for path in (ROOT / "pipelines").glob("*.yaml")))

    def test_the_options_of_run_are_those_there_are(self):
        told = set(re.findall(r"--[a-z][a-z-]*", " ".join(table("option of `run`", COMMAND))))
        self.assertEqual(told | {"--help", "--version"},
                         set(re.findall(r"^  (--[a-z][a-z-]*)", call([MILLRACE, "run", "--help"]).stdout, re.M)))

    def test_the_exit_codes_are_those_of_the_header(self):
        header = (ROOT / "engine/include/millrace/status.h").read_text()
        codes = {code for code in re.findall(r"X\(MR_\w+, -?\d+, (\d+),", header)}
        shown = {code for row in table("exit code", COMMAND) for code in row.split(", ")}
        signals = {str(128 + number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}  # for train
        self.assertEqual(shown | {"75"}, codes | signals)

    def test_the_environment_is_what_is_read(self):
        """Except variables that one run's processes pass to each other, and the system's."""
        internal = {"MILLRACE_ENDED", "MILLRACE_EPOCH", "MILLRACE_WRITTEN", "HOSTNAME", "HOME", "TERM", "TMPDIR",
                    "WATCHDOG_PID", "NVIDIA_TF32_OVERRIDE"}
        sources = [path.read_text() for name in ("engine", "stages", "kernels", "tools/millrace")
                   for path in (ROOT / name).rglob("*.[ch]")]
        read = {name for text in sources
                for name in re.findall(r'(?:getenv|take_number|take_from_environment)\("([A-Z_0-9]+)"', text)}
        told = set(re.findall(r"`([A-Z][A-Z_0-9]+)`", " ".join(table("variable", COMMAND))))
        self.assertGreater(len(read), 15)
        self.assertEqual({name for name in read - told - internal if not name.startswith("SLURM_")}, set())
        self.assertEqual({name for name in told - read if not any(f'"{name}"' in text for text in sources)},
                         {"INPUT", "OUTPUT"})

    def test_the_keys_of_a_stage_are_known(self):
        for key in table("key", PIPELINES):
            name = key.strip("`")
            run = call([MILLRACE, "check", self.write(
                pipeline(dict(s='type: "null"'), name="keys", null=f'type: "null", {name}: [{{}}]'))])
            self.assertNotIn(f'unknown key "{name}"', run.stderr)
