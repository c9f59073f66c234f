// Any text gives a configuration that prints and reads back alike, or one line of error.
//
// The text up to the first NUL is the file, each part after it an override.
#include "proxy/base/check.h"
#include "proxy/main/config.h"
#include "tests/fuzz/fuzzer.h"

using namespace elastripe;

bool fuzz::accepts(std::string_view input) {
  std::vector<std::string> parts(1);
  for (const char c : input) {
    if (c == '\0') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const std::string yaml = parts.front();
  parts.erase(parts.begin());
  const Result<Config> config = parse_config(yaml, "file", parts);
  if (!config) {
    CHECK(!config.error().message.contains('\n'));
    return false;
  }
  const Result<Config> again = parse_config(print_config(*config), "printed");
  CHECK(again.has_value(), "{}", again.error().message);
  CHECK(*again == *config);
  return true;
}

std::vector<std::string> fuzz::seeds() {
  const std::string small =
      "nodes: [{name: a, host: localhost, port: 1}, {name: b, host: localhost, port: 2}]\n"
      "pools: [{scheme: \"rep:2\"}]\n";
  const std::string pools =
      "insecure: true\n"
      "nodes:\n"
      "  - {name: a, host: 10.0.0.1, port: 1, domain: r}\n"
      "  - {name: b, host: 10.0.0.2, port: 1}\n"
      "  - {name: c, host: 10.0.0.3, port: 1}\n"
      "  - {name: d, host: 10.0.0.4, port: 1}\n"
      "pools:\n"
      "  - {prefix: \"u:\", scheme: \"ers-2:1,1,2\", write_state: wide, unreadable: miss}\n"
      "  - {scheme: \"rs:2,1\", inline_max_bytes: 1KiB, degraded_writes: true}\n"
      "limits: {connections: 9, staged_bytes: 64MiB}\n"
      "timing: {profile: local, lease_ms: 5000}\n";
  const auto overridden = [](std::string yaml, const std::vector<std::string>& settings) {
    for (const std::string& setting : settings) (yaml += '\0') += setting;
    return yaml;
  };
  const std::string whole = print_config(parse_config(small, "small").value());
  return {small, pools, whole, overridden(small, {"pools.0.scheme=rs:1,1", "partitions=64"})};
}
