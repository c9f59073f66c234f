// The engine over memcached's items, its tick thread, and frames in and out: see node.h.
#include "server-patches/shim/node.h"

#include <sys/random.h>
#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

#include "server-patches/node/engine/engine.h"
#include "server-patches/node/engine/line_limit.h"
#include "server-patches/shim/memcached_item_store.h"

struct node_reply {
  std::byte header[elastripe::node::kHeaderBytes];
  elastripe::node::Reply reply;
};

namespace elastripe::node {
namespace {

constexpr auto kTickInterval = std::chrono::milliseconds(100);

void log_out_of_memory(const char* what) {
  std::fprintf(stderr, "elastripe-node: out of memory for %s\n", what);
}

constexpr uint64_t kClosedLines = 10;
constexpr uint64_t kClosedPeriod_ms = 60'000;

static_assert(NODE_HEADER_BYTES == kHeaderBytes);

class BoottimeClock final : public NodeClock {
 public:
  uint64_t boottime_ms() const override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return in_ms(now);
  }
  uint64_t coarse_ms() const override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return in_ms(now);
  }
  uint64_t cpu_us() const override {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1'000'000 +
           static_cast<uint64_t>(used.tv_nsec) / 1000;
  }

 private:
  static uint64_t in_ms(const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1000 +
           static_cast<uint64_t>(time.tv_nsec) / 1000000;
  }
};

void fill_randomly(void* memory, size_t bytes) {
  if (getrandom(memory, bytes, 0) != static_cast<ssize_t>(bytes)) std::abort();
}

uint64_t random_incarnation() {
  uint64_t value = 0;
  while (value == 0) fill_randomly(&value, sizeof value);
  return value;
}

std::array<std::byte, 192> hash_secret;

// Update logs may take a sixty-fourth of the memory, if nobody says otherwise.
EngineOptions options_for(size_t memory_bytes) {
  EngineOptions options;
  options.incarnation = random_incarnation();
  options.version = ELASTRIPE_VERSION;
  options.log_unit_bytes = std::clamp<size_t>(memory_bytes / 4096, 128 << 10, 256 << 10);
  options.log_units = std::max<size_t>(memory_bytes / 64 / options.log_unit_bytes, 8);
  if (elastripe_log_units > 0) options.log_units = elastripe_log_units;
  return options;
}

class Node {
 public:
  explicit Node(void (*on_tick)())
      : on_tick_(on_tick), engine_(options_for(store_.memory().limit_bytes), store_, clock_) {
    thread_ = std::thread([this] { tick_until_stopped(); });
  }

  // The engine and the store's memory stay: nothing may run any more, but exit() has its own order.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  void pause() { at_rest_.lock(); }
  void resume() { at_rest_.unlock(); }

  Engine& engine() { return engine_; }
  const MemcachedItemStore& store() const { return store_; }

 private:
  void tick_until_stopped() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kTickInterval, [this] { return stopping_; })) {
      lock.unlock();
      {
        const std::lock_guard working(at_rest_);
        on_tick_();
        tick();
      }
      lock.lock();
    }
  }

  void tick() try { engine_.tick(); } catch (const std::bad_alloc&) {
    log_out_of_memory("a tick, which the next one goes on with");
  }

  void (*const on_tick_)();
  BoottimeClock clock_;
  MemcachedItemStore store_;
  Engine engine_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::mutex at_rest_;     // held while the tick thread works, or while it must not
  std::thread thread_;
};

Node* the_node = nullptr;

std::span<const std::byte, kHeaderBytes> header_view(const char* header) {
  return std::span<const std::byte, kHeaderBytes>(reinterpret_cast<const std::byte*>(header),
                                                  kHeaderBytes);
}

}  // namespace
}  // namespace elastripe::node

using namespace elastripe::node;

uint32_t node_hash(const void* key, size_t bytes) {
  return static_cast<uint32_t>(
      XXH3_64bits_withSecret(key, bytes, hash_secret.data(), hash_secret.size()));
}

void node_start(void (*on_tick)()) {
  fill_randomly(hash_secret.data(), hash_secret.size());
  the_node = new Node(on_tick);
}
void node_stop() { the_node->stop(); }
void node_pause() { the_node->pause(); }
void node_resume() { the_node->resume(); }

int64_t node_body_bytes(const char* header, char reason[NODE_REASON_BYTES]) {
  const auto decoded = decode_request_header(header_view(header));
  if (!decoded) {
    std::snprintf(reason, NODE_REASON_BYTES, "%s", decoded.error().c_str());
    return -1;
  }
  return decoded->body_bytes;
}

void node_log_closed(int connection, const char* reason) {
  using elastripe::node::LineLimit;
  static LineLimit limit(elastripe::node::kClosedLines, elastripe::node::kClosedPeriod_ms);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const LineLimit::Turn turn = limit.next(static_cast<uint64_t>(now_ms));
  if (!turn.may_log) return;
  if (turn.left_out > 0) {
    std::fprintf(stderr, "elastripe-node: %" PRIu64 " more connections closed before\n",
                 turn.left_out);
  }
  std::fprintf(stderr, "elastripe-node: connection %d closed: %s\n", connection, reason);
}

bool node_is_control(const char* header) {
  const auto decoded = decode_request_header(header_view(header));
  return decoded && is_control(decoded->opcode);
}

size_t node_serve(const char* header, const char* body, size_t body_bytes, char* small,
                  size_t small_bytes, node_reply** large) try {
  const auto decoded = decode_request_header(header_view(header));
  if (!decoded || decoded->body_bytes != body_bytes) std::abort();  // node_body_bytes accepted it
  const auto bytes = ByteView(reinterpret_cast<const std::byte*>(body), body_bytes);
  node_reply reply;
  reply.reply = the_node->engine().serve({.header = *decoded,
                                          .args = bytes.first(decoded->args_bytes),
                                          .payload = bytes.subspan(decoded->args_bytes)});
  encode(reply.reply.header, reply.header);
  const size_t total = kHeaderBytes + reply.reply.header.body_bytes;
  if (total > small_bytes) {
    *large = new node_reply(std::move(reply));
    return 0;
  }
  node_part parts[NODE_REPLY_PARTS];
  const size_t count = node_reply_parts(&reply, parts);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(small, parts[i].data, parts[i].bytes);
    small += parts[i].bytes;
  }
  return total;
} catch (const std::bad_alloc&) {
  return NODE_OUT_OF_MEMORY;  // C frames are no place for exceptions
}

size_t node_reply_parts(const node_reply* reply, node_part parts[NODE_REPLY_PARTS]) {
  const auto& [header, args, payload] = reply->reply;
  parts[0] = {reply->header, kHeaderBytes};
  size_t count = 1;
  if (!args.empty()) parts[count++] = {args.data(), args.size()};
  if (payload.size() > 0) parts[count++] = {payload.bytes().data(), payload.size()};
  return count;
}

size_t node_reply_bytes(const node_reply* reply) {
  return sizeof(node_reply) + reply->reply.args.capacity() + reply->reply.payload.size();
}

void node_free_reply(node_reply* reply) { delete reply; }

void node_statistics(node_add_stat add, void* context) try {
  auto statistics = the_node->engine().statistics();
  statistics.emplace_back("moved_pages", std::to_string(the_node->store().moved_pages()));
  for (const auto& [name, value] : statistics) {
    add(name.data(), name.size(), value.data(), value.size(), context);
  }
} catch (const std::bad_alloc&) {
  log_out_of_memory("statistics");
}
