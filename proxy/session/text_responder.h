// The responders of memcached's text protocol: its classic commands, and `mg`.
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
  void error(memcache::Output& output, const Error& error,
             std::string_view not_serving) const override;

 private:
  const bool with_cas_;  // in VALUE lines
};

// Answers one `mg`. Its errors are those of the classic commands.
class MetaResponder : public TextResponder {
 public:
  // The clock outlives it.
  MetaResponder(memcache::MetaGet get, const Clock& clock) : get_(std::move(get)), clock_(clock) {}

  bool begin_value(memcache::Output& output, std::string_view key,
                   const objects::Object& object) const override;
  void miss(memcache::Output& output, std::string_view key) const override;
  void end(memcache::Output&) const override {}

 private:
  std::string flags(std::string_view key, const objects::Object* object) const;

  const memcache::MetaGet get_;
  const Clock& clock_;
};

// Answers one `ms`. Likewise.
class MetaSetResponder : public TextResponder {
 public:
  MetaSetResponder(memcache::MetaSet set, std::string_view key)
      : set_(std::move(set)), key_(set_.answers.contains('k') ? key : "") {}

  void answer(memcache::Output& output, const CommandOutcome& outcome) const override;

 private:
  const memcache::MetaSet set_;
  const std::string key_;  // if it is to be told
};

}  // namespace elastripe
