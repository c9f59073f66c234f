#include "tools/bench/part_updates.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <vector>

#include "tools/bench/runner.h"
#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using SteadyClock = std::chrono::steady_clock;

constexpr timeval kTimeout{.tv_sec = 60, .tv_usec = 0};
constexpr size_t kReadBytes = 64 << 10;
constexpr double kHotShare = 0.9;
constexpr uint64_t kHotPart = 100;

// One connection, driven by one thread.
class Connection {
 public:
  Connection(const BlockObjects& objects, const BlockChoice& choice, const PartLoad& load,
             uint64_t number)
      // No two updates write the same bytes.
      : revision_(((objects.ledger->loads() + 1) << 48) + (number << 32)),
        objects_(objects),
        bytes_(objects.block_bytes),
        choice_(choice),
        depth_(static_cast<size_t>(load.depth)),
        update_percent_(load.update_percent),
        random_(load.seed + number) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Result<> connect() {
    fd_ = TRY(connect_socket(objects_.target.host, objects_.target.port));
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
    return {};
  }

  // What is in flight at the end is still answered, and counted.
  Result<PartLoadResult> run(SteadyClock::time_point start, SteadyClock::time_point end,
                             const std::atomic<bool>& stop) {
    while (!stop) {
      TRY(check_interrupt());
      const auto now = SteadyClock::now();
      while (now < end && sent_.size() < depth_ && ask(now)) {
      }
      if (sent_.empty()) break;
      TRY(send());
      TRY(receive());
    }
    result_.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
    return std::move(result_);
  }

  // In their order; after run().
  std::vector<AnsweredUpdate> take_answered() { return std::move(answered_); }

 private:
  // What is in flight.
  struct Asked {
    AnsweredUpdate update;
    bool is_read = false;  // then it is of these blocks, and has no revision
  };

  // False: there is no more.
  bool ask(SteadyClock::time_point now) {
    const bool is_read =
        update_percent_ < 100 && std::uniform_int_distribution(0, 99)(random_) >= update_percent_;
    const auto run = choice_(random_);
    if (!run) return false;
    const std::string key = objects_.key(run->first / objects_.blocks);
    const uint64_t offset = run->first % objects_.blocks * objects_.block_bytes;
    const uint64_t bytes = run->blocks * objects_.block_bytes;
    if (is_read) {
      ask_bytes(key, offset, bytes);
    } else {
      ask_update(key, offset, bytes, *run);
    }
    sent_.push_back({{*run, is_read ? 0 : revision_, now, {}}, is_read});
    return true;
  }

  void ask_bytes(const std::string& key, uint64_t offset, uint64_t bytes) {
    if (objects_.target.redis) {
      const uint64_t last = offset + bytes - 1;
      out_ += fmt::format("*4\r\n$8\r\nGETRANGE\r\n${}\r\n{}\r\n${}\r\n{}\r\n${}\r\n{}\r\n",
                          key.size(), key, fmt::formatted_size("{}", offset), offset,
                          fmt::formatted_size("{}", last), last);
    } else {
      out_ += fmt::format("mg {} v o{} n{}\r\n", key, offset, bytes);
    }
  }

  void ask_update(const std::string& key, uint64_t offset, uint64_t bytes, const BlockRun& run) {
    if (objects_.target.redis) {
      out_ += fmt::format("*4\r\n$8\r\nSETRANGE\r\n${}\r\n{}\r\n${}\r\n{}\r\n${}\r\n", key.size(),
                          key, fmt::formatted_size("{}", offset), offset, bytes);
    } else {
      out_ += fmt::format("ms {} {} o{}\r\n", key, bytes, offset);
    }
    ++revision_;
    for (uint64_t i = 0; i < run.blocks; ++i) bytes_.append(out_, run.first + i, revision_);
    out_ += "\r\n";
    if (objects_.waits) out_ += "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$5\r\n30000\r\n";
  }

  Result<> send() {
    for (size_t done = 0; done < out_.size();) {
      const ssize_t count = ::send(fd_, out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
      if (count < 0) return cli::fail("sending: {}", std::strerror(errno));
      done += static_cast<size_t>(count);
    }
    out_.clear();
    return {};
  }

  // Waits for some, and takes all whole replies that have come.
  Result<> receive() {
    const size_t had = in_.size();
    in_.resize(had + kReadBytes);
    const ssize_t count = ::recv(fd_, in_.data() + had, kReadBytes, 0);
    if (count == 0) return cli::fail("the server closed a connection");
    if (count < 0) return cli::fail("receiving: {}", std::strerror(errno));
    in_.resize(had + static_cast<size_t>(count));
    const auto now = SteadyClock::now();
    size_t taken = 0;
    for (size_t end = 0; (end = in_.find("\r\n", taken)) != std::string::npos;) {
      const auto line = std::string_view(in_).substr(taken, end - taken);
      end += 2;
      if (sent_.empty()) return cli::fail("a reply nobody asked for: {}", line);
      if (sent_.front().is_read) {
        const uint64_t bytes = sent_.front().update.run.blocks * objects_.block_bytes;
        TRY(check_head_of_bytes(line, bytes));
        if (in_.size() < end + bytes + 2) break;
        TRY(take_bytes(std::string_view(in_).substr(end, bytes), now));
        end += bytes + 2;
      } else {
        TRY(take(line, now));
      }
      taken = end;
    }
    in_.erase(0, taken);
    return {};
  }

  Result<> check_head_of_bytes(std::string_view line, uint64_t bytes) const {
    const auto expected = fmt::format("{}{}", objects_.target.redis ? "$" : "VA ", bytes);
    if (line == expected) return {};
    return cli::fail("a read of {} bytes is answered: {}", bytes, line);
  }

  Result<> take_bytes(std::string_view value, SteadyClock::time_point now) {
    const AnsweredUpdate& read = sent_.front().update;
    for (uint64_t i = 0; i < read.run.blocks && objects_.torn_blocks == 0; ++i) {
      const auto part = value.substr(i * objects_.block_bytes, objects_.block_bytes);
      if (!bytes_.revision_of(part, read.run.first + i)) {
        return cli::fail("block {} was read, and is not what any update wrote", read.run.first + i);
      }
    }
    result_.read_latencies.add(now - read.sent);
    ++result_.reads;
    sent_.pop_front();
    return {};
  }

  Result<> take(std::string_view line, SteadyClock::time_point now) {
    const bool of_wait = objects_.waits && std::exchange(awaits_, !awaits_);
    const bool is_good = of_wait                 ? line == ":1"
                         : objects_.target.redis ? line.starts_with(':')
                                                 : line == "HD";
    if (!is_good) return cli::fail("{}", line);
    if (awaits_) return {};
    AnsweredUpdate& update = sent_.front().update;
    update.answered = now;
    result_.latencies.add(now - update.sent);
    ++result_.updates;
    result_.bytes += update.run.blocks * objects_.block_bytes;
    answered_.push_back(update);
    sent_.pop_front();
    return {};
  }

  uint64_t revision_;  // the last
  const BlockObjects& objects_;
  const ObjectBytes bytes_;
  const BlockChoice choice_;
  const size_t depth_;
  const int update_percent_;
  Random random_;
  int fd_ = -1;
  std::deque<Asked> sent_;  // that are not answered yet
  std::vector<AnsweredUpdate> answered_;
  std::string out_;
  std::string in_;
  bool awaits_ = false;  // the next reply is that of a WAIT
  PartLoadResult result_;
};

}  // namespace

Result<BlockChoice> block_choice(const std::string& pattern, uint64_t blocks) {
  using Uniform = std::uniform_int_distribution<uint64_t>;
  if (pattern == "uniform") {
    return [any = Uniform(0, blocks - 1)](Random& random) mutable { return BlockRun{any(random)}; };
  }
  if (pattern == "zipf") {
    return [zipfian = ScrambledZipfian(blocks)](Random& random) mutable {
      return BlockRun{zipfian.next(random)};
    };
  }
  if (pattern == "hot") {
    const uint64_t hot = std::max<uint64_t>(1, blocks / kHotPart);
    return [is_hot = std::bernoulli_distribution(kHotShare), some = Uniform(0, hot - 1),
            any = Uniform(0, blocks - 1)](Random& random) mutable {
      return BlockRun{is_hot(random) ? some(random) : any(random)};
    };
  }
  return cli::fail("--pattern: {} is none of uniform, zipf, hot", pattern);
}

Result<> store_objects(const BlockObjects& objects) {
  const auto client = TRY(objects.target.connect());
  const ObjectBytes bytes(objects.block_bytes);
  std::string value;
  for (uint64_t object = 0; object < objects.objects; ++object) {
    value.clear();
    for (uint64_t block = 0; block < objects.blocks; ++block) {
      bytes.append(value, object * objects.blocks + block, 0);
    }
    TRY(client->put(objects.key(object), value));
  }
  return {};
}

Result<uint64_t> check_objects(const BlockObjects& objects) {
  const auto client = TRY(objects.target.connect());
  const ObjectBytes bytes(objects.block_bytes);
  std::string value;
  uint64_t torn = 0;
  for (uint64_t object = 0; object < objects.objects; ++object) {
    TRY(client->get(objects.key(object), value));
    if (value.size() != objects.blocks * objects.block_bytes) {
      return cli::fail("{} has {} bytes", objects.key(object), value.size());
    }
    for (uint64_t block = 0; block < objects.blocks; ++block) {
      const auto part =
          std::string_view(value).substr(block * objects.block_bytes, objects.block_bytes);
      const uint64_t number = object * objects.blocks + block;
      const auto revision = bytes.revision_of(part, number);
      if (!revision && ++torn <= objects.torn_blocks) continue;
      if (!revision) {
        return cli::fail("block {} of {} is not what any update wrote", block, objects.key(object));
      }
      if (!objects.ledger->may_have(number, *revision)) {
        return cli::fail("block {} of {} is of an update that was overwritten, or of none", block,
                         objects.key(object));
      }
    }
  }
  return torn;
}

Result<PartLoadResult> run_updates(const BlockObjects& objects, const BlockChoice& choice,
                                   const PartLoad& load) {
  std::vector<std::unique_ptr<Connection>> connections;
  const auto count = static_cast<size_t>(load.connections);
  connections.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    connections.push_back(std::make_unique<Connection>(objects, choice, load, i));
    TRY(connections.back()->connect());
  }
  std::atomic<bool> failed{false};
  const auto start = SteadyClock::now();
  std::vector<std::future<Result<PartLoadResult>>> running;
  running.reserve(count);
  for (const auto& connection : connections) {
    running.push_back(std::async(std::launch::async, [&failed, start, &load, &connection] {
      auto result = connection->run(start, start + load.duration, failed);
      if (!result) failed = true;
      return result;
    }));
  }
  PartLoadResult all;
  std::string error;
  for (auto& of_connection : running) {
    const auto result = of_connection.get();
    if (!result) error = result.error();
    if (!result) continue;
    all.updates += result->updates;
    all.bytes += result->bytes;
    all.reads += result->reads;
    all.latencies.add(result->latencies);
    all.read_latencies.add(result->read_latencies);
    all.seconds = std::max(all.seconds, result->seconds);
  }
  if (failed) return cli::fail("{}: {}", objects.target.name, error);
  std::vector<std::vector<AnsweredUpdate>> updates;
  updates.reserve(count);
  for (const auto& connection : connections) updates.push_back(connection->take_answered());
  objects.ledger->add_load(updates);
  return all;
}

}  // namespace elastripe::bench
