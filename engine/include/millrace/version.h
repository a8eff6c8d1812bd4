/* The headers' version, as a text and for comparisons. mr_version() in millrace.h returns the library's version.
 *
 * These guarantees hold for a program that was compiled with these headers. The soname is libmillrace.so.MAJOR.MINOR
 * while MAJOR is 0, and libmillrace.so.MAJOR from 1.0. A later library with the same soname can replace an earlier one
 * without recompiling the program:
 *
 * - Functions and enumeration values are only added.
 * - A struct that the program fills and a call takes, such as mr_pipeline_params and mr_push, grows at its end. The
 *   call is an inline function that passes the struct's size at compile time (mr_pipeline_open calls
 *   mr_pipeline_open_sized). Fields that the program does not know are zero, which always means the same as before they
 *   were added. A program must therefore set fields by name and leave the others zero. Fields that the library does not
 *   know must be zero; otherwise it returns MR_ERROR_USAGE.
 * - A struct that the library fills and only points to, such as mr_summary and mr_plan_view, grows at its end. A
 *   program must not copy it.
 * - All others change only with the soname: array elements, and types that stage types share with the engine (stage.h,
 *   frame.h, option.h). MR_PLUGIN_ABI (plugin.h) then increases too.
 *
 * Headers whose first comment contains "Unstable" are made for the command and give none of these guarantees. A program
 * that uses them must be recompiled for each version. No other header includes them. */
#ifndef MILLRACE_VERSION_H
#define MILLRACE_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* CMakeLists.txt reads it here. */
#define MILLRACE_VERSION "0.1.0"
#define MILLRACE_VERSION_MAJOR 0
#define MILLRACE_VERSION_MINOR 1
#define MILLRACE_VERSION_PATCH 0

#ifdef __cplusplus
}
#endif
#endif
