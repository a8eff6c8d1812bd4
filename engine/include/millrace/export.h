/* Marks the functions that the library exports. The library is built with hidden visibility. A shared libmillrace, or a
 * program that loads plugins, exports only what a public header declares with MR_API. */
#ifndef MILLRACE_EXPORT_H
#define MILLRACE_EXPORT_H

#if defined(__GNUC__)
#define MR_API __attribute__((visibility("default")))
#else
#define MR_API
#endif

#endif
