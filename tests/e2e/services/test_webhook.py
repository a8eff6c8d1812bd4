"""webhook: what a web server receives: each record, with the same id when it is repeated, signed, over verified TLS,
with pictures; and what happens if it refuses, breaks off, redirects or is away."""
import email.parser
import email.policy
import hashlib
import hmac
import io
import json
import os
import shutil
import threading
import unittest

import PIL.Image

import posted
from databases import Databases
from harness import MILLRACE, MODELS, ROOT, TIMEOUT, call, free_port, need_models, pipeline


class Receiver(posted.Posted):
    """Keeps the requests. `answers` are statuses with headers, and a text or none, for the next ones; then 200. "half"
    breaks off."""

    def __init__(self, **how):
        self.requests, self.answers, self.lock = [], [], threading.Lock()
        super().__init__(**how)

    def take(self, handler, body):
        with self.lock:
            self.requests.append((dict(handler.headers), body, handler.path))
            answer, headers, *text = self.answers.pop(0) if self.answers else (200, {})
        if answer == "half":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly a part")
            handler.close_connection = True
        else:
            handler.answer(answer, headers, *text)

    def bodies(self):
        return [json.loads(body) for _, body, _ in self.requests]


class Webhook(Databases):
    def setUp(self):
        super().setUp()
        self.receiver = self.receive()

    def receive(self, **how):
        made = Receiver(**how)
        self.addCleanup(made.close)
        return made

    @property
    def sink(self):
        return f"type: webhook, url: \"http://127.0.0.1:{self.receiver.port}/hook\", retry: 10ms"

    def secret(self, name, text):
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path

    def test_records(self):
        """Each has an id, a signature and the headers, in order."""
        secret, token = self.secret("secret", "top secret"), self.secret("token", "Bearer abc")
        sink = f", secret_file: {secret}, authorization_file: {token}, headers: {{X-Site: lobby}}"
        summary = self.run_json(self.pipeline(30, sink=sink))
        self.assertEqual(summary["ledger"]["delivered"], 30)
        self.assertEqual(self.service(summary)["frames"], 30)
        rows = self.receiver.bodies()
        self.assertEqual([row["seq"] for row in rows], list(range(30)))
        self.assertEqual(rows[3]["objects"][1]["label"], 'tit "blue"')
        for (headers, body, path), row in zip(self.receiver.requests, rows):
            wanted = hmac.new(b"top secret", body, hashlib.sha256).hexdigest()
            self.assertEqual(headers["X-Millrace-Signature"], f"sha256={wanted}")
            self.assertEqual((headers["Authorization"], headers["X-Site"], headers["Content-Type"], path),
                             ("Bearer abc", "lobby", "application/json", "/hook"))
            self.assertEqual(headers["Idempotency-Key"], row["delivery"])
        self.assertEqual(len({row["delivery"] for row in rows}), 30)
        shown = self.millrace("plan", self.pipeline(30, sink=sink), "--plugins", "--json").stdout
        self.assertNotIn("top secret", shown)
        self.assertNotIn("Bearer", shown)
        token.chmod(0o644)
        self.checked([MILLRACE, "run", self.pipeline(30, sink=sink)], code=77)

    def test_batches(self):
        self.run_json(self.pipeline(100, sink=", body: array, send_frames: 30"))
        self.assertEqual([row["seq"] for rows in self.receiver.bodies() for row in rows], list(range(100)))
        self.assertLess(len(self.receiver.requests), 100)
        self.receiver.requests.clear()
        self.run_json(self.pipeline(100, sink=", body: lines, send_frames: 30"))
        lines = [json.loads(line) for _, body, _ in self.receiver.requests for line in body.splitlines()]
        self.assertEqual([row["seq"] for row in lines], list(range(100)))
        self.assertEqual(self.receiver.requests[0][0]["Content-Type"], "application/x-ndjson")

    def test_template(self):
        template = '{"text": "{class} at {source}", "at": [{seq}, {score}], "all": {record}}'
        self.run_json(self.pipeline(4, sink=f", template: '{template}'"))
        rows = self.receiver.bodies()
        self.assertEqual([row["text"] for row in rows],
                         ["owl at a", 'tit "blue" at a', "Größe at a", "it's at a"])
        self.assertEqual([row["at"] for row in rows], [[seq, 0.89999998] for seq in range(4)])
        self.assertEqual(rows[2]["all"]["seq"], 2)

    def test_a_secret_path(self):
        """It is added to the URL, and shown nowhere."""
        path = self.secret("path", "/services/T0/hidden?wait=true")
        self.receiver.answers = [(503, {}), (404, {}, b"Cannot POST /hook/services/T0/hidden")]
        file = self.pipeline(3, sink=f", path_file: {path}")
        done = call([MILLRACE, "run", file, "--json"])
        self.assertEqual({one for _, _, one in self.receiver.requests}, {"/hook/services/T0/hidden?wait=true"})
        self.assertIn(f"127.0.0.1:{self.receiver.port}/hook answers 404", done.stderr)
        self.assertNotIn("hidden", done.stdout + done.stderr + call([MILLRACE, "plan", file]).stdout)
        self.secret("path", "@other.example/")
        self.assertIn("the URL's path must begin with /", self.checked([MILLRACE, "run", file], code=65).stderr)
        path.chmod(0o644)
        self.assertIn("others may read", self.checked([MILLRACE, "run", file], code=77).stderr)

    def test_template_without_results(self):
        template = '{"class": "{class}", "score": {score}, "at": {seq}}'
        source = 'type: "null", frames: 1, format: GRAY8 16x16'
        self.run_json(self.write(pipeline(dict(a=source), db=f"{self.sink}, template: '{template}'")))
        self.assertEqual(self.receiver.bodies(), [{"class": "", "score": None, "at": 0}])

    def test_pictures(self):
        path = self.write(pipeline(dict(a='uri: "lavfi:testsrc=size=64x48:rate=5", duration: 1s'), decode="",
                                   db=f"{self.sink}, picture: true"))
        self.run_json(path)
        self.assertEqual(len(self.receiver.requests), 5)
        for number, (headers, body, _) in enumerate(self.receiver.requests):
            parser = email.parser.BytesParser(policy=email.policy.HTTP)
            form = parser.parsebytes(f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body)
            record, picture = form.get_payload()
            self.assertEqual(json.loads(record.get_payload(decode=True))["seq"], number)
            self.assertEqual((record.get_content_type(), picture.get_content_type()),
                             ("application/json", "image/jpeg"))
            with PIL.Image.open(io.BytesIO(picture.get_payload(decode=True))) as image:
                self.assertEqual((image.format, image.size), ("JPEG", (64, 48)))

    def test_the_example(self):
        need_models()
        self.checked([MILLRACE, "run", ROOT / "pipelines/webhook.yaml", "--set", "sources.video.duration=1s"],
                     environment={"HOOK": f"http://127.0.0.1:{self.receiver.port}/", "MODELS": str(MODELS)})
        self.assertEqual(len(self.receiver.requests), 1)
        self.assertIn(b"sulphur-crested cockatoo", self.receiver.requests[0][1])
        self.assertIn(b"image/jpeg", self.receiver.requests[0][1])

    def test_repeated_with_the_same_id(self):
        """Until there is a whole answer; Retry-After says when."""
        self.receiver.answers = [(503, {}), (429, {"Retry-After": "1"}), ("half", {}), (500, {})]
        summary = self.run_json(self.pipeline(5))
        ids = [row["delivery"] for row in self.receiver.bodies()]
        self.assertEqual(len(ids), 9)
        self.assertEqual(ids[:5], [ids[0]] * 5)
        self.assertEqual(len(set(ids)), 5)
        self.assertEqual(self.service(summary)["again"], 4)
        self.assertGreater(summary["wall_s"], 1)

    def test_refused(self):
        """Other answers drop the record, and redirects are not followed."""
        other = self.receive()
        self.receiver.answers = [(400, {}), (302, {"Location": f"http://127.0.0.1:{other.port}/"}),
                                 (307, {"Location": f"http://127.0.0.1:{other.port}/"}), (600, {}), (999, {})]
        summary = self.run_json(self.pipeline(6), code=None)
        self.assertEqual((summary["ledger"]["delivered"], other.requests), (1, []))
        self.assertEqual(summary["ledger"]["dropped"], [{"stage": "db", "reason": "refused", "frames": 5}])
        service = self.service(summary)
        self.assertEqual((service["dropped"], service["tries"], service["connections"]), (5, 1, 1))

    def test_words_of_the_server(self):
        """The message has the first line of an answer that is text."""
        url, end = f"http://127.0.0.1:{self.receiver.port}/hook answers 400", "; the records are dropped"
        for text, words in ((b'{"error": "no field \xc3\xa4"}\nmore', ': {"error": "no field ä"}' + end),
                            (b"x" * 300, ": xxx"), (b"<html>no</html>", end), (b"\x0a\x00\xff", end),
                            (b"\x1b[2J", end), (b"", end)):
            with self.subTest(text):
                self.receiver.answers = [(400, {}, text)]
                self.assertIn(url + words, call([MILLRACE, "run", self.pipeline(1)]).stderr)

    def certificate(self, name, san):
        key, pem = self.folder / f"{name}.key", self.folder / f"{name}.pem"
        self.checked(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", key, "-out", pem, "-days", "2", "-subj", f"/CN={name}", "-addext",
                      f"subjectAltName={san}"])
        return pem, key

    def test_tls(self):
        """The certificate's issuer and name are verified."""
        right = self.certificate("right", "IP:127.0.0.1")
        wrong = self.certificate("wrong", "DNS:elsewhere.example")
        secure, misnamed = self.receive(certificate=right), self.receive(certificate=wrong)
        url = "type: webhook, retry: 10ms, give_up: 50ms, url: \"https://127.0.0.1:{}/\"{}".format
        for port, ca, code in ((secure.port, f", ca_file: {right[0]}", 0), (secure.port, "", 74),
                               (secure.port, f", ca_file: {wrong[0]}", 74),
                               (misnamed.port, f", ca_file: {wrong[0]}", 74)):
            made = self.write(pipeline(dict(a='type: "null", frames: 3, format: GRAY8 16x16'), db=url(port, ca)))
            done = self.checked([MILLRACE, "run", made], code=code)
            if code:
                self.assertIn("certificate", done.stderr)
        self.assertEqual((len(secure.requests), len(misnamed.requests)), (3, 0))

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_only_the_file_is_trusted(self):
        """With ca_file the system's folder of certificates does not count. A mount of our own stands for it."""
        right = self.certificate("right", "IP:127.0.0.1")
        wrong = self.certificate("wrong", "DNS:elsewhere.example")[0]
        system = self.folder / "system"
        system.mkdir()
        shutil.copy(right[0], system)
        port = self.receive(certificate=right).port
        sink = f"type: webhook, url: \"https://127.0.0.1:{port}/\", retry: 10ms, give_up: 50ms"
        path = self.write(pipeline(dict(a='type: "null", frames: 3, format: GRAY8 16x16'), db=sink))
        mount = 'mount --bind "$0" /etc/ssl/certs && exec "$@"'
        run = ["env", "-u", "SSL_CERT_FILE", "unshare", "-m", "sh", "-c", mount, system, MILLRACE, "run", path]
        self.checked(run)
        self.checked([*run, "--set", f"stages.db.ca_file={wrong}"], code=74, says="certificate")

    def test_other_systems(self):
        """Their certificates are in other files than Debian's: the wheel runs there. SSL_CERT_FILE comes first."""
        pem, key = self.certificate("own", "IP:127.0.0.1")
        server = self.receive(certificate=(pem, key))
        path = self.write(pipeline(dict(a='type: "null", frames: 1, format: GRAY8 16x16'), db=(
            f"type: webhook, url: \"https://127.0.0.1:{server.port}/\", retry: 10ms, give_up: 50ms")))
        self.checked([MILLRACE, "run", path], code=74, says="certificate")
        self.checked([MILLRACE, "run", path], environment={"SSL_CERT_FILE": str(pem)})
        self.checked([MILLRACE, "run", path, "--set", f"stages.db.ca_file={pem}"],
                     environment={"SSL_CERT_FILE": "/dev/null"})
        if os.geteuid() != 0:
            return  # only root mounts
        etc = self.folder / "etc"
        shutil.copytree("/etc/alternatives", etc / "alternatives", symlinks=True)  # the loader needs both
        shutil.copy("/etc/ld.so.cache", etc)
        for name in ("pki/tls/certs/ca-bundle.crt", "ssl/ca-bundle.pem"):
            file = etc / name
            file.parent.mkdir(parents=True)
            shutil.copy(pem, file)
            mount = 'mount --bind "$0" /etc && exec "$@"'
            self.checked(["env", "-u", "SSL_CERT_FILE", "unshare", "-m", "sh", "-c", mount, etc, MILLRACE, "run", path])
            file.unlink()

    def test_killed_and_continued(self):
        """Every frame arrives, and frames that arrive twice have the same id."""
        path = self.pipeline(600, source=", rate: 400")
        command = [MILLRACE, "run", path, "--resume", self.folder / "checkpoint", "--json"]
        for _ in range(5):
            before = len(self.receiver.requests)
            running = self.spawn(command, stdout=-3, stderr=-3)
            self.wait_until(lambda: running.poll() is not None or len(self.receiver.requests) > before + 20)
            running.kill()
            running.wait(TIMEOUT)
        self.checked(command)
        ids = {}
        for row in self.receiver.bodies():
            self.assertEqual(ids.setdefault(row["seq"], row["delivery"]), row["delivery"])
        self.assertEqual(sorted(ids), list(range(600)))

    def test_a_receiver_that_comes_late(self):
        port = free_port()
        self.receiver.close()
        self.receiver.port = port
        running = self.start(self.pipeline(10))
        self.wait_until(lambda: "tries again" in running.stderr.readline(), running=running)
        late = self.receive(port=port)
        summary, _ = self.finished(running)
        self.assertEqual((summary["ledger"]["delivered"], self.service(summary)["connections"]), (10, 1))
        self.assertEqual(len(late.requests), 10)
