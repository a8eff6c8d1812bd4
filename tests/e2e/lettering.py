"""Pictures with words in fonts of Debian, and how many characters of them were read wrongly."""
import pathlib
import random

from PIL import Image, ImageDraw, ImageFont

FONTS = pathlib.Path("/usr/share/fonts/truetype")
WORDS = ("river stone cloud number seven picture engine quick brown jumps over lazy window garden market street "
         "council open closed library platform station exit entry north south total price change paper copy print "
         "letter").split()


def draw(folder, count, seed=4):
    """Returns {file name: its lines}. One or two lines, dark on light or light on dark."""
    source, truth = random.Random(seed), {}
    fonts = sorted(one for one in FONTS.rglob("*.ttf") if "dejavu" in str(one).lower())
    for i in range(count):
        lines = [" ".join(source.choices(WORDS, k=source.randint(1, 4))) for _ in range(source.choice((1, 1, 2)))]
        if i % 6 == 0:
            lines[0] += f" {source.randint(1, 9999)}"
        size = source.randint(18, 40)
        font = ImageFont.truetype(str(source.choice(fonts)), size)
        colours = [tuple(source.randint(200, 255) for _ in range(3)), tuple(source.randint(0, 90) for _ in range(3))]
        paper, ink = colours if i % 3 else reversed(colours)
        width = int(max(font.getlength(line) for line in lines)) + 60
        picture = Image.new("RGB", (width, int(len(lines) * size * 1.8) + 40), paper)
        for k, line in enumerate(lines):
            ImageDraw.Draw(picture).text((30, 20 + k * size * 1.8), line, font=font, fill=ink)
        picture.save(folder / f"{i:03}.png")
        truth[f"{i:03}.png"] = lines
    return truth


def distance(a, b):
    """Characters to insert, remove or replace (Levenshtein)."""
    before = list(range(len(b) + 1))
    for i, one in enumerate(a, 1):
        row = [i]
        for k, other in enumerate(b, 1):
            row.append(min(row[-1] + 1, before[k] + 1, before[k - 1] + (one != other)))
        before = row
    return before[-1]


def in_order(found):
    """Joins texts by lines. found: (8 numbers, the corners; text)."""
    lines = []
    for quad, text in sorted(found, key=lambda one: sum(one[0][1::2])):
        middle, height = sum(quad[1::2]) / 4, max(quad[1::2]) - min(quad[1::2])
        for line in lines:
            if abs(line[0] - middle) < max(line[1], height) / 2:
                line[2].append((min(quad[::2]), text))
                break
        else:
            lines.append((middle, height, [(min(quad[::2]), text)]))
    return " ".join(" ".join(text for _, text in sorted(line[2])) for line in lines)


def errors(truth, found):
    """Returns the share of wrong characters, with and without spaces. found: {file name: [(corners, text)]}."""
    wrong, wrong_letters, count, letters = 0, 0, 0, 0
    for name, lines in truth.items():
        want, got = " ".join(lines), in_order(found.get(name, []))
        bare = want.replace(" ", "")
        wrong += distance(want, got)
        wrong_letters += distance(bare, got.replace(" ", ""))
        count += len(want)
        letters += len(bare)
    return wrong / count, wrong_letters / letters


def read_rows(rows):
    """What errors needs, from the records of pipelines/text.yaml."""
    return {row["file"].rsplit("/", 1)[-1]: [(line["quad"], one["text"]) for line in row["objects"]
                                             for one in line.get("attributes", ()) if "text" in one] for row in rows}
