#include <catch2/catch.hpp>
#include <ranges>

#include "proxy/cluster/ask.h"
#include "proxy/ops/decider/correspondence.h"
#include "proxy/ops/decider/decider_status.h"
#include "tests/support/notices.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;

namespace {

// A proxy that tells of itself, and does what it is asked as a test wants it.
struct Correspondent {
  Correspondent(ClusterFixture& cluster, sim::SimProxy& proxy, uint32_t decides_as)
      : id(static_cast<uint64_t>(proxy.id()) + 1),
        decides_as(decides_as),
        letters(
            proxy.ops(), id, cluster.decider_settings.heartbeat, book,
            [this, &proxy] {
              ProxyCard card;
              card.unix_ms = static_cast<int64_t>(proxy.clock().unix_ms());
              card.name = std::to_string(id);
              card.decides_as = this->decides_as;
              card.leaves = leaves;
              card.runs_jobs = true;
              card.capabilities = has;
              card.findings.objects_lost = 3;
              return card;
            },
            [this] { return this->decides_as; },
            [this, &proxy](DeciderTask task, TimePoint) { return perform(proxy, task); }) {
    scope.spawn(letters.run());
  }
  Task<DeciderAnswer> perform(sim::SimProxy& proxy, DeciderTask task) {
    ++performed;
    co_await proxy.clock().sleep_for(takes);
    if (const auto* dead = std::get_if<DeclareDead>(&task)) {
      co_return fail(ErrorCode::kConflict, "node {} answers", dead->node);
    }
    co_return TaskOutcome{.loss = {1, 2, 3}};
  }
  size_t others() const { return letters.proxies().size() - 1; }

  const uint64_t id;
  uint32_t decides_as;
  bool leaves = false;
  node::CapabilitySet has = node::own_capabilities();
  int performed = 0;
  Duration takes = 10ms;
  Scope scope;
  jobs::JobBook book;
  Correspondence letters;
};

// The first proxy decides, by the cluster's maps, and the others follow it.
struct Letters : ClusterFixture {
  explicit Letters(const char* scheme = "rs:2,1") : ClusterFixture(5, scheme) {
    for (int i = 0; i < 3; ++i) {
      sim::SimProxy& proxy = add_proxy();
      proxy.follow_by(decider_settings, /*may_decide=*/i == 0);
      proxies.push_back(&proxy);
      REQUIRE(run_until([&] { return proxy.map().current() != nullptr; }));
    }
    decider = proxies[0]->map().current()->epoch.decider;
    for (sim::SimProxy* proxy : proxies) {
      all.emplace_back(*this, *proxy, proxy == proxies[0] ? decider : 0);
    }
  }
  bool all_know_each_other() {
    return run_until(
        [&] { return std::ranges::all_of(all, [](auto& one) { return one.others() == 2; }); }, 3s);
  }
  std::optional<DeciderAnswer> ask(size_t from, uint32_t whom, DeciderTask task) {
    return run(all[from].letters.ask(whom, std::move(task), deadline()));
  }
  ~Letters() {
    for (sim::SimProxy* proxy : proxies) {
      if (proxy->is_alive()) proxy->kill();
    }
    run_until(
        [&] { return std::ranges::all_of(all, [](auto& one) { return one.scope.live() == 0; }); });
  }
  Letters(const Letters&) = delete;

  std::vector<sim::SimProxy*> proxies;
  std::deque<Correspondent> all;
  uint32_t decider = 0;
};

}  // namespace

TEST_CASE("all know of a job, also when the proxy is gone that has told of it") {
  Letters l;
  REQUIRE(l.all_know_each_other());
  const TimePoint begun = l.proxies[0]->clock().now();
  const auto job = l.all[0].book.begin(1, 1, "transition", R"({"all": true, "to": 5})");
  l.all[0].book.tell(job->id, 1, jobs::JobProgress(), "report");
  const auto has_heard = [&](size_t i) { return l.all[i].book.find(1).has_value(); };
  REQUIRE(l.run_until([&] { return has_heard(1) && has_heard(2); }, 3s));
  const jobs::ClusterJob known = *l.all[0].book.find(1);
  CHECK(*l.all[1].book.find(1) == known);
  CHECK(l.all[0].letters.told_at(known) > begun);
  CHECK(l.run_until([&] { return l.all[0].letters.hear_all(begun); }, 3s));
  // Its progress comes with the cards, its end at once.
  l.all[0].book.tell(1, 1, jobs::JobProgress(), "further");
  CHECK_FALSE(l.all[0].letters.told_at(*l.all[0].book.find(1)));
  REQUIRE(l.run_until([&] { return l.all[1].book.find(1)->report == "further"; }, 3s));
  // Only who decides tells of jobs.
  l.all[1].book.note({.id = 9, .kind = "repair", .term = 1, .report = "of a follower"});
  l.proxies[0]->kill();
  sim::SimProxy& late = l.add_proxy();
  late.follow_by(l.decider_settings, /*may_decide=*/false);
  l.proxies.push_back(&late);
  l.all.emplace_back(l, late, 0);
  REQUIRE(l.run_until([&] { return l.all[3].book.find(1).has_value(); }, 10s));
  CHECK(l.all[3].book.find(1)->report == "further");
  CHECK_FALSE(l.all[3].book.find(9));
}

TEST_CASE("a job is told of again before it is forgotten") {
  Letters l;
  REQUIRE(l.all_know_each_other());
  l.all[0].book.note({.id = 1,
                      .kind = "repair",
                      .order = "{}",
                      .term = 1,
                      .state = jobs::JobState::kDone,
                      .report = "done"});
  l.run_for(150s);
  sim::SimProxy& late = l.add_proxy();
  late.follow_by(l.decider_settings, /*may_decide=*/false);
  l.proxies.push_back(&late);
  l.all.emplace_back(l, late, 0);
  REQUIRE(l.run_until([&] { return l.all[3].book.find(1).has_value(); }, 10s));
}

TEST_CASE(
    "what was begun as another proxy took over is forgotten, if that one knows nothing of it") {
  Letters l;
  REQUIRE(l.all_know_each_other());
  REQUIRE(l.all[0].book.begin(1, 1, "transition", "{}"));
  l.all[0].book.tell(1, 1, jobs::JobProgress(), "report");
  REQUIRE(l.run_until([&] { return l.all[1].book.find(1).has_value(); }, 3s));
  l.all[1].book.note({.id = 2, .token = 2, .kind = "repair", .term = 1, .report = "untold"});
  // The decider knows less of the same job, which counts less.
  l.all[2].book.note({.id = 1, .token = 1, .kind = "transition", .term = 3, .runs = 2});
  l.run_for(50s);
  CHECK(l.all[1].book.find(2));
  CHECK(l.all[2].book.find(1)->runs == 2);
  l.run_for(50s);
  CHECK_FALSE(l.all[1].book.find(2));
  CHECK(l.all[1].book.find(1));
  CHECK(l.all[2].book.find(1)->runs == 1);
  SECTION("but not while nobody decides") {
    l.all[0].decides_as = 0;
    l.run_for(3s);
    l.all[1].book.note({.id = 3, .token = 3, .kind = "repair", .term = 1, .report = "untold"});
    l.run_for(100s);
    CHECK(l.all[1].book.find(3));
  }
}

TEST_CASE("what is left at nodes is certain when all of them have it") {
  Letters l;
  REQUIRE(l.all_know_each_other());
  REQUIRE(l.all[0].book.begin(1, 1, "transition", "{}"));
  const jobs::ClusterJob job = *l.all[0].book.find(1);
  SECTION("those where proxies meet") {
    l.network().cut(l.proxies[0]->id(), 1);
    l.run_for(300ms);
    CHECK_FALSE(l.all[0].letters.told_at(job));
    l.network().mend(l.proxies[0]->id(), 1);
    CHECK(l.run_until([&] { return l.all[0].letters.told_at(job).has_value(); }, 3s));
  }
  SECTION("by a map of who tells") {
    l.all[0].decides_as = l.decider + 1;
    l.run_for(3s);
    CHECK_FALSE(l.all[0].letters.told_at(job));
  }
}

TEST_CASE("what is left at nodes survives as many crashes as objects do") {
  Letters l("rs:2,3");
  REQUIRE(l.all_know_each_other());
  REQUIRE(l.all[0].book.begin(1, 1, "transition", "{}"));
  const jobs::ClusterJob job = *l.all[0].book.find(1);
  l.network().cut(l.proxies[0]->id(), 3);
  l.run_for(300ms);
  CHECK_FALSE(l.all[0].letters.told_at(job));
  l.network().mend(l.proxies[0]->id(), 3);
  CHECK(l.run_until([&] { return l.all[0].letters.told_at(job).has_value(); }, 3s));
}

TEST_CASE("who begins to decide hears what was left where proxies do not meet any more") {
  Letters l;
  const auto lose = [&](node::NodeId id) {
    l.node(id).kill(/*silent=*/false);
    REQUIRE(l.run_until([&] { return !l.proxies[0]->map().current()->is_up(id); }, 10s));
  };
  const auto bring_back = [&](node::NodeId id) {
    l.node(id).start();
    REQUIRE(l.run_until([&] { return l.proxies[0]->map().current()->is_up(id); }, 10s));
    REQUIRE(l.run_until([&] { return l.serves_whole(*l.proxies[0]); }, 10s));
  };
  lose(0);
  REQUIRE(l.all[0].book.begin(1, 1, "transition", "{}"));
  const jobs::ClusterJob job = *l.all[0].book.find(1);
  REQUIRE(l.run_until([&] { return l.all[0].letters.told_at(job).has_value(); }, 10s));
  l.all[0].decides_as = 0;
  bring_back(0);
  for (const auto id : {node::NodeId{1}, node::NodeId{2}}) {
    lose(id);
    bring_back(id);
  }
  sim::SimProxy& late = l.add_proxy();
  late.follow_by(l.decider_settings, /*may_decide=*/false);
  l.proxies.push_back(&late);
  l.all.emplace_back(l, late, 0);
  l.run_for(5s);
  CHECK_FALSE(l.all[3].book.find(1));
  l.all[3].decides_as = 7;
  const TimePoint now = late.clock().now();
  REQUIRE(l.run_until([&] { return l.all[3].letters.hear_all(now); }, 3s));
  CHECK(l.all[3].book.find(1));
}

TEST_CASE("proxies learn of each other, and that one is gone") {
  Letters cluster;
  REQUIRE(cluster.all_know_each_other());
  const auto* decides = cluster.all[2].letters.find_decider(cluster.decider);
  REQUIRE(decides != nullptr);
  CHECK(decides->name == "1");
  CHECK(decides->findings.objects_lost == 3);
  SECTION("while it lives") {
    cluster.run_for(20s);
    CHECK(cluster.all[1].others() == 2);
  }
  SECTION("killed") {
    cluster.proxies[2]->kill();
    cluster.run_for(6s);
    CHECK(cluster.all[1].others() == 1);
  }
  SECTION("though nodes where they meet are gone") {
    cluster.node(0).kill(/*silent=*/true);
    cluster.node(1).kill(/*silent=*/false);
    cluster.run_for(20s);
    CHECK(cluster.all[1].others() == 2);
    CHECK(cluster.all[0].others() == 2);
  }
}

TEST_CASE("what all proxies can is what each has told, once all had the time to") {
  Letters cluster;
  const node::CapabilitySet older(1);
  cluster.all[2].has = older;
  const auto& letters = cluster.all[0].letters;
  CHECK(letters.others_have() == node::CapabilitySet());
  REQUIRE(cluster.all_know_each_other());
  CHECK(letters.others_have() == node::CapabilitySet());
  cluster.run_for(Correspondence::kCardLife);
  CHECK(letters.others_have() == older);
  cluster.all[2].has = node::own_capabilities();
  cluster.run_for(3s);
  CHECK(letters.others_have() == node::own_capabilities());
  // Who does not hear can not know of those who have told nothing.
  for (node::NodeId id = 0; id < 3; ++id) cluster.network().cut(cluster.proxies[0]->id(), id);
  cluster.run_for(3s);
  CHECK(letters.others_have() == node::CapabilitySet());
}

TEST_CASE("all know what the wall clocks of others show, and for a while of those that are gone") {
  Letters l;
  REQUIRE(l.all_know_each_other());
  CHECK_FALSE(l.all[0].letters.clocks());  // others may be there that have not told yet
  l.run_for(Correspondence::kCardLife);
  l.proxies[1]->clock().set_wall_clock_by(1h);
  l.proxies[2]->clock().set_wall_clock_by(-1h);
  l.run_for(3s);
  // How many seconds each is ahead, one that is behind first.
  const auto leads = [&](size_t i) {
    std::vector<int64_t> leads;
    const auto own_ms = static_cast<int64_t>(l.proxies[0]->clock().unix_ms());
    const auto clocks = l.all[i].letters.clocks();
    REQUIRE(clocks);
    for (const int64_t unix_ms : *clocks) {
      leads.push_back((unix_ms - own_ms + 3'600'500) / 1000 - 3600);
    }
    std::ranges::sort(leads);
    return leads;
  };
  CHECK(leads(0) == std::vector<int64_t>{-3600, 3600});
  CHECK(leads(1) == std::vector<int64_t>{-3600, 0});
  l.proxies[1]->kill();
  l.run_for(2 * Correspondence::kCardLife);
  CHECK(leads(0) == std::vector<int64_t>{-3600});
  l.proxies[2]->kill();
  l.run_for(2 * Correspondence::kCardLife);
  CHECK(leads(0) == std::vector<int64_t>{-3600});  // the earliest
  l.run_for(jobs::ExpiryClock::kDistrust);
  CHECK(leads(0).empty());
}

TEST_CASE("work that any proxy may do is divided among those that are there") {
  Letters l;
  // How many would look after the node.
  const auto count = [&](node::NodeId at) {
    const uint64_t unix_ms = l.proxies[0]->clock().unix_ms();
    return std::ranges::count_if(l.all, [&](const Correspondent& one) {
      return one.scope.live() > 0 && one.letters.work_share().has(at, unix_ms, 1s);
    });
  };
  const auto is_divided = [&] {
    for (node::NodeId at = 0; at < 20; ++at) {
      if (count(at) != 1) return false;
    }
    return true;
  };
  CHECK(count(7) == 3);  // nobody has heard of the others
  REQUIRE(l.all_know_each_other());
  CHECK(is_divided());
  const auto who = [&] {
    return l.all[0].letters.work_share().has(7, l.proxies[0]->clock().unix_ms(), 1s);
  };
  CHECK(l.run_until([&] { return who(); }, 40s));
  CHECK(l.run_until([&] { return !who(); }, 40s));

  l.all[2].leaves = true;
  CHECK(l.run_until([&] { return l.all[0].letters.work_share().parts == 2; }, 3s));
  l.proxies[1]->kill();
  CHECK(l.run_until([&] { return l.all[0].letters.work_share().parts == 1; }, 10s));
  for (node::NodeId at = 0; at < 20; ++at) CHECK(l.all[0].letters.work_share().has(at, 0, 1s));
}

TEST_CASE("the deciding proxy does what another one asks, once") {
  Letters cluster;
  REQUIRE(cluster.all_know_each_other());
  const auto done = cluster.ask(1, cluster.decider, AcceptLoss{});
  REQUIRE(done);
  REQUIRE(done->has_value());
  CHECK((*done)->loss.objects == 3);
  const auto refused = cluster.ask(2, cluster.decider, DeclareDead{"n7"});
  REQUIRE(refused);
  REQUIRE_FALSE(refused->has_value());
  CHECK(to_string(refused->error()) == "conflict: node n7 answers");
  cluster.run_for(100s);
  CHECK(cluster.all[0].performed == 2);
}

// Where each client tells all servers of its list to flush.
TEST_CASE("however much other proxies ask at once, it is done, and proxies go on to hear") {
  constexpr int kTasks = 900;  // with a reply to each, more than a node has room for
  Letters cluster;
  REQUIRE(cluster.all_know_each_other());
  Scope scope;
  int done = 0;
  const auto ask = [&](Correspondent& from) -> Task<void> {
    const auto answer =
        co_await from.letters.ask(cluster.decider, AcceptLoss{}, cluster.deadline());
    done += answer && answer->has_value();
  };
  for (int i = 0; i < kTasks; ++i) scope.spawn(ask(cluster.all[1 + static_cast<size_t>(i % 2)]));
  bool all_heard = true;
  const auto are_over = [&] {
    for (Correspondent& one : cluster.all) all_heard &= one.others() == 2;
    return scope.live() == 0;
  };
  REQUIRE(cluster.run_until(are_over));
  CHECK(done == kTasks);
  CHECK(all_heard);
  CHECK(cluster.all[0].performed == kTasks);
}

TEST_CASE("what was answered takes no room at the nodes any more") {
  constexpr int kTasks = 40;
  Letters cluster;
  REQUIRE(cluster.all_know_each_other());
  for (int i = 0; i < kTasks; ++i)
    REQUIRE(cluster.ask(1, cluster.decider, AcceptLoss{})->has_value());
  cluster.run_for(3s);
  size_t kept = 0;
  const auto count = [&](const Correspondent& reader) -> Task<bool> {
    const node::NoticesRequest look{.reader = reader.id, .since = 0, .posted = {}};
    const node::MapPtr map = cluster.proxies[0]->map().current();
    const auto reply = read_answer<node::NoticesRequest>(
        *map, 0,
        co_await cluster.proxies[0]->ops().nodes.call(0, Stamp{map->cluster_id, map->epoch, 0},
                                                      make_request(look), cluster.deadline()));
    kept = reply ? reply->args.notices.size() : SIZE_MAX;
    co_return true;
  };
  for (const size_t reader : {0u, 1u}) {
    REQUIRE(cluster.run(count(cluster.all[reader])));
    CHECK(kept == 3);  // the cards
  }
}

// When the operator has the most to say.
TEST_CASE("whoever decides is asked, also while nothing is served") {
  Letters cluster;
  REQUIRE(cluster.all_know_each_other());
  for (const size_t proxy : {0u, 1u}) cluster.proxies[proxy]->map().stop_serving("no lease");
  SECTION("by one whose map was served") {}
  SECTION("by another one since") { cluster.all[0].decides_as = cluster.decider + 1; }
  cluster.run_for(10s);
  CHECK(cluster.all[0].others() == 2);
  CHECK(cluster.run(cluster.all[1].letters.do_task(AcceptLoss{}, cluster.deadline())));
  CHECK(cluster.all[0].performed == 1);
}

TEST_CASE("of several cards that say so one decides") {
  const auto card = [](uint32_t decides_as, Duration age, bool is_self = false) {
    KnownProxy proxy{.card = {}, .age = age, .is_self = is_self};
    proxy.card.decides_as = decides_as;
    return proxy;
  };
  const auto shown = [](std::vector<KnownProxy> proxies, uint32_t of_map) {
    show_one_decider(proxies, of_map);
    std::vector<uint32_t> decide;
    for (const KnownProxy& proxy : proxies) decide.push_back(proxy.card.decides_as);
    return decide;
  };
  using Shown = std::vector<uint32_t>;
  CHECK(shown({card(0, 0s, true), card(7, 4s), card(8, 1s)}, 7) == Shown{0, 7, 0});
  CHECK(shown({card(0, 0s, true), card(7, 4s), card(8, 1s)}, 8) == Shown{0, 0, 8});
  CHECK(shown({card(0, 0s, true), card(7, 4s), card(8, 1s)}, 9) == Shown{0, 0, 8});
  CHECK(shown({card(9, 0s, true), card(7, 4s)}, 7) == Shown{9, 0});
  CHECK(shown({card(0, 0s, true), card(0, 1s)}, 7) == Shown{0, 0});
  CHECK(shown({}, 7).empty());
}

TEST_CASE("nobody but the decider that is meant does what is asked") {
  Letters cluster;
  REQUIRE(cluster.all_know_each_other());
  CHECK_FALSE(cluster.ask(1, cluster.decider + 1, AcceptLoss{}));  // nobody is known as such
  // It has ceased to decide, and others have not heard of it yet.
  cluster.all[0].decides_as = 0;
  CHECK_FALSE(cluster.ask(1, cluster.decider, AcceptLoss{}));
  CHECK(cluster.all[0].performed == 0);
}

TEST_CASE("a decider that does not answer leaves it unknown what it has done") {
  Letters cluster;
  REQUIRE(cluster.all_know_each_other());
  SECTION("as it is busy") { cluster.all[0].takes = 100s; }
  SECTION("as it is gone") { cluster.proxies[0]->kill(); }
  const auto answer = cluster.ask(1, cluster.decider, AcceptLoss{});
  REQUIRE(answer);
  REQUIRE_FALSE(answer->has_value());
  CHECK(answer->error().code == ErrorCode::kUnknownOutcome);
}

namespace {

// What the card below ends with, and one of an older build does not: what it can do, whether it
// runs jobs, two nodes without room and an epoch, how far repair is, when it scrubs, its time,
// what it forgets.
constexpr size_t kLaterFields[] = {sizeof(uint64_t), 1, 2 + 2 * 19 + 4, 2 + 2, sizeof(uint32_t),
                                   sizeof(int64_t),  16};

// Whether a card that lacks its last `left` bytes is one of an older build.
bool is_older_card(size_t left) {
  size_t later = 0;
  return std::ranges::any_of(std::views::reverse(kLaterFields),
                             [&](size_t bytes) { return (later += bytes) == left; });
}

}  // namespace

TEST_CASE("notices are read as they were written, and others not at all") {
  const jobs::ClusterJob job = cancelled_job();
  const std::vector<ProxyNotice> all = notices_of_all_kinds();
  for (const ProxyNotice& notice : all) {
    const std::string text = encode(notice);
    const auto read = decode_notice(text);
    REQUIRE(read);
    CHECK(encode(*read) == text);
    CHECK(encode(*decode_notice(text + "of a later build")) == text);
    for (size_t n = 0; n < text.size(); ++n) {
      INFO(notice.index() << " cut to " << n);
      // Replies of an older build tell of no job.
      const size_t left = text.size() - n;
      const auto* reply = std::get_if<TaskReply>(&notice);
      const bool is_done = reply != nullptr && reply->answer && reply->answer->has_value();
      const size_t job_bytes = is_done && (*reply->answer)->job ? encode(job).size() - 1 : 0;
      // Cancellations of an older build name no kind.
      const auto* request = std::get_if<TaskRequest>(&notice);
      const bool cancels = request != nullptr && std::holds_alternative<CancelJob>(request->task);
      const bool is_older = notice.index() == 0 ? is_older_card(left)
                            : cancels           ? left == 2 + std::string_view("repair").size()
                                                : is_done && left == 1 + job_bytes;
      CHECK(decode_notice(std::string_view(text).substr(0, n)).has_value() == is_older);
    }
  }
  CHECK(std::get<ProxyCard>(*decode_notice(encode(all.front()))) ==
        std::get<ProxyCard>(all.front()));
  CHECK_FALSE(decode_notice("\x09 of a kind that is not known"));
}

TEST_CASE("a card tells what is handed over within bounds, and none that lies about it is read") {
  ProxyCard card;
  card.name = "a";
  SECTION("too much of it") {
    for (uint16_t id = 0; id < 1000; ++id) {
      card.handover.rooms.push_back(
          {.node = id, .incarnation = id + 1U, .room = Room::kForOwn, .wait = 10s, .try_in = 10s});
    }
    const std::string text = encode(card);
    CHECK(text.size() < node::kMaxNoticeBytes);
    const auto read = decode_notice(text);
    REQUIRE(read);
    const Handover& handover = std::get<ProxyCard>(*read).handover;
    CHECK(handover.rooms.size() == Handover::kMost);
    CHECK(handover.rooms.back().node == Handover::kMost - 1);
  }
  SECTION("more of repair than there is room for") {
    card.findings.maintenance.assign(100'000, ' ');
    const auto read = decode_notice(encode(card));
    REQUIRE(read);
    CHECK(std::get<ProxyCard>(*read).findings.maintenance.empty());
  }
  SECTION("when the next scrub is due, as far as it can be told") {
    const auto told = [&](std::optional<std::chrono::seconds> due_in) {
      card.handover.scrub_due_in = due_in;
      const auto read = decode_notice(encode(card));
      REQUIRE(read);
      return std::get<ProxyCard>(*read).handover.scrub_due_in;
    };
    CHECK(told(0s) == 0s);
    CHECK(told(168h) == 168h);
    CHECK(told(-1s) == 0s);
    CHECK(told(24h * 100'000) == std::chrono::seconds(UINT32_MAX - 1));
    CHECK_FALSE(told(std::nullopt));
  }
  SECTION("of an older build, which says when the next scrub is due only to people") {
    card.handover.scrub_due_in = 90s;
    card.findings.maintenance = R"({"scrub": {"state": "waiting", "seconds_until_next": 90}})";
    const std::string text = encode(card);
    const auto read = decode_notice(std::string_view(text).substr(0, text.size() - 4));
    REQUIRE(read);
    CHECK_FALSE(std::get<ProxyCard>(*read).handover.scrub_due_in);
    CHECK(std::get<ProxyCard>(*read).findings == card.findings);
  }
  SECTION("of a room that there is not") {
    card.handover.rooms = {
        {.node = 1, .incarnation = 2, .room = static_cast<Room>(3), .wait = 1s, .try_in = 1s}};
    CHECK_FALSE(decode_notice(encode(card)));
  }
  SECTION("with counts that its bytes have no room for") {
    const std::string whole = encode(card);
    constexpr size_t kFromEnd = 12;  // how far repair is, and when it scrubs, lie behind them
    std::string text = whole;
    text[text.size() - kFromEnd] = 1;
    CHECK_FALSE(decode_notice(text));
    text[text.size() - kFromEnd + 1] = '\xff';
    CHECK_FALSE(decode_notice(text));
  }
  SECTION("with any bit of it turned over") {
    card.handover.rooms = {
        {.node = 1, .incarnation = 79, .room = Room::kNone, .wait = 20s, .try_in = 7ms}};
    const std::string whole = encode(card);
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string text = whole;
      text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
      const auto read = decode_notice(text);
      if (read) CHECK(decode_notice(encode(*read)).has_value());
    }
  }
}
