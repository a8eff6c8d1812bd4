# The functions in the public headers, for plugins. write_exports(SOURCE LIST HEADERS...) makes a C file that refers to
# all of them. A program that links the static library then contains even those that it does not call. It also makes a
# list of the names, so that the linker exports them from the program and nothing else.
function(write_exports source list)
  set(includes "")
  set(names "")
  foreach(header ${ARGN})
    file(READ ${header} text)
    get_filename_component(name ${header} NAME)
    string(APPEND includes "#include \"millrace/${name}\"\n")
    # Brackets and semicolons are special in CMake lists, and comments may contain them.
    string(REPLACE ";" "@" text "${text}")
    string(REGEX REPLACE "[][]" "@" text "${text}")
    string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/" "" text "${text}")
    # Declarations begin at the margin: the mark, a type, then the name and parameters.
    string(REGEX MATCHALL "\nMR_API [a-z0-9_ *]*[ *]mr_[a-z0-9_]+\\(" found "${text}")
    list(TRANSFORM found REPLACE ".*[ *](mr_[a-z0-9_]+)\\($" "\\1")
    list(APPEND names ${found})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  endforeach()
  list(REMOVE_ITEM names mr_main)
  list(JOIN names ";\n" lines)
  file(CONFIGURE OUTPUT ${list} CONTENT "{\n${lines};\n};\n" @ONLY)
  list(TRANSFORM names REPLACE "(.+)" "    (exported)\\1,")
  list(JOIN names "\n" entries)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "/* Made by tools/exports.cmake. */
${includes}#include \"tools/millrace/cli/exports.h\"

typedef void (*exported)(void);
static const exported functions[] __attribute__((used)) = {
${entries}
};

void mr_exports_keep(void) {
}
")
endfunction()
