// Any text gives a configuration that prints and reads back alike, or one line of error.
//
// The text up to the first NUL is the file, each part after it an override.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proxy/base/check.h"
#include "proxy/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace elastripe;
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0) {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(data[i]);
    }
  }
  const std::string yaml = parts.front();
  parts.erase(parts.begin());
  const Result<Config> config = parse_config(yaml, "file", parts);
  if (!config) {
    CHECK(config.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const Result<Config> again = parse_config(print_config(*config), "printed");
  CHECK(again.has_value(), "{}", again.error().message);
  CHECK(*again == *config);
  return 0;
}
