// Aborts on a bug of the caller: an index out of range, sizes that do not fit. Errors that data or
// configuration can cause are values instead.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace elastripe::coding {

inline void require(bool ok, std::source_location where = std::source_location::current()) {
  if (ok) [[likely]]
    return;
  std::fprintf(stderr, "%s:%u: %s: wrong use of the coding library\n", where.file_name(),
               where.line(), where.function_name());
  std::abort();
}

}  // namespace elastripe::coding
