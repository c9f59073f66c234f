// GET: the newest record and its bytes.
#include "proxy/ops/objects/object_read.h"

namespace elastripe::objects {

Task<Result<ReadOutcome>> deliver(ObjectRead& read, ValueSink& sink, bool is_won) {
  if (!read.is_live()) co_return ReadOutcome{};
  Object object = read.object();
  object.is_won = is_won;
  sink.begin(object);
  if (auto part = read.take_ready()) sink.part(std::move(*part));
  while (!read.at_end()) {
    auto part = co_await read.next();
    if (!part) co_return fail(part.error());
    sink.part(std::move(*part));
  }
  co_return ReadOutcome{true, read.path()};
}

Task<Result<ReadOutcome>> get_object(OpsContext& ops, std::string_view key, ValueSink& sink,
                                     ByteRange range, TimePoint deadline, records::Use use) {
  ObjectRead read(ops, key, sink, range, deadline, use);
  auto opened = co_await read.open();
  if (!opened) co_return fail(opened.error());
  co_return co_await deliver(read, sink);
}

}  // namespace elastripe::objects
