"""Parts of live.py: one camera fails, beside good ones."""
import argparse
import json
import struct
import tempfile
import time

import cameras
from live_run import PATIENCE, STALL, Proxy, Run, Server, in_ms, quantile, serve, source, sources_of

TRICKLE = 3  # seconds from one picture to the next


def good_cameras(given, count):
    servers, urls = serve(given, count)
    return servers, {f"good{n}": url for n, url in enumerate(urls)}


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
    seen = run.wait_for(lambda: run.logged_since(begun, r"bad: (stalled|away)"), max(seconds, PATIENCE / 4))
    left = seconds - (time.monotonic() - begun)
    if left > 0:
        time.sleep(left)
    mend()
    ready = time.monotonic()  # a server that starts takes its time
    back, wrong = run.back("bad", ready, name)
    spoilt = run.gaps(good, begun, time.monotonic())
    found = {"seen_after_s": round(seen - begun, 2) if seen else None, "back_after_s": back,
             "good_before_p99_ms": quiet["p99_ms"], "good_while_p99_ms": spoilt["p99_ms"],
             "good_before_longest_ms": quiet["longest_ms"], "good_while_longest_ms": spoilt["longest_ms"]}
    if not seen or seen - begun > allowed:
        wrong.append(f"{name}: seen after {found['seen_after_s']} s, {allowed} s are allowed")
    time.sleep(2)
    return found, wrong


def faults(given, folder):
    servers, good = good_cameras(given, given.bad - 1)
    bad = [Server(given, 1)]
    proxy = Proxy(bad[0].urls[0])
    run = Run(given, folder, sources_of({**good, "bad": proxy.url}))
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
        wrong += run.end()
    finally:
        run.kill()
        proxy.end()
        for server in servers + bad:
            server.end()
    return found, wrong


# ---- refusals --------------------------------------------------------------------------------------------------------

REFUSALS = {"401": "401 Unauthorized", "404": "404 Not Found", "503": "503 Service Unavailable"}
MOST = 5  # seconds between two tries, where another is not likely to help


def refused(given, folder):
    """Cameras that refuse: how often they are asked, and when they are back once they do not."""
    servers, good = good_cameras(given, given.bad - len(REFUSALS))
    proxies = {code: Proxy(servers[0].urls[0]) for code in REFUSALS}
    for code, proxy in proxies.items():
        proxy.refuse = REFUSALS[code]
    bad = {f"bad{code}": proxy.url for code, proxy in proxies.items()}
    run = Run(given, folder, sources_of(good) + sources_of(bad, most=f"{MOST}s"))
    found, wrong = {"cameras": given.bad, "seconds": given.away}, []
    try:
        run.begin(good)
        first = {code: proxy.refused for code, proxy in proxies.items()}
        begun = time.monotonic()
        time.sleep(given.away)
        states = run.connections()
        asked = {code: proxy.refused - first[code] for code, proxy in proxies.items()}
        found |= run.gaps(good, begun, time.monotonic())
        ready = time.monotonic()
        for proxy in proxies.values():
            proxy.refuse = None
        for code in REFUSALS:
            busy = code == "503"  # another try is likely to help
            back, late = run.back(f"bad{code}", ready, code, 2 if busy else MOST + 2)
            state = states.get(f"bad{code}", {})
            found[code] = {"asked": asked[code], "state": state.get("state"), "back_after_s": back}
            wrong += late
            if code not in (state.get("why") or ""):
                wrong.append(f"{code}: the state says {state.get('why')!r}")
            if not busy and asked[code] > given.away / (MOST / 2) + 1:
                wrong.append(f"{code}: asked {asked[code]} times in {given.away} s")
        wrong += run.end()
    finally:
        run.kill()
        for one in [*proxies.values(), *servers]:
            one.end()
    return found, wrong


# ---- good ones beside bad ones ---------------------------------------------------------------------------------------

def beside(given, folder):
    """The gaps of good cameras, in turn without and with a dead one and a slow one, in one run."""
    servers, good = good_cameras(given, given.bad - 1)
    slow = Proxy(servers[0].urls[0])
    slow.change = trickle
    bad = {"dead": "rtsp://127.0.0.1:9/camera", "slow": slow.url}  # 9: the port of discard, where nobody listens
    run = Run(given, folder, sources_of(good), head=f"  max: {len(good) + len(bad)}\n")
    gaps, wrong, rounds = {False: [], True: []}, [], 4
    try:
        run.begin(good)
        time.sleep(2)
        for turn in range(rounds):
            for spoilt in (turn % 2 == 0, turn % 2 == 1):
                for id, url in bad.items() if spoilt else ():
                    if not run.ctl("add", id, f"uri={url}", "transport=tcp", "reconnect.first=100ms",
                                   "reconnect.most=1s", f"stall={STALL}s"):
                        wrong.append(f"{id} was not added")
                begun = time.monotonic()
                time.sleep(given.seconds / 4)
                gaps[spoilt] += run.gaps_of(good, begun, time.monotonic())
                for id in bad if spoilt else ():
                    run.ctl("remove", id)
        wrong += run.end()
    finally:
        run.kill()
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
            number, stamp = number + self.number & 0xffff, stamp + self.shift & 0xffffffff
            return struct.pack(">HHI", flags, number, stamp) + packet[8:]
        if packet[1] == 200:  # a sender report: its time of RTP
            stamp = struct.unpack(">I", packet[16:20])[0]
            return packet[:16] + struct.pack(">I", stamp + self.shift & 0xffffffff) + packet[20:]
        return packet


def times(given, folder):
    """A camera whose numbers and times wrap and run back, by a proxy that rewrites them."""
    server = Server(given, 1)
    proxy = Proxy(server.urls[0])
    jump = given.seconds / 2
    proxy.change = lambda: Twisted(jump)
    rows = []
    run = Run(given, folder, [source("bad", proxy.url)],
              take=lambda now, line: rows.append(json.loads(line)))
    wrong = []
    try:
        run.begin(["bad"])
        run.wait_for(lambda: False, given.seconds)
        lost = run.connections().get("bad", {}).get("lost")
        wrong += run.end()
    finally:
        run.kill()
        proxy.end()
        server.end()
    steps = [b["pts"] - a["pts"] for a, b in zip(rows, rows[1:])]
    period = 1 / given.rate
    jumped = sum(abs(step - period) > 0.002 for step in steps)
    found = {"rows": len(rows), "epochs": len({row.get("epoch", 0) for row in rows}), "packets_lost": lost,
             "steps": {"period_ms": in_ms(period), "shortest_ms": in_ms(min(steps)),
                       "median_ms": in_ms(quantile(steps, 0.5)), "longest_ms": in_ms(max(steps)),
                       "not_a_period": jumped}}
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
    """A camera that changes its size within its stream, every `each` pictures; parameter sets come with it."""
    pictures = []
    for size in SIZES:
        made = argparse.Namespace(video=None, size=size, rate=given.rate, bitrate=given.bitrate, gop=1, codec="h264")
        with tempfile.TemporaryDirectory(prefix="millrace-live-") as folder:
            pictures.append(cameras.cut(cameras.load_camera().encode(made, folder)[:each]))
    return cameras.Camera([one for size in pictures for one in size], given.rate)


def in_the_middle(given, folder):
    """Rows of a stream that changes its size three times in each turn."""
    each = round(2 * given.rate)
    camera = changing_camera(given, each)
    rows = []
    run = Run(given, folder, [source("bad", camera.server.url)], take=lambda now, line: rows.append(json.loads(line)))
    try:
        run.begin(["bad"])
        run.wait_for(lambda: len(rows) > 2 * each * len(SIZES))
        wrong = run.end()
    finally:
        run.kill()
        camera.server.close()
    found = {"pictures": len(rows), "changes": (len(rows) - 1) // each,
             "epochs": len({row.get("epoch", 0) for row in rows})}
    whole = found["epochs"] == 1 and [row["seq"] for row in rows] == list(range(len(rows)))
    if not whole or found["changes"] <= len(SIZES):
        wrong.append("pictures are missing where the size changes")
    return found, wrong


def sizes(given, folder):
    """A camera that comes back as another one: with another size, and with another codec; and one that changes in the
    middle of its stream."""
    servers = {}
    for name, size, codec in (("first", given.size, "h264"), ("other size", "640x480", "h264"),
                              ("other codec", given.size, "hevc"), ("as before", given.size, "h264")):
        servers[name] = Server(argparse.Namespace(**{**vars(given), "size": size}), 1, codec=codec)
    proxy = Proxy(servers["first"].urls[0])
    run = Run(given, folder, [source("bad", proxy.url)])
    found, wrong = {}, []
    try:
        run.begin(["bad"])
        for name, server in list(servers.items())[1:]:
            proxy.to = server.port
            begun = time.monotonic()
            proxy.break_off()
            back, late = run.back("bad", begun, name, passing=0.1)
            wrong += late
            time.sleep(2)
            found[name] = {"back_after_s": back, "pictures": len(run.rows_since("bad", begun))}
        wrong += run.end()
    finally:
        run.kill()
        proxy.end()
        for server in servers.values():
            server.end()
    found["in the middle"], more = in_the_middle(given, folder)
    return found, wrong + more
