# Writes the texts for `millrace help TOPIC` as C, from document sections. Run it as a script:
#
#     cmake -DROOT=FOLDER -DTO=FILE.c -P tools/topics.cmake
#
# So the help prints the documents' text. A section ends before the next heading with the same or a higher level.
cmake_policy(SET CMP0007 NEW)
set(arrays "")
set(entries "")

# Turns the sections with these headings in ROOT/DOCUMENT into the topic's lines. No heading: the whole document.
function(topic name summary document)
  file(READ ${ROOT}/${document} text)
  # Brackets and semicolons are special in CMake lists.
  string(REPLACE ";" "@semicolon@" text "${text}")
  string(REPLACE "[" "@open@" text "${text}")
  string(REPLACE "]" "@close@" text "${text}")
  set(chosen "")
  foreach(heading ${ARGN})
    string(FIND "${text}" "\n## ${heading}\n" start)
    set(ends "\n## ")
    if(start EQUAL -1)
      string(FIND "${text}" "\n### ${heading}\n" start)
      set(ends "\n### " "\n## ")
    endif()
    if(start EQUAL -1)
      message(FATAL_ERROR "${document} has no section \"${heading}\"; tools/topics.cmake names it")
    endif()
    math(EXPR start "${start} + 1")
    string(SUBSTRING "${text}" ${start} -1 section)
    foreach(end ${ends})
      string(FIND "${section}" "${end}" length)
      if(NOT length EQUAL -1)
        string(SUBSTRING "${section}" 0 ${length} section)
      endif()
    endforeach()
    string(APPEND chosen "${section}\n")
  endforeach()
  if(NOT ARGN)
    set(chosen "${text}")
  endif()
  string(REPLACE "\\" "\\\\" chosen "${chosen}")
  string(REPLACE "\"" "\\\"" chosen "${chosen}")
  # No trigraphs.
  string(REPLACE "??" "?\\?" chosen "${chosen}")
  string(REPLACE "\n" "\",\n    \"" chosen "${chosen}")
  string(REPLACE "@semicolon@" ";" chosen "${chosen}")
  string(REPLACE "@open@" "[" chosen "${chosen}")
  string(REPLACE "@close@" "]" chosen "${chosen}")
  string(MAKE_C_IDENTIFIER ${name} id)
  set(arrays "${arrays}static const char *const ${id}[] = {\n    \"${chosen}\", NULL,\n};\n\n" PARENT_SCOPE)
  set(entries "${entries}    {\"${name}\", \"${summary}\", ${id}},\n" PARENT_SCOPE)
endfunction()

topic(pipeline "what a pipeline file says: keys, stage types, values, deadlines" pipelines/README.md "The file" "Stage types" "Deadlines")
topic(models "networks that are known to work, and how a pipeline finds them" pipelines/README.md "Models by name")
topic(formats "pictures, tensors and sizes on links, and what resizing does" pipelines/README.md "Formats")
topic(sources "sources that come and go while a pipeline runs" pipelines/README.md "Sources that come and go")
topic(cameras "cameras and network streams: states, times, damage, passwords" stages/live/README.md)
topic(video "video that is written, and pictures in a browser" pipelines/README.md "Video out" "Looking at a run")
topic(services "databases and web servers that take results" pipelines/README.md "Databases" "Webhooks")
topic(objects "objects: finding, following, hiding, counting, reading and drawing them" pipelines/README.md "Objects")
topic(training "classifiers of your own pictures: train, evaluate, export" pipelines/TRAINING.md)
topic(devices "where stages compute: processors, simulated devices, GPUs" engine/device/README.md
  "Where a stage computes" "Balanced by measured costs" "The same answer on every device" "Simulated devices" "GPUs")
topic(nodes "a pipeline in several processes, here or on other machines" pipelines/README.md "Nodes")
topic(processes "nodes that die, and nodes that others start" tools/README.md "When a process dies" "A service at boot" "Nodes that others start")
topic(zmq "other programs that feed a pipeline or take its results" pipelines/README.md "Other programs, over ZeroMQ")
topic(sites "pipelines that Slurm, Kubernetes or systemd runs: submit, status, cancel" tools/README.md "Handing a pipeline to a site")
topic(keys "keys for sockets that leave the machine, and the audit log" tools/README.md "Keys and the audit log")
topic(resume "resuming after a crash, and when the disk is full" tools/README.md "Resuming after a crash" "When the disk is full")
topic(http "a run's page, metrics, health and API" tools/README.md "Looking into a run over HTTP")
topic(runs "many runs on many machines, on one page" tools/README.md "Many runs on one page")
topic(signals "what Ctrl-C and SIGTERM do" tools/README.md "Signals")
topic(exit-codes "what exit codes mean" tools/README.md "Exit codes")
topic(python "the Python module: frames, pipelines, stages in Python, the wheel" tools/python/README.md)
topic(environment "variables of the environment" tools/README.md "Environment")
topic(reference "every key, stage type and option" stages/README.md)

file(WRITE ${TO} "/* Made by tools/topics.cmake from the documents. */
#include \"tools/millrace/cli/topics.h\"

#include <stddef.h>

${arrays}const mr_topic mr_topics[] = {
${entries}    {NULL, NULL, NULL},
};
")
