"""postgres: what a database holds after runs that end, are killed, run at once, or whose server is down, killed,
standing still, full or foreign. Read by psql."""
import json
import shutil
import signal
import socket

from databases import Databases
from disks import Mounted
from harness import MILLRACE, MODELS, ROOT, TIMEOUT, call, free_port, need_models
from postgres_server import Pooler, Server

SERVER = None


class Larger(Mounted):
    SIZE = 32 << 20


def setUpModule():
    global SERVER
    SERVER = Server()


def tearDownModule():
    SERVER.remove()


class Postgres(Databases):
    def setUp(self):
        super().setUp()
        self.server = SERVER
        self.server.ask("DROP SCHEMA IF EXISTS millrace CASCADE")
        self.sink = f'type: postgres, url: "{self.server.url}"'

    def rows(self, query):
        """Values of the types that Python's sqlite3 gives."""
        as_json = f"SET search_path TO millrace; SELECT row_to_json(one) FROM ({query}) one"
        return [tuple(json.loads(line[0]).values()) for line in self.server.rows(as_json)]

    def stored(self):
        done = self.server.ask("SELECT count(*) FROM millrace.frames")
        return int(done.stdout) if done.returncode == 0 else 0

    def document(self):
        """What the document's queries for psql give: rows, and how many tracks."""
        lines = (ROOT / "pipelines/README.md").read_text().splitlines()
        counts, tracks = (self.server.rows(line.split('"')[1]) for line in lines if line.startswith("psql -h "))
        return [sorted(map(list, counts)), len(tracks)]

    def test_rows_views_and_ledger(self):
        summary = self.run_json(self.pipeline(sources=("a", "b")))
        self.assertEqual(self.service(summary)["frames"], 600)
        self.check(self.runs()[0], sources=("a", "b"))
        self.assertEqual(self.rows("SELECT source, track, class, frames FROM tracks ORDER BY source, track"),
                         [(source, i, ["", 'tit "blue"', "Größe"][i], 300) for source in "ab" for i in (1, 2)])
        self.assertEqual(self.rows("SELECT quad FROM objects WHERE quad IS NOT NULL LIMIT 1"),
                         [([0, 0, 1, 0, 1, 1, 0, 1],)])
        self.assertEqual(self.document(), [[["a", "300"], ["b", "300"]], 4])
        self.run_json(self.pipeline())
        self.check(self.runs()[1])
        self.check(self.runs()[0], sources=("a", "b"))

    def test_with_a_pooler(self):
        """Runs share a session, one transaction at a time: what a session keeps is not there in the next one."""
        pooler = Pooler(self.server)
        self.addCleanup(pooler.remove)
        self.sink = f'type: postgres, url: "{pooler.url}"'
        path = self.pipeline(sink=", send_frames: 10")
        runs = [self.spawn([MILLRACE, "run", path]) for _ in range(3)]
        for run in runs:
            self.assertEqual(run.wait(TIMEOUT), 0)
        self.run_json(path)
        self.assertEqual(len(self.runs()), 4)
        for run in self.runs():
            self.check(run)

    def test_large_batches(self):
        """Rows of one table are copied while more are made; the other tables follow, and new sources come first."""
        sink = ", send_frames: 5000, send_bytes: 32MiB, backlog: 64MiB, send_after: 1h"
        summary = self.run_json(self.pipeline(2500, sources=("a", "b"), sink=sink))
        self.assertEqual(self.service(summary)["frames"], 5000)
        self.check(self.runs()[0], 2500, sources=("a", "b"))

    def test_the_example(self):
        need_models()
        self.checked([MILLRACE, "run", ROOT / "pipelines/postgres.yaml", "--set", "sources.video.duration=1s"],
                     environment={"DATABASE": self.server.url, "MODELS": str(MODELS)})
        self.assertIn("sulphur-crested cockatoo",
                      {name.split(",")[0] for name, in self.rows("SELECT DISTINCT class FROM top_classes")})

    def test_two_runs_make_the_tables_at_once(self):
        running = [self.start(self.pipeline()) for _ in range(3)]
        for child in running:
            self.ended(child)
        self.assertEqual(len(set(self.runs())), 3)
        for run in self.runs():
            self.check(run)

    def test_new_columns_are_added(self):
        """A view that somebody has built on stays as it is."""
        self.run_json(self.pipeline())
        self.server.rows("ALTER TABLE millrace.objects DROP COLUMN speed CASCADE; CREATE VIEW millrace.mine AS "
                         "SELECT * FROM millrace.texts_view")
        self.run_json(self.pipeline())
        self.assertEqual(self.rows("SELECT count(*) FROM objects WHERE speed IS NULL"), [(1800,)])
        self.assertEqual(self.rows("SELECT count(*) FROM mine"), [(600,)])

    def test_killed_and_continued(self):
        self.kill_and_continue(self.stored, 2000)

    def test_killed_server(self):
        """Ten times, while it takes rows."""
        path = self.pipeline(6000, source=", rate: 600", sink=", send_after: 10ms, send_frames: 20, retry: 20ms")
        running = self.start(path)
        for _ in range(10):
            before = self.stored()
            self.wait_until(lambda: self.stored() > before or running.poll() is not None)
            self.server.kill()
            self.server.start()
        summary, _ = self.finished(running)
        self.assertEqual(summary["ledger"]["delivered"], 6000)
        self.assertGreater(self.service(summary)["connections"], 1)
        self.check(self.runs()[0], 6000)

    def test_server_that_is_down_at_the_start(self):
        self.server.stop()
        try:
            running = self.start(self.pipeline(sink=", retry: 50ms"))
            service = self.away(running)
            self.assertIn("Connection refused", service["why"])
            self.assertNotIn("p:w", service["why"])
        finally:
            self.server.start()
        self.assertEqual(self.finished(running)[0]["ledger"]["delivered"], 300)
        self.check(self.runs()[0])

    def test_several_hosts(self):
        """One that does not answer is passed over, as one that refuses."""
        with socket.create_server(("127.0.0.1", 0)) as mute:
            address = f"127.0.0.1:{mute.getsockname()[1]},127.0.0.1:{free_port()},127.0.0.1:{self.server.port}"
            url = self.server.url.replace(f"127.0.0.1:{self.server.port}", address)
            self.sink = f'type: postgres, url: "{url}?connect_timeout=1", retry: 10ms'
            self.run_json(self.pipeline())
        self.check(self.runs()[0])

    def test_server_that_stands_still(self):
        """It holds up nothing else, and a run that is asked to end ends."""
        beside = {"lines": f"type: jsonl, input: found, path: {self.folder}/lines.jsonl"}
        running = self.start(self.pipeline(3000, source=", rate: 1000", sink=", send_after: 10ms", **beside))
        self.wait_until(lambda: self.stored() > 0, running=running)
        lines = self.folder / "lines.jsonl"
        self.server.signal(signal.SIGSTOP)
        try:
            self.wait_until(lambda: lines.read_bytes().count(b"\n") == 3000, running=running)
            self.assertIsNone(running.poll())
        finally:
            self.server.signal(signal.SIGCONT)
        self.assertEqual(self.finished(running)[0]["ledger"]["delivered"], 3000)
        self.check(self.runs()[0], 3000)
        self.server.signal(signal.SIGSTOP)
        try:
            running = self.start(self.pipeline(3000, source=", rate: 1000"), "--grace", "3s")
            self.wait_until(lambda: call(["kill", "-0", running.pid]).returncode == 0)
            running.send_signal(signal.SIGTERM)
            out, _ = running.communicate(timeout=TIMEOUT)
            if out:  # it may have ended before it began
                self.assertTrue(json.loads(out)["ledger"]["balanced"])
        finally:
            self.server.signal(signal.SIGCONT)

    def test_full_disk(self):
        """53100 is waited for."""
        disk = Larger(self)
        room = disk.folder / "room"
        room.mkdir()
        if self.server.user:
            shutil.chown(room, self.server.user)
            disk.folder.chmod(0o755)
            self.folder.chmod(0o755)
        self.server.rows(f"CREATE TABLESPACE small LOCATION '{room}'")
        self.addCleanup(self.server.ask, "DROP TABLESPACE small")
        self.addCleanup(self.server.ask, "DROP SCHEMA IF EXISTS millrace CASCADE")
        self.addCleanup(self.server.ask, "ALTER ROLE tester RESET default_tablespace")
        self.server.rows("ALTER ROLE tester SET default_tablespace = small")
        self.run_json(self.pipeline(5))
        self.server.rows("CHECKPOINT")
        disk.fill()
        running = self.start(self.pipeline(3000, sink=", retry: 20ms"))
        line = self.wait_until(lambda: next((line for line in running.stderr if "tries again" in line), ""))
        self.assertIn("could not extend file", line)
        disk.empty()
        self.assertEqual(self.finished(running)[0]["ledger"]["delivered"], 3000)
        self.check(self.runs()[1], 3000)

    def test_passwords(self):
        """They come from the URL, a file or libpq's own means, and are never shown."""
        secret, path = "p%3Aw%2F%C3%B6", self.folder / "secret"
        plain = self.server.url.replace(f"tester:{secret}", "tester")
        shown = call([MILLRACE, "plan", self.pipeline(5), "--plugins", "--json"]).stdout
        self.assertTrue(shown)
        self.assertNotIn(secret, shown)
        self.assertNotIn("p:w", shown)
        path.write_text(self.server.PASSWORD + "\n")
        path.chmod(0o600)
        self.sink = f'type: postgres, url: "{plain}"'
        self.run_json(self.pipeline(5, sink=f", password_file: {path}"))
        self.run_json(self.pipeline(5), environment={"PGPASSWORD": self.server.PASSWORD})
        self.assertEqual(len(self.runs()), 2)
        path.write_text("x" * 1024 + "\n")
        self.checked([MILLRACE, "run", self.pipeline(5, sink=f", password_file: {path}")], code=65,
                     says="at most 1023 bytes")
        path.chmod(0o644)
        self.checked([MILLRACE, "run", self.pipeline(5, sink=f", password_file: {path}")], code=77, says="secret")
        self.checked([MILLRACE, "run", self.pipeline(5)], code=77, environment={"PGPASSWORD": "wrong"},
                     says="password authentication failed")
        self.checked([MILLRACE, "run", self.pipeline(5)], code=77, environment={"HOME": "/nowhere"})
        self.sink = f'type: postgres, url: "{plain}?password=x"'
        self.checked([MILLRACE, "plan", self.pipeline(5), "--plugins"], code=78, says="plans would show the password")
        self.sink = 'type: postgres, url: "postgresql://[::1"'
        self.checked([MILLRACE, "plan", self.pipeline(5), "--plugins"], code=78, says='matching "]"')
        self.sink = f'type: postgres, url: "{self.server.url}x"'
        self.checked([MILLRACE, "run", self.pipeline(5)], code=66, says='database "postgresx" does not exist')

    def test_rows_that_are_refused(self):
        """They cost their batch; names in an index are cut."""
        self.run_json(self.pipeline(5, found="long_zone: true"))
        self.assertEqual(self.rows("SELECT length(zone) FROM events"), [(1024,)])
        self.server.rows("ALTER TABLE millrace.frames ADD CHECK (seq <> 25)")
        summary = self.run_json(self.pipeline(30, sink=", send_frames: 10, send_after: 1h"), code=None)
        self.assertEqual((summary["ledger"]["delivered"], summary["ledger"]["dropped"]),
                         (20, [{"stage": "db", "reason": "refused", "frames": 10}]))

    def test_a_rule_that_swallows_rows(self):
        self.run_json(self.pipeline(5))
        self.server.rows("CREATE FUNCTION millrace.none() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
                         " CREATE TRIGGER swallow BEFORE INSERT ON millrace.runs FOR EACH ROW EXECUTE FUNCTION "
                         "millrace.none()")
        self.checked([MILLRACE, "run", self.pipeline(5)], code=65, says="look for rules and triggers")

    def test_refused_schemas(self):
        self.server.rows("CREATE SCHEMA millrace; CREATE TABLE millrace.frames (id int)")
        self.checked([MILLRACE, "run", self.pipeline(5)], code=65, says='"millrace" has tables of another program')
        self.server.rows("DROP SCHEMA millrace CASCADE")
        self.run_json(self.pipeline(5))
        self.server.rows("UPDATE millrace.schema_version SET version = 99")
        self.checked([MILLRACE, "run", self.pipeline(5)], code=65, says="is of version 99, which a later millrace")

    def test_a_user_who_cannot_create(self):
        """It is enough to insert, if everything is there."""
        self.run_json(self.pipeline(5))
        self.server.ask("DROP OWNED BY writer; DROP ROLE writer")
        self.server.rows("CREATE ROLE writer LOGIN PASSWORD 'w'; GRANT USAGE ON SCHEMA millrace TO writer; "
                         "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA millrace TO writer; "
                         "GRANT USAGE ON ALL SEQUENCES IN SCHEMA millrace TO writer")
        self.sink = f'type: postgres, url: "postgresql://writer:w@127.0.0.1:{self.server.port}/postgres"'
        self.run_json(self.pipeline())
        self.check(self.runs()[1])
        self.checked([MILLRACE, "run", self.pipeline(5, sink=", schema: other")], code=77, says="permission denied")
