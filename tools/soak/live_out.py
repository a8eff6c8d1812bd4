"""Parts of live.py: what goes out. A receiver that stops, and a run that is killed while it records."""
import pathlib
import random
import signal
import subprocess
import time

from live_run import ROOT, Run, Server, source

PUSH = """\
  push: {{type: video, input: sources.*, url: "rtsp://127.0.0.1:{port}/live", queue: {{when_full: drop-oldest}}}}
  decode: {{input: sources.*}}
  rows: {{type: jsonl, input: decode, path: "-"}}
"""
KEEP = """\
  keep: {{type: video, input: sources.*, path: "{folder}", name: "kept-{{source}}.mp4"}}
  decode: {{input: sources.*}}
  motion: {{input: decode, threshold: 0.0001}}
  events: {{type: record, input: [sources.*, motion], path: "{folder}/events", before: 1s, after: 2s}}
  rows: {{type: jsonl, input: sources.*, path: "-"}}
"""


def receiver(given, folder):
    """What a receiver costs the rows beside it that takes nothing for a while."""
    taken = pathlib.Path(folder) / "taken.h264"
    taking = subprocess.Popen(["/usr/bin/python3", str(ROOT / "tests/e2e/rtsp_receiver.py"), str(taken)],
                              stdout=subprocess.PIPE, text=True)
    port = taking.stdout.readline().strip()
    server = Server(given, 1)
    run = Run(given, folder, [source("cam", server.urls[0])], PUSH.format(port=port))
    found, wrong = {"stopped_s": given.stopped}, []

    def size():
        return taken.stat().st_size if taken.exists() else 0

    try:
        run.begin(["cam"])
        if not run.wait_for(lambda: size() > 100000):
            wrong.append("the receiver got nothing")
        begun = time.monotonic()
        time.sleep(given.quiet)
        found["before"] = run.gaps(["cam"], begun, time.monotonic())
        taking.send_signal(signal.SIGSTOP)
        begun, before = time.monotonic(), size()
        time.sleep(given.stopped)
        found["while"] = run.gaps(["cam"], begun, time.monotonic())
        memory = run.counts()["memory_kib"]
        taking.send_signal(signal.SIGCONT)
        ready, after = time.monotonic(), size()
        again = run.wait_for(lambda: size() > after + 500000 and time.monotonic())
        found |= {"taken_meanwhile_kb": (after - before) // 1000, "memory_kib": memory,
                  "half_a_megabyte_after_s": round(again - ready, 2) if again else None}
        if not again:
            wrong.append("the receiver that goes on gets nothing")
        if found["while"]["longest_ms"] > 1000:
            wrong.append("the rows waited for the receiver")
        wrong += run.end()
    finally:
        run.kill()
        taking.kill()
        taking.wait()
        taking.stdout.close()
        server.end()
    return found, wrong


def frames_of(path):
    """Pictures that decode, of a file; None if it cannot be read at all."""
    done = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", str(path), "-f", "framemd5", "-"],
                          capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return len(lines) if done.returncode == 0 else None


def killed(given, folder):
    """kill -9 at any moment: a file lacks at most its last second."""
    server = Server(given, 1)
    found, wrong = {"kills": given.kills}, []
    try:
        for n in range(given.kills):
            where = pathlib.Path(folder) / str(n)
            where.mkdir(mode=0o700)  # of the control socket
            run = Run(given, where, [source("cam", server.urls[0])], KEEP.format(folder=where))
            try:
                run.begin(["cam"])
                time.sleep(random.uniform(2, 5))
            finally:
                run.kill()
            time.sleep(0.2)
            packets = len(run.times["cam"])
            events = list((where / "events").glob("*.mp4"))
            readable = {"packets": packets, "video": frames_of(where / "kept-cam.mp4"),
                        "record": sum(frames_of(event) or 0 for event in events), "events": len(events)}
            found[f"kill {n + 1}"] = readable
            # The rows are read later than they are written: a few may be missing here, not there.
            for what in ("video", "record"):
                if not readable[what] or packets - readable[what] > given.rate + 2:
                    wrong.append(f"kill {n + 1}: {readable[what]} of {packets} pictures can be read of {what}")
    finally:
        server.end()
    return found, wrong
