// A client that puts and gets whole objects of any size, one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tools/cli/result.h"

namespace elastripe::bench {

class ObjectClient {
 public:
  ObjectClient() = default;
  virtual ~ObjectClient() = default;
  ObjectClient(const ObjectClient&) = delete;
  ObjectClient& operator=(const ObjectClient&) = delete;

  virtual cli::Result<> put(std::string_view key, std::string_view value) = 0;
  // Into `value`, whose room is used again. An object that is not there is an error.
  virtual cli::Result<> get(std::string_view key, std::string& value) = 0;
};

}  // namespace elastripe::bench
