"""Nodes of this version and of the next one. They work together, since the version of their messages is the same."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import harness
from harness import MILLRACE, ROOT, Case, pipeline, rows_in

BUILD = pathlib.Path(MILLRACE).resolve().parent
FRAMES = 30


class Versions(Case):
    def next_one(self):
        """The command, built with the next version in its header: the files that contain the version are compiled
        again and linked before the build's libraries."""
        if not (BUILD / "compile_commands.json").exists() or not (BUILD / "build.ninja").exists():
            self.skipTest(f"no compile_commands.json and build.ninja in {BUILD}")
        headers = self.folder / "include/millrace"
        shutil.copytree(ROOT / "engine/include/millrace", headers)
        text = (headers / "version.h").read_text()
        (headers / "version.h").write_text(re.sub(
            r'(?<=VERSION ")(\d+)\.(\d+)', lambda numbers: f"{numbers[1]}.{int(numbers[2]) + 1}", text))
        objects = []
        for entry in json.loads((BUILD / "compile_commands.json").read_text()):
            words, source = shlex.split(entry["command"]), pathlib.Path(entry["file"])
            place = str(source.relative_to(ROOT))
            if place.startswith(("tests/", "tools/python/")) or "MILLRACE_VERSION" not in source.read_text():
                continue
            objects.append(str(self.folder / f"{source.stem}.o"))
            words[words.index("-o") + 1] = objects[-1]
            compiler = next(i for i, word in enumerate(words) if word.startswith("-"))
            subprocess.run([*words[:compiler], f"-I{headers.parent}", *words[compiler:]], cwd=entry["directory"],
                           check=True)
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "millrace"], check=True,
                                  capture_output=True, text=True).stdout.splitlines()
        link = next(part for part in commands[-1].split(" && ") if " -o millrace " in part)
        made = self.folder / "millrace"
        link = link.replace(" -o millrace ", f" {shlex.join(objects)} -o {shlex.quote(str(made))} ")
        subprocess.run(link, shell=True, cwd=BUILD, check=True)
        return made

    def test_nodes_of_two_versions(self):
        other = self.next_one()
        versions = [self.checked([command, "--version"]).stdout for command in (MILLRACE, other)]
        self.assertEqual(len(set(versions)), 2, versions)
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder)}
        for producer, consumer in ((MILLRACE, other), (other, MILLRACE)):
            with self.subTest(producer=producer):
                results = self.folder / "rows.jsonl"
                path = self.write(pipeline(
                    {"a": 'uri: "lavfi:testsrc=size=64x48:rate=60:duration=2", duration: 500ms'}, decode="",
                    hog="type: hog, size: 32x32", results=f"type: jsonl, path: {results}",
                    nodes={"left": f"stages: [decode, hog], listen: tcp://127.0.0.1:{harness.free_port()}",
                           "right": "stages: [results]"}))
                children = [self.spawn([command, "run", path, "--node", node], stderr=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, env=environment)
                            for command, node in ((producer, "left"), (consumer, "right"))]
                for child in children:
                    self.ended(child)
                self.assertEqual([row["seq"] for row in rows_in(results)], list(range(FRAMES)))
                results.unlink()
