#include "proxy/session/replies.h"

#include <utility>

namespace elastripe {

void Replies::compose(memcache::Output& reply, memcache::Output&& part) {
  composed_bytes_ += part.bytes();
  composed_text_ -= reply.text_bytes();
  reply.append(std::move(part));
  composed_text_ += reply.text_bytes();
}

void Replies::queue(memcache::Output& reply) {
  composed_bytes_ -= reply.bytes();
  composed_text_ -= reply.text_bytes();
  reply.drain([this](std::string_view text) { queue_.copy(as_bytes(text)); },
              [this](Buffer value) {
                const ByteView bytes = value.bytes();
                queue_.reference(bytes, std::move(value));
              });
}

void Replies::clear() {
  queue_.clear();
  drop_composed();
}

bool Replies::has_room() const {
  return queue_.bytes() + composed_bytes_ < settings_.unsent_bytes &&
         queue_.copied_bytes() + composed_text_ < settings_.unsent_text;
}

bool Replies::has_room_for(const memcache::Output& reply, bool is_first) const {
  const size_t text = is_first ? reply.text_bytes() : composed_text_;
  return queue_.copied_bytes() + text < settings_.unsent_text;
}

}  // namespace elastripe
