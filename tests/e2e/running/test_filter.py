"""filter compared with a Python loop over rows from the same run without it: classes, scores, times, epochs."""
import itertools

import numpy as np

import clips
from harness import Case, pipeline

LABELS = ["cat", "dog", "bird", "fish"]


def kept(rows, classes, score, least, again, inverted):
    """The reference: (source, epoch, seq) for rows that pass."""
    found, since, gone, last, before = [], {}, {}, {}, {}
    for row in rows:
        source, now = row["source"], row["pts"]
        if row.get("epoch", 0) != before.get(source, (0, 0))[0] or now < before.get(source, (0, 0))[1]:
            for state in (since, gone, last):
                for key in [key for key in state if key[0] == source]:
                    del state[key]
        before[source] = (row.get("epoch", 0), now)
        seen = {one["label"] for one in row["classes"] if one["score"] >= score and
                (not classes or one["label"] in classes)}
        if inverted or not classes:
            seen = {"any"} if bool(seen) != inverted else set()
        passes = False
        for name in classes if classes and not inverted else ["any"]:
            key = (source, name)
            if name not in seen:
                since.pop(key, None)
                if again == "gone" and now - gone.setdefault(key, now) >= least - 1e-9:
                    last.pop(key, None)
                continue
            gone.pop(key, None)
            since.setdefault(key, now)
            due = key not in last or again != "gone" and now - last[key] >= again - 1e-9
            if now - since[key] >= least - 1e-9 and due:
                last[key] = now
                passes = True
        if passes:
            found.append((source, row.get("epoch", 0), row["seq"]))
    return found


class Filter(Case):
    def run_it(self, **filter):
        run = self.run_pipeline(pipeline(
            dict(a=f'uri: "{self.clip}", loop: 2', b='uri: "lavfi:testsrc2=size=96x64:rate=12:duration=8"'), decode="",
            hog="size: 64x64", classify="weights: w.npy, labels: labels.txt, top_k: 2", **filter,
            results='type: jsonl, path: "-"'))
        self.assert_balanced(run)
        return run

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(5)
        np.save(self.folder / "w.npy", rng.normal(size=(4, 1765)).astype("f4") * 2)
        (self.folder / "labels.txt").write_text("\n".join(LABELS) + "\n")
        self.clip = clips.codec("h264 4:2:0")

    def test_as_a_loop_over_the_rows(self):
        rows = self.run_it().rows
        self.assertEqual(len({one["label"] for row in rows for one in row["classes"]}), 4)
        for classes, (least, again), inverted in itertools.product(
                ([], ["dog"], ["cat", "fish"]), ((0, 0), (0.2, 0), (0.25, 0.5), (0, "gone"), (0.1, "gone")),
                (False, True)):
            options = f"classes: [{', '.join(classes)}], score: 0.4, for: {least}s, not: {inverted}"
            options += f", again: {again}" + ("" if again == "gone" else "s")
            with self.subTest(options):
                run = self.run_it(filter=options.lower())
                got = [(row["source"], row.get("epoch", 0), row["seq"]) for row in run.rows]
                self.assertEqual(sorted(got), sorted(kept(rows, classes, 0.4, least, again, inverted)))
                filtered = [one["frames"] for one in run.ledger["absorbed"] if one["reason"] == "filtered"]
                self.assertEqual(sum(filtered), len(rows) - len(got))
