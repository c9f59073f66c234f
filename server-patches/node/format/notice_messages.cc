#include "server-patches/node/format/notice_messages.h"

#include "server-patches/node/format/message_parts.h"

namespace elastripe::node {
namespace {

constexpr size_t kNoticeBytes = 3 * sizeof(uint64_t) + 2 * sizeof(uint32_t);

void write_notices(Writer& w, const std::vector<Notice>& notices) {
  w.u32(static_cast<uint32_t>(notices.size()));
  for (const Notice& notice : notices) {
    w.u64(notice.from);
    w.u64(notice.to);
    w.u64(notice.number);
    w.u32(notice.life_ms);
    w.long_string(notice.text);
  }
}

std::vector<Notice> read_notices(Reader& in) {
  return read_list<Notice>(in, kNoticeBytes, [&](Notice& notice) {
    notice.from = in.u64();
    notice.to = in.u64();
    notice.number = in.u64();
    notice.life_ms = in.u32();
    notice.text = in.long_string();
    if (notice.text.size() > kMaxNoticeBytes || notice.life_ms > kMaxNoticeLife_ms) in.fail();
  });
}

}  // namespace

void encode(const NoticesRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.reader);
  w.u64(m.since);
  write_notices(w, m.posted);
}

template <>
Decoded<NoticesRequest> decode<NoticesRequest>(ByteView bytes) {
  Reader in(bytes);
  NoticesRequest m;
  m.reader = in.u64();
  m.since = in.u64();
  m.posted = read_notices(in);
  return finish(in, std::move(m), "NOTICES");
}

void encode(const NoticesReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.last);
  write_notices(w, m.notices);
}

template <>
Decoded<NoticesReply> decode<NoticesReply>(ByteView bytes) {
  Reader in(bytes);
  NoticesReply m;
  m.last = in.u64();
  m.notices = read_notices(in);
  return finish(in, std::move(m), "NOTICES reply");
}

}  // namespace elastripe::node
