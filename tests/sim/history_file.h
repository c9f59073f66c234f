// Histories as files, for other checkers (tests/porcupine): one operation a line, as JSON.
#pragma once

#include <filesystem>
#include <string>

#include "tests/sim/history.h"

namespace elastripe::sim {

// Without the end of the line. What says nothing is left out; bytes that are no UTF-8 are replaced.
std::string to_json(const Operation& operation);

// False: it could not be written.
bool write_history(const History& history, const std::filesystem::path& path);

}  // namespace elastripe::sim
