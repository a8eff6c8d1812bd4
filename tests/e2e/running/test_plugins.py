"""Plugins: stage types in shared libraries, compiled here with only the public headers, in every verb. What is not a
plugin, or has another ABI, is refused by name; the command exports what the headers declare, and no more."""
import json
import re
import shutil
import subprocess
import unittest

import numpy as np

from harness import MILLRACE, ROOT, SAMPLES, Case, call, pipeline

CLIP = SAMPLES / "realshort.mp4"
DARKNESS = ROOT / "pipelines/plugin/darkness.c"
INCLUDE = ROOT / "engine/include"
PASS = """#include <millrace/plugin.h>
static int process(mr_stage *self, mr_io *io) { (void)self; return mr_io_forward(io, 0); }
static const mr_port in[] = {{.name = "in"}, {0}}, out[] = {{.name = "out", .optional = true}, {0}};
static const mr_stage_type type = {.name = "NAME", .summary = "passes on", .inputs = in, .outputs = out,
                                   .entry = MR_ENTRY_STATELESS, .process = process, MORE};
MR_PLUGIN("pass", "2", &type);
"""
NOTE = """#include <millrace/plugin.h>
#include <stddef.h>
#include <stdio.h>
typedef struct { bool given; const char *folder; } more;
typedef struct { const char *path; more more; } options;
static int write(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", folder, name);
    FILE *file = fopen(path, "w");
    return file && !fclose(file) ? MR_OK : mr_fail(MR_ERROR_IO, "cannot make %s", path);
}
static int open_sink(mr_stage *self) {
    const options *given = self->options;
    int status = write(given->path, "");
    return status || !given->more.given ? status : write(given->more.folder, "/one.txt");
}
static int process(mr_stage *self, mr_io *io) { (void)self; (void)io; return MR_DONE; }
static const mr_port in[] = {{.name = "in"}, {0}};
static const mr_option inner[] = {
    {.name = "folder", .kind = MR_OPTION_PATH, .file = MR_FILE_FOLDER, .offset = offsetof(more, folder),
     .fallback = "other", .help = "a folder"},
    MR_OPTIONS_END};
static const mr_option table[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(options, path),
     .required = true, .help = "a file"},
    {.name = "more", .kind = MR_OPTION_MAP, .offset = offsetof(options, more), .fields = inner, .help = "more files"},
    MR_OPTIONS_END};
static const mr_stage_type type = {.name = "note", .summary = "makes files", .inputs = in, .options = table,
                                   .options_bytes = sizeof(options), .entry = MR_ENTRY_SHARED, .open = open_sink,
                                   .process = process};
MR_PLUGIN("note", "1", &type);
"""
PIPELINE = pipeline(dict(video=f'uri: "{CLIP}"'), name="dark", top="plugins: [PLUGIN]", decode="",
                    darkness="below: 40", results="type: jsonl, tensors: true")
WITHOUT = PIPELINE.replace("plugins: [PLUGIN]\n", "")
NODES = "nodes:\n  a: {stages: [decode]}\n  b: {stages: [darkness, results]}\n"


class Plugins(Case):
    def build(self, source=None, name="libdarkness.so", compiler="cc", flags=("-std=c11",)):
        """A plugin from this source (a path or text), not linked with millrace."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        source = source or DARKNESS
        if isinstance(source, str):
            source = self.write(source, f"{path.name}{'.c' if compiler == 'cc' else '.cpp'}")
        done = call([compiler, *flags, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC", f"-I{INCLUDE}",
                     source, "-o", path])
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_it_reads_pixels(self):
        self.build()
        run = self.run_pipeline(PIPELINE.replace("PLUGIN", "libdarkness.so").replace("below: 40", "below: 120"))
        self.assert_balanced(run)
        luma = subprocess.run(["ffmpeg", "-v", "error", "-i", CLIP, "-vf", "extractplanes=y", "-f", "rawvideo", "-"],
                              capture_output=True, check=True).stdout
        luma = np.frombuffer(luma, np.uint8).reshape(-1, 240 * 320)
        self.assertEqual(len(run.rows), len(luma))
        for row, picture in zip(run.rows, luma):
            (tensor,) = row["tensors"]
            self.assertEqual((tensor["stage"], tensor["name"], tensor["shape"]), ("darkness", "darkness", [1]))
            self.assertAlmostEqual(tensor["data"][0], np.mean(picture < 120), delta=1e-6)
        self.assertGreater(len({row["tensors"][0]["data"][0] for row in run.rows}), 5)

    def test_its_folders_are_made(self):
        """A plan accepts a folder that does not exist, so the run makes it, whatever the plugin does."""
        self.build(NOTE, "libnote.so")
        text = pipeline(dict(video='uri: "lavfi:testsrc=duration=1:rate=2"'), top="plugins: [libnote.so]", decode="",
                        note="path: new/note.txt")
        self.millrace("plan", "--plugins", self.write(text), cwd=self.folder)
        self.assertFalse((self.folder / "new").exists())
        self.millrace("run", "--quiet", self.folder / "pipeline.yaml", cwd=self.folder)
        self.assertTrue((self.folder / "new/note.txt").exists())
        self.assertFalse((self.folder / "other").exists())
        more = self.write(text.replace("note.txt", "note.txt, more: {folder: more}"))
        self.millrace("run", "--quiet", more, cwd=self.folder)
        self.assertTrue((self.folder / "more/one.txt").exists())

    def test_the_lessons_stages(self):
        """A black picture with a white box gives the box, and the negative's dark part, in planned buffers."""
        for name in ("darkness", "negative", "bright"):
            self.build(DARKNESS.with_name(f"{name}.c"), f"lib{name}.so")
        text = pipeline(dict(video='uri: "lavfi:color=black:size=62x50:rate=5:duration=4,'
                                   'drawbox=x=8:y=4:w=16:h=20:color=white:t=fill"'),
                        top="plugins: [libnegative.so, libdarkness.so, libbright.so]", decode="", bright="",
                        negative="", darkness="", results="type: jsonl, tensors: true")
        run = self.run_pipeline(text)
        self.assert_balanced(run)
        self.assertEqual(len(run.rows), 20)
        for row in run.rows:
            self.assertAlmostEqual(row["tensors"][0]["data"][0], 320 / 3100, delta=1e-6)
            self.assertEqual(row["bright"], [{"left": 8, "top": 4, "width": 16, "height": 20, "share": 1}])
        done = call([MILLRACE, "plan", "--plugins", "--json", self.write(text)], cwd=self.folder)
        (buffers,) = [row for row in json.loads(done.stdout)["memory_rows"] if row["of"] == "negative"]
        self.assertGreaterEqual(buffers["buffer_bytes"], 62 * 50 * 3 // 2)

    def test_a_stage_that_loses_frames_is_told(self):
        source = DARKNESS.read_text()
        source = source.replace("return mr_io_emit(io, 0, output);", "mr_frame_unref(&output);\n    return MR_DONE;")
        self.build(source)
        done = self.millrace("run", "--quiet", self.write(PIPELINE.replace("PLUGIN", "libdarkness.so")), code=70)
        self.assertRegex(done.stderr, r"^millrace: error: the ledger of \w+ does not balance: .* a stage took the "
                                      r"others and neither emitted, dropped nor absorbed them: 0, 1, .*\n$")

    def test_every_verb_knows_it(self):
        plugin = self.build()
        given = ("--plugin", plugin)
        listed = json.loads(call([MILLRACE, "list", "--json", *given]).stdout)
        self.assertEqual([one["kind"] for one in listed if one["name"] == "darkness"], ["stage"])
        self.assertGreater(len(listed), 20)
        (shown,) = json.loads(call([MILLRACE, "inspect", "darkness", "--json", *given]).stdout)
        (below,) = shown["options"]
        self.assertEqual((below["name"], below["default"], below["unit"]), ("below", "32", "levels"))
        self.assertTrue("### darkness (stage)" in call([MILLRACE, "inspect", "--markdown", *given]).stdout)
        self.assertTrue("darkness" in call([MILLRACE, "schema", *given]).stdout)
        for named, arguments in ((PIPELINE.replace("PLUGIN", plugin.name), ()), (WITHOUT, given)):
            for verb in (["check", "--plugins"], ["plan", "--plugins"], ["graph", "--plugins"],
                         ["run", "--output", self.folder / "rows"]):
                self.millrace(*verb, self.write(named), *arguments)
            # Without it the type is unknown, and the hint does not guess.
            self.millrace("check", self.write(WITHOUT), code=78, says='there is no type "darkness"')

    def test_its_mistakes_are_told_like_any_others(self):
        self.build()
        text = PIPELINE.replace("PLUGIN", "libdarkness.so")
        for old, new, told in (("below: 40", "below: 256", ":8:36: error: stages.darkness.below: 256 is out of range; "
                                "expected 1 to 255 levels"),
                               ("below: 40", "bellow: 40", 'did you mean "below"'),
                               ("type: jsonl, input", "type: jsonl, tensor: nothing, input", "tensor")):
            run = self.run_pipeline(text.replace(old, new), "--plugins", verb="check", rows=False, code=78)
            self.assertIn(told, run.err)

    def test_both_sides_of_verify_have_it(self):
        self.build()
        text = PIPELINE.replace("PLUGIN", "libdarkness.so").replace(
            "  results:", "  small: {type: preprocess, input: darkness, size: 32}\n  results:").replace(
            "input: darkness, tensors", "input: small, tensors")
        for more in ((), ("--plugin", self.folder / "libdarkness.so")):
            self.millrace("verify", self.write(text), "--against", "sim:0", "--frames", "5", *more)

    def test_nodes_get_it(self):
        self.build()
        for text, arguments in ((PIPELINE.replace("PLUGIN", "libdarkness.so") + NODES, ()),
                                (WITHOUT + NODES, ("--plugin", "libdarkness.so"))):
            rows = self.folder / "rows"
            rows.unlink(missing_ok=True)
            # The key is tried from another folder than the pipeline's, the option from the plugin's own.
            self.millrace("run", self.write(text), "--output", rows, *arguments, cwd=self.folder if arguments else "/")
            self.assertEqual(len(rows.read_text().splitlines()), 36)
        self.millrace("deploy", self.folder / "pipeline.yaml", "--target", "systemd", "--output", self.folder / "units",
                      "--plugin", "libdarkness.so", cwd=self.folder)
        unit = next((self.folder / "units").glob("*-b.service")).read_text()
        self.assertIn(str((self.folder / "libdarkness.so").resolve()), unit)

    def test_where_it_is_looked_for(self):
        plugin = self.build(name="plugins/libdarkness.so")
        text = PIPELINE.replace("PLUGIN", "libdarkness.so")
        # Plugins are not taken from the loader's folders, nor from the working directory for an empty entry.
        for environment in ({}, {"LD_LIBRARY_PATH": str(plugin.parent)}, {"MILLRACE_PLUGIN_PATH": "::"}):
            self.write(text)
            self.millrace("check", "--plugins", self.folder / "pipeline.yaml", code=66, environment=environment,
                          cwd=plugin.parent)
        found = {"MILLRACE_PLUGIN_PATH": f"/nowhere:{plugin.parent}"}
        self.run_pipeline(text, environment=found)
        done = call([MILLRACE, "list", "--plugin", "libdarkness.so"], environment=found, cwd="/")
        self.assertIn("darkness", done.stdout)
        # A path is a path: with a slash it is not looked for elsewhere.
        self.millrace("list", "--plugin", "./libdarkness.so", code=66, environment=found, cwd="/")

    def refused(self, plugin, code, *told):
        """A missing plugin is named at the option or the key, without messages about stages that it would provide."""
        done = self.millrace("check", self.write(WITHOUT), "--plugin", plugin, code=code)
        text = PIPELINE.replace("PLUGIN", f'"{plugin}"')
        run = self.run_pipeline(text, "--plugins", verb="check", rows=False, code=code)
        self.assertTrue(run.err.startswith(f"{self.folder}/pipeline.yaml:3:11: error: "), run.err)
        self.assertEqual(run.err.count("error:"), 1, run.err)
        for text in told:
            self.assertIn(text, done.stderr)
            self.assertIn(text, run.err)

    def test_what_is_no_plugin(self):
        self.refused(self.folder / "none.so", 66, "none.so: No such file or directory")
        self.refused(self.folder, 65, f"{self.folder} is not a plugin: it is not a regular file")
        self.refused(self.write("text", "text.so"), 65, "text.so is not a plugin: it is not a shared library")
        broken = self.folder / "broken.so"
        broken.write_bytes(self.build().read_bytes()[:100])
        self.refused(broken, 65, "cannot load the plugin: ", "broken.so: the file is cut short")
        broken.write_bytes(self.build().read_bytes()[:9000])  # with whole headers: the loader would read beyond the end
        self.refused(broken, 65, "broken.so: the file is cut short")
        self.refused(self.build("int nothing;", "other.so"), 65,
                     "other.so is not a millrace plugin: it lacks the symbol "
                     "mr_plugin_entry; write MR_PLUGIN(...)")
        self.refused(self.build("#include <millrace/plugin.h>\nint mr_nothing(void);\nint f(void);\n"
                                "int f(void) { return mr_nothing(); }\n", "undefined.so"), 65,
                     "undefined.so: undefined symbol: mr_nothing")
        self.assertIn("cannot be the path of a plugin", call([MILLRACE, "list", "--plugin", ""]).stderr)

    def test_it_can_be_refused(self):
        """Strangers' pipelines load no plugins: not even constructors may run."""
        mark = self.folder / "mark"
        plugin = self.build(f"""#include <stdio.h>
        __attribute__((constructor)) static void begin(void) {{
            FILE *file = fopen("{mark}", "w"); if (file) fclose(file);
        }}
        """ + PASS.replace("NAME", "pass").replace("MORE", ".help = NULL"), "pass.so")
        text = PIPELINE.replace("PLUGIN", "pass.so").replace("darkness: {input: decode, below: 40}",
                                                             "darkness: {type: pass, input: decode}")
        text = text.replace(", tensors: true", "")
        for verb, *arguments in (["check"], ["plan"], ["graph"], ["deploy", "--target", "slurm"],
                                 ["run", "--no-plugins"]):
            run = self.run_pipeline(text, *arguments, verb=verb, rows=False, code=78)
            self.assertIn(":3:1: error: plugins: this command does not load plugins that a pipeline names", run.err)
            self.assertEqual(run.err.count("error:"), 1)
        self.assertFalse(mark.exists())
        # A plugin that the user names is not the pipeline's.
        self.run_pipeline(text.replace("plugins: [pass.so]\n", ""), "--no-plugins", "--plugin", plugin)
        self.assertTrue(mark.exists())

    def test_the_environment_of_the_command(self):
        # The GPU driver reads it once, on first use: more than 8 streams would share hardware queues.
        self.build("#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void begin(void) "
                   '{ fprintf(stderr, "queues %s\\n", getenv("CUDA_DEVICE_MAX_CONNECTIONS")); }\n' +
                   PASS.replace("NAME", "pass").replace("MORE", ".help = NULL"), "pass.so")
        for given, found in (({}, "32"), ({"CUDA_DEVICE_MAX_CONNECTIONS": "2"}, "2")):
            done = call([MILLRACE, "list", "--plugin", self.folder / "pass.so"], environment=given)
            self.assertIn(f"queues {found}\n", done.stderr)

    def test_another_abi(self):
        # In a later version only the first two fields keep this meaning.
        self.refused(self.build("#include <stdint.h>\nextern const struct later { uint32_t abi; const char *with; } "
                                "mr_plugin_entry;\nconst struct later mr_plugin_entry = {7777, \"9.8.7\"};\n",
                                "later.so"),
                     65, "later.so was built for plugin ABI 7777 (millrace 9.8.7), but this is ABI 1 (millrace ",
                     "rebuild it with the headers of this version")
        self.refused(self.build('#include <millrace/plugin.h>\nconst mr_plugin mr_plugin_entry = {MR_PLUGIN_ABI, '
                                '"0.0.9", "a", "1", {(uint32_t)sizeof(mr_stage_type), 12}, NULL};\n', "sizes.so"), 65,
                     "sizes.so was built with other headers (millrace 0.0.9): mr_port has 12 bytes there and ")
        self.refused(self.build('#include <millrace/plugin.h>\nconst mr_plugin mr_plugin_entry = {MR_PLUGIN_ABI, '
                                'MILLRACE_VERSION, "a", "1", {MR_PLUGIN_SIZES(MR_PLUGIN_SIZE_OF)}, NULL};\n',
                                "none.so"),
                     65, "none.so has no stage types")

    def test_malformed_types_and_names_that_are_taken(self):
        self.refused(self.build(PASS.replace("NAME", "decode").replace("MORE", ".help = NULL"), "taken.so"), 65,
                     'the stage type "decode" of ', "taken.so already exists, from ")
        self.refused(self.build(PASS.replace("NAME", "a b").replace("MORE", ".help = NULL"), "name.so"), 65,
                     'name.so: "a b" cannot be the name of a stage type')
        self.refused(self.build(PASS.replace("NAME", "p").replace("MORE", ".external = true"), "external.so"), 65,
                     'external.so: the stage type "p" is malformed: `external` is for sources')
        one, other = self.build(), self.build(name="libsame.so")
        self.millrace("list", "--plugin", one, "--plugin", other, code=65,
                      says=f'the stage type "darkness" of {other} already exists, from {one}: ')
        # The same library twice is one, by any name and in either way.
        self.run_pipeline(PIPELINE.replace("PLUGIN", "libdarkness.so, ./libdarkness.so"), "--plugin", one)

    def test_overrides(self):
        self.build()
        self.run_pipeline(PIPELINE.replace("PLUGIN", "none.so"), "--set", f"plugins={self.folder}/libdarkness.so")
        run = self.run_pipeline(PIPELINE, "--plugins", "--set", "plugins=none.so", rows=False, verb="check", code=66)
        self.assertIn("--set plugins (", run.err)
        self.run_pipeline(PIPELINE.replace("PLUGIN", '"${MINE}"'), environment={"MINE": "libdarkness.so"})
        run = self.run_pipeline(PIPELINE.replace("[PLUGIN]", "{a: b}"), "--plugins", rows=False, verb="check", code=78)
        self.assertIn(":3:10: error: plugins: expected", run.err)

    def test_the_whole_of_the_headers_is_exported(self):
        """Every function that the headers declare, as the compiler sees them, is callable; nothing else may be
        exported."""
        includes = "".join(f"#include <millrace/{path.name}>\n" for path in sorted((INCLUDE / "millrace").glob("*.h")))
        plain = call(["cc", "-std=c11", "-E", "-P", f"-I{INCLUDE}", self.write(includes, "all.c")]).stdout
        names = set(re.findall(r"\b(mr_\w+)\([^()]*(?:\([^()]*\)[^()]*)*\)(?:\s*__attribute__\s*\(\(.*?\)\))?\s*;",
                               re.sub(r"\{[^{}]*\}", "{}", re.sub(r"\{[^{}]*\}", "{}", plain))))
        names = {name for name in names if not re.search(rf"typedef [^;]*\b{name}\(", plain)} - {"mr_main"}
        self.assertGreater(len(names), 100)
        uses = "".join(f"    (any){name},\n" for name in sorted(names))
        body = PASS.replace("NAME", "pass").replace("MORE", ".help = NULL")
        every = self.build(includes + body
                           + f"typedef void (*any)(void);\nextern const any all[];\nconst any all[] = {{\n"
                           f"{uses}}};\n", "every.so")
        self.assertIn("passes on", call([MILLRACE, "list", "--plugin", every]).stdout)
        exported = set(re.findall(r" [TDRB] (mr_\w+)$", call(["nm", "-D", "--defined-only", MILLRACE]).stdout, re.M))
        self.assertEqual(exported, names)

    def test_in_cpp(self):
        if not shutil.which("g++"):
            raise unittest.SkipTest("there is no g++")
        text = """#include <millrace/plugin.h>
        static int process(mr_stage *, mr_io *io) { return mr_io_forward(io, 0); }
        static const mr_stage_type *type() {
            static mr_port in[2] = {}, out[2] = {};
            static mr_stage_type made = {};
            in[0].name = "in";
            out[0].name = "out";
            made.name = "plus", made.summary = "passes on";
            made.inputs = in, made.outputs = out, made.process = process;
            return &made;
        }
        MR_PLUGIN("plus", "1", type());
        """
        plugin = self.build(text, "libplus.so", "g++", ("-std=c++17", "-fvisibility=hidden"))
        self.run_pipeline(WITHOUT.replace("darkness: {input: decode, below: 40}", "plus: {input: decode}").replace(
            "input: darkness, tensors: true", "input: plus"), "--plugin", plugin)
