#!/usr/bin/env python3
"""Rows a second into SQLite and PostgreSQL, compared with the databases themselves; records a second to a web server
and to an MQTT broker.

    build/venv/bin/python tools/bench/stores/stores.py [--build build] [--rounds 5] [--frames 20000]

millrace writes 50 objects of each frame (tests/plugin/found.c makes them), with all columns. The peers insert the same
rows from what it has written, in batches of the same number of rows, so they neither run a pipeline nor make rows:
SQLite copies them from another file (INSERT ... SELECT, WAL, NORMAL), PostgreSQL reads files in the form of COPY into a
temporary table and inserts from there (ON CONFLICT DO NOTHING). All take turns. Each prints the median, and the ratio's
median. PostgreSQL starts in a temporary folder, with fsync off. Seconds are those from a run's first frame to its
end. A processor second counts all of millrace's threads, also those that make the rows.

The web server is that of tests/e2e/services/test_webhook.py, in Python; the broker is mosquitto, with its defaults and
one subscriber. Records have three objects each."""
import argparse
import json
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/e2e/services")]
OBJECTS = 50
BATCH = 2000  # frames


def pipeline(folder, frames, sink):
    path = folder / "pipeline.yaml"
    path.write_text(f"""version: 1
pipeline: stores
plugins: [./libfound.so]
sources: {{a: {{type: "null", frames: {frames}}}}}
stages:
  found: {{input: a, objects: {OBJECTS}, alone: true}}
  db: {{{sink}, input: found, results: objects, send_frames: {BATCH}, send_bytes: 64MiB, backlog: 256MiB}}
""")
    return path


def millrace(build, path):
    """The run's seconds, by the clock and of processors."""
    done = subprocess.run([build / "millrace", "run", path, "--json"], capture_output=True, text=True, check=True)
    summary = json.loads(done.stdout)
    return summary["wall_s"], summary["cpu_s"]


def sqlite(build, folder, frames, rounds):
    """Seconds of millrace and of the library, by round: by the clock and of processors."""
    path, bare = folder / "results.db", folder / "bare.db"
    ours, theirs = [], []
    for _ in range(rounds):
        for one in (*folder.glob("results.db*"), *folder.glob("bare.db*")):
            one.unlink()
        ours.append(millrace(build, pipeline(folder, frames, f"type: sqlite, path: {path}")))
        database = sqlite3.connect(bare, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA cache_size = -16384")
        database.execute("ATTACH ? AS made", (str(path),))
        for name in ("objects", "objects_track"):
            made = database.execute("SELECT sql FROM made.sqlite_master WHERE name = ?", (name,)).fetchone()[0]
            database.execute(made)
        began = time.monotonic(), time.process_time()
        for first in range(0, frames, BATCH):
            database.execute("INSERT INTO objects SELECT * FROM made.objects WHERE source = 1 AND epoch = 0 AND "
                             "seq >= ? AND seq < ?", (first, first + BATCH))
        theirs.append((time.monotonic() - began[0], time.process_time() - began[1]))
        database.close()
    return ours, theirs


def postgres(build, folder, frames, rounds):
    import postgres_server
    server = postgres_server.Server()
    ours, theirs = [], []
    try:
        sink = f'type: postgres, url: "{server.url}"'
        for number in range(rounds):
            server.rows("DROP SCHEMA IF EXISTS millrace CASCADE; DROP TABLE IF EXISTS bare")
            ours.append(millrace(build, pipeline(folder, frames, sink)))
            if number == 0:
                for first in range(0, frames, BATCH):
                    server.rows(f"COPY (SELECT * FROM millrace.objects WHERE seq >= {first} AND seq < {first + BATCH}) "
                                f"TO '{server.folder}/rows{first}' (FORMAT binary)")
            server.rows("CREATE TABLE bare (LIKE millrace.objects INCLUDING ALL)")
            script = "CREATE TEMP TABLE fresh (LIKE bare) ON COMMIT DELETE ROWS;"
            for first in range(0, frames, BATCH):
                script += (f"BEGIN; COPY fresh FROM '{server.folder}/rows{first}' (FORMAT binary); "
                           "INSERT INTO bare SELECT * FROM fresh ON CONFLICT DO NOTHING; COMMIT;")
            (folder / "bare.sql").write_text(script)
            began = time.monotonic()
            done = subprocess.run([server.bin / "psql", "-X", "-q", server.url, "-f", folder / "bare.sql"], check=True,
                                  capture_output=True, text=True)
            assert not done.stderr, done.stderr
            theirs.append((time.monotonic() - began, 0))
    finally:
        server.remove()
    return ours, theirs


def webhook(build, folder, frames, rounds):
    import test_webhook
    receiver = test_webhook.Receiver()
    for batches in ("", ", body: array, send_frames: 500"):
        path = folder / "pipeline.yaml"
        path.write_text(f"""version: 1
pipeline: stores
plugins: [./libfound.so]
sources: {{a: {{type: "null", frames: {frames}}}}}
stages:
  found: {{input: a}}
  hook: {{type: webhook, input: found, url: "http://127.0.0.1:{receiver.port}/"{batches}}}
""")
        seconds = statistics.median(millrace(build, path)[0] for _ in range(rounds))
        print(f"webhook{batches}: {frames / seconds:,.0f} records a second", flush=True)
    receiver.close()


def mqtt(build, folder, frames, rounds):
    import harness
    port = harness.free_port()
    (folder / "broker").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    broker = subprocess.Popen(["mosquitto", "-c", folder / "broker"], stderr=subprocess.DEVNULL)
    path = folder / "pipeline.yaml"
    path.write_text(f"""version: 1
pipeline: stores
plugins: [./libfound.so]
sources: {{a: {{type: "null", frames: {frames}}}}}
stages:
  found: {{input: a}}
  mqtt: {{input: found, url: "mqtt://127.0.0.1:{port}", retry: 10ms}}
""")
    reader = subprocess.Popen(["mosquitto_sub", "-p", str(port), "-q", "1", "-t", "#"], stdout=subprocess.DEVNULL)
    measured = [millrace(build, path) for _ in range(rounds)]
    for clock, name in enumerate(("second", "processor second")):
        seconds = statistics.median(one[clock] for one in measured)
        print(f"mqtt: {frames / seconds:,.0f} records a {name}", flush=True)
    for one in (reader, broker):
        one.terminate()
        one.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=20000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millrace-stores-") as folder:
        folder = pathlib.Path(folder)
        subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", f"-I{ROOT}/engine/include",
                        ROOT / "tests/plugin/found.c", "-o", folder / "libfound.so"], check=True)
        rows = given.frames * (OBJECTS + 1)
        for measure, clocks in ((sqlite, ("second", "processor second")), (postgres, ("second",))):
            ours, theirs = measure(given.build.resolve(), folder, given.frames, given.rounds)
            for clock, name in enumerate(clocks):
                a, b = [one[clock] for one in ours], [one[clock] for one in theirs]
                ratio = statistics.median(y / x for x, y in zip(a, b))
                print(f"{measure.__name__}: millrace {rows / statistics.median(a):,.0f} rows a {name}, the database "
                      f"alone {rows / statistics.median(b):,.0f}, ratio {ratio:.2f}", flush=True)
        webhook(given.build.resolve(), folder, given.frames, given.rounds)
        mqtt(given.build.resolve(), folder, given.frames, given.rounds)


if __name__ == "__main__":
    main()
