"""Parts of live.py: one camera fails, beside good ones."""
import time

from live_run import PATIENCE, STALL, Proxy, Run, Server, in_ms, quantile, serve, sources_of

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
