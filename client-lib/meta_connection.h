// A connection for what libmemcached does not do: it looks whether the server has closed it before
// a request is sent, as every write needs. It knows memcached's meta commands, many stores of which
// each has its own outcome, and keeps the texts of answers. Blocking, one request at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client-lib/client.h"

namespace elastripe::client {

class MetaConnection {
 public:
  // It connects at the first request, and again after a failure or when the server has closed it.
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
    // The same as a number; 0 if it is none.
    uint64_t number(char letter) const;
    // The whole line as a number, if it is one.
    std::optional<uint64_t> as_number() const;
  };
  // Sends `line` with its line end and, if there is one, a data block. Errors: kConnection,
  // kTimeout. What the server refuses is kServer or kUnknownOutcome, as of the other requests.
  Result<Answer> ask(std::string_view line, const std::string_view* data = nullptr);

  // Closes the connection, since this was no answer to what was asked.
  std::unexpected<Error> give_up(const Answer& answer);

  Result<Stats> stats(std::string_view group);

  // What Client::put_many() promises, of objects that are valid.
  Result<PutErrors> put_many(std::span<const Object> objects, const PutOptions& options);

 private:
  // Makes a connection that is logged in, unless there is one. Errors are unsent.
  Result<> connect();
  Result<> open();
  // Takes the connected socket; without one fails by errno.
  Result<> take(int fd);
  Result<> log_in();
  // Whether the server has neither closed the connection nor said what nobody asked for.
  bool is_quiet() const;
  void close();
  Result<> send(std::initializer_list<std::string_view> parts);
  Result<Answer> exchange(std::string_view line, const std::string_view* data);
  Result<Answer> next_line();
  Result<std::string> read_line();
  Result<std::string> read_bytes(size_t count);
  // Waits for some bytes, and writes them to the beginning of `room`; how many.
  Result<size_t> receive(std::span<char> room);
  // Sends stores, and appends what became of each; fails when the rest has no outcome. `sent`
  // counts those that were sent, also then.
  Result<> store_all(std::span<const Object> objects, const PutOptions& options, size_t& sent,
                     std::vector<Result<>>& outcomes);

  const Options options_;
  int fd_ = -1;
  pid_t process_ = 0;  // whose connection it is: a forked child makes one of its own
  std::string received_;
};

}  // namespace elastripe::client
