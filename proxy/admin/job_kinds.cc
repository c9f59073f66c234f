#include "proxy/admin/job_kinds.h"

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "proxy/admin/job_body.h"
#include "proxy/base/bytes.h"

namespace elastripe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxK = 255;
const std::vector<std::string> kExecutions{"delta", "proxy"};  // by jobs::Execution

void add_common(const jobs::JobSpec& spec, Json& json) {
  json["dry_run"] = spec.dry_run;
  json["rate"] = spec.rate;
  json["parallel"] = spec.parallel;
}

// Which objects: one, those whose keys begin alike, or all.
struct Objects {
  std::optional<std::string> key;
  std::optional<std::string> prefix;
  bool all = false;

  void complain_unless_one(JobBody& fields) const {
    if (key.has_value() + prefix.has_value() + all != 1) {
      fields.complain("key, prefix, all", "give one of them");
    }
  }
  void put_into(jobs::JobSpec& spec) const {
    spec.key = key.value_or("");
    spec.prefix = prefix.value_or("");
  }
};
Objects read_objects(JobBody& fields) {
  Objects objects;
  objects.key = fields.key_text("key");
  objects.prefix = fields.key_text("prefix");
  objects.all = fields.flag("all").value_or(false);
  return objects;
}
Json objects_json(const jobs::JobSpec& spec) {
  if (!spec.key.empty()) return {{"key", escape_for_log(spec.key, 250)}};
  if (!spec.prefix.empty()) return {{"prefix", escape_for_log(spec.prefix, 250)}};
  return {{"all", true}};
}

template <auto kParse>
Result<AskedJob> parse_as(std::string_view body, const MapPtr& map) {
  auto spec = [&] {
    if constexpr (std::is_invocable_v<decltype(kParse), std::string_view, const MapPtr&>) {
      return kParse(body, map);
    } else {
      return kParse(body);
    }
  }();
  if (!spec) return fail(std::move(spec.error()));
  return AskedJob(std::move(*spec));
}

constexpr JobKind kKinds[] = {
    {"transition", "/v1/transitions", "transitions", "transitioning", "transitioned",
     parse_as<parse_transition>},
    {"repair", "/v1/repairs", "repairs", "repairing", "restored", parse_as<parse_repair>},
    {"scrub", "/v1/scrubs", "scrubs", "scrubbing", "clean", parse_as<parse_scrub>},
    {"rebalance", "/v1/rebalances", "rebalances", "rebalancing", "moved",
     parse_as<parse_rebalance>},
    {"recycle", "/v1/recycles", "recycles", "folding", "folded", parse_as<parse_recycle>},
};
static_assert(std::size(kKinds) == std::variant_size_v<AskedJob>);

}  // namespace

std::span<const JobKind> job_kinds() { return kKinds; }

Result<jobs::TransitionJobSpec> parse_transition(std::string_view body) {
  auto fields = JobBody::parse(body);
  if (!fields) return fail(std::move(fields.error()));
  jobs::TransitionJobSpec spec;
  const Objects objects = read_objects(*fields);
  const auto to = fields->number("to", 1, kMaxK);
  fields->read_common(spec.job);
  if (const auto execution = fields->word("execution", kExecutions)) {
    spec.execution = static_cast<jobs::Execution>(*execution);
  }
  spec.order_selection = fields->flag("order_selection").value_or(spec.order_selection);
  fields->complain_of_unknown();
  if (!to) fields->complain("to", "is missing");
  objects.complain_unless_one(*fields);
  const auto checked = fields->check();
  if (!checked) return fail(checked.error());
  objects.put_into(spec.job);
  spec.to = static_cast<int>(*to);
  return spec;
}

// An operator who asks for it waits for no node to come back.
Result<jobs::RepairJobSpec> parse_repair(std::string_view body, const MapPtr& map) {
  auto fields = JobBody::parse(body);
  if (!fields) return fail(std::move(fields.error()));
  jobs::RepairJobSpec spec{.given_up = {.away = true}};
  if (const auto name = fields->text("node")) {
    if (map == nullptr) fields->complain("node", "the nodes are not known yet");
    for (size_t i = 0; map != nullptr && i < map->nodes.size(); ++i) {
      if (map->nodes[i].name == *name) spec.on = map->nodes[i].id;
    }
    if (!spec.on) fields->complain("node", "no node has this name");
    spec.on_name = *name;
  }
  fields->read_common(spec.job);
  fields->complain_of_unknown();
  const auto checked = fields->check();
  if (!checked) return fail(checked.error());
  return spec;
}

Result<jobs::ScrubJobSpec> parse_scrub(std::string_view body) {
  auto fields = JobBody::parse(body);
  if (!fields) return fail(std::move(fields.error()));
  jobs::ScrubJobSpec spec;
  const Objects objects = read_objects(*fields);
  spec.repairs = fields->flag("repair").value_or(false);
  fields->read_common(spec.job);
  fields->complain_of_unknown();
  objects.complain_unless_one(*fields);
  const auto checked = fields->check();
  if (!checked) return fail(checked.error());
  objects.put_into(spec.job);
  return spec;
}

Result<jobs::RebalanceJobSpec> parse_rebalance(std::string_view body) {
  auto fields = JobBody::parse(body);
  if (!fields) return fail(std::move(fields.error()));
  jobs::RebalanceJobSpec spec;
  fields->read_common(spec.job);
  fields->complain_of_unknown();
  const auto checked = fields->check();
  if (!checked) return fail(checked.error());
  return spec;
}

Result<jobs::RecycleJobSpec> parse_recycle(std::string_view body) {
  auto fields = JobBody::parse(body);
  if (!fields) return fail(std::move(fields.error()));
  jobs::RecycleJobSpec spec;
  const Objects objects = read_objects(*fields);
  fields->read_common(spec.job);
  fields->complain_of_unknown();
  objects.complain_unless_one(*fields);
  const auto checked = fields->check();
  if (!checked) return fail(checked.error());
  objects.put_into(spec.job);
  return spec;
}

Json spec_json(const jobs::TransitionJobSpec& spec) {
  Json json = objects_json(spec.job);
  json["to"] = spec.to;
  add_common(spec.job, json);
  json["execution"] = kExecutions[static_cast<size_t>(spec.execution)];
  json["order_selection"] = spec.order_selection;
  return json;
}

Json spec_json(const jobs::RepairJobSpec& spec) {
  Json json = Json::object();
  if (spec.on) json["node"] = spec.on_name;
  add_common(spec.job, json);
  return json;
}

Json spec_json(const jobs::ScrubJobSpec& spec) {
  Json json = objects_json(spec.job);
  json["repair"] = spec.repairs;
  add_common(spec.job, json);
  return json;
}

Json spec_json(const jobs::RecycleJobSpec& spec) {
  Json json = objects_json(spec.job);
  add_common(spec.job, json);
  return json;
}

Json spec_json(const jobs::RebalanceJobSpec& spec) {
  Json json = Json::object();
  add_common(spec.job, json);
  return json;
}

}  // namespace elastripe
