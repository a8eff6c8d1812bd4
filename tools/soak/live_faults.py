"""Parts of live.py: one camera fails, beside good ones."""
import argparse
import json
import struct
import tempfile
import time

import cameras
from live_run import PATIENCE, SERVERS, STALL, Proxy, Run, Server, in_ms, quantile, source

TRICKLE = 3  # seconds from one picture to the next


def good_cameras(given, count):
    servers = [Server(given, max(1, (count + SERVERS - 1) // SERVERS)) for _ in range(min(SERVERS, count))]
    urls = [url for server in servers for url in server.urls][:count]
    return servers, {f"good{n}": url for n, url in enumerate(urls)}


def sources_of(urls, most="1s"):
    return [source(id, url, most=most) for id, url in urls.items()]


# ---- what a camera does ----------------------------------------------------------------------------------------------

def mute():
    """Only its reports are left."""
    return lambda channel, packet: packet if channel else b""


def trickle():
    """A picture in three seconds: its packets, and its reports."""
    last, chosen = None, None

    def pass_on(channel, packet):
        nonlocal last, chosen
        picture = packet[4:8]
        if channel == 0 and (last is None or (picture != chosen and time.monotonic() - last >= TRICKLE)):
            last, chosen = time.monotonic(), picture
        return packet if channel or picture == chosen else b""

    return pass_on


# ---- faults ----------------------------------------------------------------------------------------------------------

def fault(run, good, name, spoil, mend, seconds, allowed):
    """Spoils the camera `bad` for some seconds, and mends it."""
    begun = time.monotonic()
    quiet = run.gaps(good, begun - 10, begun)
    spoil()
    seen = run.wait_for(lambda: run.said_since(begun, r"bad: (stalled|away)"), max(seconds, PATIENCE / 4))
    left = seconds - (time.monotonic() - begun)
    if left > 0:
        time.sleep(left)
    mend()
    ready = time.monotonic()  # a server that starts takes its time
    back = run.wait_for(lambda: (rows := run.rows_since("bad", ready)) and rows[0])
    spoilt = run.gaps(good, begun, back or time.monotonic())
    found = {"seen_after_s": round(seen - begun, 2) if seen else None,
             "back_after_s": round(back - ready, 2) if back else None,
             "good_before_p99_ms": quiet["p99_ms"], "good_while_p99_ms": spoilt["p99_ms"],
             "good_before_longest_ms": quiet["longest_ms"], "good_while_longest_ms": spoilt["longest_ms"]}
    wrong = []
    if not seen or seen - begun > allowed:
        wrong.append(f"{name}: seen after {found['seen_after_s']} s, {allowed} s are allowed")
    if not back or back - ready > 2:
        wrong.append(f"{name}: back after {found['back_after_s']} s, 2 s are allowed")
    time.sleep(2)
    return found, wrong


def faults(given, folder):
    servers, good = good_cameras(given, given.bad - 1)
    bad = [Server(given, 1)]
    proxy = Proxy(bad[0].port)
    run = Run(given, folder, sources_of({**good, "bad": f"rtsp://127.0.0.1:{proxy.port}/camera"}))
    found, wrong = {"cameras": given.bad}, []

    def again():
        bad[0] = Server(given, 1, bad[0].port)

    def become(change):
        proxy.change = change

    def mended():
        proxy.change = None
        proxy.break_off()  # as a camera that starts again; in the middle of a connection it could not be decoded

    try:
        run.begin([*good, "bad"])
        time.sleep(given.quiet)
        for name, spoil, mend, seconds, allowed in (
                ("killed", lambda: bad[0].end(), again, given.away, 1),
                ("stopped", lambda: bad[0].stop(), lambda: bad[0].go_on(), given.stopped, STALL + 1),
                ("silent but for RTCP", lambda: become(mute), mended, given.away, STALL + 1),
                ("a picture in 3 s", lambda: become(trickle), mended, given.away, STALL + 1)):
            found[name], more = fault(run, list(good), name, spoil, mend, seconds, allowed)
            wrong += more
        code = run.end()
        if code != 0:
            wrong.append(f"the run ended with {code}")
    finally:
        run.child.kill()
        proxy.end()
        for server in servers + bad:
            server.end()
    return found, wrong


# ---- answers that are none -------------------------------------------------------------------------------------------

REFUSALS = {"401": "401 Unauthorized", "404": "404 Not Found", "503": "503 Service Unavailable"}
MOST = 5  # seconds between two tries, where another is not likely to help


def refused(given, folder):
    """Cameras that refuse: how often they are asked, and when they are back once they do not."""
    servers, good = good_cameras(given, given.bad - len(REFUSALS))
    proxies = {code: Proxy(servers[0].port) for code in REFUSALS}
    for code, proxy in proxies.items():
        proxy.refuse = REFUSALS[code]
    path = servers[0].urls[0].rpartition("/")[2]
    urls = {f"bad{code}": f"rtsp://127.0.0.1:{proxy.port}/{path}" for code, proxy in proxies.items()}
    run = Run(given, folder, sources_of(good) + [source(id, url, most=f"{MOST}s") for id, url in urls.items()])
    found, wrong = {"cameras": given.bad, "seconds": given.away}, []
    try:
        run.begin(good)
        first = {code: proxy.refused for code, proxy in proxies.items()}
        begun = time.monotonic()
        time.sleep(given.away)
        states = run.connections(given)
        asked = {code: proxy.refused - first[code] for code, proxy in proxies.items()}
        found |= run.gaps(good, begun, time.monotonic())
        ready = time.monotonic()
        for proxy in proxies.values():
            proxy.refuse = None
        for code in REFUSALS:
            back = run.wait_for(lambda: (rows := run.rows_since(f"bad{code}", ready)) and rows[0])
            allowed, mends = (2, "") if code == "503" else (MOST + 2, "not ")
            state = states.get(f"bad{code}", {})
            found[code] = {"asked": asked[code], "state": state.get("state"),
                           "back_after_s": round(back - ready, 2) if back else None}
            if code not in (state.get("why") or ""):
                wrong.append(f"{code}: the state says {state.get('why')!r}")
            if not back or back - ready > allowed:
                wrong.append(f"{code}: back after {found[code]['back_after_s']} s, {allowed} s are allowed")
            if mends and asked[code] > given.away / (MOST / 2) + 1:
                wrong.append(f"{code}: asked {asked[code]} times in {given.away} s")
        if run.end() != 0:
            wrong.append("the run failed")
    finally:
        run.child.kill()
        for one in [*proxies.values(), *servers]:
            one.end()
    return found, wrong


# ---- good ones beside bad ones ---------------------------------------------------------------------------------------

def beside(given, folder):
    """The gaps of good cameras, in turn without and with a dead one and a slow one, in one run."""
    servers, good = good_cameras(given, given.bad - 1)
    slow = Proxy(servers[0].port)
    slow.change = trickle
    path = servers[0].urls[0].rpartition("/")[2]
    dead = "rtsp://127.0.0.1:9/camera"  # the port of discard, where nobody listens
    bad = {"dead": dead, "slow": f"rtsp://127.0.0.1:{slow.port}/{path}"}
    run = Run(given, folder, sources_of(good), head=f"  max: {len(good) + len(bad)}\n")
    gaps, wrong, rounds = {False: [], True: []}, [], 4
    try:
        run.begin(good)
        time.sleep(2)
        for turn in range(rounds):
            for spoilt in (turn % 2 == 0, turn % 2 == 1):
                for id, url in bad.items() if spoilt else ():
                    if not run.ctl(given, "add", id, f"uri={url}", "transport=tcp", "reconnect.first=100ms",
                                   "reconnect.most=1s", f"stall={STALL}s"):
                        wrong.append(f"{id} was not added")
                begun = time.monotonic()
                time.sleep(given.seconds / 4)
                gaps[spoilt] += run.gaps_of(good, begun, time.monotonic())
                for id in bad if spoilt else ():
                    run.ctl(given, "remove", id)
        if run.end() != 0:
            wrong.append("the run failed")
    finally:
        run.child.kill()
        slow.end()
        for server in servers:
            server.end()
    found = {"good": len(good), "turns": 2 * rounds}
    for name, spoilt in (("without", False), ("with", True)):
        found[name] = {"median_ms": in_ms(quantile(gaps[spoilt], 0.5)), "p99_ms": in_ms(quantile(gaps[spoilt], 0.99)),
                       "longest_ms": in_ms(max(gaps[spoilt], default=None)), "rows": len(gaps[spoilt])}
    found["p99_with_over_without"] = round(quantile(gaps[True], 0.99) / quantile(gaps[False], 0.99), 3)
    return found, wrong


# ---- times -----------------------------------------------------------------------------------------------------------

BACK = 10  # seconds


class Twisted:
    """Numbers and times of RTP that wrap after some seconds, and later run back."""

    def __init__(self, jump_after):
        self.jump_after, self.begun, self.shift, self.number = jump_after, None, 0, 0

    def __call__(self, channel, packet):
        if channel == 0:
            flags, number, stamp = struct.unpack(">HHI", packet[:8])
            if self.begun is None:
                self.begun = time.monotonic()
                self.shift, self.number = -stamp - 3 * 90000, -number - 300  # wrap after three seconds, 300 packets
            if self.jump_after and time.monotonic() - self.begun > self.jump_after:
                self.shift, self.jump_after = self.shift - BACK * 90000, None
            return struct.pack(">HHI", flags, number + self.number & 0xffff, stamp + self.shift & 0xffffffff) + packet[8:]
        if packet[1] == 200:  # a sender report: its time of RTP
            stamp = struct.unpack(">I", packet[16:20])[0]
            return packet[:16] + struct.pack(">I", stamp + self.shift & 0xffffffff) + packet[20:]
        return packet


def times(given, folder):
    """A camera whose numbers and times wrap and run back, by a proxy that rewrites them."""
    server = Server(given, 1)
    proxy = Proxy(server.port)
    jump = given.seconds / 2
    proxy.change = lambda: Twisted(jump)
    rows = []
    run = Run(given, folder, [source("bad", f"rtsp://127.0.0.1:{proxy.port}/camera")],
              take=lambda now, line: rows.append(json.loads(line)))
    wrong = []
    try:
        run.begin(["bad"])
        run.wait_for(lambda: False, given.seconds)
        lost = run.connections(given).get("bad", {}).get("lost")
        if run.end() != 0:
            wrong.append("the run failed")
    finally:
        run.child.kill()
        proxy.end()
        server.end()
    steps = [b["pts"] - a["pts"] for a, b in zip(rows, rows[1:])]
    period, jumped = 1 / given.rate, sum(abs(step - 1 / given.rate) > 0.002 for step in steps)
    found = {"rows": len(rows), "epochs": len({row.get("epoch", 0) for row in rows}), "packets_lost": lost,
             "steps": {"period_ms": in_ms(period), "shortest_ms": in_ms(min(steps)), "median_ms": in_ms(quantile(steps, 0.5)),
                       "longest_ms": in_ms(max(steps)), "not_a_period": jumped}}
    if [row["seq"] for row in rows] != list(range(len(rows))):
        wrong.append("pictures are missing")
    if min(steps) <= 0:
        wrong.append(f"a time runs back by {-min(steps)} s")
    if jumped > 1:
        wrong.append(f"{jumped} steps are not of a period: one is where the camera's clock was set back")
    if max(steps) > BACK / 2:
        wrong.append(f"a time jumps by {max(steps)} s")
    return found, wrong


# ---- sizes and codecs ------------------------------------------------------------------------------------------------

SIZES = ("640x360", "1280x720", "320x240")


def changing_camera(given, each):
    """A camera that changes its size in the middle of its stream, every `each` pictures; parameter sets come with it."""
    pictures = []
    for size in SIZES:
        made = argparse.Namespace(video=None, size=size, rate=given.rate, bitrate=given.bitrate, gop=1, codec="h264")
        with tempfile.TemporaryDirectory(prefix="millrace-live-") as folder:
            pictures.append(cameras.cut(cameras.load_camera().encode(made, folder)[:each]))
    return cameras.Camera(None, [one for size in pictures for one in size], given.rate)


def in_the_middle(given, folder):
    """Rows of a stream that changes its size three times in each turn."""
    each = round(2 * given.rate)
    camera = changing_camera(given, each)
    rows = []
    run = Run(given, folder, [source("bad", camera.server.url)], take=lambda now, line: rows.append(json.loads(line)))
    try:
        run.begin(["bad"])
        run.wait_for(lambda: len(rows) > 2 * each * len(SIZES))
        code = run.end()
    finally:
        run.child.kill()
        camera.server.close()
    found = {"pictures": len(rows), "changes": (len(rows) - 1) // each, "epochs": len({row.get("epoch", 0) for row in rows})}
    whole = code == 0 and found["epochs"] == 1 and [row["seq"] for row in rows] == list(range(len(rows)))
    return found, [] if whole and found["changes"] > len(SIZES) else ["pictures are missing where the size changes"]


def sizes(given, folder):
    """A camera that comes back as another one: with another size, and with another codec; and one that changes in the
    middle of its stream."""
    servers = {}
    for name, size, codec in (("first", given.size, "h264"), ("other size", "640x480", "h264"),
                              ("other codec", given.size, "hevc"), ("as before", given.size, "h264")):
        servers[name] = Server(argparse.Namespace(**{**vars(given), "size": size}), 1, codec=codec)
    proxy = Proxy(servers["first"].port)
    run = Run(given, folder, [source("bad", f"rtsp://127.0.0.1:{proxy.port}/camera")])
    found, wrong = {}, []
    try:
        run.begin(["bad"])
        for name, server in list(servers.items())[1:]:
            proxy.to = server.port
            begun = time.monotonic()
            proxy.break_off()
            back = run.wait_for(lambda: (rows := run.rows_since("bad", begun + 0.1)) and rows[0])
            found[name] = {"back_after_s": round(back - begun, 2) if back else None}
            time.sleep(2)
            found[name]["pictures"] = len(run.rows_since("bad", begun))
            if not back or back - begun > 2:
                wrong.append(f"{name}: back after {found[name]['back_after_s']} s, 2 s are allowed")
        if run.end() != 0:
            wrong.append("the run failed")
    finally:
        run.child.kill()
        proxy.end()
        for server in servers.values():
            server.end()
    found["in the middle"], more = in_the_middle(given, folder)
    return found, wrong + more
