"""Runs contestants in turn, round after round, and compares each with the first. A comparison is the median of the
ratios within each round. So if the machine is slow for a while, both sides of a ratio are slow."""
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import threading
import time


EDGE = 10  # frames at both ends, where a contestant starts, fills up and ends


@dataclasses.dataclass
class Contestant:
    name: str
    commands: list                # each a list of arguments; all start at once
    self_measured: bool = False   # the last line of standard output is {"wall": s, "cpu": s}
    rows: int = 0                 # it prints a line for each frame: time from the EDGE-th to the EDGE-th last counts
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Measure:
    wall: float
    cpu: float
    peak: int  # resident bytes in all processes together


def descendants(pid):
    """The process and all its descendants."""
    found = [pid]
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += descendants(int(child))
    except OSError:
        pass
    return found


class PeakMemory(threading.Thread):
    """Adds up the peaks of the given processes and their descendants. Looks ten times a second, which costs almost
    nothing."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.peaks, self.stop = pids, {}, threading.Event()
        self.start()

    def run(self):
        while not self.stop.wait(0.1):
            for pid in (each for one in self.pids for each in descendants(one)):
                try:
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    self.peaks[pid] = int(status.split("VmHWM:")[1].split()[0]) * 1024
                except (OSError, IndexError):
                    pass

    def bytes(self):
        self.stop.set()
        self.join()
        return sum(self.peaks.values())


def cpu_seconds(pid):
    """Of one process, so far, with its threads that have ended: clock_getcpuclockid(3). /proc/PID/stat only has ticks
    of 10 ms."""
    return time.clock_gettime(~pid << 3 | 2)


def read_rows(process, rows):
    """Returns the output, and the wall and CPU time of all rows if each took as long as those between the edges."""
    lines, times = [], []
    for line in process.stdout:
        lines.append(line)
        if len(lines) in (EDGE, rows - EDGE):
            times.append((time.monotonic(), cpu_seconds(process.pid)))
    if len(lines) != rows or len(times) != 2:
        return b"".join(lines), None
    return b"".join(lines), [(end - begin) * rows / (rows - 2 * EDGE) for begin, end in zip(*times)]


def measure(contestant):
    """Does one run. Raises if a command fails: a contestant that does not do the work has no time."""
    start = time.monotonic()
    running = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **contestant.environment}) for command in contestant.commands]
    memory = PeakMemory([one.pid for one in running])
    texts, timed = [None] * len(running), None

    def drain(index):
        nonlocal timed
        if contestant.rows:
            out, timed = read_rows(running[index], contestant.rows)
        else:
            out = running[index].stdout.read()
        texts[index] = (out, running[index].stderr.read())

    readers = [threading.Thread(target=drain, args=(index,)) for index in range(len(running))]
    for reader in readers:
        reader.start()
    cpu = 0.0
    for index, process in enumerate(running):
        readers[index].join()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu += usage.ru_utime + usage.ru_stime
    wall, peak = time.monotonic() - start, memory.bytes()
    for process, (out, err) in zip(running, texts):
        if process.returncode:
            raise RuntimeError(f"{contestant.name} failed: {err.decode().strip().splitlines()[-1:]}")
    if contestant.self_measured:
        told = json.loads(texts[-1][0].decode().strip().splitlines()[-1])
        wall, cpu = told["wall"], told["cpu"]
    if contestant.rows:
        if not timed:
            raise RuntimeError(f"{contestant.name} did not print {contestant.rows} rows")
        wall, cpu = timed
    return Measure(wall, cpu, peak)


def hold(contestants, rounds):
    """Returns {name: [Measure of each round]}. Odd rounds go backwards, so no contestant always follows the same
    one."""
    results = {one.name: [] for one in contestants}
    for turn in range(rounds):
        for one in contestants if turn % 2 == 0 else reversed(contestants):
            results[one.name].append(measure(one))
    return results


def table(title, results, frames):
    """Prints each contestant's wall time, CPU time and memory, and the ratios of speed and CPU to the first."""
    first = next(iter(results.values()))
    print(f"\n{title}")
    print(f"{'':24}{'frames/s':>9}{'wall s':>8}{'CPU s':>8}{'MiB':>6}{'speed':>8}{'CPU':>7}"
          f"   ratios: {next(iter(results))} = 1")
    for name, runs in results.items():
        wall, cpu = (statistics.median(getattr(run, what) for run in runs) for what in ("wall", "cpu"))
        speed = statistics.median(one.wall / run.wall for one, run in zip(first, runs))
        work = statistics.median(run.cpu / one.cpu for one, run in zip(first, runs))
        print(f"{name:24}{frames / wall:9.1f}{wall:8.2f}{cpu:8.2f}{max(run.peak for run in runs) / 2**20:6.0f}"
              f"{speed:8.3f}{work:7.3f}", flush=True)
