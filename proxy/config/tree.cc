#include "proxy/config/tree.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "proxy/base/bytes.h"

namespace elastripe::config {
namespace {

// `path` is `other`, or lies under it.
bool is_under(std::string_view path, std::string_view other) {
  return path.starts_with(other) && (path.size() == other.size() || path[other.size()] == '.');
}

// Parses and forgets.
class NullHandler : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::Load ignores what follows the first document, and YAML::LoadAll of yaml-cpp 0.7 makes
// documents without end out of a text that goes on with ',' or '}' there.
bool has_second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  NullHandler handler;
  return parser.HandleNextDocument(handler) && parser.HandleNextDocument(handler);
}

Result<YAML::Node> load_yaml(std::string_view text, std::string_view place) {
  try {
    const std::string copy(text);
    if (has_second_document(copy)) {
      return fail(ErrorCode::kInvalid, "{}: is not one YAML document", place);
    }
    return YAML::Load(copy);
  } catch (const YAML::Exception& e) {
    const int line = e.mark.is_null() ? 0 : e.mark.line + 1;
    return fail(ErrorCode::kInvalid, "{}:{}: not valid YAML: {}", place, line, one_line(e.msg));
  }
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

std::optional<size_t> parse_index(std::string_view text) {
  size_t index = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, index);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return index;
}

// A copy of `tree` in which the value at `parts` is replaced. Maps on the way are made where
// nothing is there. yaml-cpp nodes are references, so each level is built anew rather than assigned
// through.
Result<YAML::Node> with_value(const YAML::Node& tree, std::span<const std::string> parts,
                              const YAML::Node& value) {
  if (parts.empty()) return value;
  const std::string& part = parts.front();
  if (part.empty()) return fail(ErrorCode::kInvalid, "the path has an empty part");
  YAML::Node made;
  bool replaced = false;
  if (tree.IsSequence()) {
    const auto index = parse_index(part);
    if (!index || *index > tree.size()) {
      return fail(ErrorCode::kInvalid, "'{}' is no index into a list of {}", escape_for_log(part),
                  tree.size());
    }
    for (size_t i = 0; i < tree.size(); ++i) {
      if (i != *index) {
        made.push_back(tree[i]);
        continue;
      }
      const Result<YAML::Node> child = with_value(tree[i], parts.subspan(1), value);
      if (!child) return child;
      made.push_back(*child);
      replaced = true;
    }
    if (replaced) return made;
    const Result<YAML::Node> child =
        with_value(YAML::Node(YAML::NodeType::Null), parts.subspan(1), value);
    if (!child) return child;
    made.push_back(*child);
    return made;
  }
  if (!tree.IsMap() && !tree.IsNull()) {
    return fail(ErrorCode::kInvalid, "'{}' is below a value", escape_for_log(part));
  }
  for (const auto& entry : tree) {
    if (!entry.first.IsScalar() || entry.first.Scalar() != part) {
      made.force_insert(entry.first, entry.second);
      continue;
    }
    const Result<YAML::Node> child = with_value(entry.second, parts.subspan(1), value);
    if (!child) return child;
    made.force_insert(entry.first, *child);
    replaced = true;
  }
  if (!replaced) {
    const Result<YAML::Node> child =
        with_value(YAML::Node(YAML::NodeType::Null), parts.subspan(1), value);
    if (!child) return child;
    made.force_insert(part, *child);
  }
  return made;
}

}  // namespace

void Places::add_line(const std::string& path, const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  if (!mark.is_null()) lines_.emplace(path, mark.line + 1);
}

void Places::add_override(std::string path, std::string flag) {
  overrides_.push_back({std::move(path), std::move(flag)});
}

std::string Places::describe(std::string_view path) const {
  // What an override set stands until a later one sets it, or something around it, again.
  for (auto it = overrides_.rbegin(); it != overrides_.rend(); ++it) {
    if (is_under(path, it->path)) return fmt::format("{}: {}", it->flag, path);
  }
  // What no line of the file has, an override of something below it has made.
  if (!lines_.contains(path)) {
    const auto maker = std::ranges::find_if(
        overrides_, [&](const Override& made) { return is_under(made.path, path); });
    if (!path.empty() && maker != overrides_.end()) {
      return fmt::format("{}: {}", maker->flag, path);
    }
  }
  for (std::string_view around = path;; around = around.substr(0, around.rfind('.'))) {
    if (const auto line = lines_.find(around); line != lines_.end()) {
      return fmt::format("{}:{}: {}", file_name_, line->second, path);
    }
    if (around.find('.') == std::string_view::npos) break;
  }
  return path.empty() ? file_name_ : fmt::format("{}: {}", file_name_, path);
}

Result<YAML::Node> build_tree(std::string_view yaml, std::string_view file_name,
                              std::span<const std::string> overrides, Places& places) {
  Result<YAML::Node> tree = load_yaml(yaml, file_name);
  if (!tree) return tree;
  for (const std::string& text : overrides) {
    const std::string flag = "--set " + shown_on_line(text, 200);
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(ErrorCode::kInvalid, "{}: must be PATH=VALUE", flag);
    }
    const std::string path = text.substr(0, equals);
    Result<YAML::Node> value = load_yaml(std::string_view(text).substr(equals + 1), flag);
    if (!value) return value;
    if (value->IsNull()) *value = YAML::Node("");  // "--set pools.0.prefix=" means an empty text
    const std::vector<std::string> parts = split_path(path);
    try {
      Result<YAML::Node> changed = with_value(*tree, parts, *value);
      if (!changed) return fail(ErrorCode::kInvalid, "{}: {}", flag, changed.error().message);
      *tree = *changed;
    } catch (const YAML::Exception& e) {
      return fail(ErrorCode::kInvalid, "{}: {}", flag, one_line(e.msg));
    }
    places.add_override(path, flag);
  }
  return tree;
}

}  // namespace elastripe::config
