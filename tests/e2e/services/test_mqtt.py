"""mqtt: what an MQTT broker's subscribers receive: each record, with the same id when it is published again; the state,
pictures, and Home Assistant's entities; and what happens if the broker refuses, stands still, is away or killed."""
import contextlib
import io
import json
import re
import signal
import ssl
import struct
import time

import PIL.Image

from broker import WELCOME, Broker, Flaky, Hostile, packet
from databases import Databases
from harness import MILLRACE, MODELS, ROOT, TIMEOUT, free_port, need_models, pipeline, serve

AT_ONCE = 4


class Sink(Databases):
    def setUp(self):
        super().setUp()
        self.broker = Broker(self)

    @property
    def sink(self):
        return f"type: mqtt, url: \"mqtt://127.0.0.1:{self.broker.port}\", retry: 10ms"

    def stop(self, running):
        """Asks a run to end, which may then have lost frames."""
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=TIMEOUT)


class Mqtt(Sink):
    def secret(self, name, text):
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path

    def refused(self, summary, frames):
        self.assertEqual(summary["ledger"]["dropped"], [{"stage": "db", "reason": "refused", "frames": frames}])
        self.assertEqual(self.service(summary)["dropped"], frames)

    def test_records(self):
        seen = self.broker.subscribe()
        summary = self.run_json(self.pipeline(1200, sources=("a", "b"), sink=", send_frames: 700"))
        self.assertEqual(summary["ledger"]["delivered"], 2400)
        self.assertEqual(self.service(summary)["frames"], 2400)
        state = "millrace/p/db/state"
        seen.wait_for(lambda s: s.last(state).get("state") == "ended")
        for source in "ab":
            rows = seen.of(f"millrace/p/{source}")
            self.assertEqual([row["seq"] for row in rows], list(range(1200)))
            self.assertEqual(rows[3]["objects"][1]["label"], 'tit "blue"')
            self.assertEqual(len({row["delivery"] for row in rows}), 1200)
        self.assertEqual([one["state"] for one in seen.of(state)], ["online", "ended"])
        last = seen.last(state)
        self.assertEqual((last["delivered"], last["dropped"], last["waiting"]), (2400, 0, 0))
        # The broker keeps the state, and no records.
        self.assertEqual(len({one["run"] for one in seen.of(state)}), 1)
        later = self.broker.subscribe(name="later")
        later.wait_for(lambda s: s.messages)
        self.assertEqual([(topic, kept) for topic, _, kept in later.messages], [(state, True)])

    def test_topics_and_templates(self):
        seen = self.broker.subscribe("site/#")
        template = '{"text": "{class} at {source}", "at": {seq}}'
        path = self.pipeline(4, sink=f", topic: 'site/{{stage}}/{{source}}/{{class}}', template: '{template}', "
                                     "retain: true")
        self.run_json(path)
        seen.wait_for(lambda s: len(s.messages) == 4)
        self.assertEqual([topic for topic, _, _ in seen.messages],
                         [f"site/db/a/{name}" for name in ("owl", 'tit "blue"', "Größe", "it's")])
        self.assertEqual([json.loads(payload) for _, payload, _ in seen.messages][1],
                         {"text": 'tit "blue" at a', "at": 1})
        later = self.broker.subscribe("site/#", name="later")
        later.wait_for(lambda s: len(s.messages) == 4)
        self.assertTrue(all(kept for _, _, kept in later.messages))

    def test_pictures(self):
        """The broker keeps the last one. One that is too large for it is refused, alone."""
        seen = self.broker.subscribe("millrace/p/a/picture")
        path = self.write(pipeline(dict(a='uri: "lavfi:testsrc=size=64x48:rate=5", duration: 1s'), decode="",
                                   db=f"{self.sink}, picture: true"))
        self.run_json(path)
        seen.wait_for(lambda s: len(s.messages) == 5)
        with PIL.Image.open(io.BytesIO(seen.messages[4][1])) as image:
            self.assertEqual((image.format, image.size), ("JPEG", (64, 48)))
        later = self.broker.subscribe("millrace/p/a/picture", name="later")
        later.wait_for(lambda s: s.messages)
        self.assertEqual(later.messages, [(*seen.messages[4][:2], True)])
        self.broker = Broker(self, "allow_anonymous true\nmax_packet_size 1000\n", name="small")
        rows = self.broker.subscribe("millrace/p/a")
        path = self.write(pipeline(dict(a='uri: "lavfi:testsrc=size=64x48:rate=5", duration: 1s'), decode="",
                                   db=f"{self.sink}, picture: true"))
        done = self.checked([MILLRACE, "run", path, "--json"], code=None, says="it is too large")
        self.refused(json.loads(done.stdout), 5)
        rows.wait_for(lambda s: len(s.messages) == 5)

    def test_last_will(self):
        """A killed run is offline for subscribers; two runs of a pipeline do not throw each other out."""
        seen = self.broker.subscribe("millrace/p/db/state")
        path = self.pipeline(100000, source=", rate: 50")
        first, second = self.start(path), self.start(path)
        seen.wait_for(lambda s: len(s.messages) >= 2)
        ids = set(re.findall(r"as (millrace-\w+) ", self.broker.text()))
        self.assertEqual(len(ids), 2)
        for running in (first, second):
            self.assertIsNone(running.poll())
            running.kill()
            running.wait(TIMEOUT)
        seen.wait_for(lambda s: [one["state"] for one in s.of("millrace/p/db/state")].count("offline") == 2)
        self.assertTrue(all(re.match(r"^[0-9a-zA-Z-]{1,23}$", one) for one in ids), ids)

    def test_a_taken_client_id_has_a_name(self):
        """Whether the broker says it or only closes connections; then both do not throw each other out for ever."""
        def talk(connection):
            connection.recv(1000)
            connection.sendall(b"\x20\x03\x00\x00\x00" + b"\xe0\x01\x8e")  # CONNACK, DISCONNECT: taken over
            connection.recv(1000)
            connection.close()

        path = self.write(pipeline(dict(a='type: "null", frames: 100000, rate: 50'),
                                   db=f"type: mqtt, url: \"mqtt://127.0.0.1:{serve(self, talk)}\""))
        running = self.start(path)
        self.assertIn("another client has taken the client id", self.away(running)["why"])
        self.stop(running)
        running = self.start(self.pipeline(100000, source=", rate: 50"))
        self.wait_until(lambda: re.search(r"as (millrace-\w+) ", self.broker.text()), running=running)
        taken = re.search(r"as (millrace-\w+) ", self.broker.text())[1]
        self.spawn(["mosquitto_sub", "-p", self.broker.port, "-i", taken, "-t", "x", "-V", "5"], stdout=-3, stderr=-3)
        self.wait_until(lambda: f"another client may use the client id {taken}" in self.away(running)["why"],
                        running=running)
        self.stop(running)

    def test_refused_topics(self):
        """A broker that refuses a topic: a reason in the ledger, the state and the log; others arrive."""
        (self.folder / "acl").write_text("topic readwrite millrace/p/a\n")
        self.broker = Broker(self, f"allow_anonymous true\nacl_file {self.folder}/acl\n", name="strict")
        seen = self.broker.subscribe("millrace/p/a")
        done = self.checked([MILLRACE, "run", self.pipeline(20, sources=("a", "b")), "--json"], code=None,
                            says="the broker refuses a message for millrace/p/b: Not authorized")
        summary = json.loads(done.stdout)
        self.refused(summary, 20)
        self.assertEqual((summary["ledger"]["delivered"], self.service(summary)["frames"]), (20, 20))
        self.assertIn("the broker refuses a message for millrace/p/db/state", done.stderr)
        seen.wait_for(lambda s: len(s.messages) == 20)

    def test_login(self):
        self.checked(["mosquitto_passwd", "-b", "-c", self.folder / "users", "me", "right"])
        self.broker = Broker(self, f"password_file {self.folder}/users\n", name="closed")
        right, wrong, user = self.secret("right", "right"), self.secret("wrong", "wrong"), self.secret("user", "me")
        summary = self.run_json(self.pipeline(5, sink=f", user_file: {user}, password_file: {right}"))
        self.assertEqual(summary["ledger"]["delivered"], 5)
        for sink in (f", user_file: {user}, password_file: {wrong}", "", ', version: "3.1.1"'):
            self.checked([MILLRACE, "run", self.pipeline(5, sink=sink)], code=77, says="refuses the login")
        with_url = self.sink.replace("mqtt://", "mqtt://me:right@")
        path = self.write(pipeline(dict(a='type: "null", frames: 3'), db=with_url))
        self.run_json(path)
        shown = self.millrace("plan", path, "--json").stdout
        self.assertNotIn("right", shown)
        right.chmod(0o644)
        self.checked([MILLRACE, "run", self.pipeline(5, sink=f", user_file: {user}, password_file: {right}")], code=77)

    def test_an_older_version(self):
        seen = self.broker.subscribe("millrace/p/a")
        path = self.write(self.pipeline(5, sink=', version: "3.1.1"').read_text().replace("127.0.0.1", "localhost"))
        self.run_json(path)
        seen.wait_for(lambda s: len(s.messages) == 5)

    def test_a_broker_that_knows_only_the_older_version(self):
        """It refuses MQTT 5 as MQTT 3.1.1 says; the message names the option that helps, and then it works."""
        for reason, code, says in ((1, 69, "Unsupported protocol version; write version: 3.1.1"),
                                   (4, 77, "the broker refuses the login: Bad user name or password"),
                                   (5, 77, "the broker refuses the login: Not authorized")):
            self.broker.port = Hostile(self, [bytes([0x20, 2, 0, reason])] * 2).port
            self.checked([MILLRACE, "run", self.pipeline(5)], code=code, says=says)
        port = self.broker.port = Hostile(self, [b"\x20\x02\x00\x03"] * 2).port  # it is not ready yet
        done = self.checked([MILLRACE, "run", self.pipeline(5), "--json"], says="Server unavailable")
        self.assertEqual(json.loads(done.stdout)["ledger"]["delivered"], 5)
        self.assertIn(f"mqtt://127.0.0.1:{port}", done.stderr)

    def test_no_broker_is_there(self):
        def talk(connection):
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        def alert(connection):
            connection.recv(100)
            connection.sendall(b"\x15\x03\x01\x00\x02\x02\x46")  # TLS: fatal, protocol version
            connection.close()

        for url, says in ((f"mqtt://127.0.0.1:{serve(self, talk)}", "what answers there is no MQTT broker"),
                          (f"mqtt://127.0.0.1:{serve(self, alert)}", "one for TLS: write mqtts://"),
                          (f"mqtts://127.0.0.1:{serve(self, talk)}", "is this a port for TLS?"),
                          (f"mqtts://127.0.0.1:{self.broker.port}", "is this a port for TLS?"),
                          (f"mqtt://127.0.0.1:{free_port()}", "Connection refused"),
                          ("mqtt://nobody.invalid", "nobody.invalid: ")):
            path = self.write(pipeline(dict(a='type: "null", frames: 3'),
                                       db=f"type: mqtt, url: \"{url}\", retry: 10ms, give_up: 50ms"))
            self.checked([MILLRACE, "run", path], code=74, says=says)

    def test_a_broker_with_limits(self):
        """It keeps nothing, takes one message at a time, and wants to hear of the client more often."""
        self.broker = Broker(self, "allow_anonymous true\nretain_available false\nmax_keepalive 10\n", name="small",
                             most_open=1)
        seen = self.broker.subscribe()
        self.checked([MILLRACE, "run", self.pipeline(50, sink=", retain: true, home_assistant: true")],
                     says="keeps no messages")
        seen.wait_for(lambda s: s.last("millrace/p/db/state").get("state") == "ended")
        self.assertEqual([row["seq"] for row in seen.of("millrace/p/a")], list(range(50)))

    def certificate(self, name, san, of=None):
        """A certificate and its key, signed by another or by itself."""
        key, pem = self.folder / f"{name}.key", self.folder / f"{name}.pem"
        sign = ["-CA", of[0], "-CAkey", of[1]] if of else []
        self.checked(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", key, "-out", pem, "-days", "2", "-subj", f"/CN={name}", "-addext",
                      f"subjectAltName={san}", *sign])
        return pem, key

    def test_tls(self):
        """The certificate's issuer and name are verified; a wrong one is a state. The broker can ask for one too."""
        right, wrong = self.certificate("right", "IP:127.0.0.1"), self.certificate("wrong", "DNS:elsewhere.example")

        def serve(name, pair, more=""):
            return Broker(self, f"allow_anonymous true\ncertfile {pair[0]}\nkeyfile {pair[1]}\n{more}", name=name)

        secure, misnamed = serve("secure", right), serve("misnamed", wrong)
        asking = serve("asking", right, f"cafile {wrong[0]}\nrequire_certificate true\n")
        own = f", certificate_file: {wrong[0]}, key_file: {wrong[1]}"
        url = "type: mqtt, retry: 10ms, give_up: 50ms, url: \"mqtts://127.0.0.1:{}\"{}".format
        for broker, more, code in ((secure, f", ca_file: {right[0]}", 0), (secure, "", 74),
                                   (secure, f", ca_file: {wrong[0]}", 74), (misnamed, f", ca_file: {wrong[0]}", 74),
                                   (asking, f", ca_file: {right[0]}{own}", 0), (asking, f", ca_file: {right[0]}", 74)):
            path = self.write(pipeline(dict(a='type: "null", frames: 3'), db=url(broker.port, more)))
            done = self.checked([MILLRACE, "run", path], code=code)
            if code:
                self.assertRegex(done.stderr, "certificate")
        path = self.write(pipeline(dict(a='type: "null", frames: 300000, rate: 50'),
                                   db=url(secure.port, f", ca_file: {wrong[0]}").replace("give_up: 50ms, ", "")))
        running = self.start(path)
        self.assertIn("certificate is not trusted", self.away(running)["why"])
        self.stop(running)
        wrong[1].chmod(0o644)
        path = self.write(pipeline(dict(a='type: "null", frames: 3'),
                                   db=url(asking.port, f", ca_file: {right[0]}{own}")))
        self.checked([MILLRACE, "run", path], code=77)

    def test_a_broker_that_breaks_off(self):
        """What it has not acknowledged comes again, with the same id."""
        broker = Flaky(self, 110)
        self.broker.port = broker.port
        path = self.pipeline(500, sink=", send_frames: 20")
        summary, _ = self.finished(self.start(path))
        self.assertEqual(summary["ledger"]["delivered"], 500)
        self.assertEqual(self.service(summary)["connections"], broker.connections)
        self.assertGreater(broker.connections, 4)
        self.same_ids([row for topic, row in broker.messages if topic == "millrace/p/a"], 500)

    def test_a_message_that_ends_connections(self):
        """Only that record is refused, whether the broker says why or not."""
        for answer, says in ((b"\xe0\x01\x95", "it ends the connection each time"), (b"", "each time")):
            broker = Flaky(self, hates=lambda row, with_=answer: with_ if row.get("seq") == 7 else None)
            self.broker.port = broker.port
            done = self.checked([MILLRACE, "run", self.pipeline(30), "--json"], code=None, says=says)
            self.refused(json.loads(done.stdout), 1)
            self.same_ids([row for topic, row in broker.messages if topic == "millrace/p/a"], 29)

    def test_a_topic_without_records_that_ends_connections(self):
        """It is left out, with one warning; all records are delivered."""
        for answer in (b"\xe0\x01\x87", b""):
            broker = Flaky(self, hates=lambda row, with_=answer:
                           with_ if "state" in row or row.get("unique_id", "").endswith("-class") else None)
            self.broker.port = broker.port
            done = self.checked([MILLRACE, "run", self.pipeline(30, sink=", home_assistant: true"), "--json"])
            for topic in ("millrace/p/db/state", "homeassistant/sensor/millrace-millrace-p-a/class/config"):
                self.assertEqual(done.stderr.count(f"at each message for {topic}: no more"), 1, done.stderr)
            self.assertNotIn("another client", done.stderr)
            self.assertEqual(self.service(json.loads(done.stdout))["tries"], 4 if answer else 8)
            self.same_ids([row for topic, row in broker.messages if topic == "millrace/p/a"], 30)
            self.assertIn("homeassistant/sensor/millrace-millrace-p-a/objects/config",
                          {topic for topic, _ in broker.messages})

    def test_a_topic_that_is_allowed_later(self):
        """It is tried again after a connection that was well for 20 seconds."""
        rules = {"state": b"\xe0\x01\x87"}
        broker = Flaky(self, hates=lambda row: rules["state"] if "state" in row else rules.pop("break", None))
        self.broker.port = broker.port
        running = self.start(self.pipeline(100000, source=", rate: 50"))
        self.wait_until(lambda: "no more are published" in running.stderr.readline(), running=running)
        began = time.monotonic()
        self.wait_until(lambda: time.monotonic() > began + 22, running=running)
        self.assertNotIn("millrace/p/db/state", {topic for topic, _ in broker.messages})
        rules.update({"state": None, "break": b""})
        self.wait_until(lambda: "millrace/p/db/state" in {topic for topic, _ in broker.messages}, running=running)
        self.stop(running)

    def test_a_broker_that_breaks_the_protocol(self):
        """It is named, and no other client is suspected. All is delivered once it is well."""
        answers = [b"\x40\x02\0\0"] * 5
        broker = Flaky(self, hates=lambda row: answers.pop() if answers else None)
        self.broker.port = broker.port
        done = self.checked([MILLRACE, "run", self.pipeline(30), "--json"], says="protocol error")
        self.assertNotIn("another client", done.stderr)
        self.same_ids([row for topic, row in broker.messages if topic == "millrace/p/a"], 30)

    def test_a_broker_that_comes_late_and_is_killed(self):
        """The run delivers all; the state comes again."""
        self.broker = Broker(self, name="keeping", keeps=True)
        seen = self.broker.subscribe()
        self.broker.kill(signal.SIGTERM)  # it knows its subscribers when it comes back
        path = self.pipeline(600, source=", rate: 400", sink=", send_after: 10ms, send_frames: 50")
        running = self.start(path)
        self.wait_until(lambda: "tries again" in running.stderr.readline(), running=running)
        self.broker.start()
        seen.wait_for(lambda s: s.of("millrace/p/a"))
        self.broker.kill()
        self.broker.start()
        summary, _ = self.finished(running)
        self.assertEqual(summary["ledger"]["delivered"], 600)
        self.assertEqual(self.service(summary)["connections"], 2)
        seen.wait_for(lambda s: s.last("millrace/p/db/state").get("state") == "ended")
        rows = seen.of("millrace/p/a")
        self.same_ids(rows, len({row["seq"] for row in rows}))
        self.assertEqual({0, 599} - {row["seq"] for row in rows}, set())

    def same_ids(self, rows, frames):
        """Every frame has arrived, always with one id."""
        ids = {}
        for row in rows:
            self.assertEqual(ids.setdefault(row["seq"], row["delivery"]), row["delivery"])
        self.assertEqual((len(ids), len(set(ids.values()))), (frames, frames))

    def test_killed_and_continued(self):
        seen = self.broker.subscribe("millrace/p/a")
        path = self.pipeline(600, source=", rate: 400", sink=", send_after: 10ms")
        command = [MILLRACE, "run", path, "--resume", self.folder / "checkpoint", "--json"]
        for _ in range(4):
            before = len(seen.messages)
            running = self.spawn(command, stdout=-3, stderr=-3)
            self.wait_until(lambda: running.poll() is not None or len(seen.messages) > before + 20)
            running.kill()
            running.wait(TIMEOUT)
        self.checked(command)
        seen.wait_for(lambda s: len({row["seq"] for row in s.of("millrace/p/a")}) == 600)
        self.same_ids(seen.of("millrace/p/a"), 600)
        self.assertEqual(len(set(re.findall(r"as (millrace-\w+) ", self.broker.text()))), 1)

    def test_a_broker_that_stands_still(self):
        """It is away after the timeout; the pipeline does not wait for it, and what waits is bounded."""
        seen = self.broker.subscribe("millrace/p/a")
        path = self.pipeline(4000, source=", rate: 2000",
                             sink=", timeout: 300ms, send_bytes: 8KiB, backlog: 64KiB, on_full: drop-oldest")
        running = self.start(path)
        seen.wait_for(lambda s: s.messages, running=running)
        self.broker.signal(signal.SIGSTOP)
        service = self.away(running)
        self.assertRegex(service["why"], "does not (answer|acknowledge)")
        self.assertLessEqual(service["waiting_bytes"], 2 * 64 * 1024)
        self.wait_until(lambda: self.service(json.loads(self.ctl("--json", "status").stdout)["status"])["dropped"],
                        running=running)
        self.broker.signal(signal.SIGCONT)
        summary, _ = self.finished(running)
        ledger = summary["ledger"]
        self.assertEqual([line["reason"] for line in ledger["dropped"]], ["queue full"])
        seen.wait_for(lambda s: len({row["seq"] for row in s.of("millrace/p/a")}) >= ledger["delivered"])

    def test_the_example(self):
        need_models()
        seen = self.broker.subscribe()
        self.checked([MILLRACE, "run", ROOT / "pipelines/mqtt.yaml", "--set", "sources.video.duration=1s"],
                     environment={"BROKER": f"mqtt://127.0.0.1:{self.broker.port}", "MODELS": str(MODELS)})
        seen.wait_for(lambda s: s.last("millrace/alarms/alarm/state").get("state") == "ended")
        rows = seen.of("millrace/alarms/video")
        self.assertEqual(len(rows), 1)
        self.assertIn("sulphur-crested cockatoo", rows[0]["classes"][0]["label"])
        self.assertIn("millrace/alarms/video/picture", {topic for topic, _, _ in seen.messages})
        found = {topic for topic, _, _ in seen.messages if topic.startswith("homeassistant/")}
        self.assertEqual({topic.split("/")[3] for topic in found}, {"class", "picture"})


class HomeAssistant(Sink):
    """Fields as Home Assistant's documents have them: sensor.mqtt, binary_sensor.mqtt, image.mqtt, MQTT discovery."""

    def entities(self, seen):
        """The configurations that the broker has now, by topic."""
        kept = {}
        for topic, payload, _ in list(seen.messages):
            if topic.startswith("homeassistant/"):
                kept[topic] = json.loads(payload) if payload else None
        return {topic: config for topic, config in kept.items() if config is not None}

    def check(self, topic, config):
        prefix, component, node, key, last = topic.split("/")
        self.assertEqual((prefix, last), ("homeassistant", "config"))
        for one in (node, key):
            self.assertRegex(one, "^[a-zA-Z0-9_-]+$")
        self.assertEqual(config["unique_id"], f"{node}-{key}")
        self.assertEqual(config["device"]["identifiers"], [node])
        self.assertEqual(config["origin"], {"name": "millrace"})
        self.assertEqual([one["topic"] for one in config["availability"]], ["millrace/p/db/state"])
        needed = {"sensor": {"state_topic", "value_template"}, "image": {"image_topic", "content_type"},
                  "binary_sensor": {"state_topic", "value_template", "device_class", "off_delay"}}[component]
        common = {"name", "unique_id", "device", "origin", "availability"}
        self.assertEqual(set(config) - {"state_class"}, needed | common)

    def test_connections_that_break_between_entities(self):
        """The next connection publishes those that follow. The first break makes it publish one by one."""
        for key in ("class", "objects", "count-owl"):
            left = ["online", key]

            def breaks(row, left=left):
                if not left or not (row.get("state") == left[0] or row.get("unique_id", "").endswith(f"-{left[0]}")):
                    return None
                left.pop(0)
                return b""

            broker = Flaky(self, hates=breaks)
            self.broker.port = broker.port
            self.run_json(self.pipeline(30, sink=", home_assistant: true"))
            self.assertEqual(left, [])
            self.assertEqual(len({topic for topic, _ in broker.messages if topic.startswith("homeassistant/")}), 9)

    def test_entities(self):
        """They appear with what they show, come again after a reconnect, and disappear with the source."""
        self.broker = Broker(self, name="keeping", keeps=True)
        seen = self.broker.subscribe("homeassistant/#")
        source = 'type: "null", frames: 1000000, format: GRAY8 16x16, rate: 50'
        path = self.write(pipeline({"a": source, "b_1": source, "max": 3}, top="plugins: [./libfound.so]", found="",
                                   db=f"{self.sink}, home_assistant: true, picture: true"))
        running = self.start(path)
        seen.wait_for(lambda s: len(self.entities(s)) == 20, running=running, why=lambda: self.broker.text())
        found = self.entities(seen)
        for topic, config in found.items():
            self.check(topic, config)
        self.assertEqual({topic.split("/", 2)[2] for topic in found if "-a/" in topic},
                         {f"millrace-millrace-p-a/{key}/config" for key in
                          ("picture", "class", "objects", "presence", "count-owl", "presence-owl",
                           "count-tit_20_22blue_22", "presence-tit_20_22blue_22",
                           "count-Gr_C3_B6_C3_9Fe", "presence-Gr_C3_B6_C3_9Fe")})
        one = found["homeassistant/sensor/millrace-millrace-p-b_5F1/count-tit_20_22blue_22/config"]
        self.assertEqual((one["device"]["name"], one["name"], one["state_topic"]),
                         ("b_1", 'tit "blue" count', "millrace/p/b_1"))
        self.assertIn(r"""selectattr('label', 'eq', "tit \x22blue\x22")""", one["value_template"])
        # A state may have 255 characters: Home Assistant shows longer ones as unknown.
        self.assertIn(" | string)[:255] if",
                      found["homeassistant/sensor/millrace-millrace-p-a/class/config"]["value_template"])
        self.ctl("remove", "b_1")
        seen.wait_for(lambda s: len(self.entities(s)) == 10, running=running)
        self.assertFalse([topic for topic in self.entities(seen) if "b_5F1" in topic])
        before = len(seen.messages)
        self.broker.kill()
        self.broker.start()
        seen.wait_for(lambda s: len(s.messages) >= before + 10 and len(self.entities(s)) == 10, running=running)
        self.ctl("add", "b_1", "type=null", "frames=1000000", "format=GRAY8 16x16", "rate=50")
        seen.wait_for(lambda s: len(self.entities(s)) == 20, running=running)
        self.ctl("remove", "b_1")
        seen.wait_for(lambda s: len(self.entities(s)) == 10, running=running)
        self.stop(running)
        self.assertEqual(len(self.entities(seen)), 10)



def flood(data, first=WELCOME):
    """Sends without an end, and reads nothing."""
    def attack(connection):
        connection.sendall(first)
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(data * 1000)
    return attack


def slowly(data):
    """The bytes one by one, and then silence."""
    def attack(connection):
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
        connection.recv(65536)
        time.sleep(TIMEOUT)
    return attack


def properties(data, rest=b""):
    return packet(0x20, b"\0\0" + packet(0, data)[1:] + rest)


ATTACKS = {  # what a broker sends, and what the sink's state then says
    "garbage": (bytes(range(250, 0, -1)), "no MQTT broker"),
    "a packet of a client": (packet(0x10, b"\0\4MQTT\5\2\0\x0a\0\0\0"), "no MQTT broker"),
    "acknowledged before it is connected": (packet(0x40, b"\0\1"), "no MQTT broker"),
    "garbage as CONNACK": (packet(0x20, b"\xff" * 200), "no MQTT broker"),
    "an unknown property": (properties(b"\x7e\1\2"), "no MQTT broker"),
    "properties beyond the packet": (packet(0x20, b"\0\0\xff\xff\xff\x7f"), "no MQTT broker"),
    "a text beyond the properties": (properties(b"\x1f\xff\xffabc"), "no MQTT broker"),
    "very many properties": (properties(b"\x26\0\1a\0\1b" * 200000), "no MQTT broker"),
    "no messages at once": (properties(b"\x21\0\0"), "no MQTT broker"),
    "no QoS 1": (properties(b"\x24\0"), "takes no messages with QoS 1"),
    "a length without an end": (b"\x20" + b"\xff" * 20, "no MQTT broker"),
    "a length that never comes": (b"\x20\xff\xff\xff\x7f", "no MQTT broker"),
    "an unknown type": (WELCOME + b"\0\0", "a packet that begins with 0x00"),
    "authentication": (WELCOME + b"\xf0\2\x18\0", "a packet that begins with 0xf0"),
    "a subscription": (WELCOME + packet(0x90, b"\0\1\0\0"), "a packet that begins with 0x90"),
    "connected twice": (WELCOME * 100, "a second CONNACK"),
    "a message of 256 MB": (WELCOME + b"\x30\xff\xff\xff\x7f\0\1a\0" + b"\0" * (1 << 20),
                            "a packet of 268435455 bytes"),
    "an empty acknowledgement": (WELCOME + packet(0x40, b""), "a malformed packet of type 4"),
    "properties beyond an acknowledgement": (WELCOME + packet(0x40, b"\0\1\0\xff\xff\xff\x7f"),
                                             "a malformed packet of type 4"),
    "strange acknowledgements": (WELCOME + b"".join(packet(0x40, struct.pack(">H", 60000 - i)) for i in range(50000)),
                                 "does not acknowledge"),
    "disconnected again and again": (WELCOME + packet(0xe0, b"\x97") * 1000, "Quota exceeded"),
    "answers without a question": (flood(b"\xd0\0"), "does not acknowledge"),
    "messages that nobody reads": (flood(packet(0x32, b"\0\1a\0\1\0hello")), "does not acknowledge"),
    "slow bytes": (slowly(b"\x20\x7f\0\0"), "does not answer"),
    "silence": (slowly(b""), "does not answer"),
}


class HostileBroker(Databases):
    """A broker can end its connection, and nothing else. Once it is well, all is delivered."""

    def attack(self, broker, says, url="mqtt", more=""):
        self.sink = f'type: mqtt, url: "{url}://127.0.0.1:{broker.port}", retry: 1ms, timeout: 300ms{more}'
        done = self.checked([MILLRACE, "run", self.pipeline(30), "--json"], says=says)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["ledger"]["delivered"], 30)
        self.assertEqual(len({row["seq"] for topic, row in broker.messages if topic == "millrace/p/a"}), 30)
        self.assertLess(summary["peak_bytes"], 250e6)

    def test_attacks(self):
        for name, (attack, says) in ATTACKS.items():
            with self.subTest(name):
                self.attack(Hostile(self, [attack]), says)

    def test_attacks_in_tls(self):
        pem, key = self.folder / "broker.pem", self.folder / "broker.key"
        self.checked(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", key, "-out", pem, "-days", "2", "-subj", "/CN=broker", "-addext",
                      "subjectAltName=IP:127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        for name in ("garbage", "an unknown type", "answers without a question", "slow bytes"):
            with self.subTest(name):
                attack, says = ATTACKS[name]
                self.attack(Hostile(self, [attack], context), says, "mqtts", f", ca_file: {pem}")
