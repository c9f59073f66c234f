#include "proxy/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace elastripe::internal {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  // Plain stdio: the logger may be what is broken.
  std::fprintf(stderr, "CHECK failed at %s:%d: %s%s%.*s\n", file, line, condition,
               message.empty() ? "" : ": ", static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace elastripe::internal
