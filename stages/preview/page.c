#include "stages/preview/page.h"

#include <stdio.h>
#include <stdlib.h>

/* All addresses are relative: a proxy may serve the page below a path. Names can reach the page only as text nodes and
 * URL parts. A still is loaded again only after the last one has arrived, so that a slow line is not flooded. */
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
static const char middle[] =
    "</title>\n<style>\n"
    ":root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }\n"
    "body { margin: 1rem; }\n"
    "main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); }\n"
    "figure { margin: 0; }\n"
    "img { width: 100%; aspect-ratio: 16 / 9; object-fit: contain; background: #222; display: block; }\n"
    "figcaption { display: flex; justify-content: space-between; gap: 1rem; }\n"
    ".old { color: #b00; }\n"
    "</style>\n</head>\n<body>\n<h1>";
static const char tail[] =
    "</h1>\n<main></main>\n<p id=\"none\">No source has given a picture yet.</p>\n"
    "<noscript>This page needs JavaScript; /NAME.jpg and /NAME.mjpeg show a source without.</noscript>\n"
    "<script>\n"
    "const main = document.querySelector('main'), shown = new Map();\n"
    "const url = (name, kind) => encodeURIComponent(name) + kind;\n"
    "function add(name) {\n"
    "  const figure = document.createElement('figure'), link = document.createElement('a');\n"
    "  const image = document.createElement('img'), caption = document.createElement('figcaption');\n"
    "  const label = document.createElement('span'), state = document.createElement('span');\n"
    "  link.href = url(name, '.mjpeg');\n"
    "  image.alt = label.textContent = name;\n"
    "  image.onload = image.onerror = () => { source.loading = false; };\n"
    "  link.append(image);\n"
    "  caption.append(label, state);\n"
    "  figure.append(link, caption);\n"
    "  main.append(figure);\n"
    "  const source = {figure, image, state, loading: false};\n"
    "  shown.set(name, source);\n"
    "  return source;\n"
    "}\n"
    "const named = one => (one.label ?? one.index) + ' ' + one.score.toFixed(2);\n"
    "function objects(list) {\n"
    "  const counts = new Map();\n"
    "  for (const one of list)\n"
    "    counts.set(one.label ?? one.index, (counts.get(one.label ?? one.index) ?? 0) + 1);\n"
    "  return [...counts].map(([label, count]) => count + ' \\u00d7 ' + label).join(', ');\n"
    "}\n"
    "async function classes(name) {\n"
    "  const row = await (await fetch(url(name, '.json'))).json();\n"
    "  return row.objects ? objects(row.objects) : row.classes.slice(0, 1).map(named).join('');\n"
    "}\n"
    "async function refresh(one) {\n"
    "  const source = shown.get(one.source) ?? add(one.source);\n"
    "  const old = one.ended || one.age > 5;\n"
    "  if (!source.loading && !document.hidden) {\n"
    "    source.loading = true;\n"
    "    source.image.src = url(one.source, '.jpg') + '?at=' + Date.now();\n"
    "  }\n"
    "  source.state.className = old ? 'old' : '';\n"
    "  const since = one.ended ? 'ended' : old ? Math.round(one.age) + ' s old' : '';\n"
    "  source.state.textContent = since || await classes(one.source);\n"
    "}\n"
    "async function turn() {\n"
    "  try {\n"
    "    const list = (await (await fetch('.json')).json()).sources;\n"
    "    const names = new Set(list.map(one => one.source));\n"
    "    for (const [name, source] of shown)\n"
    "      if (!names.has(name)) { source.figure.remove(); shown.delete(name); }\n"
    "    document.getElementById('none').hidden = list.length > 0;\n"
    "    await Promise.all(list.map(one => refresh(one).catch(() => {})));\n"
    "  } catch (error) {\n"
    "    for (const {state} of shown.values()) { state.className = 'old'; state.textContent = 'no answer'; }\n"
    "  }\n"
    "  setTimeout(turn, 2000);\n"
    "}\n"
    "turn();\n"
    "</script>\n</body>\n</html>\n";

static void put_text(FILE *to, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        default:
            fputc(*text, to);
        }
}

char *mr_page_make(const char *title, size_t *bytes) {
    char *page = NULL;
    FILE *to = open_memstream(&page, bytes);
    if (!to)
        return NULL;
    fputs(head, to);
    put_text(to, title);
    fputs(middle, to);
    put_text(to, title);
    fputs(tail, to);
    if (fclose(to) == 0)
        return page;
    free(page);
    return NULL;
}
