"""Camera connections are cut at random while sources are added, changed and removed at random, with 1 to 16 workers.
Every request is answered, every picture accounted for, and nothing of a removed source may stay."""
import json
import random
import select
import socket
import threading

import streams
from harness import TIMEOUT, serve
from streams import Live

TURNS = 100
CAMERAS = 6


class Proxy:
    """Forwards connections to a server until they are cut."""

    def __init__(self, case, to):
        self.to, self.pairs, self.lock = to, [], threading.Lock()
        case.addCleanup(self.cut)
        self.port = serve(case, self.carry)

    def carry(self, near):
        with near, socket.create_connection(("127.0.0.1", self.to)) as far:
            pair = {near: far, far: near}
            with self.lock:
                self.pairs.append(pair)
            while True:
                for end in select.select(list(pair), [], [])[0]:
                    try:
                        data = end.recv(65536)
                        pair[end].sendall(data)
                    except OSError:
                        return
                    if not data:
                        return

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for end in (end for pair in pairs for end in pair):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is closed already
                pass


class Flapping(Live):
    def control(self):
        """Sends requests to the run over one connection."""
        path = self.wait_until(lambda: next(self.runtime.glob("millrace/*.sock"), None))
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.settimeout(TIMEOUT)
        connection.connect(str(path))
        lines = connection.makefile("rw")
        self.addCleanup(lines.close)

        def ask(do, argument=None, **options):
            request = {"millrace": 1, "do": do, "argument": argument, "options": options or None}
            lines.write(json.dumps({key: value for key, value in request.items() if value is not None}) + "\n")
            lines.flush()
            return json.loads(lines.readline())
        return ask

    def flap(self, workers):
        seed = random.randrange(1 << 32)
        with self.subTest(seed=seed):
            self.flap_with(workers, random.Random(seed))

    def flap_with(self, workers, numbers):
        _, at = streams.rtsp(self, f"/a={streams.pattern(size='160/120')}")
        proxies = [Proxy(self, at) for _ in range(2)]
        child = self.begin({}, "--workers", workers, given="sources: {max: 4}", decoded="sources.*")
        self.wait_until(lambda: self.ctl("status"), child)
        ask, there = self.control(), set()
        self.assertTrue(ask("status")["ok"])  # it has accepted the connection
        before = self.held(child)
        refusals = ("already", "has no source", "remove one first")
        for turn in range(TURNS):
            id, do = f"cam{numbers.randrange(CAMERAS)}", numbers.choice(("add", "add", "set", "remove"))
            uri = f"rtsp://127.0.0.1:{numbers.choice(proxies).port}/a"
            options = {} if do == "remove" else {"uri": uri, "transport": "tcp",
                                                 "reconnect": "{first: 20ms, most: 100ms}",
                                                 "stall": numbers.choice(("200ms", "2s"))}
            answer = ask(do, id, **options)
            self.assertTrue(answer["ok"] or any(words in answer["error"] for words in refusals), answer)
            if answer["ok"]:
                (there.discard if do == "remove" else there.add)(id)
            if numbers.random() < 0.4:
                numbers.choice(proxies).cut()
            if turn % 10 == 9:
                count = len(self.rows())
                if there:
                    self.wait_until(lambda: len(self.rows()) > count, child)
        for id in there:
            self.assertTrue(ask("remove", id)["ok"])
        self.wait_until(lambda: self.held(child) <= before, child)
        # Only a connection's last, partial picture may be missing.
        self.assertEqual({line["reason"] for of in self.finish(child).values() for line in of["dropped"]} - {"corrupt"},
                         set())
        for source in {row["source"] for row in self.rows()}:
            self.assert_in_order(self.rows(source))

    def test_one_worker(self):
        self.flap(1)

    def test_three_workers(self):
        self.flap(3)

    def test_sixteen_workers(self):
        self.flap(16)
