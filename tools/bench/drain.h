// Emptying update logs at once: what a log puts off counts as part of a load.
#pragma once

#include <string>

#include "tools/bench/testbed.h"

namespace elastripe::bench {

// Has the cluster recycle the objects whose keys begin so, again and again until its nodes have
// nothing in logs any more, of no object; how many seconds that took: 0 if there was nothing.
// Errors: a recycle that failed, or what is left after two minutes.
cli::Result<double> drain(const Cluster& cluster, const cli::AdminClient& admin,
                          const std::string& prefix);

}  // namespace elastripe::bench
