// Connections to servers, by name or address.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cli/result.h"

namespace elastripe::bench {

// A connected TCP socket without Nagle's delay; the caller closes it.
cli::Result<int> connect_socket(const std::string& host, uint16_t port);

// As many open files as this process may have.
void raise_file_limit();

}  // namespace elastripe::bench
