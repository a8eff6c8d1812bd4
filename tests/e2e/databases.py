"""Shared by the tests of databases: a pipeline whose results tests/plugin/found.c makes from frame numbers, and what a
database must then hold."""
import json

from harness import MILLRACE, ROOT, TIMEOUT, Controlled, call, pipeline

LABELS = ["owl", 'tit "blue"', "Größe", "it's"]


def expected(frames, sources=("a",)):
    """Rows by table, without the run's number: what found.c makes."""
    rows = {"frames": set(), "objects": set(), "classes": set(), "events": set(), "texts": set()}
    for source in sources:
        for seq in range(frames):
            rows["frames"].add((source, seq))
            for i in range(3):
                rows["objects"].add((source, seq, i + 1, LABELS[i], i or None, i + 0.87))
            rows["classes"] |= {(source, seq, 1, seq % 4, LABELS[seq % 4], 0.9), (source, seq, 2, 7, None, 0.1)}
            rows["texts"].add((source, seq, f"line {seq}\t\\.", 0.5))
            if seq % 5 == 0:
                rows["events"].add((source, seq, "enter", "door", 1))
    return rows


QUERIES = {
    "frames": "SELECT source, seq FROM frames_view WHERE run = {run}",
    "objects": "SELECT source, seq, rank, class, track, box_right FROM objects_view WHERE run = {run}",
    "classes": "SELECT source, seq, rank, class_index, class, score FROM classes_view WHERE run = {run}",
    "events": "SELECT source, seq, event, zone, count FROM events_view WHERE run = {run}",
    "texts": "SELECT source, seq, text, score FROM texts_view WHERE run = {run}",
}


class Databases(Controlled):
    """`sink` has the type and options of the sink; `rows(query)` gives the rows of a query."""

    def setUp(self):
        super().setUp()
        done = call(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT}/engine/include",
                     ROOT / "tests/plugin/found.c", "-o", self.folder / "libfound.so"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def pipeline(self, frames=300, sources=("a",), source="", sink="", found="", name="pipeline.yaml", **more):
        made = {one: f'type: "null", frames: {frames}, format: GRAY8 16x16{source}' for one in sources}
        return self.write(pipeline(made, top="plugins: [./libfound.so]", found=found, db=f"{self.sink}{sink}", **more),
                          name)

    def start(self, path, *arguments):
        return self.spawn([MILLRACE, "run", path, "--json", *arguments], stdout=-1, stderr=-1, text=True)

    def finished(self, running):
        """The summary and the log of a run that ends."""
        out, err = self.ended(running)
        summary = json.loads(out)
        self.assertTrue(summary["ledger"]["balanced"], summary["ledger"])
        return summary, err

    def away(self, running):
        """The state of the sink's service once it is away."""
        def found():
            done = self.ctl("--json", "status", code=None)
            service = self.service(json.loads(done.stdout)["status"]) if done.returncode == 0 else {}
            return service if service.get("state") == "away" else None
        return self.wait_until(found, running=running)

    def run_json(self, path, *arguments, code=0, **options):
        """The run's summary."""
        done = self.checked([MILLRACE, "run", path, "--json", *arguments], code=code, **options)
        return json.loads(done.stdout) if done.stdout else None

    def service(self, summary):
        """The state of the sink's service in a summary; {}: it has not begun."""
        return next(stage.get("service", {}) for stage in summary["stages"] if stage["id"] == "db")

    def runs(self):
        return [row[0] for row in self.rows("SELECT run FROM runs ORDER BY id")]

    def check(self, run, frames=300, sources=("a",)):
        """The database holds exactly the rows of that run, each once."""
        for table, wanted in expected(frames, sources).items():
            found = [tuple(row) for row in self.rows(QUERIES[table].format(run=f"'{run}'"))]
            self.assertEqual(len(found), len(wanted), table)
            self.assertEqual(set(found), wanted, table)
        totals = self.rows(f"SELECT s.name, s.frames, s.seq FROM sources s JOIN runs r ON r.id = s.run "
                           f"WHERE r.run = '{run}' ORDER BY s.name")
        self.assertEqual([tuple(row) for row in totals], [(one, frames, frames - 1) for one in sorted(sources)])

    def kill_and_continue(self, stored, frames, kills=10):
        """Kills a run again and again after it has stored more frames, and continues it. `stored()` counts rows."""
        path = self.pipeline(frames, source=", rate: 400", sink=", send_after: 20ms, send_frames: 50")
        command = [MILLRACE, "run", path, "--resume", self.folder / "checkpoint", "--json"]
        killed = 0
        for _ in range(kills):
            before = stored()
            running = self.spawn(command, stdout=-3, stderr=-3)
            self.wait_until(lambda: running.poll() is not None or stored() > before, pause=0.01)
            running.kill()
            killed += running.wait(TIMEOUT) != 0
        self.assertGreater(killed, 0)
        summary = json.loads(self.checked(command).stdout)
        self.assertTrue(summary["ledger"]["balanced"])
        self.assertEqual(len(self.runs()), 1)
        self.check(self.runs()[0], frames)
