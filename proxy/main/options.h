// The command line of elastripe-proxy.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace elastripe {

struct Options {
  std::string config_file;
  bool check_config = false;
  std::vector<std::string> overrides;
  bool force_epoch = false;
  std::string port_file;
};

// Nothing: the process ends with `exit_code`; help, version or the error has been printed.
// 0 after help and version, 2 after a usage error.
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace elastripe
