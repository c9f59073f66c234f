// What is to be sent to a client: an ordered list of slices, text by copy and large values by
// reference. Owned by one session.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proxy/base/buffer.h"

namespace elastripe::memcache {

class Output {
 public:
  using Slice = std::variant<std::string, Buffer>;

  // Values below are copied into the text around them: a slice of its own costs more.
  static constexpr size_t kReferenceBytes = 1024;

  void append(std::string_view text);
  void append(Buffer value);
  void append(Output other);

  size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  const std::vector<Slice>& slices() const { return slices_; }

  // Hands the slices over and leaves the output empty.
  std::vector<Slice> take();

  // All bytes in one piece.
  std::string flatten() const;

 private:
  std::vector<Slice> slices_;  // none of them empty
  size_t bytes_ = 0;
};

// The bytes of a slice, as long as it lives.
std::string_view text_of(const Output::Slice& slice);

}  // namespace elastripe::memcache
