"""sqlite: what a database holds after runs that end, are killed, run at once, or find it locked, full or foreign. Read
by Python's sqlite3."""
import contextlib
import json
import os
import re
import signal
import sqlite3

from databases import LABELS, Databases
from disks import Mounted
from harness import MILLRACE, ROOT, TIMEOUT, call
from watched import children_of


class Sqlite(Databases):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "results.db"
        self.sink = f"type: sqlite, path: {self.path}"

    def rows(self, query):
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            return database.execute(query).fetchall()

    def lock(self):
        lock = sqlite3.connect(self.path, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        return lock

    def stored(self):
        try:
            return self.rows("SELECT count(*) FROM frames")[0][0]
        except sqlite3.OperationalError:  # not yet made
            return 0

    def test_rows_views_and_ledger(self):
        summary = self.run_json(self.pipeline(sources=("a", "b")))
        self.assertEqual(summary["ledger"]["delivered"], 600)
        service = self.service(summary)
        self.assertEqual((service["frames"], service["waiting"], service["dropped"]), (600, 0, 0))
        self.check(self.runs()[0], sources=("a", "b"))
        self.assertEqual(self.rows("SELECT count(*), min(rank) FROM top_classes"), [(600, 1)])
        self.assertEqual(self.rows("SELECT source, track, class, frames FROM tracks ORDER BY source, track"),
                         [(source, i, ["", 'tit "blue"', "Größe"][i], 300) for source in "ab" for i in (1, 2)])
        self.assertEqual(json.loads(self.rows("SELECT quad FROM objects WHERE quad IS NOT NULL")[0][0]),
                         [0, 0, 1, 0, 1, 1, 0, 1])
        self.assertEqual([path.name for path in self.folder.glob("results.db*")], ["results.db"])
        self.assertEqual(self.rows("PRAGMA integrity_check"), [("ok",)])

    def test_the_document(self):
        """Its lines for sqlite3 and DuckDB, on a copy as CSV."""
        lines = (ROOT / "pipelines/README.md").read_text().splitlines()
        self.run_json(self.pipeline())
        for line in (one for one in lines if one.startswith("sqlite3 ")):
            self.checked(["sh", "-c", line], cwd=self.folder)
        query, = (re.fullmatch(r'duckdb -c "(.*)"', one)[1] for one in lines if one.startswith("duckdb "))
        try:
            import duckdb
        except ImportError:
            self.skipTest("no duckdb: tools/test installs it")
        found = duckdb.sql(query.replace("objects.csv", str(self.folder / "objects.csv"))).fetchall()
        self.assertEqual(sorted(found), sorted((label, 300) for label in LABELS[:3]))

    def test_another_run_is_kept_apart(self):
        path = self.pipeline()
        self.run_json(path)
        self.run_json(path)
        self.assertEqual(len(set(self.runs())), 2)
        for run in self.runs():
            self.check(run)

    def test_only_what_is_wanted(self):
        self.run_json(self.pipeline(sink=", results: [events], frames: found"))
        self.assertEqual(self.rows("SELECT count(*) FROM frames"), [(60,)])
        self.assertEqual(self.rows("SELECT count(*) FROM events"), [(60,)])
        self.assertEqual(self.rows("SELECT count(*) FROM sqlite_master WHERE name = 'objects'"), [(0,)])
        self.run_json(self.pipeline(name="more.yaml"))  # makes the other tables
        self.check(self.runs()[1])

    def test_new_columns_are_added(self):
        self.run_json(self.pipeline())
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            for view in ("tracks", "objects_view"):
                database.execute(f"DROP VIEW {view}")
            database.execute("ALTER TABLE objects DROP COLUMN speed")
        self.run_json(self.pipeline())
        self.check(self.runs()[1])
        self.assertEqual(self.rows("SELECT count(*) FROM objects_view WHERE speed IS NULL"), [(1800,)])

    def test_two_runs_make_the_tables_at_once(self):
        path = self.pipeline()
        running = [self.start(path) for _ in range(3)]
        for child in running:
            self.ended(child)
        for run in self.runs():
            self.check(run)
        self.assertEqual(len(set(self.runs())), 3)

    def test_killed_and_continued(self):
        self.kill_and_continue(self.stored, 2000)

    def test_killed_nodes(self):
        """The supervisor starts a killed process again, which continues the same run."""
        path = self.pipeline(2000, source=", rate: 800", sink=", send_after: 20ms",
                             nodes={"one": "stages: [found]", "two": "stages: [db]"})
        running = self.start(path)
        for _ in range(3):
            before = self.stored()
            self.wait_until(lambda: self.stored() > before or running.poll() is not None)
            child = children_of(running.pid).get("two")
            if child:
                call(["kill", "-9", child])
        self.finished(running)
        self.assertEqual(len(self.runs()), 1)
        self.check(self.runs()[0], 2000)

    def test_nodes_by_hand(self):
        """MILLRACE_RUN names their run. Without it a node that is started again could not find its rows."""
        path = self.pipeline(3000, source=", rate: 600", sink=", send_after: 20ms",
                             nodes={"one": f'stages: [found], listen: "ipc://{self.folder}/one"',
                                    "two": "stages: [db]"})
        environment = {key: value for key, value in os.environ.items() if key != "MILLRACE_RUN"}
        command = [MILLRACE, "run", path, "--json", "--node"]

        def node(name, **pipes):
            return self.spawn([*command, name], text=True, env=environment, **pipes)

        one, two = node("one", stdout=-3, stderr=-3), node("two", stdout=-1, stderr=-1)
        self.assertIn("with the same number in MILLRACE_RUN", self.ended(two, code=78)[1])
        one.kill()
        one.wait(TIMEOUT)
        environment["MILLRACE_RUN"] = "00000000000000a7"
        one, two = node("one", stdout=-3, stderr=-3), node("two", stdout=-3, stderr=-3)
        self.wait_until(lambda: self.stored() > 0, running=two)
        two.kill()
        two.wait(TIMEOUT)
        self.ended(node("two", stdout=-1, stderr=-1))
        self.assertEqual(one.wait(TIMEOUT), 0)
        self.check("00000000000000a7", 3000)
        self.assertEqual(self.runs(), ["00000000000000a7"])

    def test_locked_database_is_waited_for(self):
        """While another program locks it, frames wait; the state says why. Nothing is lost."""
        self.run_json(self.pipeline(5))
        path = self.pipeline(sink=", retry: 50ms")
        lock = self.lock()
        running = self.start(path)
        service = self.away(running)
        self.assertIn("another program has locked the database", service["why"])
        lock.execute("COMMIT")
        lock.close()
        summary, err = self.finished(running)
        self.assertIn("another program has locked the database; tries again", err)
        self.assertEqual(summary["ledger"]["delivered"], 300)
        self.check(self.runs()[1])

    def test_full_backlog(self):
        """on_full: drop-oldest and drop-newest lose frames, and say so; fail ends the run."""
        self.run_json(self.pipeline(5))
        lock = self.lock()
        small = ", backlog: 64KiB, send_bytes: 16KiB, retry: 10ms"
        done = self.checked([MILLRACE, "run", self.pipeline(3000, sink=f"{small}, on_full: fail"), "--quiet"], code=74)
        self.assertIn("the backlog is full", done.stderr)
        for policy in ("drop-oldest", "drop-newest"):
            path = self.pipeline(3000, sink=f"{small}, on_full: {policy}")
            running = self.start(path, "--grace", "1s")
            self.wait_until(lambda: "tries again" in running.stderr.readline(), running=running)
            running.send_signal(signal.SIGTERM)
            out, _ = running.communicate(timeout=TIMEOUT)
            ledger = json.loads(out)["ledger"]
            self.assertTrue(ledger["balanced"])
            self.assertIn("queue full", [line["reason"] for line in ledger["dropped"]])
        lock.execute("COMMIT")
        lock.close()

    def test_give_up(self):
        self.run_json(self.pipeline(5))
        lock = self.lock()
        done = self.checked([MILLRACE, "run", self.pipeline(sink=", retry: 10ms, give_up: 100ms")], code=74)
        self.assertIn("longer than give_up allows", done.stderr)
        lock.close()

    def test_refused_files(self):
        for content, says in ((b"source,epoch,seq\n" * 20, "is no SQLite database"), (b"x", "is no SQLite database")):
            self.path.write_bytes(content)
            self.checked([MILLRACE, "plan", self.pipeline(), "--plugins"], code=65, says=says)
            self.assertEqual(self.path.read_bytes(), content)
        self.path.unlink()
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            database.execute("CREATE TABLE frames (id)")
        self.checked([MILLRACE, "plan", self.pipeline(), "--plugins"], code=65, says="is a database of another program")
        self.path.unlink()
        self.run_json(self.pipeline(5))
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            database.execute("PRAGMA user_version = 99")
        self.checked([MILLRACE, "plan", self.pipeline(), "--plugins"], code=65,
                     says="is of version 99, which a later millrace")
        self.checked([MILLRACE, "run", self.pipeline()], code=65)

    def test_rows_that_are_refused(self):
        """They cost their batch. A row that is there already, as of two stages with the same name, costs nothing."""
        self.run_json(self.pipeline(5))
        with contextlib.closing(sqlite3.connect(self.path)) as database, database:
            database.execute("INSERT INTO objects (source, epoch, seq, sub, stage, rank) "
                             "VALUES (2, 0, 3, 0, 'found', 1)")
            database.execute("CREATE TRIGGER no BEFORE INSERT ON frames WHEN NEW.seq = 25 BEGIN SELECT "
                             "RAISE(ABORT, 'not this one'); END")
        summary = self.run_json(self.pipeline(30, sink=", send_frames: 10, send_after: 1h"), code=None)
        self.assertEqual((summary["ledger"]["delivered"], summary["ledger"]["dropped"]),
                         (20, [{"stage": "db", "reason": "refused", "frames": 10}]))
        self.assertEqual(self.rows("SELECT count(*) FROM frames WHERE source = 2"), [(20,)])

    def test_too_large_records(self):
        done = self.run_json(self.pipeline(5, sink=", backlog: 4KiB, send_bytes: 1KiB", found="objects: 1000"),
                             code=None)
        self.assertEqual(done["ledger"]["dropped"], [{"stage": "db", "reason": "too large", "frames": 5}])
        self.assertEqual(self.service(done)["dropped"], 5)

    def test_a_wrong_run(self):
        for run in ("lobby-1", "2026-11-29", "f47ac10b58cc4372a5670e02b2c3d479", "0x2f", "0"):
            self.checked([MILLRACE, "run", self.pipeline(5)], code=64, environment={"MILLRACE_RUN": run},
                         says="1 to 16 hexadecimal digits")
        self.run_json(self.pipeline(5), environment={"MILLRACE_RUN": "A7"})
        self.assertEqual(self.runs(), ["00000000000000a7"])

    def test_planned_memory(self):
        rows = json.loads(self.millrace("plan", self.pipeline(sink=", backlog: 8MiB, send_bytes: 1MiB"), "--plugins",
                                        "--json").stdout)["memory_rows"]
        self.assertEqual([row["bytes"] for row in rows if row["what"] == "waiting"], [16 << 20])

    def test_a_moved_file_is_made_again(self):
        path = self.pipeline(2000, source=", rate: 1000", sink=", send_after: 20ms, retry: 10ms")
        running = self.start(path)
        self.wait_until(lambda: self.stored() > 50, running=running)
        for file in self.folder.glob("results.db*"):
            file.rename(self.folder / file.name.replace("results", "moved"))
        self.assertEqual(self.finished(running)[0]["ledger"]["delivered"], 2000)
        first = sqlite3.connect(self.folder / "moved.db").execute("SELECT seq FROM frames").fetchall()
        self.assertEqual(sorted(first + self.rows("SELECT seq FROM frames")), [(seq,) for seq in range(2000)])

    def test_full_disk(self):
        """It is waited for."""
        disk = Mounted(self)
        self.path = disk.folder / "results.db"
        self.sink = f"type: sqlite, path: {self.path}"
        self.run_json(self.pipeline(5))
        disk.fill()
        path = self.pipeline(2000, sink=", retry: 20ms")
        running = self.start(path)
        line = self.wait_until(lambda: next((line for line in running.stderr if "tries again" in line), ""))
        self.assertRegex(line, "full|disk I/O")
        disk.empty()
        self.assertEqual(self.finished(running)[0]["ledger"]["delivered"], 2000)
        self.check(self.runs()[1], 2000)
