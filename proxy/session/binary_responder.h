// The responder of memcached's binary protocol.
#pragma once

#include "proxy/memcache/binary.h"
#include "proxy/session/responder.h"

namespace elastripe {

// Errors of one command are temporary failures, with the reason as their text, but for those that
// memcached has a status for.
class BinaryResponder final : public Responder {
 public:
  BinaryResponder(memcache::BinaryHead to, memcache::Command command)
      : to_(to), command_(command) {}

  void answer(memcache::Output& output, const CommandOutcome& outcome) const override;
  bool begin_value(memcache::Output& output, std::string_view key,
                   const objects::Object& object) const override;
  void end_value(memcache::Output&) const override {}
  void miss(memcache::Output& output, std::string_view key) const override;
  void end(memcache::Output&) const override {}
  void listed(memcache::Output&, const jobs::ListedObject&) const override {}  // nobody asks for it
  void error(memcache::Output& output, const Error& error,
             std::string_view not_serving) const override;

 private:
  using Status = memcache::BinaryStatus;

  memcache::BinaryOpcode opcode() const { return static_cast<memcache::BinaryOpcode>(to_.opcode); }
  void done(memcache::Output& output, uint64_t cas = 0, std::string_view value = {}) const;
  void fail(memcache::Output& output, Status status) const;
  void fail(memcache::Output& output, Status status, std::string_view text) const;

  void tell(memcache::Output& output, const objects::StoreOutcome& outcome) const;
  void tell(memcache::Output& output, const objects::CounterOutcome& outcome) const;
  void tell(memcache::Output& output, objects::RemoveStatus status) const;
  void tell(memcache::Output& output, const StatPairs& pairs) const;
  void tell(memcache::Output& output, const VersionOutcome& outcome) const;
  void tell(memcache::Output& output, const SaslMechanisms& mechanisms) const;
  void tell(memcache::Output& output, LoggedIn) const;
  void tell(memcache::Output& output, memcache::Refusal refusal) const;
  void tell(memcache::Output& output, StatsReset) const { done(output); }
  void tell(memcache::Output& output, Noop) const { done(output); }
  void tell(memcache::Output& output, Accepted) const { done(output); }
  // No binary request comes to them.
  void tell(memcache::Output&, const objects::UpdateOutcome&) const {}
  void tell(memcache::Output&, TouchOutcome) const {}

  const memcache::BinaryHead to_;
  const memcache::Command command_;
};

}  // namespace elastripe
