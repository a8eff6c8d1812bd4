"""Parts of live.py: connections and sources that come and go, again and again, beside cameras that stay."""
import time

from live_run import Proxy, Run, Server, sources_of

MEMORY_KIB = 5000


def bits_of(text):
    return float(text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1)


def compare(found, before, after, good):
    found |= {"before": before, "after": after, "good": good}
    wrong = [f"{what}: {before[what]} before, {after[what]} after" for what in ("descriptors", "threads")
             if after[what] > before[what]]
    if after["memory_kib"] - before["memory_kib"] > MEMORY_KIB:
        wrong.append(f"memory grew by {after['memory_kib'] - before['memory_kib']} KiB")
    return found, wrong


def reconnects(given, folder):
    server = Server(given, max(2, given.bad))
    proxy = Proxy(server.urls[-1])
    good = {f"good{n}": url for n, url in enumerate(server.urls[:given.bad - 1])}
    run = Run(given, folder, sources_of({**good, "bad": proxy.url}, most="100ms"))
    try:
        run.begin([*good, "bad"])
        proxy.cut_after = 4000 + bits_of(given.bitrate) / 8 / 5  # of a fifth of a second
        proxy.break_off()
        warm = min(50, given.reconnects // 4)
        run.wait_for(lambda: proxy.connections >= warm)
        before, begun, first = run.settled(), time.monotonic(), proxy.connections
        run.wait_for(lambda: proxy.connections >= first + given.reconnects, 10 + given.reconnects * 2)
        taken, made = time.monotonic() - begun, proxy.connections - first
        gaps = run.gaps(list(good), begun, time.monotonic())
        proxy.cut_after = None
        rows = time.monotonic()
        run.wait_for(lambda: len(run.rows_since("bad", rows)) > 20)
        found, wrong = compare({"reconnects": made, "seconds": round(taken, 1)}, before, run.settled(), gaps)
        if made < given.reconnects:
            wrong.append(f"only {made} connections came about")
        return found, wrong + run.end()
    finally:
        run.kill()
        proxy.end()
        server.end()


def changes(given, folder):
    server = Server(given, max(2, given.bad))
    good = {f"good{n}": url for n, url in enumerate(server.urls[:given.bad - 1])}
    run = Run(given, folder, sources_of(good), head=f"  max: {given.bad}\n")
    try:
        run.begin(good)
        refused = 0
        for n in range(given.reconnects + 50):
            if n == 50:  # from here on it counts
                before, begun = run.settled(), time.monotonic()
            now = time.monotonic()
            refused += not run.ctl("add", "extra", f"uri={server.urls[-1]}", "transport=tcp")
            if n % 10 == 0:
                run.wait_for(lambda since=now: run.rows_since("extra", since))
            refused += not run.ctl("remove", "extra")
        taken = time.monotonic() - begun
        found = {"changes": 2 * given.reconnects, "seconds": round(taken, 1), "refused": refused}
        found, wrong = compare(found, before, run.settled(), run.gaps(list(good), begun, begun + taken))
        return found, wrong + ([f"{refused} changes were refused"] if refused else []) + run.end()
    finally:
        run.kill()
        server.end()
