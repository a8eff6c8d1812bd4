"""`millrace help`: topics use the documents' words, groff accepts the manual pages list every
option, and completions work in bash and zsh."""
import collections
import functools
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import time

from harness import MILLRACE, ROOT, TIMEOUT, Case, call

TOPICS = ("pipeline", "devices", "nodes", "keys", "resume", "formats", "exit-codes", "environment", "sources",
          "cameras", "video", "training", "objects", "services", "http", "runs", "python")


@functools.cache
def told(*words):
    """What the command prints, which is the same each time."""
    return call([MILLRACE, *words])


def verbs():
    return re.findall(r"^  (\w+) ", told("--help").stdout, re.M)


def options_of(verb):
    return set(re.findall(r"^  (--[a-z][a-z-]*)", told(verb, "--help").stdout, re.M))


def sections():
    """{topic: Markdown}, as tools/topics.cmake splits it."""
    found = {}
    for name, document, rest in re.findall(r'^topic\(([a-z-]+) "[^"]*" (\S+?)\s*((?:"[^"]*"\s*)*)\)',
                                           (ROOT / "tools/topics.cmake").read_text(), re.M):
        text = (ROOT / document).read_text()
        headings = re.findall(r'"([^"]*)"', rest)
        parts = [re.search(rf"^##+ {re.escape(heading)}\n(?:.*\n)*?(?=^## |\Z)", text, re.M)[0] for heading in headings]
        found[name] = "".join(parts) if headings else text
    return found


def words(text):
    return collections.Counter(re.findall(r"[\w./:=$~*-]+", text))


def bare(markdown):
    """Removes pictures, link targets, escapes, and table and fence lines."""
    text = re.sub(r"^!\[.*$|^```\w*$|^\| ---.*$", "", markdown, flags=re.M)
    text = re.sub(r"\[([^][]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\\([_*<>|])", r"\1", text).replace("`", "").replace("|", " ")


class Topics(Case):
    def test_they_are_listed(self):
        done = told("help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        listed = re.findall(r"^  ([a-z-]+) ", done.stdout, re.M)
        self.assertEqual(listed, list(sections()))
        self.assertLessEqual(set(TOPICS), set(listed))
        for topic in listed:
            self.assertIn(topic, told("--help").stdout)

    def test_they_are_the_words_of_the_documents(self):
        for topic, markdown in sections().items():
            done = told("help", topic)
            self.assertEqual((done.returncode, done.stderr), (0, ""), topic)
            missing = words(bare(markdown)) - words(done.stdout.replace("`", "").replace("|", " "))
            missing.pop("-", None)
            self.assertEqual(missing, {}, topic)
            self.assertNotRegex(done.stdout, r"(?m)\]\(|^#|\| ---|^ *---", topic)

    def test_paragraphs_are_as_wide_as_80_columns(self):
        for topic in TOPICS:
            text = told("help", topic).stdout.split("Examples:")[-1]
            for line in text.splitlines():
                if re.match(r"  [^ ]", line):
                    self.assertLessEqual(len(line), 80, topic)

    def test_other_words(self):
        done = told("help", "format")
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertIn('did you mean "formats"?', done.stderr)
        self.assertIn("it is a stage type", told("help", "filter").stderr)
        for arguments in (["formats", "nodes"], ["--man", "bash"], ["--completion", "fish"],
                          ["formats", "--man", "millrace"], ["--man", "millrace", "--completion", "bash"]):
            self.assertEqual(told("help", *arguments).returncode, 64, arguments)


class Manual(Case):
    def page(self, name):
        source = told("help", "--man", name)
        self.assertEqual((source.returncode, source.stderr), (0, ""))
        groff = shutil.which("groff")
        if not groff:
            self.skipTest("groff is not installed")
        done = subprocess.run([groff, "-man", "-Tutf8", "-ww", "-rLL=100n", "-P-cbou", "-Kutf8"], input=source.stdout,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_command(self):
        page = self.page("millrace")
        for verb in verbs():
            self.assertRegex(page, rf"(?m)^   millrace {verb}$")
            for option in options_of(verb):
                self.assertIn(option, page)
        for variable in re.findall(r"^\| `([A-Z_]+)`", sections()["environment"], re.M):
            self.assertIn(variable, page)
        for heading in ("NAME", "SYNOPSIS", "VERBS", "OPTIONS", "SIGNALS", "EXIT CODES", "ENVIRONMENT", "SEE ALSO"):
            self.assertRegex(page, rf"(?m)^{heading}$")

    def test_the_pipeline(self):
        page = self.page("millrace.yaml")
        for key in re.findall(r"^\| `([a-z_]+)` \|", sections()["reference"], re.M):
            self.assertIn(key, page)
        self.assertRegex(page, r"(?m)^NODES$")


class Installed(Case):
    def test_what_a_person_looks_for_is_installed(self):
        cmake = shutil.which("cmake")
        self.checked([cmake, "--install", pathlib.Path(MILLRACE).parent, "--prefix", self.folder])
        share = self.folder / "share"
        for page, file in (("millrace", "man/man1/millrace.1"), ("millrace.yaml", "man/man5/millrace.yaml.5")):
            self.assertEqual((share / file).read_text(), told("help", "--man", page).stdout)
        for shell, file in (("bash", "bash-completion/completions/millrace"), ("zsh", "zsh/site-functions/_millrace")):
            self.assertEqual((share / file).read_text(), told("help", "--completion", shell).stdout)
        for path in [*(ROOT / "pipelines").rglob("*.yaml"), ROOT / "pipelines/millrace.schema.json",
                     *(ROOT / "pipelines").rglob("*.c"), ROOT / "proto/results.proto"]:
            text = path.read_text()
            if path.suffix == ".yaml":  # it writes to a service's folder, or the working one
                text = text.replace("build/millrace ", "millrace ")
                text = re.sub(r"(\.\./)+build/", "${STATE_DIRECTORY:-${PWD:-.}}/", text).replace(" build/", " ")
            self.assertEqual((share / "millrace" / path.relative_to(ROOT)).read_text(), text)
        documents = [path for path in ROOT.glob("*/**/*.md") if path.relative_to(ROOT).parts[0] != "build"]
        self.assertGreater(len(documents), 6)
        for path in [ROOT / "README.md", *documents]:
            copy = share / "doc/millrace" / path.relative_to(ROOT)
            self.assertEqual(copy.read_text(), path.read_text())
            # Other documents and pictures exist; sources are in the repository.
            for link in re.findall(r"\]\(([^)#]+\.(?:md|svg|proto))\b", copy.read_text()):
                self.assertTrue(link.startswith("https://") or (copy.parent / link).exists(), f"{copy}: {link}")


class Completion(Case):
    def bash(self, *typed):
        """The completions for the last word typed."""
        script = self.write(told("help", "--completion", "bash").stdout, "millrace.bash")
        line = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _millrace; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        done = call(["bash", "-c", line, "bash", script, "millrace", *typed])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return set(done.stdout.split())

    def test_bash(self):
        self.assertEqual(self.bash(""), set(verbs()) | {"--help", "--version"})
        self.assertEqual(self.bash("de"), {"deploy", "devices"})
        for verb in verbs():
            self.assertEqual(self.bash(verb, "--"), options_of(verb), verb)
        self.assertEqual(self.bash("run", "p.yaml", "--log", "w"), {"warning"})
        self.assertLessEqual({"formats", "run"}, self.bash("help", ""))
        self.assertEqual(self.bash("inspect", "js"), {"jsonl"})
        self.assertEqual(self.bash("ctl", "en"), {"enable"})
        self.assertEqual(self.bash("run", "pipe"), set())  # a file: bash completes it itself

    def test_zsh(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        folder = self.folder / "functions"
        folder.mkdir()
        (folder / "_millrace").write_text(told("help", "--completion", "zsh").stdout)
        (self.folder / "clip.mp4").write_text("")
        for typed, expected in (("millrace chec\t", "millrace check "), ("millrace run --fail-on\t", "--fail-on-loss "),
                                ("millrace run --audi\t", "--audit="),
                                ("millrace run p.yaml --log=warn\t", "--log=warning "),
                                ("millrace inspect json\t", "inspect jsonl "),
                                ("millrace help exit\t", "help exit-codes "), ("millrace run cl\t", "run clip.mp4 ")):
            self.assertIn(expected, self.zsh(folder, typed, expected), typed)

    def zsh(self, folder, typed, expected):
        """The terminal's contents after this text was typed."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "TERM": "dumb",
                                                    "HOME": str(self.folder)})
        shown, until = "", time.monotonic() + TIMEOUT / 10
        try:
            begin = f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; PS1=rea; PS1+='dy> '\n"
            os.write(terminal, begin.encode())
            sent = False
            while time.monotonic() < until and not (sent and expected in shown):
                if select.select([terminal], [], [], 0.1)[0]:
                    shown += os.read(terminal, 65536).decode(errors="replace")
                if not sent and "ready> " in shown:
                    os.write(terminal, typed.encode())
                    sent, shown = True, ""
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(terminal)
        return shown
