// elastripe bench hostile: one client's requests, alone and beside many clients that hold on to
// what they get.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/object_client.h"
#include "tools/bench/processor_time.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;

constexpr size_t kSmall = kKiB;
constexpr size_t kStriped = 20 * kKiB;
constexpr size_t kLarge = 9 * kMiB;
constexpr int kKeys = 100;
constexpr std::chrono::seconds kStalled{25};
constexpr double kGoal = 3;  // times the p99 of a client that is alone

// Clients that harm others: each sends what its kind says, then holds on to what the server gave
// it, and comes again when it is cut.
struct HostileKind {
  std::string name;
  std::string script;      // what it sends
  size_t taken_bytes = 0;  // that it then takes of the replies, every kTakenEvery; 0: nothing
};

class HostileClients {
 public:
  HostileClients(const Target& target, HostileKind kind, int count)
      : target_(target), kind_(std::move(kind)), clients_(static_cast<size_t>(count)) {}
  ~HostileClients() {
    thread_ = {};
    for (const pollfd& client : clients_) {
      if (client.fd >= 0) ::close(client.fd);
    }
  }
  HostileClients(const HostileClients&) = delete;
  HostileClients& operator=(const HostileClients&) = delete;

  // Connects them and sends, from a thread of its own, until destroyed.
  Result<> start() {
    sent_.resize(clients_.size());
    for (size_t i = 0; i < clients_.size(); ++i) TRY(connect(i));
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    return {};
  }

  // Waits until all have sent what the server takes, it takes no more of anyone, and has done what
  // it could do for them; for `limit` at most.
  void wait_until_stalled(std::chrono::seconds limit) const {
    constexpr std::chrono::milliseconds kWindow{500};
    constexpr double kIdle = 0.2;  // of a processor
    const auto end = Clock::now() + limit;
    while (Clock::now() < end && !was_interrupted()) {
      const uint64_t sent = sends_;
      const double before = process_seconds(target_.front);
      std::this_thread::sleep_for(kWindow);
      const double busy = process_seconds(target_.front) - before;
      if (sent == sends_ && busy < kIdle * std::chrono::duration<double>(kWindow).count()) return;
    }
  }

  uint64_t cut() const { return cut_; }  // connections, since the start

 private:
  static constexpr std::chrono::milliseconds kTakenEvery{500};
  static constexpr int kPollMs = 20;

  Result<> connect(size_t index) {
    clients_[index] = {.fd = TRY(connect_socket(target_.host, target_.port)),
                       .events = POLLRDHUP | POLLOUT,
                       .revents = 0};
    sent_[index] = 0;
    if (::fcntl(clients_[index].fd, F_SETFL, O_NONBLOCK) == 0) return {};
    return cli::fail("a hostile client: {}", std::strerror(errno));
  }

  void run(const std::stop_token& stop) {
    auto next_taking = Clock::now();
    std::string taken(kind_.taken_bytes, '\0');
    while (!stop.stop_requested()) {
      if (::poll(clients_.data(), clients_.size(), kPollMs) < 0) continue;
      for (size_t i = 0; i < clients_.size(); ++i) {
        if ((clients_[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
          ++cut_;
          ::close(clients_[i].fd);
          if (!connect(i)) clients_[i].fd = -1;  // a refused one stays away
        } else if ((clients_[i].revents & POLLOUT) != 0) {
          send_some(i);
        }
      }
      if (taken.empty() || Clock::now() < next_taking) continue;
      next_taking = Clock::now() + kTakenEvery;
      for (const pollfd& client : clients_) {
        (void)::recv(client.fd, taken.data(), taken.size(), MSG_DONTWAIT);
      }
    }
  }

  void send_some(size_t index) {
    size_t& sent = sent_[index];
    while (sent < kind_.script.size()) {
      const ssize_t count = ::send(clients_[index].fd, kind_.script.data() + sent,
                                   kind_.script.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
      ++sends_;
    }
    clients_[index].events = POLLRDHUP;
  }

  const Target& target_;
  const HostileKind kind_;
  std::vector<pollfd> clients_;
  std::vector<size_t> sent_;  // bytes, by client
  std::atomic<uint64_t> cut_{0};
  std::atomic<uint64_t> sends_{0};
  std::jthread thread_;
};

std::string key_of(int number) { return fmt::format("hostile/small/{}", number % kKeys); }

std::string line_of_keys(int count) {
  std::string line = "get";
  for (int i = 0; i < count; ++i) line += " " + key_of(i);
  return line;
}

std::vector<HostileKind> all_kinds() {
  const std::string large = "get hostile/large\r\nget hostile/large\r\n";
  const std::string upload = fmt::format("set hostile/upload 0 0 {}\r\n", kLarge);
  std::string pipeline;
  for (int i = 0; i < 64; ++i) pipeline += line_of_keys(1000) + "\r\n";
  return {
      {.name = "silent", .script = ""},
      {.name = "lines without an end", .script = line_of_keys(40'000)},
      {.name = "large values not read", .script = large},
      {.name = "large values read in drops", .script = large, .taken_bytes = 1 << 10},
      {.name = "multi-gets not read", .script = std::move(pipeline)},
      {.name = "half uploads", .script = upload + std::string(kLarge / 2, 'h')},
      {.name = "uploads without a byte", .script = upload},
  };
}

struct HostileOptions : Options {
  explicit HostileOptions(CLI::App& app) : Options(app) {
    Texts names;
    for (const HostileKind& kind : all_kinds()) names.push_back(kind.name);
    app.get_option("--kind")->check(CLI::IsMember(names))->default_str("all");
  }
  Texts& kinds = texts("--kind", {}, "Of hostile clients");
  int& clients = number("--clients", 500, "Hostile clients of each kind", 1, 4000);
  int& rounds = number("--rounds", 3, "Of all kinds, alone and beside", 1, 1000);
  int& seconds = number("--seconds", 4, "Of each measurement", 1, 3600);
  bool& quick = quick_flag();
};

// The largest memory of the process since forget_peak, in MiB.
double peak_mib(pid_t process) {
  return kib_of(fmt::format("/proc/{}/status", process), "VmHWM:") / 1024;
}
void forget_peak(pid_t process) { std::ofstream(fmt::format("/proc/{}/clear_refs", process)) << 5; }

// GETs and SETs of one client, one at a time, over a connection of its own.
Result<> behave(const HostileOptions& o, const Target& proxy, const std::string& when,
                Notes& notes) {
  using Us = std::chrono::duration<double, std::micro>;
  const auto client = TRY(proxy.connect());
  const auto end = Clock::now() + std::chrono::milliseconds(o.quick ? 200 : 1000 * o.seconds);
  std::string value;
  for (int i = 0; Clock::now() < end && !was_interrupted(); ++i) {
    const auto started = Clock::now();
    TRY(client->get(key_of(i), value));
    const auto between = Clock::now();
    TRY(client->put("hostile/striped", turn_value(kStriped, static_cast<size_t>(i))));
    if (value != turn_value(kSmall, 0)) return cli::fail("{} is not what was stored", key_of(i));
    notes.add("GET/" + when, Us(between - started).count());
    notes.add("SET/" + when, Us(Clock::now() - between).count());
  }
  return {};
}

// The client alone, then beside so many hostile ones of a kind.
Result<> take_turn(const HostileOptions& o, const Target& proxy, const HostileKind& kind,
                   Notes& notes) {
  fmt::print(stderr, "{}\n", kind.name);
  TRY(behave(o, proxy, "alone", notes));
  forget_peak(proxy.front.front());
  HostileClients hostile(proxy, kind, o.clients);
  TRY(hostile.start());
  hostile.wait_until_stalled(kStalled);
  const auto done = behave(o, proxy, "beside", notes);
  notes.figures["cut"] = number(notes.figures, "cut") + static_cast<double>(hostile.cut());
  notes.figures["peak_mib"] =
      std::max(number(notes.figures, "peak_mib"), peak_mib(proxy.front.front()));
  return done;
}

Result<> store_objects(const Target& proxy) {
  const auto client = TRY(proxy.connect());
  TRY(client->put("hostile/large", turn_value(kLarge, 0)));
  for (int i = 0; i < kKeys; ++i) TRY(client->put(key_of(i), turn_value(kSmall, 0)));
  return {};
}

void add_pivots(const HostileOptions& o, const Rows& rows, Report& report) {
  report.show(
      fmt::format(
          "One client that makes a GET of {} and a SET of {} in turns, alone and beside {}\n"
          "hostile ones, {} rounds of {} s each: microseconds. x is the ratio of p99.",
          size_text(kSmall), size_text(kStriped), o.clients, o.rounds, o.seconds),
      "hostile clients = clients | GET p50 = GET/beside/p50_us | p99 = GET/beside_p99_us | alone = "
      "GET/alone_p99_us | x = GET/over_alone .2 | SET p50 = SET/beside/p50_us | p99 = "
      "SET/beside_p99_us | alone = SET/alone_p99_us | x = SET/over_alone .2 | cut | proxy's peak "
      "MiB = peak_mib",
      rows);
  for (const std::string verb : {"GET", "SET"}) {
    report.at_most(verb + fmt::format(" beside {} with {{clients}}, p99 / alone", o.clients), kGoal,
                   rows, verb + "/over_alone");
  }
}

Result<Report> run(HostileOptions& o) {
  if (o.quick) o.rounds = 1;
  const auto testbed = TRY(Testbed::create(o.port));
  const auto cluster =
      TRY(testbed->start_cluster("elastripe",  // half uploads are on the nodes as far as they came
                                 {.nodes = 6, .scheme = "ers:4,1,5", .memory_mb = 1024}));
  TRY(store_objects(cluster.target));
  Group cases;
  for (const HostileKind& kind : all_kinds()) {
    if (!o.kinds.empty() && std::ranges::find(o.kinds, kind.name) == o.kinds.end()) continue;
    cases.push_back(
        {{{"clients", kind.name}}, latencies, [&o, &cluster, kind](Notes& notes, size_t) {
           return take_turn(o, cluster.target, kind, notes);
         }});
  }
  auto rows = TRY(measure({cases}, {.rounds = o.rounds, .warm_up = false, .shuffled = false}));
  for (Json& row : rows) {
    for (const char* verb : {"GET", "SET"}) {
      Json& of = row[verb];
      of["beside_p99_us"] = of["beside"]["p99_us"];
      of["alone_p99_us"] = of["alone"]["p99_us"];
      of["over_alone"] = number(of, "beside_p99_us") / number(of, "alone_p99_us");
      of["requests"] = of["beside"]["requests"];
    }
  }
  Report report;
  report.json = {{"clients", o.clients}, {"rounds", o.rounds}, {"cases", rows}};
  add_pivots(o, rows, report);
  return report;
}

}  // namespace

void add_hostile(Commands& commands) {
  add_experiment(commands, "hostile",
                 "One client's requests beside many clients that hold on to what they get", run);
}

}  // namespace elastripe::bench
