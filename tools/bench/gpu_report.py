"""The report of tools/bench/gpu: results as they come, kept in a file, with the whole output of every program in a log
beside it."""
import json
import os
import pathlib
import subprocess
import sys
import time

WRONG_ARGUMENTS = 64


def say(text):
    print(f"tools/bench/gpu: {text}", file=sys.stderr, flush=True)


def last(text, lines=5):
    return text.strip().splitlines()[-lines:]


def run(words, seconds, **more):
    """Exit status (None: it took too long), both outputs, and seconds."""
    begun = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds,
                              stdin=subprocess.DEVNULL, errors="replace", **more)
        status, said, wrong = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        status, said, wrong = None, *((text or b"").decode(errors="replace") for text in (late.stdout, late.stderr))
    except OSError as error:
        status, said, wrong = 127, "", f"{words[0]}: {error.strerror}"
    return status, said, wrong, round(time.monotonic() - begun, 1)


class OutOfTime(Exception):
    """No time is left to begin another program, or the last one was not done in it."""


class Stopped(Exception):
    """A result makes the next steps worthless: somebody has to look at it first."""


class Report(dict):
    """Every result is written to the file of --json at once, so nothing is lost if the run is killed; a resumed run
    does not measure again. The log (the same name with .log) has the full output of each program, appended."""

    def __init__(self, given):
        super().__init__(device=given.device)
        self.given, self.begun, self.programs = given, time.monotonic(), 0
        if given.resume and given.json.exists():
            self.take_over(json.loads(given.json.read_text()))

    def take_over(self, before):
        if before.get("device") != self.given.device:
            say(f"{self.given.json} is of {before.get('device')}, not of {self.given.device}")
            sys.exit(WRONG_ARGUMENTS)
        for step in self.given.again or []:
            before.pop(step, None)
        self.update(before)
        for key in ("stopped", "waiting", "targets"):
            self.pop(key, None)

    def left(self):
        """Seconds; None: no limit."""
        return None if self.given.budget is None else self.given.budget - (time.monotonic() - self.begun)

    def write(self):
        if self.given.json:
            new = self.given.json.with_name(self.given.json.name + ".new")
            new.write_text(json.dumps(self, indent=1) + "\n")
            new.replace(self.given.json)

    def log(self, words, done):
        if self.given.json:
            with self.given.json.with_suffix(".log").open("a") as file:
                print("$", *words, f"\n[exit {done[0]}, {done[3]} s]\n{done[1]}{done[2]}", file=file)

    def run(self, words, seconds=None, environment=None, folder=None):
        """As run(). If the budget ends the program it is run again when resumed; if it is then cut once more, although
        it was the first of its call, more calls would not help, and that is its result."""
        left, most, first = self.left(), seconds or self.given.seconds, self.programs == 0
        if left is not None and left <= 1:
            raise OutOfTime()
        self.programs += 1
        done = run(words, most if left is None else min(most, left),
                   env={**self.given.environment, **(environment or {})}, cwd=folder)
        self.log(words, done)
        if done[0] is None and left is not None and left < most:
            name, cut = pathlib.Path(words[0]).name, self.setdefault("cut", {})
            cut[name] = cut.get(name, 0) + 1
            if cut[name] < 2 or not first:
                self.write()
                raise OutOfTime()
        return done

    def ask(self, step, name, measure):
        """The result of that name; measured if there is none yet. An error of the measurement is a result as well."""
        results = self.setdefault(step, {})
        if name in results:
            return results[name]
        try:
            results[name] = measure()
        except (OutOfTime, Stopped):
            raise
        except Exception as error:  # whatever a program printed: the other steps are still worth their time
            results[name] = {"failed": f"{type(error).__name__}: {error}"}
        say(f"{step} {name}: {json.dumps(results[name])}")
        self.write()
        return results[name]


def environment_with(folders):
    """The environment for programs that find libraries in these folders first."""
    there = [str(folder) for folder in folders] + [os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folder for folder in there if folder)}
