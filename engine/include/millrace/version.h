/* The version of these headers, as a text and for comparisons; mr_version() in millrace.h is that of the library.
 *
 * Guarantees to a program that was compiled with these headers. The soname is libmillrace.so.MAJOR.MINOR as long as
 * MAJOR is 0, and libmillrace.so.MAJOR from 1.0 on. A library of the same soname and a later version replaces an
 * earlier one; the program is not compiled again:
 *
 * - Functions, and values of enumerations, are only added.
 * - A struct that the program fills and a call takes, such as mr_pipeline_params and mr_push, grows at its end. The
 *   call is an inline function that passes the struct's size as the program was compiled (mr_pipeline_open calls
 *   mr_pipeline_open_sized). Fields that the program does not know are zero, which always means the same as before they
 *   were added; so a program sets fields by name and leaves the others zero. Fields that the library does not know
 *   are refused with MR_ERROR_USAGE unless they are zero.
 * - A struct that the library fills and only points a program to, such as mr_summary and mr_plan_view, grows at its
 *   end. A program does not copy it.
 * - All others, elements of arrays and types shared by stage types and the engine (stage.h, frame.h, option.h), change
 *   only with the soname. For plugins MR_PLUGIN_ABI then rises, too (plugin.h).
 *
 * Headers whose first comment says "Unstable" are made for the command, and promise none of this: a program that uses
 * them is compiled again with each version. No other header includes them. */
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
