// What is to be sent to a client, in order: text by copy and large values by reference. Owned by
// one session.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/buffer.h"
#include "proxy/base/memory_pool.h"

namespace elastripe::memcache {

class Output {
 public:
  // Values below are copied into the text around them: a piece of its own costs more.
  static constexpr size_t kReferenceBytes = 1024;

  void append(std::string_view text);
  void append(Buffer value);
  void append(Output other);

  size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }

  // Gives all pieces in their order to take_text(std::string_view), whose text is gone after the
  // call, and take_value(Buffer). Leaves the output empty.
  template <class TakeText, class TakeValue>
  void drain(TakeText take_text, TakeValue take_value) {
    Output taken = std::exchange(*this, {});
    const std::string_view text = taken.text_;
    size_t begin = 0;
    for (Value& value : taken.values_) {
      if (value.place > begin) take_text(text.substr(begin, value.place - begin));
      begin = value.place;
      take_value(std::move(value.bytes));
    }
    if (begin < text.size()) take_text(text.substr(begin));
  }

  // All bytes in one piece.
  std::string flatten() const;

 private:
  struct Value {
    size_t place;  // in text_, before which it stands
    Buffer bytes;  // not empty
  };

  std::basic_string<char, std::char_traits<char>, Pooled<char>> text_;
  std::vector<Value, Pooled<Value>> values_;
  size_t bytes_ = 0;
};

}  // namespace elastripe::memcache
