# Lists the functions in libraries that objects call, for lazy.S. Run it as a script:
#
#     cmake -DNM=nm -DREADELF=readelf -DOBJECTS=A.a,.. -DLIBRARIES=B.so:C.so,D.so -DTO=F -P tools/lazy/lazy.cmake
#
# B needs C: both are loaded as B.
function(run variable)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE told ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${told}" PARENT_SCOPE)
endfunction()

# symbols(VARIABLE TEXT KINDS): the names in what nm prints that are of these kinds.
function(symbols variable text kinds)
  string(REGEX MATCHALL " [${kinds}] [A-Za-z0-9_]+" found "${text}")
  list(TRANSFORM found REPLACE " . " "")
  list(REMOVE_DUPLICATES found)
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# common(VARIABLE OTHERS): leaves the names that OTHERS has, too.
function(common variable)
  set(others ${${variable}})
  list(REMOVE_ITEM others ${ARGN})
  list(REMOVE_ITEM ${variable} ${others} "")
  set(${variable} ${${variable}} PARENT_SCOPE)
endfunction()

string(REPLACE "," ";" OBJECTS "${OBJECTS}")
string(REPLACE "," ";" LIBRARIES "${LIBRARIES}")
run(told ${NM} -u ${OBJECTS})
symbols(called "${told}" U)
set(text "")
foreach(group ${LIBRARIES})
  string(REPLACE ":" ";" files "${group}")
  list(GET files 0 first)
  run(told ${READELF} -d ${first})
  string(REGEX MATCH "\\(SONAME\\)[^[]*\\[([^]]*)\\]" found "${told}")
  string(APPEND text "LIBRARY ${CMAKE_MATCH_1}\n")
  run(told ${NM} -D --defined-only ${files})
  symbols(variables "${told}" BDGRSV)
  common(variables ${called})
  if(variables)
    message(FATAL_ERROR "${group}: only functions can be looked up later, not ${variables}")
  endif()
  symbols(functions "${told}" TWi)
  common(functions ${called})
  foreach(name ${functions})
    string(APPEND text "LAZY ${name}\n")
  endforeach()
endforeach()
file(WRITE ${TO} "${text}")
