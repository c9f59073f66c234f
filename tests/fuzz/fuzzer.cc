// The program of every fuzzer: fuzz_NAME [DIR] [OPTION OF LIBFUZZER]... tries the seeds, puts them
// into DIR, where libFuzzer looks for inputs and keeps what it finds, and leaves the rest to it.
#include "tests/fuzz/fuzzer.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "proxy/base/check.h"

using namespace elastripe;

namespace {

// Null without one.
const char* directory_among(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (arguments[i][0] != '-') return arguments[i];
  }
  return nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const char* directory = directory_among(*argc, *argv);
  // One input that was found before is run by itself.
  if (directory != nullptr && std::filesystem::is_regular_file(directory)) return 0;
  if (directory != nullptr) std::filesystem::create_directories(directory);
  const std::vector<std::string> seeds = fuzz::seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    CHECK(fuzz::accepts(seeds[i]), "seed {} is not accepted (any more)", i);
    if (directory == nullptr) continue;
    const auto path = std::filesystem::path(directory) / fmt::format("seed_{}", i);
    std::ofstream(path, std::ios::binary) << seeds[i];
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
