"""A real MQTT broker, mosquitto, with a subscriber that keeps what it receives. Skips if they are not installed."""
import contextlib
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import threading
import unittest

from harness import TIMEOUT, free_port, serve


class Broker:
    """A broker in the case's folder. `keeps`: it writes its state to disk at each change, which is slow, so that a
    killed one continues."""

    def __init__(self, case, config="", port=None, name="broker", keeps=False, most_open=1000):
        if not shutil.which("mosquitto") or not shutil.which("mosquitto_sub"):
            raise unittest.SkipTest("no mosquitto with its clients (tools/test installs them)")
        self.case, self.port, self.name = case, port or free_port(), name
        self.folder = case.folder / name
        self.folder.mkdir()
        self.log = self.folder / "log"
        user = f"user {os.environ.get('USER', 'root')}\n" if os.getuid() == 0 else ""
        (self.folder / "conf").write_text(
            f"{user}persistence {str(keeps).lower()}\npersistence_location {self.folder}/\nautosave_interval 1\n"
            f"autosave_on_changes true\nmax_inflight_messages {most_open}\nmax_queued_messages 100000\n"
            f"log_dest file {self.log}\nlog_type all\nlistener {self.port} 127.0.0.1\n" +
            (config or "allow_anonymous true\n"))
        self.running = None
        self.start()

    def start(self):
        lines = self.text().count("running")
        self.running = self.case.spawn(["mosquitto", "-c", self.folder / "conf"], stderr=subprocess.PIPE)
        self.case.wait_until(lambda: self.text().count("running") > lines, running=self.running, why=self.text)

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self, sign=signal.SIGKILL):
        self.running.send_signal(sign)
        self.running.wait(TIMEOUT)

    def signal(self, sign):
        self.running.send_signal(sign)

    def subscribe(self, topic="#", name="subscriber", options=()):
        return Subscriber(self, topic, name, options)


class Subscriber:
    """Keeps messages in order: (topic, payload, whether the broker had kept it)."""

    def __init__(self, broker, topic, name, options):
        self.messages, self.case = [], broker.case
        self.running = broker.case.spawn(
            ["mosquitto_sub", "-h", "127.0.0.1", "-p", broker.port, "-t", topic, "-q", "1", "-c", "-i", name, "-F",
             "%r %x %t", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        threading.Thread(target=self.read, daemon=True).start()
        broker.case.wait_until(lambda: f"Sending SUBACK to {name}" in broker.text(), running=self.running)

    def read(self):
        for line in self.running.stdout:
            kept, payload, topic = line.decode().rstrip("\n").split(" ", 2)
            self.messages.append((topic, bytes.fromhex(payload), kept == "1"))

    def of(self, topic):
        """The JSON payloads with exactly this topic."""
        return [json.loads(payload) for found, payload, _ in list(self.messages) if found == topic]

    def last(self, topic):
        """The newest state; {}: none."""
        return (self.of(topic) or [{}])[-1]

    def wait_for(self, happened, **how):
        return self.case.wait_until(lambda: happened(self), **how)


class Flaky:
    """A broker that keeps each message before it acknowledges it, and breaks off: at every `breaks`th message, before
    or after the acknowledgement in turn. mosquitto, if it is killed, may lose messages that it has acknowledged.
    `hates` says what it answers to a message before it breaks off; None: an acknowledgement."""

    def __init__(self, case, breaks=1 << 30, hates=lambda row: None):
        self.messages, self.connections, self.breaks, self.numbers = [], 0, breaks, itertools.count(1)
        self.hates = hates
        self.port = serve(case, self.talk)

    def talk(self, connection):
        self.connections += 1
        with connection, connection.makefile("rb") as stream:
            while packet := self.read(stream):
                kind, body = packet
                if kind >> 4 == 1:  # CONNECT
                    connection.sendall(b"\x20\x03\0\0\0")
                elif kind >> 4 == 3 and not self.take(connection, body):
                    return

    def read(self, stream):
        head, length, shift = stream.read(1), 0, 0
        while head and (more := stream.read(1)):
            length |= (more[0] & 127) << shift
            shift += 7
            if more[0] < 128:
                return head[0], stream.read(length)
        return None

    def take(self, connection, body):
        """A PUBLISH, with no properties. False: it breaks off."""
        topic = 2 + struct.unpack(">H", body[:2])[0]
        number = next(self.numbers)
        if (answer := self.hates(json.loads(body[topic + 3:]))) is not None:
            connection.sendall(answer)
            return False
        acknowledges = number % (2 * self.breaks) != 0
        if acknowledges or number % 2:
            self.messages.append((body[2:topic].decode(), json.loads(body[topic + 3:])))
        if acknowledges:
            connection.sendall(b"\x40\x02" + body[topic:topic + 2])
        return number % self.breaks != 0


def packet(first, body):
    """A packet of MQTT: the first byte, the length and the rest."""
    length, left = b"", len(body)
    while not length or left:
        length += bytes([left % 128 | (128 if left > 127 else 0)])
        left //= 128
    return bytes([first]) + length + body


WELCOME = b"\x20\x03\0\0\0"


class Hostile(Flaky):
    """A broker that answers each of the first connections with one of the attacks, and is then a right one. An attack
    is bytes, which it sends after CONNECT, or a function that gets the connection. `context`: TLS."""

    def __init__(self, case, attacks, context=None):
        self.attacks, self.context = iter(attacks), context
        super().__init__(case)

    def talk(self, connection):
        if self.context:
            connection = self.context.wrap_socket(connection, server_side=True)
        attack = next(self.attacks, None)
        if attack is None:
            super().talk(connection)
            return
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            if callable(attack):
                attack(connection)
            else:
                connection.sendall(attack)
                while connection.recv(65536):
                    pass
