"""Pipelines without a network, compared with Python loops over the same frames: what motion passes, OpenCV's
HOGDescriptor with a linear layer, sharpness, perceptual hashes and histograms.

ffmpeg gives frames as luma planes. Motion compares them at full size, where every count is exact. For HOG, OpenCV
shrinks them in floating point: one pixel in some hundreds differs from ours by 1."""
import collections

import cv2
import imagehash
import numpy as np
from PIL import Image

import clips
import harness
from harness import pipeline

WALKERS = harness.PICTURES / "vtest.avi"
WIDTH, HEIGHT, SECONDS, RATE = 768, 576, 20, 10
THRESHOLD, NOISE, REFRESH = 0.03, 20, 2.0
# A pixel that differs by 1 moves a number in the block by up to 1/500; a class sums 3780 of them, with weights of 0.05.
SCORE_TOLERANCE = 5e-3


def luma_of(clip, frames):
    """The stored Y planes, which ffmpeg extracts without conversion."""
    def make(path):
        clips.ffmpeg("-i", clip, "-frames:v", frames, "-vf", "extractplanes=y", "-f", "rawvideo", path)
    path = clips.made(f"{clip.stem}-luma.raw", f"luma of {frames} frames of {clip}", make)
    return np.fromfile(path, np.uint8).reshape(-1, HEIGHT, WIDTH)


def stretched(luma):
    """Limited range to 0..255, rounded; nothing is half way."""
    return np.floor(np.clip((luma.astype(np.float64) - 16) * 255 / 219, 0, 255) + 0.5).astype(np.uint8)


def small(luma, size):
    return stretched(cv2.resize(luma.astype(np.float32), size, interpolation=cv2.INTER_AREA))


class Motion(harness.Case):
    def loop(self, frames):
        """(seq, share) for frames that pass."""
        through, reference, last = [], None, 0.0
        for seq, luma in enumerate(frames):
            current = stretched(luma)
            _, changed = cv2.threshold(cv2.absdiff(current, current if reference is None else reference), NOISE, 1,
                                       cv2.THRESH_BINARY)
            share = 1.0 if reference is None else cv2.countNonZero(changed) / (WIDTH * HEIGHT)
            if share >= THRESHOLD or seq / RATE - last >= REFRESH - 1e-6:
                through.append((seq, share))
                reference, last = current, seq / RATE
        return through

    def descriptors(self, frames):
        hog = cv2.HOGDescriptor((64, 128), (16, 16), (8, 8), (8, 8), 9)
        return np.array([hog.compute(small(luma, (64, 128))).ravel() for luma in frames])

    def head(self, descriptors):
        """A linear layer with six classes, for which the mean descriptor is a tie."""
        weights = np.random.default_rng(5).standard_normal((6, 3780)) * 0.05
        head = np.hstack([weights, -weights @ descriptors.mean(axis=0)[:, None]]).astype(np.float32)
        np.save(self.folder / "head.npy", head)
        return head.astype(np.float64)

    def scores(self, descriptor, head):
        logits = head[:, :-1] @ descriptor + head[:, -1]
        shares = np.exp(logits - logits.max())
        return shares / shares.sum()

    def check(self, device):
        frames = luma_of(WALKERS, SECONDS * RATE)
        through = self.loop(frames)
        descriptors = self.descriptors([frames[seq] for seq, _ in through])
        head = self.head(descriptors)
        run = self.run_pipeline(pipeline(
            dict(street=f'uri: "{WALKERS}", duration: {SECONDS}s'), name="motion", decode="",
            motion=f"size: 768x576, threshold: {THRESHOLD}, noise: {NOISE}, refresh: {REFRESH}s{device}", hog=device,
            classify=f"weights: {self.folder}/head.npy, top_k: 3{device}",
            results='type: jsonl, tensors: true, path: "-"'))
        self.assert_balanced(run)
        self.assertTrue(10 < len(through) < len(frames) / 2, "the clip has to move, and to stand still")
        self.assertEqual([row["seq"] for row in run.rows], [seq for seq, _ in through])
        self.assertEqual(run.ledger["absorbed"],
                         [{"stage": "motion", "reason": "still", "frames": len(frames) - len(through)}])
        counts = collections.Counter()
        for row, (_, share), descriptor in zip(run.rows, through, descriptors):
            self.assertAlmostEqual(row["tensors"][0]["data"][0], share, delta=1e-7)
            scores = self.scores(descriptor, head)
            for one in row["classes"]:
                self.assertAlmostEqual(one["score"], scores[one["index"]], delta=SCORE_TOLERANCE)
            best = np.sort(scores)
            if best[-1] - best[-2] > 2 * SCORE_TOLERANCE:
                self.assertEqual(row["classes"][0]["index"], int(scores.argmax()))
            counts[row["classes"][0]["index"]] += 1
        self.assertGreater(len(counts), 1, "a head that has only one answer proves nothing")

    def test_motion_hog_classify(self):
        self.check("")

    def test_the_same_on_an_accelerator(self):
        self.check(', device: "sim:0"')


class Fingerprints(harness.Case):
    def run_on(self, source, stage, results="tensors: true"):
        run = self.run_pipeline(pipeline({"in": f'uri: "{source}"'}, decode="", it=stage,
                                         results=f'type: jsonl, {results}, path: "-"'))
        self.assert_balanced(run)
        return run.rows

    def test_sharpness(self):
        rows = self.run_on(f"{WALKERS}\", duration: \"2s", "type: sharpness")
        frames = luma_of(WALKERS, SECONDS * RATE)
        self.assertEqual(len(rows), 2 * RATE)
        for row, luma in zip(rows, frames):
            exact = cv2.Laplacian(luma, cv2.CV_64F).var() * (255 / 219)**2
            self.assertAlmostEqual(row["tensors"][0]["data"][0], exact, delta=1e-6 * exact)

    def pictures(self):
        """PNG files with random sizes and no alpha: a decoder gives what is in them."""
        folder, made = self.folder / "pictures", []
        folder.mkdir()
        for path in sorted(harness.PICTURES.glob("*.jpg"))[:12]:
            picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
            cv2.imwrite(str(folder / f"{path.stem}.png"), picture)
            made.append(picture)
        return folder, made

    def test_histograms_of_all_pixels(self):
        _, (first, *_) = self.pictures()
        cv2.imwrite(str(self.folder / "one.png"), first)
        height, width = first.shape[:2]
        for space, code, levels in (("rgb", cv2.COLOR_BGR2RGB, (256, 256, 256)),
                                    ("hsv", cv2.COLOR_BGR2HSV, (180, 256, 256))):
            rows = self.run_on(self.folder / "one.png",
                               f"type: histogram, space: {space}, bins: 4, size: {width}x{height}", "features: true")
            counts = [cv2.calcHist([cv2.cvtColor(first, code)], [channel], None, [4], [0, most]).ravel()
                      for channel, most in enumerate(levels)]
            np.testing.assert_allclose(rows[0]["features"], np.concatenate(counts) / (width * height), rtol=1e-6)

    def test_perceptual_hashes(self):
        """Compared with ImageHash, which shrinks pictures with Lanczos' filter and not by area: some of 64 bits differ.
        For a 32x32 picture none may."""
        folder, pictures = self.pictures()
        rows = self.run_on(folder, "type: phash")
        apart = []
        for row, path in zip(rows, sorted(folder.iterdir())):
            ours = imagehash.hex_to_hash(bytes(row["tensors"][0]["data"]).hex())
            apart.append(ours - imagehash.phash(Image.open(path)))
        self.assertEqual(len(apart), len(pictures))
        self.assertLessEqual(max(apart), 8, apart)
        self.assertLessEqual(np.mean(apart), 3, apart)
        gray = cv2.resize(cv2.cvtColor(pictures[1], cv2.COLOR_BGR2GRAY), (32, 32))
        cv2.imwrite(str(self.folder / "small.png"), gray)
        rows = self.run_on(self.folder / "small.png", "type: phash")
        self.assertEqual(bytes(rows[0]["tensors"][0]["data"]).hex(), str(imagehash.phash(Image.fromarray(gray))))
