#include "proxy/ops/decider/correspondence.h"

#include <algorithm>

#include "proxy/cluster/ask.h"
#include "proxy/ops/jobs/expiry_clock.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

namespace {

constexpr uint64_t kCardNumber = 0;
constexpr uint64_t kFirstJobNumber = uint64_t{1} << 63;  // and its id
constexpr Duration kLongestLife = std::chrono::milliseconds(node::kMaxNoticeLife_ms);
// For the other proxy to hear that a request is withdrawn, which looks in every heartbeat.
constexpr Duration kWithdrawnLife = std::chrono::seconds(2);
// As long as a clock that was set is not believed.
constexpr Duration kClockLife = jobs::ExpiryClock::kDistrust;

uint32_t ms_of(Duration duration) {
  const auto clamped = std::clamp(duration, Duration::zero(), kLongestLife);
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(clamped).count());
}

uint64_t version_of(const jobs::ClusterJob& job) { return uint64_t{job.term} << 32 | job.version; }

}  // namespace

Correspondence::Correspondence(OpsContext& ops, uint64_t self, Duration period, jobs::JobBook& jobs,
                               Describe describe, DecidesAs decides_as, Perform perform)
    : ops_(ops),
      self_(self),
      period_(period),
      jobs_(jobs),
      describe_(std::move(describe)),
      decides_as_(std::move(decides_as)),
      perform_(std::move(perform)) {}

Task<void> Correspondence::run() {
  begun_ = ops_.clock.now();
  do {
    turn();
  } while (co_await ops_.clock.sleep_for(period_));
  over_ = true;
  for (auto& [number, waiting] : std::exchange(waiting_, {})) {
    waiting.answer->set(fail(ErrorCode::kUnknownOutcome, "shutting down"));
  }
  co_await scope_.join();
}

void Correspondence::turn() {
  const TimePoint now = ops_.clock.now();
  forget(now);
  const bool is_due = now >= card_at_ + kCardPeriod;
  if (is_due) renew_card();
  if (const MapPtr map = known_map()) jobs_.belong_to(map->cluster_id);
  tell_jobs();
  forget_jobs();
  if (decides_as_() == 0) hear_since_ = TimePoint::min();
  // Whoever decides may be asked at any time.
  if (is_due || !waiting_.empty() || sent_.size() > 1 || decides_as_() != 0) meet();
}

void Correspondence::forget(TimePoint now) {
  std::erase_if(sent_, [&](const Sent& sent) { return sent.until <= now; });
  std::erase_if(heard_, [&](const auto& entry) { return entry.second.at + kCardLife <= now; });
  std::erase_if(clocks_, [&](const auto& entry) { return entry.second.at + kClockLife <= now; });
  std::erase_if(performed_, [&](const auto& entry) { return entry.second <= now; });
  const MapPtr map = ops_.map.current();
  std::vector<OneShot<std::optional<DeciderAnswer>>*> over;
  std::erase_if(waiting_, [&](const auto& entry) {
    const Waiting& waiting = entry.second;
    const bool is_deposed = map != nullptr && map->epoch.decider != waiting.decider;
    if (now < waiting.deadline && !is_deposed) return false;
    over.push_back(waiting.answer);
    return true;
  });
  for (auto* answer : over) {
    answer->set(fail(ErrorCode::kUnknownOutcome, "the proxy that decides has not answered"));
  }
}

void Correspondence::renew_card() {
  card_at_ = ops_.clock.now();
  std::erase_if(sent_, [](const Sent& sent) { return sent.number == kCardNumber; });
  sent_.push_back({.to = 0,
                   .number = kCardNumber,
                   .until = card_at_ + kCardLife,
                   .text = encode(describe_()),
                   .version = ++card_version_});
}

// Others hear of a job's end at once, of its progress as often as of cards, and of each again
// before they would forget it.
void Correspondence::tell_jobs() {
  const TimePoint now = ops_.clock.now();
  const auto is_of_job = [](const Sent& sent) { return sent.number >= kFirstJobNumber; };
  if (decides_as_() == 0) {
    std::erase_if(sent_, is_of_job);
    return;
  }
  for (const jobs::ClusterJob& job : jobs_.all()) {
    const auto told = std::ranges::find(sent_, kFirstJobNumber + job.id, &Sent::number);
    if (told != sent_.end()) {
      const Duration age = now - told->since;
      const bool is_news = told->version != version_of(job);
      const bool is_urgent = !job.is_running() || job.cancelling != told->is_cancelling;
      const bool is_due = is_news ? is_urgent || age >= kCardPeriod : age >= kLongestLife / 3;
      if (!is_due) continue;
      sent_.erase(told);
    }
    sent_.push_back({.to = 0,
                     .number = kFirstJobNumber + job.id,
                     .until = now + kLongestLife,
                     .text = encode(job),
                     .since = now,
                     .version = version_of(job),
                     .is_cancelling = job.cancelling});
  }
}

std::optional<TimePoint> Correspondence::told_at(const jobs::ClusterJob& job) const {
  const MapPtr map = ops_.map.current();
  const auto sent = std::ranges::find(sent_, kFirstJobNumber + job.id, &Sent::number);
  if (map == nullptr || sent == sent_.end() || sent->version < version_of(job)) return std::nullopt;
  std::optional<TimePoint> last;
  for (const NodeId at : meeting_nodes(*map)) {
    const auto told = sent->told.find({at, map->nodes[at].incarnation});
    if (told == sent->told.end()) return std::nullopt;
    last = std::max(last.value_or(told->second), told->second);
  }
  return last;
}

// What whoever decides has not told of for as long as notices live, it does not know: what a proxy
// did as another one took over, which has not heard of it. That can not come to an end.
void Correspondence::forget_jobs() {
  const TimePoint now = ops_.clock.now();
  const MapPtr map = ops_.map.current();
  const uint32_t decider = map == nullptr || decides_as_() != 0 ? 0 : map->epoch.decider;
  const ProxyCard* const card = decider == 0 ? nullptr : find_decider(decider);
  const uint32_t heeded = card != nullptr && card->runs_jobs ? decider : 0;
  if (std::exchange(heeded_, heeded) != heeded) heeded_since_ = now;
  if (heeded_ == 0) return;
  for (const jobs::ClusterJob& job : jobs_.all()) {
    const auto heard = job_heard_.find(job.id);
    const TimePoint last = heard == job_heard_.end() ? TimePoint::min() : heard->second;
    if (std::max(last, heeded_since_) + kLongestLife <= now) jobs_.forget(job.id);
  }
  std::erase_if(job_heard_, [&](const auto& entry) { return !jobs_.find(entry.first); });
}

// What is answered of a job survives the crashes that objects do.
std::vector<NodeId> Correspondence::meeting_nodes(const node::ClusterMap& map) const {
  const size_t wanted = std::max<size_t>(kMeetingNodes, map.max_parities + 1);
  std::vector<NodeId> nodes;
  for (size_t id = 0; id < map.nodes.size() && nodes.size() < wanted; ++id) {
    if (map.is_up(static_cast<NodeId>(id))) nodes.push_back(static_cast<NodeId>(id));
  }
  return nodes;
}

// One that was not asked yet is to be.
bool Correspondence::is_answering(NodeId at) const {
  const auto place = places_.find(at);
  return place == places_.end() || place->second.read_at >= ops_.clock.now() - 2 * kCardPeriod;
}

// While nothing is served, as many may be gone as proxies meet at. All go on in the same order
// until enough answer, so they meet all the same.
std::vector<NodeId> Correspondence::nodes_instead(const node::ClusterMap& map,
                                                  const std::vector<NodeId>& meeting) const {
  std::vector<NodeId> nodes;
  if (ops_.map.current() != nullptr || meeting.empty()) return nodes;
  auto missing = std::ranges::count_if(meeting, [&](NodeId at) { return !is_answering(at); });
  for (size_t id = meeting.back() + size_t{1}; id < map.nodes.size() && missing > 0; ++id) {
    const auto at = static_cast<NodeId>(id);
    if (!map.is_up(at)) continue;
    nodes.push_back(at);
    missing -= is_answering(at);
  }
  return nodes;
}

bool Correspondence::is_unheard(NodeId at) const {
  const auto place = places_.find(at);
  return place == places_.end() || place->second.read_at < hear_since_;
}

bool Correspondence::hear_all(TimePoint since) {
  hear_since_ = since;
  const MapPtr map = ops_.map.current();
  if (map == nullptr) return false;
  for (size_t id = 0; id < map->nodes.size(); ++id) {
    if (map->is_up(static_cast<NodeId>(id)) && is_unheard(static_cast<NodeId>(id))) return false;
  }
  return true;
}

void Correspondence::send(uint64_t to, TimePoint until, const ProxyNotice& notice,
                          uint64_t answers) {
  sent_.push_back({.to = to,
                   .number = ++last_number_,
                   .until = until,
                   .text = encode(notice),
                   .answers = answers});
  meet();
}

// It would take room at the nodes until it is over. An empty notice takes its place, so that of a
// request the other proxy hears that its reply has come.
void Correspondence::withdraw(Sent& sent) {
  sent.text.clear();
  sent.at.clear();
  ++sent.version;
  sent.is_withdrawn = true;
}

void Correspondence::withdraw_reply(uint64_t to, uint64_t answers) {
  const auto found = std::ranges::find_if(sent_, [&](const Sent& sent) {
    return sent.to == to && sent.answers == answers && !sent.is_withdrawn;
  });
  if (found != sent_.end()) withdraw(*found);
}

// Where proxies meet. Also while nothing is served, or was: then there is the most to be asked.
MapPtr Correspondence::known_map() const {
  if (MapPtr map = ops_.map.current()) return map;
  return ops_.map.last_served() != nullptr ? ops_.map.last_served() : ops_.map.heard_of();
}

void Correspondence::meet() {
  const MapPtr map = known_map();
  if (map == nullptr || over_) return;
  jobs_.belong_to(map->cluster_id);  // before any of them are heard of
  const std::vector<NodeId> meeting = meeting_nodes(*map);
  const std::vector<NodeId> instead = nodes_instead(*map, meeting);
  for (const NodeId at : meeting) {
    if (!places_[at].is_busy) scope_.spawn(exchange(map, at, /*tells=*/true));
  }
  const TimePoint now = ops_.clock.now();
  for (const NodeId at : instead) {
    // There may be many that do not answer.
    const bool is_due = is_answering(at) || now >= places_[at].asked_at + kCardPeriod;
    if (is_due && !places_[at].is_busy) scope_.spawn(exchange(map, at, /*tells=*/true));
  }
  if (hear_since_ == TimePoint::min()) return;
  for (size_t id = meeting.empty() ? 0 : meeting.back() + 1; id < map->nodes.size(); ++id) {
    const auto at = static_cast<NodeId>(id);
    if (!map->is_up(at) || !is_unheard(at) || places_[at].is_busy) continue;
    scope_.spawn(exchange(map, at, /*tells=*/false));
  }
}

void Correspondence::tell_at_once() {
  if (begun_ == TimePoint{} || over_) return;
  renew_card();
  meet();
}

// The card first: without it nobody knows of this proxy.
std::vector<const Correspondence::Sent*> Correspondence::news_for(NodeId at,
                                                                  const Place& place) const {
  std::vector<const Sent*> news;
  for (const Sent& sent : sent_) {
    if (!sent.at.contains({at, place.incarnation})) news.push_back(&sent);
  }
  const auto card = std::ranges::find(news, kCardNumber, &Sent::number);
  if (card != news.end()) std::rotate(news.begin(), card, card + 1);
  news.resize(std::min(news.size(), place.most));
  return news;
}

Task<void> Correspondence::exchange(MapPtr map, NodeId at, bool tells) {
  Place& place = places_[at];
  place.is_busy = true;
  const uint64_t incarnation = map->nodes[at].incarnation;
  if (std::exchange(place.incarnation, incarnation) != incarnation) place.last = 0;
  const TimePoint now = place.asked_at = ops_.clock.now();
  node::NoticesRequest request{.reader = self_, .since = place.last, .posted = {}};
  std::vector<std::pair<uint64_t, uint64_t>> posted;  // numbers, and their versions
  std::vector<std::string> texts;
  const auto news = tells ? news_for(at, place) : std::vector<const Sent*>();
  for (const Sent* sent : news) {
    posted.emplace_back(sent->number, sent->version);
    texts.push_back(sent->text);
    Duration life = sent->until - now;
    if (sent->is_withdrawn) life = sent->answers != 0 ? Duration::zero() : kWithdrawnLife;
    request.posted.push_back({.from = self_,
                              .to = sent->to,
                              .number = sent->number,
                              .life_ms = ms_of(life),
                              .text = {}});
  }
  for (size_t i = 0; i < texts.size(); ++i) request.posted[i].text = texts[i];
  const Stamp stamp{map->cluster_id, map->epoch, 0};
  const auto reply = read_answer<node::NoticesRequest>(
      *map, at,
      co_await ops_.nodes.call(at, stamp, make_request(request), now + ops_.settings.node_timeout));
  place.is_busy = false;
  // A node takes all or nothing, and tells nothing where it takes nothing.
  if (!reply && reply.error().code == ErrorCode::kNoSpace) place.most = posted.size() / 2;
  if (over_ || !reply || place.incarnation != incarnation) co_return;
  place.most = std::clamp<size_t>(2 * place.most, 1, kMostAtOnce);
  place.read_at = now;
  const uint32_t decides = decides_as_();
  const bool is_own = decides != 0 && reply->reply.header.epoch.decider == decides;
  for (Sent& sent : sent_) {
    if (std::ranges::find(posted, std::pair(sent.number, sent.version)) != posted.end()) {
      sent.at.emplace(at, incarnation);
      if (is_own) sent.told.emplace(std::pair(at, incarnation), ops_.clock.now());
    }
  }
  forget_withdrawn(*map);
  place.last = std::max(place.last, reply->args.last);
  for (const node::Notice& notice : reply->args.notices) {
    if (!over_) read(notice);
  }
}

void Correspondence::forget_withdrawn(const node::ClusterMap& map) {
  const std::vector<NodeId> meeting = meeting_nodes(map);
  std::erase_if(sent_, [&](const Sent& sent) {
    return sent.is_withdrawn && std::ranges::all_of(meeting, [&](NodeId at) {
             return sent.at.contains({at, map.nodes[at].incarnation});
           });
  });
}

void Correspondence::read(const node::Notice& notice) {
  if (notice.from == self_) return;
  if (notice.text.empty()) return withdraw_reply(notice.from, notice.number);
  auto said = decode_notice(notice.text);
  if (!said) return;
  const TimePoint now = ops_.clock.now();
  if (auto* card = std::get_if<ProxyCard>(&*said)) {
    const TimePoint at =
        now -
        (kCardLife - std::min(kCardLife, Duration(std::chrono::milliseconds(notice.life_ms))));
    Heard& heard = heard_[notice.from];
    if (at < heard.at) return;  // another node has told of it since
    if (card->unix_ms) clocks_[notice.from] = {*card->unix_ms, at};
    heard = {std::move(*card), at};
  } else if (auto* request = std::get_if<TaskRequest>(&*said)) {
    // Each of the nodes tells of it, but it is done once.
    const auto [entry, is_new] =
        performed_.emplace(std::pair(notice.from, notice.number), now + 2 * kLongestLife);
    if (is_new || mutant(Mutant::kRepeatTask))
      scope_.spawn(perform(notice.from, notice.number, std::move(*request)));
  } else if (auto* job = std::get_if<jobs::ClusterJob>(&*said)) {
    const uint64_t id = job->id;
    if (jobs_.note(std::move(*job))) job_heard_[id] = now;
  } else if (auto* reply = std::get_if<TaskReply>(&*said)) {
    const auto found = waiting_.find(reply->to_number);
    if (found == waiting_.end()) return;
    auto* const waiter = found->second.answer;
    waiting_.erase(found);
    const auto asked = std::ranges::find(sent_, reply->to_number, &Sent::number);
    if (asked != sent_.end()) withdraw(*asked);
    waiter->set(std::move(reply->answer));
  }
}

Task<void> Correspondence::perform(uint64_t from, uint64_t number, TaskRequest request) {
  TaskReply reply{.to_number = number, .answer = {}};
  if (decides_as_() == request.decider) {
    const TimePoint deadline = ops_.clock.now() + std::chrono::milliseconds(request.within_ms);
    reply.answer = co_await perform_(std::move(request.task), deadline);
  }
  if (!over_) send(from, ops_.clock.now() + kReplyLife, reply, /*answers=*/number);
}

std::vector<KnownProxy> Correspondence::proxies() const {
  const TimePoint now = ops_.clock.now();
  std::vector<KnownProxy> proxies = {{.card = describe_(), .age = {}, .is_self = true}};
  for (const auto& [from, heard] : heard_) {
    if (heard.at + kCardLife > now) proxies.push_back({.card = heard.card, .age = now - heard.at});
  }
  return proxies;
}

// Whoever is there has been heard.
bool Correspondence::has_heard_all() const {
  const MapPtr map = ops_.map.current();
  const TimePoint now = ops_.clock.now();
  // Cards fade at the nodes as they do here: one look finds all.
  const TimePoint since = std::max(begun_ + kCardLife, now - 2 * kCardPeriod);
  const auto is_read = [&](NodeId at) {
    const auto place = places_.find(at);
    return place != places_.end() && place->second.read_at >= since;
  };
  return map != nullptr && std::ranges::all_of(meeting_nodes(*map), is_read);
}

node::CapabilitySet Correspondence::others_have() const {
  if (!has_heard_all()) return {};
  const TimePoint now = ops_.clock.now();
  node::CapabilitySet have = node::own_capabilities();
  for (const auto& [from, heard] : heard_) {
    if (heard.at + kCardLife > now) have = have.common_with(heard.card.capabilities);
  }
  return have;
}

std::optional<std::vector<int64_t>> Correspondence::clocks() const {
  if (!has_heard_all()) return std::nullopt;
  const TimePoint now = ops_.clock.now();
  std::vector<int64_t> lately, before;
  for (const auto& [from, clock] : clocks_) {
    const bool is_heard = clock.at + kCardLife > now;
    const Duration since = now - clock.at;
    (is_heard ? lately : before)
        .push_back(clock.unix_ms +
                   std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
  }
  if (!lately.empty() || before.empty()) return lately;
  return std::vector{std::ranges::min(before)};
}

// By what each is to the others.
jobs::WorkShare Correspondence::work_share() const {
  const TimePoint now = ops_.clock.now();
  jobs::WorkShare share;
  for (const auto& [from, heard] : heard_) {
    if (heard.at + kCardLife <= now || heard.card.leaves) continue;
    ++share.parts;
    share.part += from < self_;
  }
  return share;
}

const ProxyCard* Correspondence::find_decider(uint32_t decider) const {
  if (decider == 0) return nullptr;  // that is who follows
  const auto found = std::ranges::find_if(
      heard_, [&](const auto& entry) { return entry.second.card.decides_as == decider; });
  return found == heard_.end() ? nullptr : &found->second.card;
}

uint32_t Correspondence::whom_to_ask() const {
  if (const MapPtr map = ops_.map.current()) return map->epoch.decider;
  uint32_t decider = 0;
  TimePoint last = ops_.clock.now() - 2 * kCardPeriod;
  for (const auto& [from, heard] : heard_) {
    if (heard.card.decides_as == 0 || heard.at < last) continue;
    decider = heard.card.decides_as;
    last = heard.at;
  }
  return decider;
}

Task<DeciderAnswer> Correspondence::do_task(DeciderTask task, TimePoint deadline) {
  do {
    if (decides_as_() != 0) co_return co_await perform_(std::move(task), deadline);
    if (const uint32_t decider = whom_to_ask(); decider != 0) {
      auto answer = co_await ask(decider, task, deadline);
      if (answer) co_return std::move(*answer);
    }
  } while (ops_.clock.now() + period_ < deadline && co_await ops_.clock.sleep_for(period_));
  co_return fail(ErrorCode::kUnavailable, "no proxy decides, or none is known; try again");
}

Task<std::optional<DeciderAnswer>> Correspondence::ask(uint32_t decider, DeciderTask task,
                                                       TimePoint deadline) {
  const auto found = std::ranges::find_if(
      heard_, [&](const auto& entry) { return entry.second.card.decides_as == decider; });
  if (found == heard_.end() || decider == 0 || over_) co_return std::nullopt;
  const ProxyCard& card = found->second.card;
  if (is_of_jobs(task) && !card.runs_jobs) {
    co_return DeciderAnswer(
        fail(ErrorCode::kUnavailable,
             "the proxy that decides is of an older build, which runs only what it is asked for "
             "itself: ask at {}",
             card.admin));
  }
  const TimePoint until = std::min(deadline, ops_.clock.now() + kLongestLife);
  OneShot<std::optional<DeciderAnswer>> answer;
  waiting_[last_number_ + 1] = {.decider = decider, .deadline = deadline, .answer = &answer};
  send(found->first, until, TaskRequest{decider, ms_of(until - ops_.clock.now()), std::move(task)});
  co_return co_await answer;
}

}  // namespace elastripe::decider
