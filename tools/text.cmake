# Writes a text file as a C string. Run it as a script:
#
#     cmake -DFROM=FILE -DNAME=VARIABLE -DTO=FILE.c -P tools/text.cmake
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
file(WRITE ${TO} "/* Made by tools/text.cmake from ${FROM}. */
extern const char ${NAME}[];
const char ${NAME}[] = {${bytes}0};
")
