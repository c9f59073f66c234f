#include "tools/cli/commands.h"

#include <cstdio>

namespace elastripe::cli {

void report(Globals& globals, const Result<>& result) {
  if (result) return;
  fmt::print(stderr, "elastripe: {}\n", result.error());
  globals.exit_status = 1;
}

}  // namespace elastripe::cli
