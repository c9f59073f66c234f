// The file of users.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "proxy/session/users.h"

namespace elastripe {
namespace {

std::string error_of(std::string_view text) {
  const auto users = Users::parse(text);
  return users ? "" : users.error().message;
}

struct UsersFile {
  explicit UsersFile(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path) << text;
    REQUIRE(chmod(path.c_str(), mode) == 0);
  }
  ~UsersFile() { std::filesystem::remove(path); }
  std::string error() const {
    const auto users = load_users(path);
    return users ? "" : users.error().message.substr(path.size());
  }
  const std::string path =
      std::filesystem::temp_directory_path() / ("elastripe-users-" + std::to_string(getpid()));
};

}  // namespace

TEST_CASE("a user is known by name and password", "[users]") {
  const auto users = Users::parse("# who may come\n\nalice:secret\r\nbob:a:b\ncarol:x");
  REQUIRE(users);
  CHECK(users->size() == 3);
  CHECK(users->knows("alice", "secret"));
  CHECK(users->knows("bob", "a:b"));
  CHECK(users->knows("carol", "x"));
  CHECK_FALSE(users->knows("alice", "x"));
  CHECK_FALSE(users->knows("alice", ""));
  CHECK_FALSE(users->knows("alic", "esecret"));
  CHECK_FALSE(users->knows("", ""));
  CHECK_FALSE(users->knows("# who may come", ""));
}

TEST_CASE("a line that is no user is refused with its number", "[users]") {
  CHECK(error_of("a:b\nalice") == "line 2: has no colon: it must be user:password");
  CHECK(error_of(":secret") == "line 1: the user has no name");
  CHECK(error_of("alice:") == "line 1: the user has no password");
  CHECK(error_of("alice:a b") ==
        "line 1: has white space or control bytes, which clients can not send");
  CHECK(error_of(std::string_view("alice:a\0b", 9)) ==
        "line 1: has white space or control bytes, which clients can not send");
  CHECK(error_of("alice:a\n\nalice:b") == "line 3: the user is there twice");
  CHECK(error_of("alice:" + std::string(1020, 'x')) == "line 1: has more than 1024 bytes");
  CHECK(error_of("alice:" + std::string(1019, 'x')).empty());
}

TEST_CASE("a file that others may use is refused", "[users]") {
  CHECK(UsersFile("a:b\n").error().empty());
  CHECK(UsersFile("a:b\n", 0400).error().empty());
  CHECK(UsersFile("a:b\n", 0640).error() ==
        ": has passwords, and others than its owner may use it (mode 640): chmod 600 it");
  CHECK(UsersFile("a:b\n", 0602).error().starts_with(": has passwords"));
  CHECK(UsersFile("a\n").error() == ": line 1: has no colon: it must be user:password");
  CHECK(UsersFile("# nobody\n").error() == ": lists no user");
  CHECK(load_users("/nowhere/users").error().code == ErrorCode::kNotFound);
  CHECK(load_users("/").error().message == "/: is not a file");
}

}  // namespace elastripe
