// Certificates of a cluster, as OpenSSL's own command judges them.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/cli/certificates.h"
#include "tools/cli/process.h"

namespace elastripe::cli {
namespace {

namespace fs = std::filesystem;

struct Directory {
  Directory() {
    REQUIRE(::mkdtemp(place.data()) != nullptr);
    path = fs::path(place) / "tls";
  }
  ~Directory() { fs::remove_all(place); }
  std::string file(const char* name) const { return path / name; }
  std::string text(const char* name) const {
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  mode_t mode(const std::string& name) const {
    struct stat status{};
    REQUIRE(::stat(name.c_str(), &status) == 0);
    return status.st_mode & 0777;
  }
  void make(const CertificateOptions& options = {}) const {
    const auto made = make_certificates(path, options);
    INFO((made ? "" : made.error()));
    REQUIRE(made);
  }

  std::string place = fs::temp_directory_path() / "elastripe-XXXXXX";
  fs::path path;
};

FinishedCommand verify(const Directory& d, const char* purpose, const std::string& certificate,
                       std::vector<std::string> more = {}) {
  std::vector<std::string> argv{"openssl",        "verify",   "-x509_strict", "-CAfile",
                                d.file("ca.pem"), "-purpose", purpose};
  argv.insert(argv.end(), more.begin(), more.end());
  argv.push_back(d.file(certificate.c_str()));
  return run_to_end(argv);
}

}  // namespace

TEST_CASE("certificates are of the CA, for what they are for", "[certificates]") {
  const Directory d;
  d.make({.hosts = {"node1.example", "10.1.2.3", "fd00::1"}});
  for (const std::string name : {"proxy.pem", "node.pem"}) {
    CAPTURE(name);
    for (const char* purpose : {"sslserver", "sslclient"}) CHECK(verify(d, purpose, name).ok);
    for (const std::string host : {"localhost", "node1.example"}) {
      CHECK(verify(d, "sslserver", name, {"-verify_hostname", host}).ok);
    }
    for (const std::string address : {"127.0.0.1", "::1", "10.1.2.3", "fd00::1"}) {
      CHECK(verify(d, "sslserver", name, {"-verify_ip", address}).ok);
    }
    CHECK_FALSE(verify(d, "sslserver", name, {"-verify_hostname", "other.example"}).ok);
  }
  CHECK(verify(d, "sslclient", "client.pem").ok);
  CHECK_FALSE(verify(d, "sslserver", "client.pem").ok);
}

TEST_CASE("keys are for their owner only", "[certificates]") {
  const Directory d;
  d.make();
  CHECK(d.mode(d.path) == 0700);
  for (const char* name : {"ca.key", "proxy.key", "node.key", "client.key"}) {
    CHECK(d.mode(d.file(name)) == 0600);
  }
}

TEST_CASE("once more, all but the CA is new", "[certificates]") {
  const Directory d;
  d.make();
  const std::string ca = d.text("ca.pem"), proxy = d.text("proxy.pem"), key = d.text("proxy.key");
  d.make({.hosts = {"added.example"}});
  CHECK(d.text("ca.pem") == ca);
  CHECK(d.text("proxy.pem") != proxy);
  CHECK(d.text("proxy.key") != key);
  CHECK(verify(d, "sslserver", "proxy.pem", {"-verify_hostname", "added.example"}).ok);
}

TEST_CASE("days are those that were asked for", "[certificates]") {
  const Directory d;
  d.make({.days = 2});
  const auto ends_within = [&](const char* seconds) {
    return !run_to_end(
                {"openssl", "x509", "-in", d.file("proxy.pem"), "-noout", "-checkend", seconds})
                .ok;
  };
  CHECK_FALSE(ends_within("172000"));
  CHECK(ends_within("173000"));
}

TEST_CASE("what can not be is refused, and changes nothing", "[certificates]") {
  const Directory d;
  const auto error = [&](const CertificateOptions& options = {}) {
    const auto made = make_certificates(d.path, options);
    return made ? std::string() : made.error();
  };
  CHECK(error({.hosts = {"a b"}}) == "a b is neither a host name nor an IP address");
  CHECK(error({.hosts = {"x,DNS:other"}}).contains("is neither a host name"));
  CHECK_FALSE(fs::exists(d.path));
  d.make();
  fs::rename(d.file("ca.key"), d.file("kept"));
  CHECK(error().contains("has only ca.pem of a CA"));
  fs::rename(d.file("ca.pem"), d.file("kept.pem"));
  fs::rename(d.file("kept"), d.file("ca.key"));
  CHECK(error().contains("has only ca.key of a CA"));
  std::ofstream(d.file("ca.pem")) << d.text("proxy.pem");
  CHECK(error().contains("ca.key: key values mismatch"));
  CHECK(make_certificates("/proc/nowhere", {}).error().starts_with("cannot make /proc/nowhere"));
}

}  // namespace elastripe::cli
