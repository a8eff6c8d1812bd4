"""Cascades: detect, crop, more networks, gather. Classes of objects must equal those of a loop over cut-outs in Python,
whatever happens on the way: no objects or very many, batches, workers, several processes, killed ones, and runs that
continue."""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import numpy as np
from onnx import helper
from PIL import Image

from cascades import BOXES, CASCADE, CELL, MOST, RNG, SCORES, CascadeCase, cascade, classes_in, noise, save
from harness import MILLRACE, MODELS, PICTURES, ROOT, TIMEOUT, need_models, pipeline, rows_in
from watched import children_of

YOLOX = pathlib.Path(os.environ.get("MILLRACE_YOLOX", "/nonexistent"))
TWO_OUTPUTS = """#include <millrace/plugin.h>
static int process(mr_stage *self, mr_io *io) {
    mr_frame *frame = NULL;
    int status = mr_io_share(io, mr_io_input(io), &frame);
    (void)self;
    return status ? status : mr_io_emit(io, 1, frame);
}
static int negotiate(mr_negotiation *n) {
    n->outputs[0].follows = n->outputs[0].shares = n->outputs[1].follows = n->outputs[1].shares = 0;
    return MR_OK;
}
static const mr_port in[] = {{.name = "in"}, {0}};
static const mr_port out[] = {{.name = "first", .optional = true}, {.name = "second"}, {0}};
static const mr_stage_type type = {.name = "two", .summary = "has two outputs", .inputs = in, .outputs = out,
                                   .negotiate = negotiate, .process = process};
MR_PLUGIN("two", "1", &type);
"""


class Cascades(CascadeCase):
    def pictures(self, counts):
        made = [noise(count, i) for i, count in enumerate(counts)]
        for i, picture in enumerate(made):
            Image.fromarray(picture).save(self.folder / f"p{i:02}.png")
        return made

    def check_objects(self, summary, total):
        objects = summary["objects"]
        self.assertTrue(objects["balanced"], objects)
        self.assertEqual(objects["in"], total)
        gone = sum(line["objects"] for what in ("dropped", "absorbed") for line in objects[what])
        self.assertEqual(objects["in"], objects["delivered"] + gone)

    def test_classes_equal_a_loop(self):
        counts = [0, 100, 3, 0, 0, 7, 50, 1, 0, 7, 7, 100, 2]
        made = self.pictures(counts)
        for batch, workers, device in ((1, 1, "cpu"), (8, 1, "cpu"), (8, 4, "cpu"), (64, 16, "cpu"), (8, 2, "sim:0")):
            with self.subTest(batch=batch, workers=workers, device=device):
                there = f"device: '{device}'"
                run = self.run_pipeline(cascade(f"uri: '{self.folder}/p*.png'", small=f"{CASCADE['small']}, {there}",
                                                features=f"model: look.onnx, batch: {batch}, {there}"),
                                        "--workers", workers)
                self.assert_balanced(run)
                self.check_rows(run.rows, made)
                self.check_objects(run.summary, sum(counts))
                self.assertEqual(run.summary["objects"]["delivered"], sum(counts))

    def test_choice(self):
        """classes, min_size, max and expand; the record of a picture has its object alone."""
        self.pictures([20])
        source = f"uri: '{self.folder}/p00.png'"
        direct = dict(small="", features="", classify="", gather="", rows='type: jsonl, input: crop, path: "${OUTPUT}"')
        for crop, want in (("classes: [1]", range(2, 21, 3)), ("classes: [1, '2'], max: 3", (2, 3, 5)),
                           ("min_size: 16x16", ()), ("min_size: 15x1", range(1, 21))):
            stages = {name: text for name, text in {**CASCADE, **direct, "crop": crop}.items()
                      if text or name == "decode"}
            run = self.run_pipeline(pipeline({"a": source}, **stages))
            with self.subTest(crop):
                self.assertEqual([row["objects"][0]["number"] for row in run.rows], list(want))
                self.assertEqual([row.get("sub") for row in run.rows], list(range(1, len(want) + 1)))
                self.assertEqual("more objects than max" in run.err, "max: 3" in crop)
                self.assert_balanced(run)
                self.assertEqual(run.ledger["delivered"], int(bool(want)))

    def test_pictures_of_objects(self):
        made = self.pictures([2])[0]
        folder = self.folder / "out"
        stages = {name: CASCADE[name] for name in ("decode", "tensor", "detect", "look", "crop")}
        self.run_pipeline(pipeline({"a": f"uri: '{self.folder}/p00.png'"}, **{**stages, "crop": "expand: 0.5"},
                                   images=f"path: '{folder}', name: '{{seq}}-{{sub}}.png'"), rows=False)
        cuts = [np.array(Image.open(path)) for path in sorted(folder.iterdir())]
        sides = [(int(np.floor(max(top - (bottom - top) / 2, 0))), int(np.ceil(bottom + (bottom - top) / 2)),
                  int(np.floor(max(left - (right - left) / 2, 0))), int(np.ceil(right + (right - left) / 2)))
                 for left, top, right, bottom in BOXES[:2].astype(float)]
        for cut, (top, bottom, left, right) in zip(cuts, sides):
            self.assertTrue(np.array_equal(cut, made[top:bottom, left:right]))

    def test_labels_that_the_detector_lacks(self):
        (self.folder / "labels.txt").write_text("cat\ndog\nhen\n")
        self.pictures([20])
        text = cascade(f"uri: '{self.folder}/p00.png'", detect=f"{CASCADE['detect']}, labels: labels.txt",
                       crop="classes: [dog, 2]")
        numbers = [one["number"] for one in self.run_pipeline(text).rows[0]["objects"] if "attributes" in one]
        self.assertEqual(numbers, [i + 1 for i in range(20) if i % 3])
        done = self.run_pipeline(text.replace("[dog, 2]", "[dig]"), code=78, verb="plan", rows=False)
        self.assertIn("no object would have a picture", done.err)
        self.assertIn('did you mean "dog"', done.err)

    def test_objects_in_objects(self):
        """A detector looks at the objects of another. Its boxes are in the whole picture, also if that is turned."""
        self.save_inner()
        made = noise(3, 1)
        for turn, orientation in ((0, 1), (1, 6), (2, 3), (3, 8)):
            # The picture is stored so that, turned, it is `made`.
            exif = Image.Exif()
            exif[0x0112] = orientation
            Image.fromarray(np.rot90(made, turn)).save(self.folder / "p00.png", exif=exif)
            run = self.run_pipeline(pipeline({"a": f"uri: '{self.folder}/p00.png'"}, **self.inner()))
            objects = run.rows[0]["objects"]
            self.assertEqual(len(objects), 9)
            self.assertEqual([one["score"] for one in objects], sorted((one["score"] for one in objects), reverse=True))
            self.assertEqual(sorted(one["number"] for one in objects), list(range(1, 10)))
            for one in objects:
                if "parent" not in one:
                    continue
                left, top = (np.floor(BOXES[one["parent"] - 1][:2]))
                want = (left + 4, top + 6, left + 12, top + 10) if one["index"] == 7 else \
                    (left, top, left + CELL, top + CELL)
                self.assertEqual((one["left"], one["top"], one["right"], one["bottom"]), want, (turn, one))
            self.assertEqual(sorted(one.get("parent", 0) for one in objects), [0, 0, 0, 1, 1, 2, 2, 3, 3])

    def save_inner(self):
        """A detector of two boxes in each picture."""
        save(self.folder / "inner.onnx", [helper.make_node("Flatten", ["image"], ["flat"]),
                                          helper.make_node("ReduceSum", ["flat", "axes"], ["sum"]),
                                          helper.make_node("Mul", ["sum", "zero"], ["none"]),
                                          helper.make_node("Unsqueeze", ["none", "axes"], ["nothing"]),
                                          helper.make_node("Add", ["rows", "nothing"], ["o"])],
             {"axes": np.array([1]), "zero": np.float32(0),
              "rows": np.array([[[4, 6, 12, 10, 0.99, 7], [0, 0, 16, 16, 0.3, 8]]], np.float32)}, ("o", 2, 6),
             (3, CELL, CELL))

    def inner(self):
        """The stages of a cascade that finds objects in objects."""
        order = "decode", "tensor", "detect", "look", "crop", "small", "inner", "gather", "rows"
        stages = dict(CASCADE, inner="type: detect, model: inner.onnx, head: end2end",
                      gather="join: {frames: look, crops: inner}")
        return {name: stages[name] for name in order}

    def test_what_nobody_searched_is_not_shown(self):
        """Nobody has searched objects beyond crop's max for others, or objects whose pictures were lost on the way.
        Those that a filter stops were not to be searched. Classes of objects hide nothing."""
        self.save_inner()
        self.pictures([3])
        all_pass, none, some = "score: 0", "score: 1", f"score: {(SCORES[0] + SCORES[1]) / 2}"
        for most, kept, searched, whole in ((3, all_pass, True, False), (2, all_pass, True, True),
                                            (2, all_pass, False, False), (3, none, True, False), (3, some, True, False),
                                            (3, some, False, False)):
            with self.subTest(most=most, kept=kept, searched=searched):
                stages = {}
                for name, text in {**(self.inner() if searched else CASCADE), "crop": f"max: {most}"}.items():
                    stages[name] = text
                    if name == "crop":
                        stages["kept"] = f"type: filter, {kept}"
                rows = stages.pop("rows")
                run = self.run_pipeline(pipeline({"a": f"uri: '{self.folder}/p00.png'"}, **stages,
                                                 blur="input: gather", rows=rows))
                self.assertEqual("1 picture was hidden whole: objects are missing" in run.err, whole, run.err)
                self.assertEqual("more objects than max" in run.err, most == 2)
        stages = self.inner()
        stages["small"] += ", queue: {size: 1, when_full: drop-newest}"
        rows = stages.pop("rows")
        run = self.run_pipeline(pipeline({"a": f"uri: '{self.folder}/p00.png'"}, **stages, blur="input: gather",
                                         rows=rows), "--workers", "1")
        self.assertTrue(run.summary["objects"]["dropped"])
        self.assertIn("1 picture was hidden whole: objects are missing", run.err)
        self.pictures([3, 3])
        stages = dict(self.inner(), inner="type: detect, model: inner.onnx, head: end2end, every: 2")
        rows = stages.pop("rows")
        run = self.run_pipeline(pipeline({"a": f"uri: '{self.folder}/p*.png'"}, **stages, blur="input: gather",
                                         rows=rows))
        self.assertIn("1 picture was hidden whole: objects are missing", run.err)

    def test_more_than_can_be_gathered(self):
        """A frame has at most 10,000 objects from pictures of others; blur knows that there were more."""
        save(self.folder / "inner.onnx", [helper.make_node("ReduceMax", ["image"], ["most"], axes=[1, 2, 3]),
                                          helper.make_node("Mul", ["most", "zero"], ["none"]),
                                          helper.make_node("Squeeze", ["none", "axes"], ["nothing"]),
                                          helper.make_node("Add", ["rows", "nothing"], ["o"])],
             {"axes": np.array([3]), "zero": np.float32(0),
              "rows": np.array([[[x, 2, x + 1, 3, 0.9, x * 11 + y] for x in range(11) for y in range(10)]],
                               np.float32)}, ("o", 110, 6), (3, CELL, CELL))
        self.pictures([MOST])
        stages = dict(self.inner(), detect="model: count.onnx, head: end2end, max: 200",
                      inner="type: detect, model: inner.onnx, head: end2end, iou: 1, max: 200")
        rows = stages.pop("rows")
        run = self.run_pipeline(pipeline({"a": f"uri: '{self.folder}/p00.png'"}, **stages, blur="input: gather",
                                         rows=rows))
        self.assertEqual(len(run.rows[0]["objects"]), MOST + 10000)
        self.assertIn("1 picture was hidden whole: objects are missing", run.err)

    def test_drops_and_failures(self):
        """Objects that are dropped on the way lack a class; all frames come, in order."""
        counts = [30] * 20
        made = self.video(counts)
        source = f"uri: '{self.folder}/clip.mkv'"
        for policy in ("drop-oldest", "drop-newest"):
            queue = f"queue: {{size: 1, when_full: {policy}}}"
            run = self.run_pipeline(cascade(source, features=f"model: look.onnx, {queue}"))
            self.assert_balanced(run)
            self.check_rows(run.rows, made, part=True)
            self.check_objects(run.summary, sum(counts))
            self.assertEqual(run.ledger["delivered"], len(counts))
            lacking = sum("attributes" not in one for row in run.rows for one in row["objects"])
            self.assertEqual(run.summary["objects"]["delivered"], sum(counts) - lacking)

    def test_sources_and_loops(self):
        counts = [5, 0, 9]
        made = self.video(counts)
        other = self.video([1, 2], "other.mkv")
        run = self.run_pipeline(cascade({"a": f"uri: '{self.folder}/clip.mkv', loop: 3",
                                         "b": f"uri: '{self.folder}/other.mkv', loop: 2"}, decode="input: 'sources.*'"))
        self.assert_balanced(run)
        for epoch in range(3):
            self.check_rows([row for row in run.of("a") if row.get("epoch", 0) == epoch], made)
        for epoch in range(2):
            self.check_rows([row for row in run.of("b") if row.get("epoch", 0) == epoch], other)
        self.check_objects(run.summary, 3 * 14 + 2 * 3)

    def test_votes(self):
        """With every, a track has a picture once a second; with vote it keeps the class of the most pictures."""
        made = self.video([2] * 50)
        single = {i: classes_in(picture, self.session) for i, picture in enumerate(made)}
        source = f"uri: '{self.folder}/clip.mkv'"
        follow = dict(track="input: detect, confirm: 0ms, begin: 0.1, high: 0.1, low: 0.1",
                      look="type: join, join: {picture: decode, objects: track}")

        def found(crop, gather):
            stages = {**CASCADE, "crop": crop, "gather": f"join: {{frames: look, crops: classify}}{gather}"}
            order = ("decode", "tensor", "detect", "track", "look", "crop", "small", "features", "classify", "gather",
                     "rows")
            stages = {name: {**stages, **follow}[name] for name in order}
            run = self.run_pipeline(pipeline({"a": source}, **stages))
            self.assert_balanced(run)
            return [{one["track"]: one["attributes"][0]["index"] for one in row["objects"] if "attributes" in one}
                    for row in run.rows]

        tracks = found("", "")[-1]
        self.assertEqual(sorted(tracks), [1, 2])
        now = found("every: 1s", "")
        self.assertEqual([i for i, row in enumerate(now) if row], [0, 25])
        kept = found("every: 400ms", ", vote: {over: 2s}")
        self.assertTrue(all(len(row) == 2 for row in kept))
        for track in (1, 2):
            votes = {}
            for i in range(0, 50, 10):
                index, score = single[i][track - 1]
                count, total = votes.get(index, (0, 0))
                votes[index] = (count + 1, total + score)
                best = max(votes, key=votes.get)
                self.assertEqual({row[track] for row in kept[i:i + 10]}, {best})

    NODES = dict(one="sources: [a], stages: [decode, tensor, detect, look, crop]",
                 two="stages: [small, features, classify]", three="stages: [gather, rows]")

    def test_several_processes(self):
        """Pictures of objects stay in shared memory, or go through ZeroMQ; several processes can share the work."""
        counts = [0, 7, 100, 3, 0, 0, 12] * 4
        made = self.video(counts)
        source = f"uri: '{self.folder}/clip.mkv'"
        for small, more in (("", ""), (", cut: {inline: true}", ", replicas: 2")):
            with self.subTest(more):
                run = self.run_pipeline(cascade(source, nodes={**self.NODES, "two": self.NODES["two"] + more},
                                                small=CASCADE["small"] + small))
                self.assert_sums(run)
                self.check_rows(run.rows, made)
                node = next(one["summary"] for one in run.summary["nodes"] if one["node"] == "one")
                self.check_objects(node, sum(counts))
                self.assertEqual(node["objects"]["delivered"], sum(counts))

    def test_nothing_is_lost_between_processes(self):
        """blur counts what came. Marks and pictures arrive by several ways, and a process dies; all is known."""
        self.save_inner()
        counts = [0, 7, 3, 30, 0, 12] * 8
        self.video(counts)
        stages = self.inner()
        rows = stages.pop("rows")
        nodes = dict(self.NODES, two="stages: [small, inner], replicas: 2", three="stages: [gather, blur, rows]")
        path = self.write(pipeline({"a": f"uri: '{self.folder}/clip.mkv', realtime: true"}, nodes=nodes, **stages,
                                   blur="input: gather, max: 1000", rows=rows))
        output = self.folder / "out.jsonl"
        child = self.spawn([MILLRACE, "run", path, "--json", "--grace", "60s", "--output", output],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: len(rows_in(output)) >= 10, running=child)
        os.kill(self.wait_until(lambda: children_of(child.pid).get("two")), signal.SIGKILL)
        out, err = child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 0, err)
        self.assertEqual(json.loads(out)["ledger"]["delivered"], len(counts))
        self.assertEqual([len(row["objects"]) for row in rows_in(output)], [3 * count for count in counts])
        self.assertNotIn("hidden whole", err)

    def assert_sums(self, run):
        ledger = run.ledger
        self.assertTrue(ledger["balanced"], ledger)
        self.assertEqual((ledger["in_flight"], ledger["missing"]), (0, []))
        self.assertEqual(ledger["in"], ledger["delivered"])

    def run_and_kill(self, path, made, kills, *more):
        """Kills each node once so many rows are there. Frames come once, with the classes of all objects."""
        output = self.folder / "out.jsonl"
        output.unlink(missing_ok=True)
        child = self.spawn([MILLRACE, "run", path, "--json", "--grace", "60s", "--output", output, *more],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rows, node in kills:
            self.wait_until(lambda: len(rows_in(output)) >= rows, running=child)
            # On a busy machine the new process may have done all before it is seen here.
            before = self.wait_until(lambda: child.poll() is not None or children_of(child.pid).get(node))
            if child.poll() is not None:
                break
            os.kill(before, signal.SIGKILL)
            self.wait_until(lambda: child.poll() is not None or children_of(child.pid).get(node) not in (None, before))
        out, err = child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 0, err)
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"], ledger)
        self.assertEqual((ledger["in"], ledger["missing"]), (len(made), []), ledger)
        self.check_rows(sorted(rows_in(output), key=lambda row: row["seq"]), made)
        return ledger

    def test_killed_processes(self):
        """Each of the nodes dies in the middle of a cascade."""
        made = self.video([3, 0, 12, 1] * 25)
        path = self.write(cascade(f"uri: '{self.folder}/clip.mkv', realtime: true", nodes=self.NODES))
        for kills, more in ((((10, "two"), (50, "three")), ()),
                            (((10, "one"),), ("--resume", self.folder / "checkpoint"))):
            with self.subTest(kills):
                ledger = self.run_and_kill(path, made, kills, *more)
                self.assertEqual(ledger["delivered"], len(made), ledger)

    def test_there_and_back(self):
        """One node makes the pictures of objects and gathers what another one found in them. Each of them may die."""
        made = self.video([3, 0, 12, 1, 40] * 20)
        nodes = dict(one="sources: [a], stages: [decode, tensor, detect, look, crop, gather, rows]",
                     two=self.NODES["two"])
        run = self.run_pipeline(cascade(f"uri: '{self.folder}/clip.mkv'", nodes=nodes))
        self.assert_sums(run)
        self.check_rows(run.rows, made)
        path = self.write(cascade(f"uri: '{self.folder}/clip.mkv', realtime: true", nodes=nodes))
        self.run_and_kill(path, made, ((20, "two"),))
        ledger = self.run_and_kill(path, made, ((20, "one"), (50, "two"), (70, "one")), "--resume",
                                   self.folder / "checkpoint")
        self.assertEqual({line["reason"] for line in ledger["absorbed"]}, {"done before"}, ledger)
        path = self.write(cascade(f"uri: '{self.folder}/clip.mkv', realtime: true",
                                  nodes=nodes | {"two": "stages: [small, features, classify, both]"},
                                  both="type: join, join: {classes: classify, tensors: small}",
                                  gather="join: {frames: look, crops: both}"))
        self.run_and_kill(path, made, ((10, "two"), (30, "one"), (50, "two"), (70, "two")), "--resume",
                          self.folder / "joined")

    def test_there_and_back_over_two_nodes(self):
        """The pictures go on to a third node before they come back. Each of the nodes may die."""
        made = self.video([3, 0, 12, 1, 40] * 20)
        path = self.write(cascade(f"uri: '{self.folder}/clip.mkv', realtime: true",
                                  nodes=dict(one="sources: [a], stages: [decode, tensor, detect, look, crop, gather, "
                                                 "rows]",
                                             two="stages: [small]", three="stages: [features, classify]")))
        self.run_and_kill(path, made, ((10, "one"), (30, "two"), (50, "three"), (70, "one")), "--resume",
                          self.folder / "checkpoint")

    def test_gathered_there_and_back(self):
        """One node makes the pictures of objects, another gathers what is found in them, and the first writes rows."""
        made = self.video([3, 0, 12, 1, 40] * 20)
        nodes = dict(one="sources: [a], stages: [decode, tensor, detect, look, crop, rows]",
                     two="stages: [small, features, classify, gather]")
        # All objects of the clip fit: those that do not could lack results, since the node that gathers dies.
        path = self.write(cascade(f"uri: '{self.folder}/clip.mkv', realtime: true", nodes=nodes,
                                  small=CASCADE["small"] + ", cut: {window: 4096}"))
        self.run_and_kill(path, made, ((20, "one"), (50, "two"), (70, "one")), "--resume", self.folder / "checkpoint")

    def test_resume(self):
        """A run that is killed in the middle continues: all rows are there once, those of objects too."""
        counts = [3, 0, 12, 1] * 15
        made = self.video(counts)
        crops, cuts = self.folder / "crops.jsonl", self.folder / "cuts"
        path = self.write(cascade(f"uri: '{self.folder}/clip.mkv', realtime: true",
                                  crops=f"type: jsonl, input: classify, path: '{crops}'",
                                  cuts=f"type: images, input: crop, path: '{cuts}', name: '{{seq}}-{{sub}}.png'"))
        output, checkpoint = self.folder / "results.jsonl", self.folder / "checkpoint"
        command = [MILLRACE, "run", path, "--resume", checkpoint, "--set", f"stages.rows.path={output}", "--json"]

        def settled():
            return checkpoint.exists() and json.loads(checkpoint.read_text())["sources"]["a"]["seq"] is not None

        for rows in (10, 30):
            child = self.spawn(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait_until(lambda: len(rows_in(output)) >= rows and settled(), running=child)
            child.kill()
            child.wait()
        ledger = json.loads(self.checked(command).stdout)["ledger"]
        self.assertTrue(ledger["balanced"], ledger)
        self.assertEqual({line["reason"] for line in ledger["absorbed"]}, {"done before"}, ledger)
        self.check_rows(sorted(rows_in(output), key=lambda row: row["seq"]), made)
        keys = sorted((row["seq"], row["sub"]) for row in rows_in(crops))
        self.assertEqual(keys, [(i, sub) for i, count in enumerate(counts) for sub in range(1, count + 1)])
        self.assertEqual({file.name for file in cuts.glob("*.png")}, {f"{seq:06}-{sub}.png" for seq, sub in keys})
        checkpoint.unlink()  # nothing to continue: the files are in the way
        self.checked(command, 78, "cuts is not empty")

    def test_trained_head(self):
        """`train` gets cut-outs, which pass over detector and crop. The head fits the cascade that it was trained with,
        whatever finds the objects."""
        for name, low in (("dark", 0), ("light", 128)):
            (self.folder / "cuts" / name).mkdir(parents=True)
            for i in range(40):
                Image.fromarray(RNG.integers(low, low + 128, (CELL, CELL, 3), np.uint8)).save(
                    self.folder / "cuts" / name / f"{i}.png")
        picture = noise(20, 1)
        light = [bool(i % 3) for i in range(20)]
        for (left, top, right, bottom), bright in zip(BOXES[:20].astype(int), light):
            picture[top:bottom + 1, left:right + 1] = picture[top:bottom + 1, left:right + 1] // 2 + 128 * bright
        picture[0, 0] = 20
        Image.fromarray(picture).save(self.folder / "p00.png")
        head = self.folder / "head"
        path = self.write(cascade(f"uri: '{self.folder}/p00.png'", classify=f"head: '{head}'"))
        self.millrace("train", path, "--data", self.folder / "cuts", "--output", head, "--cache", self.folder / "cache")
        run = self.run_pipeline(path)
        self.assertEqual([one["attributes"][0]["label"] for one in run.rows[0]["objects"]],
                         ["light" if bright else "dark" for bright in light])
        self.run_pipeline(path, "--set", "stages.detect.max=7", "--set", "stages.crop.max=3")
        wrong = self.run_pipeline(path, "--set", "stages.small.mean=3", code=78)
        self.assertIn("preprocess.mean", wrong.err)

    def test_a_head_for_whole_frames(self):
        """Training passes over a gather, with the frames that it has: here those of a stage's second output."""
        for label, low in (("dark", 0), ("light", 128)):
            (self.folder / "whole" / label).mkdir(parents=True)
            for i in range(20):
                Image.fromarray(RNG.integers(low, low + 128, (CELL, CELL, 3), np.uint8)).save(
                    self.folder / "whole" / label / f"{i}.png")
        self.write(TWO_OUTPUTS, "two.c")
        self.checked(["cc", "-std=c11", "-shared", "-fPIC", f"-I{ROOT}/engine/include", self.folder / "two.c", "-o",
                      self.folder / "libtwo.so"])
        head = self.folder / "head"
        path = self.write(cascade(
            f"uri: '{self.folder}/p00.png'", top="plugins: [libtwo.so]", two="input: look",
            gather="join: {frames: two.second, crops: classify}",
            size=f"type: preprocess, input: gather, size: {CELL}x{CELL}, fit: stretch",
            vectors="type: infer, model: look.onnx", kind=f"type: classify, head: '{head}'"))
        self.millrace("train", path, "--stage", "kind", "--data", self.folder / "whole", "--output", head, "--cache",
                      self.folder / "cache")
        self.assertTrue((head / "head.json").exists())

    def test_training_from_labelled_objects(self):
        """COCO's annotations and YOLO's texts: cut-outs and classes equal those of a loop."""
        folder = self.folder / "set"
        for name in ("images", "labels"):
            (folder / name).mkdir(parents=True)
        images, annotations, want = [], [], {}
        for n in range(24):
            picture = RNG.integers(0, 255, (40, 60, 3), np.uint8)
            Image.fromarray(picture).save(folder / "images" / f"{n:02}.png")
            images.append({"id": 100 + n, "file_name": f"images/{n:02}.png", "width": 60, "height": 40})
            lines = []
            for k in range(3):
                left, top, label = 3 + 18 * k, 5 + int(RNG.integers(15)), (n + k) % 2
                picture[top:top + 12, left:left + 14] = picture[top:top + 12, left:left + 14] // 2 + 128 * label
                annotations.append({"id": len(annotations), "image_id": 100 + n, "category_id": 7 + label,
                                    "bbox": [left, top, 14, 12], "area": 168, "iscrowd": 0})
                lines.append(f"{label} {(left + 7) / 60} {(top + 6) / 40} {14 / 60} {12 / 40}")
                want[f"{n:06}-{k + 1}.png"] = (picture[top:top + 12, left:left + 14].copy(), ("dark", "light")[label])
            Image.fromarray(picture).save(folder / "images" / f"{n:02}.png")
            (folder / "labels" / f"{n:02}.txt").write_text("\n".join(lines) + "\n")
        (folder / "classes.txt").write_text("dark\nlight\n")
        (folder / "all.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": [
            {"id": 7, "name": "dark"}, {"id": 8, "name": "light"}]}))
        (folder / "apart").mkdir()
        shutil.copy(folder / "all.json", folder / "apart/apart.json")
        for data, more in ((folder / "apart/apart.json", ("--pictures", folder)), (folder / "all.json", ()),
                           (folder, ())):
            head, cache = self.folder / f"head-{data.name}", self.folder / f"cache-{data.name}"
            path = self.write(cascade("uri: '*.png'", classify=f"head: '{head}'"))
            self.millrace("train", path, "--data", data, "--output", head, "--cache", cache, *more)
            made = next(cache.glob("objects-*"))
            rows = rows_in(made / "objects.jsonl")
            self.assertEqual({row["path"]: row["label"] for row in rows}, {name: one[1] for name, one in want.items()})
            self.assertEqual({row["group"] for row in rows}, {str(path) for path in (folder / "images").iterdir()})
            for name, (pixels, _) in want.items():
                self.assertTrue(np.array_equal(np.array(Image.open(made / name)), pixels), (data, name))
        # The head fits the pipeline with its detector, and is measured without one.
        judged = json.loads(self.millrace("evaluate", path, "--data", made / "objects.jsonl", "--json").stdout)
        self.assertEqual(judged["rows"], len(want))
        self.assertNotIn("forced", judged)
        self.millrace("evaluate", path, "--data", folder, code=64, says="is in YOLO's layout, which only `train` takes")
        self.millrace("train", path, "--data", folder, "--output", head, "--pictures", folder, code=64,
                      says="--pictures is for COCO's annotations")
        command = [MILLRACE, "train", path, "--data", folder, "--output", head, "--cache", cache]
        # Another training of the same objects reads these pictures: they stay until it has ended.
        before = (made / "objects.jsonl").stat().st_ino
        with open(f"{made}.lock", "w") as lock, open(self.folder / "told", "w") as told:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting = self.spawn(command, stdout=told, stderr=told)
            said = self.folder / "told"
            self.wait_until(lambda: "waiting until it ends" in said.read_text(), said.read_text, waiting)
            self.assertEqual((made / "objects.jsonl").stat().st_ino, before)
        self.assertEqual(waiting.wait(TIMEOUT), 0, said.read_text())
        self.assertNotEqual((made / "objects.jsonl").stat().st_ino, before)
        self.assertFalse(pathlib.Path(f"{made}.lock").exists())
        for text, words in (("0 0.5 0.5 0.2\n", "00.txt:1: expected the number of a class"),
                            ("0 0.5 0.5 0.2 1.5\n", "00.txt:1: expected"), ("\n-1 0 0 1 1", "00.txt:2: expected"),
                            ("0 0.5 0.5 0.2 nan\n", "00.txt:1: expected")):
            (folder / "labels" / "00.txt").write_text(text)
            done = self.millrace("train", path, "--data", folder, "--output", head, "--cache", cache, code=65)
            self.assertIn(words, done.stderr)
        shutil.rmtree(folder / "labels")
        for name, words in (("labels", "no picture in images has a text with the same name and an object in labels, "
                                       f"such as {folder}/labels/00.txt"), ("images", "there are no pictures in")):
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir()
            (folder / "labels").mkdir(exist_ok=True)
            self.millrace("train", path, "--data", folder, "--output", head, "--cache", cache, code=65, says=words)

    def test_training_from_outlines_in_folders(self):
        """YOLO's texts as for segmentation, in the folders train and val; without classes.txt classes have numbers."""
        folder, head, cache = self.folder / "set", self.folder / "head", self.folder / "cache"
        want = {}
        # A set often lies on another disk, and has links to it.
        for name in ("images", "labels"):
            (self.folder / "disk" / name).mkdir(parents=True)
            (folder / name).mkdir(parents=True)
            (folder / name / "val").symlink_to(self.folder / "disk" / name)
        for n in range(24):
            part = ("train", "val")[n % 4 == 3]
            for name in ("images", "labels"):
                (folder / name / part).mkdir(exist_ok=True)
            picture = RNG.integers(0, 255, (40, 60, 3), np.uint8)
            picture[8:32, 12:48] = picture[8:32, 12:48] // 2 + 128 * (n % 2)
            file = (folder / "images" / part / f"{n:02}.png").resolve()
            Image.fromarray(picture).save(file)
            (folder / "labels" / part / f"{n:02}.txt").write_text(f"{n % 2} 0.2 0.5 0.5 0.2 0.8 0.5 0.5 0.8\n")
            want[str(file)] = (str(n % 2), picture[8:32, 12:48])
        (folder / "images" / "again").symlink_to("..")
        (folder / "images" / "val" / "turn").symlink_to(folder / "images" / "train")
        (folder / "images" / "train" / "back").symlink_to(self.folder / "disk/images")
        path = self.write(cascade("uri: '*.png'", classify=f"head: '{head}'"))
        done = self.millrace("train", path, "--data", folder, "--output", head, "--cache", cache)
        self.assertIn(f"there is no {folder}/classes.txt: the classes are called by their numbers", done.stderr)
        for name in ("again", "train/back/turn", "val/turn/back"):
            self.assertIn(f"{folder}/images/{name}/ leads back to a folder above it: it is left out", done.stderr)
        made = next(cache.glob("objects-*"))
        rows = rows_in(made / "objects.jsonl")
        self.assertEqual(len(rows), 24)
        for row in rows:
            label, pixels = want[row["group"]]
            self.assertEqual(row["label"], label)
            self.assertTrue(np.array_equal(np.array(Image.open(made / row["path"])), pixels))
        (folder / "labels" / "val" / "03.txt").write_text("1 0.2 0.5 0.5 0.2 0.9\n")
        done = self.millrace("train", path, "--data", folder, "--output", head, "--cache", cache, code=65)
        self.assertIn("val/03.txt:1: expected the number of a class", done.stderr)

    @unittest.skipUnless(YOLOX.exists(), "MILLRACE_YOLOX names no file")
    def test_yolox(self):
        """People in a real video, whose chroma is halved. The loop cuts the planes and gives each cut-out alone to the
        same network: classes and scores must be equal to the last digit."""
        need_models()
        video, width, height, every = PICTURES / "vtest.avi", 768, 576, 80
        look = dict(small="type: preprocess, fit: stretch, mean: 127, std: 128",
                    features=f"model: '{MODELS}/lite0-features.onnx', tensor: features",
                    classify=f"weights: '{MODELS}/lite0-head.npy', top_k: 3")
        run = self.run_pipeline(cascade(
            f"uri: '{video}', every: {every}", tensor="type: preprocess, fit: letterbox, place: top-left, pad: 114, "
            "order: bgr", detect=f"model: '{YOLOX}', score: 0.3, classes: [0]", **look))
        self.assert_balanced(run)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", video, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"],
                             capture_output=True, check=True).stdout
        frames = np.frombuffer(raw, np.uint8).reshape(-1, width * height * 3 // 2)
        cuts = self.folder / "cuts"
        cuts.mkdir()
        want = []
        for row in run.rows:
            luma, chroma = np.split(frames[row["seq"]], [width * height])
            planes = luma.reshape(height, width), *chroma.reshape(2, height // 2, width // 2)
            for one in row["objects"]:
                left, top = (int(np.floor(one[side])) // 2 * 2 for side in ("left", "top"))
                right, bottom = (min(int(np.ceil(one[side]) + 1) // 2 * 2, most)
                                 for side, most in (("right", width), ("bottom", height)))
                (cuts / f"{len(want):04}.y4m").write_bytes(
                    b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420mpeg2\nFRAME\n" % (right - left, bottom - top) +
                    planes[0][top:bottom, left:right].tobytes() +
                    b"".join(plane[top // 2:bottom // 2, left // 2:right // 2].tobytes() for plane in planes[1:]))
                want.append(one["attributes"])
        self.assertGreater(len(want), 50)
        loop = self.run_pipeline(pipeline({"a": f"uri: '{cuts}'"}, decode="", **look,
                                          rows='type: jsonl, path: "${OUTPUT}"'))
        found = {row["file"]: row["classes"][0] for row in loop.rows}
        self.assertEqual([(at["index"], at["score"]) for (at,) in want],
                         [(found[file]["index"], found[file]["score"]) for file in sorted(found)])
