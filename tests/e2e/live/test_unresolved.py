"""Names that cannot be resolved: a silent name server, in a separate namespace."""
import subprocess
import sys
import unittest

from harness import MILLRACE, TIMEOUT, pipeline
from streams import Live

# A separate network, whose name server never answers, and a separate resolv.conf, which makes a query take minutes. The
# system's name cache would answer from elsewhere.
AT_ONCE = 4
ENTER = """
mount --bind "$1" /etc/resolv.conf && ip link set lo up || exit 77
[ ! -d /run/nscd ] || mount -t tmpfs none /run/nscd || exit 77
"$2" -c 'import os, socket, sys, time
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.1)' $$ &
until grep -q ":0035 " /proc/net/udp; do sleep 0.02; done # a question that nobody takes is refused at once
shift 2
exec "$@"
"""
SCHEMES = {"rtsp": "rtsp://{}/a", "http": "http://{}/a", "rtmp": "rtmp://{}/a/b", "srt": "srt://{}:7001"}


class Names(Live):
    def setUp(self):
        super().setUp()
        (self.folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
        self.enter = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", ENTER,
                      "sh", str(self.folder / "resolv.conf"), sys.executable]
        tried = subprocess.run([*self.enter, "true"], capture_output=True, text=True)
        if tried.returncode:
            raise unittest.SkipTest(f"no namespaces here: {tried.stderr.strip()}")

    def test_others_and_stop(self):
        """Sources whose names hang: others continue, each is removable at once, and the run stops."""
        child = self.begin({}, before=self.enter, decoded="sources.*", given="sources: {max: 8}")
        self.wait_until(lambda: self.ctl("status"), child)
        self.assertTrue(self.ctl("add", "good", "uri=lavfi:testsrc=size=320x240:rate=25", "realtime=true"))
        for name, url in SCHEMES.items():
            self.assertTrue(self.ctl("add", name, f"uri={url.format(name + '.example')}", "open_timeout=300s"))
        for name in SCHEMES:
            self.await_state(child, name, "connecting")
        self.wait_until(lambda: len(self.rows("good")) > 10, child)
        for name in ("rtsp", "http"):
            self.assertTrue(self.ctl("remove", name))
            self.wait_until(lambda: self.ask()[name]["state"] == "ended", child)
        rows = len(self.rows("good"))
        self.wait_until(lambda: len(self.rows("good")) > rows + 60, child)  # RTMP connects in tries of 1 s, 2 s, ...
        sources = self.finish(child)
        for name in ("rtmp", "srt"):
            self.assertEqual(sources[name]["connection"]["state"], "ended")
            self.assertEqual(sources[name]["connection"]["tries"], 1)

    def test_a_hub(self):
        """A run whose hub's name hangs ends as soon as it is done: a query takes minutes."""
        for name in ("hub", "run"):
            self.millrace("keygen", name, "--output", self.folder)
        text = pipeline(dict(cam='uri: "lavfi:testsrc=size=32x32:rate=25:duration=1"'), decode="", out='type: "null"',
                        top=f"hub: {{endpoint: tcp://hub.example:9200, key: {self.folder}/run.key, "
                            f"server: {self.folder}/hub.pub}}")
        child = self.spawn([*self.enter, MILLRACE, "run", self.write(text)])
        self.assertEqual(child.wait(min(TIMEOUT, 100)), 0)

    def test_threads_are_bounded(self):
        """Each try leaves a thread that still asks; beyond some number there is no further try."""
        names = [f"{scheme}{i}" for scheme in ("rtsp", "http") for i in range(64)]
        given = "sources:\n" + "".join(
            f"  {name}: {{uri: '{SCHEMES[name[:4]].format(name + '.example')}', open_timeout: 100ms, "
            "reconnect: {first: 1ms, most: 10ms}}\n" for name in names)
        child = self.begin({}, before=self.enter, decoded=", ".join(names), given=given)
        for scheme, words in (("rtsp", "256 names are being resolved already"),
                              ("http", "256 connections that were given up")):
            self.wait_until(lambda: any(words in (state["why"] or "") for state in self.ask().values()), child)
        self.finish(child)
