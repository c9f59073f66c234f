#include "proxy/session/client_command.h"

#include <utility>

namespace elastripe {
namespace {

using memcache::Command;
using objects::StoreVerb;

StoreVerb verb_of(Command command) {
  switch (command) {
    case Command::kAdd:
      return StoreVerb::kAdd;
    case Command::kReplace:
      return StoreVerb::kReplace;
    case Command::kAppend:
      return StoreVerb::kAppend;
    case Command::kPrepend:
      return StoreVerb::kPrepend;
    case Command::kCas:
      return StoreVerb::kCas;
    default:
      return StoreVerb::kSet;
  }
}

// A REPLACE with a cas is as good as a SET with one.
StoreVerb verb_of(const memcache::MetaFlags& flags) {
  switch (flags.mode) {
    case 'E':
      return StoreVerb::kAdd;
    case 'A':
      return StoreVerb::kAppend;
    case 'P':
      return StoreVerb::kPrepend;
    case 'R':
      return flags.cas ? StoreVerb::kCas : StoreVerb::kReplace;
    default:
      return flags.cas ? StoreVerb::kCas : StoreVerb::kSet;
  }
}

}  // namespace

void ClientCommand::assign(const memcache::Request& request, const Clock& clock) {
  command = request.command;
  noreply = request.noreply;
  is_binary = request.binary.has_value();
  key = request.keys.size() == 1 ? request.keys.front() : request.key;
  if (request.keys.size() > 1) {
    keys.assign(request.keys.begin(), request.keys.end());
  } else {
    keys.clear();
  }
  flags = request.flags;
  exptime = request.exptime;
  cas.reset();
  creates.reset();
  touches.reset();
  wins_before.reset();
  new_cas.reset();
  invalidates = empties = tells_use = false;
  is_use = true;
  verb = verb_of(command);
  is_part = false;
  increments = command != Command::kDecr;
  delta = request.delta;
  initial = 0;
  range = {};
  concerns = {};
  argument.clear();
  limit = request.limit;
  refusal = {};
  value = nullptr;
  if (is_binary) {
    read_binary(request);
  } else if (memcache::is_meta(command)) {
    read_meta(request, clock);
  } else if (memcache::is_listing(command)) {
    responder_.emplace<DumpResponder>(command);
  } else {
    argument = request.argument;
    if (command == Command::kCas) cas = request.cas_unique;
    responder_.emplace<TextResponder>(memcache::wants_cas(command));
  }
}

void ClientCommand::read_binary(const memcache::Request& request) {
  argument = request.argument;
  initial = request.initial;
  creates = request.creates;
  if (request.cas_unique != 0) cas = request.cas_unique;
  const bool is_set =
      verb == StoreVerb::kSet || verb == StoreVerb::kAdd || verb == StoreVerb::kReplace;
  // As memcached: one with a cas is a SET with it, whatever it is.
  if (memcache::is_storage(command) && is_set && cas) verb = StoreVerb::kCas;
  const auto opcode = static_cast<memcache::BinaryOpcode>(request.binary->opcode);
  if (opcode == memcache::BinaryOpcode::kTouch) range = {0, 0};
  responder_.emplace<BinaryResponder>(*request.binary, command);
}

// Flags that are refused leave nothing to answer but that. Those of `ms` the parser has refused.
void ClientCommand::read_meta(const memcache::Request& request, const Clock& clock) {
  auto meta = memcache::parse_meta_flags(command, request.argument);
  if (meta && meta->is_base64) {
    auto decoded = memcache::decode_key(command, request.key);
    if (decoded) {
      key = std::move(*decoded);
    } else {
      meta = std::unexpected(decoded.error());
    }
  }
  if (!meta) {
    refusal = meta.error();
    responder_.emplace<MetaResponder>(memcache::MetaFlags{}, command, key, clock);
    return;
  }
  flags = meta->client_flags;
  cas = meta->cas;
  creates = meta->creates;
  delta = meta->delta;
  initial = meta->initial;
  new_cas = meta->new_cas;
  invalidates = meta->invalidates;
  increments = meta->mode != 'D' && meta->mode != '-';
  switch (command) {
    case Command::kMetaSet:
      verb = verb_of(*meta);
      // memcached has no cas 0, and takes it for none here.
      if (verb == StoreVerb::kAppend || verb == StoreVerb::kPrepend) forget_cas_of_0();
      exptime = meta->exptime.value_or(0);
      is_part = meta->offset.has_value();
      if (is_part) range = {*meta->offset, 0};
      if (is_part && !cas) concerns = {*meta->offset, request.value_bytes};
      break;
    case Command::kMetaGet:
      touches = meta->exptime;
      wins_before = meta->recache;
      is_use = !meta->is_no_use;
      tells_use = meta->tells_use();
      range = {meta->offset.value_or(0), meta->value ? meta->length.value_or(UINT64_MAX) : 0};
      // Any update moves the cas.
      if (meta->value && !touches && !cas && !meta->answers.contains('c')) concerns = range;
      break;
    case Command::kMetaDebug:
      range = {0, 0};
      is_use = false;
      tells_use = true;
      break;
    case Command::kMetaDelete:
      empties = meta->empties;
      if (invalidates || empties) touches = meta->exptime;
      break;
    case Command::kMetaArithmetic:
      forget_cas_of_0();
      touches = meta->exptime;
      break;
    default:
      break;
  }
  responder_.emplace<MetaResponder>(*std::move(meta), command, key, clock);
}

void ClientCommand::forget_cas_of_0() {
  if (cas == 0) cas.reset();
}

const Responder& ClientCommand::responder() const {
  return std::visit([](const auto& chosen) -> const Responder& { return chosen; }, responder_);
}

}  // namespace elastripe
