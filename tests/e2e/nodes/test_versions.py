"""Nodes of this version and of the next one. They work together while both speak a version of the messages, and refuse
each other by name if there is none."""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess

import harness
from harness import MILLRACE, ROOT, Case, pipeline, rows_in

AT_ONCE = 2
BUILD = pathlib.Path(MILLRACE).resolve().parent
FRAMES = 30
MESSAGES = "engine/transport/message.h"
SPOKEN = re.compile(r"MR_PROTOCOL_OLDEST = (\d+), MR_PROTOCOL_NEWEST = (\d+)")
OLDEST, NEWEST = map(int, SPOKEN.search((ROOT / MESSAGES).read_text()).groups())


class Versions(Case):
    def built(self, headers, uses):
        """The command, built with these headers in a folder of their own: the files that use their constants are
        compiled again and linked before the build's libraries."""
        if not (BUILD / "compile_commands.json").exists() or not (BUILD / "build.ninja").exists():
            self.skipTest(f"no compile_commands.json and build.ninja in {BUILD}")
        objects = []
        for entry in json.loads((BUILD / "compile_commands.json").read_text()):
            words, source = shlex.split(entry["command"]), pathlib.Path(entry["file"])
            place = str(source.relative_to(ROOT))
            if place.startswith(("tests/", "tools/python/")) or not re.search(uses, source.read_text()):
                continue
            objects.append(str(self.folder / f"{source.stem}.o"))
            words[words.index("-o") + 1] = objects[-1]
            compiler = next(i for i, word in enumerate(words) if word.startswith("-"))
            subprocess.run([*words[:compiler], f"-I{headers}", *words[compiler:]], cwd=entry["directory"], check=True)
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "millrace"], check=True,
                                  capture_output=True, text=True).stdout.splitlines()
        link = next(part for part in commands[-1].split(" && ") if " -o millrace " in part)
        made = self.folder / "millrace"
        link = link.replace(" -o millrace ", f" {shlex.join(objects)} -o {shlex.quote(str(made))} ")
        subprocess.run(link, shell=True, cwd=BUILD, check=True)
        return made

    def next_version(self):
        headers = self.folder / "include"
        shutil.copytree(ROOT / "engine/include", headers)
        header = headers / "millrace/version.h"
        header.write_text(re.sub(r'(?<=VERSION ")(\d+)\.(\d+)',
                                 lambda numbers: f"{numbers[1]}.{int(numbers[2]) + 1}", header.read_text()))
        return self.built(headers, "MILLRACE_VERSION")

    def speaking(self, oldest, newest):
        """The command, for other versions of the messages."""
        header = self.folder / "include" / MESSAGES
        header.parent.mkdir(parents=True)
        header.write_text(SPOKEN.sub(f"MR_PROTOCOL_OLDEST = {oldest}, MR_PROTOCOL_NEWEST = {newest}",
                                     (ROOT / MESSAGES).read_text()))
        return self.built(self.folder / "include", r"MR_PROTOCOL_(OLD|NEW)EST")

    def started(self, producer, consumer, **options):
        """Both nodes of a run, each by another command, and the path of its results."""
        results = self.folder / "rows.jsonl"
        results.unlink(missing_ok=True)
        path = self.write(pipeline(
            {"a": 'uri: "lavfi:testsrc=size=64x48:rate=60:duration=2", duration: 500ms'}, decode="",
            hog="type: hog, size: 32x32", results=f"type: jsonl, path: {results}",
            nodes={"left": f"stages: [decode, hog], listen: tcp://127.0.0.1:{harness.free_port()}",
                   "right": "stages: [results]"}))
        return results, [self.spawn([command, "run", path, "--node", node], stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "XDG_RUNTIME_DIR": str(self.folder)},
                                    **{"stderr": subprocess.PIPE, **options})
                         for command, node in ((producer, "left"), (consumer, "right"))]

    def work_together(self, other):
        for producer, consumer in ((MILLRACE, other), (other, MILLRACE)):
            with self.subTest(producer=producer):
                results, children = self.started(producer, consumer)
                for child in children:
                    self.ended(child)
                self.assertEqual([row["seq"] for row in rows_in(results)], list(range(FRAMES)))

    def test_nodes_of_two_versions(self):
        other = self.next_version()
        versions = [self.checked([command, "--version"]).stdout for command in (MILLRACE, other)]
        self.assertEqual(len(set(versions)), 2, versions)
        self.work_together(other)

    def test_messages_of_the_newest_version_that_both_speak(self):
        self.work_together(self.speaking(OLDEST, NEWEST + 1))

    def test_no_common_version(self):
        other = self.speaking(NEWEST + 1, NEWEST + 2)
        spoken = {MILLRACE: f"{OLDEST} to {NEWEST}", other: f"{NEWEST + 1} to {NEWEST + 2}"}
        for producer, consumer in ((MILLRACE, other), (other, MILLRACE)):
            with self.subTest(producer=producer), open(self.folder / "told", "w+") as told:
                results, children = self.started(producer, consumer, stderr=told)
                refused = [f"{peer}: refused: node right speaks versions {spoken[consumer]} of the messages, node left "
                           f"{spoken[producer]}: " for peer in ("left", "right")]
                self.wait_until(lambda: all(one in pathlib.Path(told.name).read_text() for one in refused),
                                running=children[0])
                for child in children:
                    self.ended(child, signal.SIGINT)
                self.assertEqual(rows_in(results) if results.exists() else [], [])
