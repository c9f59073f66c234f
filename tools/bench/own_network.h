// A network that only this process and what it starts are in: a loopback, whose rate can be
// limited. The machine's own network is never touched, and this one ends with the last process in
// it.
#pragma once

#include <cstdint>

#include "tools/cli/result.h"

namespace elastripe::bench {

// Moves the process, which must have one thread, into a new network, for good. Needs root, or a
// kernel that lets any user do so; the error says what is not permitted.
cli::Result<> enter_own_network();

// Everything that goes over its loopback shares so many bits a second, by a token bucket (tc tbf)
// as small as it can be; 0: no limit. Needs iproute2.
cli::Result<> limit_own_network(uint64_t bits_per_second);

}  // namespace elastripe::bench
