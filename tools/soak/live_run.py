"""What the parts of live.py share: servers of cameras, proxies between them and their clients, and runs whose rows and
messages are read."""
import collections
import contextlib
import json
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
SERVERS = 4
STALL = 2
PATIENCE = 60
SOURCE = ('  {id}: {{uri: "{url}", transport: {transport}, stall: {stall}s, '
          'reconnect: {{first: 100ms, most: {most}}}}}\n')
ROWS = '  decode: {input: sources.*}\n  rows: {type: jsonl, input: decode, path: "-"}\n'


def source(id, url, transport="tcp", most="1s"):
    return SOURCE.format(id=id, url=url, transport=transport, stall=STALL, most=most)


def sources_of(urls, most="1s"):
    """Of {id: URL}."""
    return [source(id, url, most=most) for id, url in urls.items()]


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def in_ms(seconds):
    return None if seconds is None else round(1000 * seconds, 1)


# ---- servers ---------------------------------------------------------------------------------------------------------

class Server:
    """tools/camera with some cameras."""

    def __init__(self, given, count, port=0):
        command = [ROOT / "tools/camera", "--port", port, "--count", count, "--size", given.size, "--rate", given.rate,
                   "--bitrate", given.bitrate, "--codec", "h264"]
        self.child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        self.urls = [self.child.stdout.readline().strip() for _ in range(count)]
        if not self.urls[-1].startswith("rtsp:"):
            self.end()
            sys.exit("tools/camera serves no RTSP here (gst-rtsp-server is not installed)")
        self.port = port_of(self.urls[0])

    def stop(self):
        self.child.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.child.send_signal(signal.SIGCONT)

    def end(self):
        self.go_on()
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


def serve(given, count):
    """So many cameras, by several servers: the servers and the URLs."""
    servers = [Server(given, -(-count // SERVERS)) for _ in range(min(SERVERS, count))]
    return servers, [url for server in servers for url in server.urls][:count]


def port_of(url):
    return int(re.search(r":(\d+)/", url)[1])


class Proxy:
    """Between clients and the camera of a URL, over TCP: cuts connections, or changes the packets of the camera."""

    def __init__(self, url):
        self.to = port_of(url)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{self.to}/", f":{self.listening.getsockname()[1]}/")
        self.cut_after = None    # bytes from the server
        self.change = None       # makes, for a connection, a function from a channel and its packet to what is sent
        self.connections = 0
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
    """Splits what a server sends into packets and answers, and changes the packets as the proxy says."""

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
                one = re.sub(rb"RTP-Info:[^\r]*\r\n", b"", one)  # it has the numbers and times before the change
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
        self.millrace = str(given.millrace)
        self.child = subprocess.Popen([self.millrace, "run", str(path), "--log", "info", "--control",
                                       str(self.control), "--quiet"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.times = collections.defaultdict(list)  # of its rows, by source
        self.log = []  # (time, line)
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
            self.log.append((time.monotonic(), line.rstrip()))

    def logged_since(self, begin, pattern):
        return next((when for when, line in list(self.log) if when >= begin and re.search(pattern, line)), None)

    def wait_for(self, what, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not (found := what()) and time.monotonic() < end and self.child.poll() is None:
            time.sleep(0.02)
        return found

    def begin(self, sources):
        if not self.wait_for(lambda: all(len(self.times[one]) > 5 for one in sources)):
            sys.exit("not all cameras came: " + "\n".join(line for _, line in self.log[-10:]))

    def rows_since(self, source, begin):
        return [when for when in list(self.times[source]) if when >= begin]

    def back(self, source, begin, name, allowed=2, passing=0):
        """Seconds from `begin` to the first row of this source, and what is wrong if they are more than allowed. Rows
        of the first `passing` seconds do not count: they were under way."""
        row = self.wait_for(lambda: next(iter(self.rows_since(source, begin + passing)), None))
        seconds = round(row - begin, 2) if row else None
        in_time = row and row - begin <= allowed
        return seconds, [] if in_time else [f"{name}: back after {seconds} s, {allowed} s are allowed"]

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

    def control_by(self, *words):
        command = [self.millrace, "ctl", "--control", str(self.control), *words]
        return subprocess.run(command, capture_output=True, text=True)

    def ctl(self, *words):
        """Whether it did so."""
        return self.control_by(*words).returncode == 0

    def connections(self):
        """The connection of each source, as its status has it."""
        done = self.control_by("status", "--json")
        sources = json.loads(done.stdout)["status"]["sources"] if done.returncode == 0 else []
        return {one["id"]: one["connection"] for one in sources if "connection" in one}

    def end(self):
        """Asks it to end. What is wrong with how it did: a ledger that does not balance is a failure."""
        self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return [f"the run did not end in {PATIENCE} s"]
        return [f"the run ended with {code}"] if code else []

    def kill(self):
        self.child.kill()
        self.child.wait()
