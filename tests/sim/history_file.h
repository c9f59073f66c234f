// Histories as files, one operation a line, as JSON: what was asked of simulated processes for
// other checkers (tests/porcupine), and of real ones (tests/support/history.py) for the
// simulator's.
#pragma once

#include <filesystem>
#include <string>

#include "proxy/base/error.h"
#include "tests/sim/history.h"

namespace elastripe::sim {

// Without the end of the line. What says nothing is left out; bytes that are no UTF-8 are replaced.
std::string to_json(const Operation& operation);

// False: it could not be written.
bool write_history(const History& history, const std::filesystem::path& path);

// Nothing of a cas unique: of those who compare one only what they expect is known. kInvalid, with
// the line: it is no operation; kNotFound: there is no such file.
Result<History> read_history(const std::filesystem::path& path);

}  // namespace elastripe::sim
