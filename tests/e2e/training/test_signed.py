"""Classifier signatures, compared with OpenSSL's: each must accept the other's keys and signatures, and a head that is
unsigned, or differs from what was signed, must be refused."""
import json
import pathlib
import shutil
import unittest

import digits
from harness import Case, call


def openssl(*words):
    return call(["openssl", *words])


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
class Signed(Case):
    def setUp(self):
        super().setUp()
        rows = digits.files(digits.cut(), 12)
        self.list = digits.write_list(self.folder / "digits.csv", [[path, label, "", part] for (path, label), part
                                                                   in zip(rows, digits.parts(len(rows)))])
        self.head, self.picture = self.folder / "head", rows[0][0]
        self.millrace("keygen", "ours", "--sign", "--output", self.folder)
        self.private, self.public = self.folder / "ours.key", self.folder / "ours.pub"

    def train(self, *words, code=0):
        return self.millrace("train", digits.PIPELINE, "--data", self.list, "--output", self.head, "--cache",
                             self.folder / "cache", "--no-look-alikes", *words, code=code)

    def run_head(self, verb="run", code=0, key=None):
        more = ("--data", self.list) if verb == "evaluate" else ("--input", self.picture)
        return self.millrace(verb, digits.PIPELINE, *more, "--set", f"stages.classify.head={self.head}", "--set",
                             f"stages.classify.key={key or self.public}", code=code)

    def refused(self, words, code=65, **options):
        """By a run, and by evaluate as an example of the verbs that use it."""
        for verb in ("run", "evaluate"):
            done = self.run_head(verb, code=code, **options)
            self.assertIn(words, done.stderr)
            self.assertIn("digits.yaml:16:", done.stderr)

    def signature(self):
        (card,) = json.loads(self.millrace("inspect", self.head, "--json").stdout)
        return card["signature"], card["signed_with"]

    def digits_of(self, public):
        """The key is at the end of the DER (RFC 8410)."""
        done = openssl("pkey", "-pubin", "-in", public, "-noout", "-text")
        return "".join(done.stdout.split("pub:")[1].split()).replace(":", "")

    def verify(self, public):
        return openssl("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", self.head / "head.json",
                       "-sigfile", self.head / "head.sig").returncode

    def test_openssl_takes_ours(self):
        self.assertEqual(self.private.stat().st_mode & 0o777, 0o600)
        self.assertEqual(openssl("pkey", "-in", self.private, "-pubout").stdout, self.public.read_text())
        self.train("--sign", self.private)
        self.assertEqual(self.verify(self.public), 0)
        self.assertEqual((self.head / "head.pub").read_text(), self.public.read_text())
        self.assertEqual(self.signature(), ("good", self.digits_of(self.public)))
        self.assertIn(f"good, with the key {self.digits_of(self.public)}",
                      self.millrace("inspect", self.head).stdout)
        self.run_head()
        self.run_head("evaluate")

    def onnx(self, model):
        (told,) = json.loads(self.millrace("inspect", model, "--json").stdout)
        checked = openssl("pkeyutl", "-verify", "-pubin", "-inkey", self.public, "-rawin", "-in", model, "-sigfile",
                          f"{model}.sig").returncode
        return told.get("signature"), told.get("signed_with"), checked

    def test_the_onnx_file_is_signed(self):
        """By train and by export. OpenSSL must accept it, but not after a change; without a key no old signature may
        stay."""
        self.train("--export", "onnx", "--sign", self.private)
        key, model, other = self.digits_of(self.public), self.head / "model.onnx", self.folder / "other.onnx"
        self.assertEqual(self.onnx(model), ("good", key, 0))
        self.assertIn(f"good, with the key {key}", self.millrace("inspect", model).stdout)
        self.assertEqual(model.with_name("model.onnx.pub").read_text(), self.public.read_text())
        export = ("export", self.head, "--output", other)
        done = self.millrace(*export, "--sign", self.private)
        self.assertIn(f"signed     {other}.sig, with {self.private}", done.stdout)
        self.assertEqual(self.onnx(other), ("good", key, 0))
        data = bytearray(other.read_bytes())
        data[data.index(b"millrace")] ^= 32  # the producer's name: still a valid model
        other.write_bytes(data)
        self.assertEqual(self.onnx(other)[0], "bad")
        self.assertNotEqual(self.onnx(other)[2], 0)
        self.assertIn("BAD: the file is not as it was signed", self.millrace("inspect", other).stdout)
        self.millrace(*export)
        self.assertEqual(self.onnx(other)[0], None)
        self.assertFalse(any(pathlib.Path(f"{other}{end}").exists() for end in (".sig", ".pub")))
        self.assertIn("is the public key of a pair", self.millrace(*export, "--sign", self.public, code=77).stderr)

    def test_ours_takes_openssls(self):
        key, public = self.folder / "theirs.key", self.folder / "theirs.pub"
        openssl("genpkey", "-algorithm", "ed25519", "-out", key)
        key.chmod(0o600)
        openssl("pkey", "-in", key, "-pubout", "-out", public)
        self.train("--sign", key)
        self.assertEqual(self.verify(public), 0)
        self.run_head(key=public)
        # OpenSSL signs an existing one.
        self.train()
        self.assertEqual(self.signature(), ("none", None))
        openssl("pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", self.head / "head.json", "-out",
                self.head / "head.sig")
        self.run_head(key=public)
        self.assertEqual(self.signature(), ("bad", None))  # nobody says with which key
        shutil.copy(public, self.head / "head.pub")
        self.assertEqual(self.signature(), ("good", self.digits_of(public)))

    def test_a_public_key_that_all_may_change_is_no_anchor(self):
        self.train("--sign", self.private)
        self.public.chmod(0o666)
        self.refused("all users may change it (mode 666)", code=77)
        self.public.chmod(0o664)
        self.run_head(key=self.public)

    def test_what_is_not_as_it_was_signed_is_refused(self):
        self.train()
        self.refused("is not signed, and only a classifier that is signed with the key of")
        self.train("--sign", self.private)
        self.millrace("keygen", "other", "--sign", "--output", self.folder)
        other = self.folder / "other.pub"
        self.refused(f"is signed with another key, {self.digits_of(self.public)}, and not with that of {other}, "
                     f"{self.digits_of(other)}", key=other)
        shutil.copy(other, self.head / "head.pub")  # a folder that claims to be the other's
        self.refused("is not as it was signed with the key of", key=other)
        self.assertEqual(self.signature(), ("bad", self.digits_of(other)))
        shutil.copy(self.public, self.head / "head.pub")
        self.run_head()
        card, signature = ((self.head / name).read_bytes() for name in ("head.json", "head.sig"))
        changed = card.replace(b'"digits"', b'"digitz"')
        self.assertNotEqual(changed, card)
        for name, content in (("head.json", changed), ("head.sig", signature[:63]), ("head.sig", b""),
                              ("head.sig", signature + b"\0"), ("head.sig", bytes([signature[0] ^ 1]) + signature[1:])):
            (self.head / name).write_bytes(content)
            self.refused("is not as it was signed with the key of")
            self.assertEqual(self.signature(), ("bad", self.digits_of(self.public)))
            self.assertIn("BAD", self.millrace("inspect", self.head).stdout)
            (self.head / "head.json").write_bytes(card)
            (self.head / "head.sig").write_bytes(signature)
        self.run_head()
        weights = bytearray((self.head / "weights.npy").read_bytes())
        weights[-1] ^= 1
        (self.head / "weights.npy").write_bytes(weights)
        self.refused("weights.npy is not the file that head.json was written with")

    def test_keys_that_are_none(self):
        def refused(path, words, code):
            self.assertIn(words, self.train("--sign", path, code=code).stderr)
            self.assertFalse(self.head.exists())
        self.millrace("keygen", "curve", "--output", self.folder)
        for name in ("curve.key", "curve.pub", "ours.pub"):
            (self.folder / name).chmod(0o600)
            refused(self.folder / name, "is not a private key for signatures (Ed25519), as `millrace keygen --sign` "
                                        "makes it", 65)
        refused(self.folder / "none.key", "`millrace keygen --sign` makes one", 66)
        self.private.chmod(0o644)
        refused(self.private, "others may read or change it (mode 644)", 77)
        self.private.chmod(0o600)
        self.train("--sign", self.private)
        self.assertIn("is not a public key for signatures", self.run_head(code=65, key=self.private).stderr)
        done = self.millrace("check", digits.PIPELINE, "--set", "stages.classify={input: hog, weights: w.npy, key: k}",
                             code=78)
        self.assertIn("key is about the signature of a head, and there is none", done.stderr)
        again = self.millrace("keygen", "ours", "--sign", "--output", self.folder, code=74)
        self.assertIn("exists already", again.stderr)
