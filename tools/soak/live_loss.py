"""Part of live.py: packets of UDP that are lost, by nftables in a network namespace of its own.

The part runs this file in the namespace, where it prints what it found as JSON."""
import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from live_run import Run, Server, source  # noqa: E402

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
WIDTH, HEIGHT = 160, 90
WHOLE_LOOP = 13  # seconds for all pictures of the camera
# Of each picture pixels that lie close together; a wrong one is a block of 16x16, or more.
STAGES = f"""\
  decode: {{{{input: sources.*{{damaged}}}}}}
  small: {{{{type: preprocess, input: decode, size: {WIDTH}x{HEIGHT}, interpolation: nearest, order: gray, dtype: u8}}}}
  rows: {{{{type: jsonl, input: small, features: true, path: "-"}}}}
"""
RULE = ("nft 'add table ip t; add chain ip t c {{ type filter hook input priority 0; }}; flush chain ip t c; "
        "add rule ip t c udp dport > 1023 numgen random mod 100 < {percent} drop'")


def pictures_of_ours(given, folder, url, transport, seconds, damaged=""):
    """Hashes of the pictures, and the status of the connection."""
    found = []
    run = Run(given, folder, [source("cam", url, transport)], STAGES.format(damaged=damaged),
              take=lambda now, line: found.append(hashlib.md5(bytes(json.loads(line)["features"])).digest()))
    try:
        run.wait_for(lambda: run.connections().get("cam", {}).get("state") == "live")
        time.sleep(seconds)
        connection = run.connections().get("cam", {})
        if wrong := run.end():
            sys.exit(wrong[0])
        return found, connection
    finally:
        run.kill()


class Ffmpeg:
    """ffmpeg that reads so many pictures of the same camera."""

    def __init__(self, url, transport, count):
        smaller = f"scale={WIDTH}:{HEIGHT}:flags=neighbor,format=gray"
        self.child = subprocess.Popen(["ffmpeg", "-nostdin", "-v", "quiet", "-rtsp_transport", transport, "-i", url,
                                       "-frames:v", str(round(count)), "-vf", smaller, "-fps_mode", "passthrough",
                                       "-f", "rawvideo", "-"], stdout=subprocess.PIPE)

    def pictures(self, seconds):
        try:
            raw = self.child.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            self.child.send_signal(signal.SIGINT)  # it takes leave of the server
            raw = self.child.communicate()[0]
        size = WIDTH * HEIGHT
        return [hashlib.md5(raw[at:at + size]).digest() for at in range(0, len(raw) - size + 1, size)]


def receive(given, url, transport, seconds):
    """Hashes of the pictures that both get, and the status of our connection."""
    with tempfile.TemporaryDirectory(prefix="millrace-loss-") as folder:
        theirs = Ffmpeg(url, transport, seconds * given.rate)
        ours, connection = pictures_of_ours(given, folder, url, transport, seconds)
        return ours, theirs.pictures(seconds), connection


def inside(given):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    server = Server(given, 1)  # the same for all: another one would encode other pictures
    try:
        right, right_for_ffmpeg, _ = receive(given, server.urls[0], "tcp", WHOLE_LOOP)
        right, right_for_ffmpeg = set(right), set(right_for_ffmpeg)
        found = {"pictures_of_the_camera": len(right)}
        for percent in (1, 5):
            subprocess.run(RULE.format(percent=percent), shell=True, check=True)
            ours, theirs, connection = receive(given, server.urls[0], "udp", given.seconds)
            found[f"{percent}%, millrace"] = {"packets_lost": connection.get("lost"), "pictures": len(ours),
                                              "wrong": sum(one not in right for one in ours)}
            found[f"{percent}%, ffmpeg"] = {"pictures": len(theirs), "wrong": sum(one not in right_for_ffmpeg
                                                                                  for one in theirs)}
        return found
    finally:
        server.end()


def loss(given, _):
    command = ["unshare", "-rn", "sh", "-c", "ip link set lo up && nft list ruleset"]
    try:
        reason = subprocess.run(command, capture_output=True, env={**os.environ, "PATH": PATH}).returncode
    except FileNotFoundError:
        reason = True
    if reason:
        return {"left_out": "no network namespaces, ip or nft here"}, []
    passed_on = {name: getattr(given, name) for name in ("size", "rate", "bitrate", "seconds")}
    passed_on["millrace"] = str(given.millrace)
    done = subprocess.run(["unshare", "-rn", sys.executable, __file__, json.dumps(passed_on)],
                          stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": PATH})
    if done.returncode:
        return {}, ["it failed in its network namespace"]
    found = json.loads(done.stdout)
    wrong = [f"{name}: {of['wrong']} wrong pictures" for name, of in found.items()
             if "millrace" in name and of["wrong"]]
    wrong += [f"{name}: {of['packets_lost']} packets lost, {of['pictures']} pictures" for name, of in found.items()
              if "millrace" in name and not (of["packets_lost"] and of["pictures"])]
    return found, wrong


if __name__ == "__main__":
    print(json.dumps(inside(argparse.Namespace(**json.loads(sys.argv[1])))))
