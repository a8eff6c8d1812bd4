"""Passes connections on to a port, until it is told to lose them as networks and proxies do."""
import socket
import threading

import harness


class Relay:
    """`lose()`: connections stay open, and nothing passes any more, as after a laptop's sleep or in a router that has
    forgotten them; new ones have no answer. `refuse()`: connections are closed, and new ones are answered as a proxy
    does whose server is away. `pass_on()`: new connections are passed on again."""

    def __init__(self, case, port):
        self.port, self.mode, self.turn, self.open, self.lock = port, "pass", 0, [], threading.Lock()
        self.address = f"http://127.0.0.1:{harness.serve(case, self.connect)}"

    def lose(self):
        self.turn, self.mode = self.turn + 1, "lose"

    def refuse(self):
        self.mode = "refuse"
        with self.lock:
            for one in self.open:
                one.close_both()

    def pass_on(self):
        self.mode = "pass"

    def connect(self, near):
        if self.mode == "refuse":
            near.recv(65536)
            near.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\nConnection: close\r\n\r\naway")
            near.close()
        elif self.mode == "lose":
            self.hold(near)
        else:
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                return near.close()
            one = Passed(self, near, far)
            with self.lock:
                self.open.append(one)
            one.run()

    def hold(self, near):
        """Until the other end gives it up."""
        try:
            while near.recv(65536):
                pass
        except OSError:
            pass
        near.close()


class Passed:
    def __init__(self, relay, near, far):
        self.relay, self.turn, self.near, self.far = relay, relay.turn, near, far

    def run(self):
        back = threading.Thread(target=self.pump, args=(self.far, self.near), daemon=True)
        back.start()
        self.pump(self.near, self.far)
        back.join()

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                if self.relay.turn == self.turn:
                    sink.sendall(data)
        except OSError:
            pass
        self.close_both()

    def close_both(self):
        for one in (self.near, self.far):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
