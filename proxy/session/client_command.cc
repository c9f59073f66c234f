#include "proxy/session/client_command.h"

#include <utility>

namespace elastripe {

void ClientCommand::assign(const memcache::Request& request, const Clock& clock) {
  command = request.command;
  noreply = request.noreply;
  key = request.keys.size() == 1 ? request.keys.front() : request.key;
  if (request.keys.size() > 1) {
    keys.assign(request.keys.begin(), request.keys.end());
  } else {
    keys.clear();
  }
  flags = request.flags;
  exptime = request.exptime;
  cas_unique = request.cas_unique;
  checks_cas = false;
  delta = request.delta;
  range = {};
  concerns = {};
  argument.clear();
  refusal = {};
  value = nullptr;
  if (!request.binary_header.empty()) {
    responder_.emplace<BinaryResponder>(request.binary_header);
  } else if (command == memcache::Command::kMetaGet) {
    read_meta_get(request.argument, clock);
  } else if (command == memcache::Command::kMetaSet) {
    read_meta_set(request.argument, request.value_bytes);
  } else {
    argument = request.argument;
    responder_.emplace<TextResponder>(memcache::wants_cas(command));
  }
}

// Flags that are refused leave nothing to answer but that.
void ClientCommand::read_meta_get(std::string_view meta_flags, const Clock& clock) {
  auto get = memcache::parse_meta_get(meta_flags);
  if (!get) {
    refusal = get.error();
    get.emplace();
  }
  range = {get->offset, get->value ? get->length : 0};
  // Any update moves the cas.
  if (get->value && !get->answers.contains('c')) concerns = range;
  responder_.emplace<MetaResponder>(*std::move(get), clock);
}

// The parser has refused it if its flags are wrong.
void ClientCommand::read_meta_set(std::string_view meta_flags, uint64_t value_bytes) {
  auto set = memcache::parse_meta_set(meta_flags);
  if (!set) set.emplace();
  range = {set->offset, 0};
  checks_cas = set->cas.has_value();
  cas_unique = set->cas.value_or(0);
  if (!checks_cas) concerns = {set->offset, value_bytes};
  responder_.emplace<MetaSetResponder>(*std::move(set), key);
}

const Responder& ClientCommand::responder() const {
  return std::visit([](const auto& chosen) -> const Responder& { return chosen; }, responder_);
}

}  // namespace elastripe
