"""What the parts of live.py share: servers of cameras, proxies between them and their clients, and runs that are watched."""
import collections
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / "build/venv/bin/python"
SERVERS = 4
STALL = 2
PATIENCE = 60
SOURCE = '  {id}: {{uri: "{url}", transport: {transport}, stall: {stall}s, reconnect: {{first: 100ms, most: {most}}}{more}}}\n'
ROWS = '  decode: {input: sources.*}\n  rows: {type: jsonl, input: decode, path: "-"}\n'


def source(id, url, transport="tcp", most="1s", more=""):
    return SOURCE.format(id=id, url=url, transport=transport, stall=STALL, most=most, more=more)


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def in_ms(seconds):
    return None if seconds is None else round(1000 * seconds, 1)


# ---- servers ---------------------------------------------------------------------------------------------------------

class Server:
    """tools/camera with some cameras."""

    def __init__(self, given, count, port=0, codec="h264"):
        command = [ROOT / "tools/camera", "--port", port, "--count", count, "--size", given.size, "--rate", given.rate,
                   "--bitrate", given.bitrate, "--codec", codec]
        self.child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        self.urls = [self.child.stdout.readline().strip() for _ in range(count)]
        if not self.urls[-1].startswith("rtsp:"):
            self.end()
            sys.exit("tools/camera serves no RTSP here (gst-rtsp-server is not installed)")
        self.port = int(re.search(r":(\d+)/", self.urls[0])[1])

    def stop(self):
        self.child.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.child.send_signal(signal.SIGCONT)

    def end(self):
        self.go_on()
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


class Proxy:
    """Between clients and a server, over TCP: cuts connections, or changes the packets that come from the server."""

    def __init__(self, port):
        self.to = port
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.cut_after = None    # bytes from the server
        self.change = None       # makes, for a connection, a function from a channel and its packet to what is sent
        self.refuse = None       # the status with which each DESCRIBE is answered
        self.connections = self.refused = 0
        self.lock = threading.Lock()
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                self.connections += 1
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.to)) as server:
            with self.lock:
                self.open |= {client, server}
            self.carry(client, server)
        with self.lock:
            self.open = {one for one in self.open if one.fileno() >= 0}

    def carry(self, client, server):
        done, packets = 0, Packets(self)
        while True:
            for one in select.select([client, server], [], [])[0]:
                piece = one.recv(1 << 16)
                done += len(piece) if one is server else 0
                if not piece or (self.cut_after and done > self.cut_after):
                    return
                if one is server:
                    client.sendall(packets.changed(piece))
                elif self.refuse and piece.startswith(b"DESCRIBE"):
                    self.refused += 1
                    sequence = re.search(rb"CSeq: *(\d+)", piece)[1].decode()
                    client.sendall(f"RTSP/1.0 {self.refuse}\r\nCSeq: {sequence}\r\n\r\n".encode())
                else:
                    server.sendall(piece)

    def break_off(self):
        with self.lock:
            for one in self.open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def end(self):
        self.listening.close()
        self.break_off()


class Packets:
    """Tells the packets that a server sends between its answers, and changes them as the proxy says."""

    def __init__(self, proxy):
        self.proxy, self.made_by, self.change, self.rest = proxy, None, None, b""

    def changed(self, piece):
        if self.made_by is not self.proxy.change:
            self.made_by = self.proxy.change
            self.change = self.made_by and self.made_by()
        self.rest += piece
        done = []
        while (length := self.first()) and length <= len(self.rest):
            one, self.rest = self.rest[:length], self.rest[length:]
            if not self.change:
                pass
            elif one[:1] == b"$":
                packet = self.change(one[1], one[4:])
                one = struct.pack(">cBH", b"$", one[1], len(packet)) + packet if packet else b""
            else:
                one = re.sub(rb"RTP-Info:[^\r]*\r\n", b"", one)  # it would tell of other numbers and times
            done.append(one)
        return b"".join(done)

    def first(self):
        """The length of what comes first; 0 as long as that is not known."""
        if self.rest[:1] == b"$":
            return 4 + struct.unpack(">H", self.rest[2:4])[0] if len(self.rest) >= 4 else 0
        head = self.rest.find(b"\r\n\r\n") + 4
        body = re.search(rb"(?i)content-length: *(\d+)", self.rest[:head])
        return 0 if head < 4 else head + (int(body[1]) if body else 0)


# ---- runs ------------------------------------------------------------------------------------------------------------

class Run:
    """A pipeline of cameras, whose rows and messages are read as they come, with the time of each."""

    def __init__(self, given, folder, sources, stages=ROWS, head="", take=None):
        self.folder = pathlib.Path(folder)
        path = self.folder / "live.yaml"
        path.write_text(f"version: 1\npipeline: live\nsources:\n{head}{''.join(sources)}stages:\n{stages}")
        self.control = self.folder / "control"
        self.child = subprocess.Popen([str(given.millrace), "run", str(path), "--log", "info", "--control",
                                       str(self.control), "--quiet"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.times = collections.defaultdict(list)
        self.told = []
        self.take = take  # called with the time and the text of each row
        for function in (self.read_rows, self.read_log):
            threading.Thread(target=function, daemon=True).start()

    def read_rows(self):
        for line in self.child.stdout:
            now = time.monotonic()
            found = re.match(r'\{"source":"([^"]+)"', line)
            if found:
                self.times[found[1]].append(now)
                if self.take:
                    self.take(now, line)

    def read_log(self):
        for line in self.child.stderr:
            self.told.append((time.monotonic(), line.rstrip()))

    def said_since(self, begin, pattern):
        return next((when for when, line in list(self.told) if when >= begin and re.search(pattern, line)), None)

    def wait_for(self, what, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not (found := what()) and time.monotonic() < end and self.child.poll() is None:
            time.sleep(0.02)
        return found

    def begin(self, sources):
        if not self.wait_for(lambda: all(len(self.times[one]) > 5 for one in sources)):
            sys.exit("not all cameras came: " + "\n".join(line for _, line in self.told[-10:]))

    def rows_since(self, source, begin):
        return [when for when in list(self.times[source]) if when >= begin]

    def gaps_of(self, sources, begin, end):
        found = []
        for source in sources:
            times = [when for when in list(self.times[source]) if begin <= when <= end]
            found += [b - a for a, b in zip(times, times[1:])]
        return found

    def gaps(self, sources, begin, end):
        """The 99th percentile and the longest of the times from one row to the next."""
        found = self.gaps_of(sources, begin, end)
        return {"p99_ms": in_ms(quantile(found, 0.99)), "longest_ms": in_ms(max(found, default=None))}

    def counts(self):
        folder = pathlib.Path(f"/proc/{self.child.pid}")
        memory = int(re.search(r"VmRSS:\s+(\d+)", (folder / "status").read_text())[1])
        return {"descriptors": len(list((folder / "fd").iterdir())), "threads": len(list((folder / "task").iterdir())),
                "memory_kib": memory}

    def settled(self):
        """Counts, once they stand still."""
        last = self.counts()
        for _ in range(20):
            time.sleep(0.5)
            now = self.counts()
            if (now["descriptors"], now["threads"]) == (last["descriptors"], last["threads"]):
                return now
            last = now
        return last

    def ctl(self, given, *words):
        """Whether it did so."""
        command = [str(given.millrace), "ctl", "--control", str(self.control), *words]
        return subprocess.run(command, capture_output=True).returncode == 0

    def connections(self, given):
        """What it tells of its sources."""
        command = [str(given.millrace), "ctl", "--control", str(self.control), "status", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        told = json.loads(done.stdout)["status"]["sources"] if done.returncode == 0 else []
        return {one["id"]: one["connection"] for one in told if "connection" in one}

    def end(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return None


def cpu_of(child):
    """Processor seconds of a process and all its threads so far."""
    fields = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
