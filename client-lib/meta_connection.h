// A connection that speaks memcached's meta commands, which libmemcached does not know: blocking,
// one request at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client-lib/client.h"

namespace elastripe::client {

class MetaConnection {
 public:
  // It connects at the first request, and again after a failure.
  explicit MetaConnection(Options options) : options_(std::move(options)) {}
  ~MetaConnection() { close(); }
  MetaConnection(const MetaConnection&) = delete;
  MetaConnection& operator=(const MetaConnection&) = delete;

  // The answer to a command: its line without line end, and its data block if it is a VA.
  struct Answer {
    std::string line;
    std::string data;

    // The code that the line begins with: HD, VA, EN, ...
    std::string_view code() const { return std::string_view(line).substr(0, line.find(' ')); }
    // What follows a flag of the line; empty if it has none.
    std::string_view flag(char letter) const;
  };
  // Sends `line` with its line end and, if there is one, a data block. Errors: kConnection,
  // kTimeout. What the server refuses is kServer or kUnknownOutcome, as of the other requests.
  Result<Answer> ask(std::string_view line, const std::string_view* data = nullptr);

 private:
  Result<> connect();
  void close();
  Result<> send(std::string_view bytes);
  Result<std::string> read_line();
  Result<std::string> read_bytes(size_t count);
  Result<> receive();

  const Options options_;
  int fd_ = -1;
  std::string received_;
};

}  // namespace elastripe::client
