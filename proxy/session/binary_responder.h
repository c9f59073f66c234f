// The responder of memcached's binary protocol, as far as it is answered: that it is not spoken
// here.
#pragma once

#include <array>

#include "proxy/memcache/binary.h"
#include "proxy/session/responder.h"

namespace elastripe {

// The parser accepts no binary request: whatever the outcome is, it is a refusal.
class BinaryResponder final : public Responder {
 public:
  explicit BinaryResponder(std::string_view header);

  void answer(memcache::Output& output, const CommandOutcome& outcome) const override;
  bool begin_value(memcache::Output&, std::string_view, const objects::Object&) const override {
    return false;
  }
  void end_value(memcache::Output&) const override {}
  void miss(memcache::Output&, std::string_view) const override {}
  void end(memcache::Output&) const override {}
  void error(memcache::Output& output, const Error& error,
             std::string_view not_serving) const override;

 private:
  std::array<char, memcache::kBinaryHeaderBytes> header_;  // of the request
};

}  // namespace elastripe
