// The responders of memcached's text protocol: its classic commands, and the meta commands.
#pragma once

#include "proxy/async/clock.h"
#include "proxy/memcache/meta.h"
#include "proxy/session/responder.h"

namespace elastripe {

// Clients give up a server for seconds, with all its keys, after a SERVER_ERROR. That is right only
// if it serves nothing: what concerns one command is a CLIENT_ERROR, after which they go on. The
// exceptions are memcached's own, out of memory and too large (docs/client-protocol.md, "Errors").
class TextResponder : public Responder {
 public:
  explicit TextResponder(bool with_cas = false) : with_cas_(with_cas) {}

  void answer(memcache::Output& output, const CommandOutcome& outcome) const override;
  bool begin_value(memcache::Output& output, std::string_view key,
                   const objects::Object& object) const override;
  void end_value(memcache::Output& output) const override;
  void miss(memcache::Output&, std::string_view) const override {}
  void end(memcache::Output& output) const override;
  void listed(memcache::Output&, const jobs::ListedObject&) const override {}  // DumpResponder's
  void error(memcache::Output& output, const Error& error,
             std::string_view not_serving) const override;

 private:
  const bool with_cas_;  // in VALUE lines
};

// Answers a listing.
class DumpResponder : public TextResponder {
 public:
  explicit DumpResponder(memcache::Command command) : command_(command) {}

  void listed(memcache::Output& output, const jobs::ListedObject& object) const override;

 private:
  const memcache::Command command_;
};

// Answers one meta command. Its errors are those of the classic commands.
class MetaResponder : public TextResponder {
 public:
  // `key` as it is stored. The clock outlives it.
  MetaResponder(memcache::MetaFlags flags, memcache::Command command, std::string_view key,
                const Clock& clock);

  void answer(memcache::Output& output, const CommandOutcome& outcome) const override;
  bool begin_value(memcache::Output& output, std::string_view key,
                   const objects::Object& object) const override;
  void miss(memcache::Output& output, std::string_view key) const override;
  void end(memcache::Output&) const override {}

 private:
  // What there is to be told of a value.
  struct Told {
    std::optional<uint64_t> cas = {};
    std::optional<uint32_t> flags = {};
    std::optional<uint64_t> size = {};
    std::optional<uint32_t> exptime = {};
    const objects::Object* object = nullptr;  // that was read
  };
  // What was asked for, as far as it is told, each with a space before it.
  std::string answers(const Told& told) const;
  std::string seconds_left(uint32_t exptime) const;
  void answer_line(memcache::Output& output, std::string_view code, const Told& told) const;
  void answer_counter(memcache::Output& output, const objects::CounterOutcome& counter) const;

  const memcache::MetaFlags flags_;
  const memcache::Command command_;
  const std::string key_;  // if it is to be told: as it was sent
  const Clock& clock_;
};

}  // namespace elastripe
