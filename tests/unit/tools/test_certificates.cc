#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tools/cli/certificates.h"

namespace elastripe::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::days;

struct Free {
  void operator()(X509* it) const { X509_free(it); }
  void operator()(EVP_PKEY* it) const { EVP_PKEY_free(it); }
  void operator()(X509_STORE* it) const { X509_STORE_free(it); }
  void operator()(X509_STORE_CTX* it) const { X509_STORE_CTX_free(it); }
  void operator()(FILE* it) const { fclose(it); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// A directory, which goes with it.
class Place {
 public:
  Place() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~Place() { fs::remove_all(path_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  fs::path dir() const { return fs::path(path_) / "tls"; }
  fs::path file(const char* name) const { return dir() / name; }

 private:
  std::string path_ = (fs::temp_directory_path() / "elastripe-certificates-XXXXXX").string();
};

TlsPaths make(const Place& place, const CertificateOptions& options = {}) {
  const auto made = make_cluster_certificates(place.dir(), options);
  INFO((made ? std::string() : made.error()));
  REQUIRE(made);
  return *made;
}

std::string error_of(const Place& place, const CertificateOptions& options = {}) {
  const auto made = make_cluster_certificates(place.dir(), options);
  return made ? "" : made.error();
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

Owned<X509> certificate_of(const fs::path& path) {
  const Owned<FILE> file(fopen(path.c_str(), "r"));
  REQUIRE(file);
  Owned<X509> certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr));
  REQUIRE(certificate);
  return certificate;
}

Owned<EVP_PKEY> key_of(const fs::path& path) {
  const Owned<FILE> file(fopen(path.c_str(), "r"));
  REQUIRE(file);
  Owned<EVP_PKEY> key(PEM_read_PrivateKey(file.get(), nullptr, nullptr, nullptr));
  REQUIRE(key);
  return key;
}

// As `openssl verify -x509_strict -purpose PURPOSE -CAfile CA CERTIFICATE`: X509_V_OK, or why not.
int verify(const fs::path& ca, const fs::path& path, int purpose) {
  const Owned<X509_STORE> store(X509_STORE_new());
  REQUIRE(X509_STORE_load_locations(store.get(), ca.c_str(), nullptr) == 1);
  X509_STORE_set_flags(store.get(), X509_V_FLAG_X509_STRICT);
  const Owned<X509> certificate = certificate_of(path);
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  REQUIRE(X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr) == 1);
  REQUIRE(X509_STORE_CTX_set_purpose(context.get(), purpose) == 1);
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}

bool is_believed(const Place& place, const char* name, int purpose) {
  return verify(place.file("ca.pem"), place.file(name), purpose) == X509_V_OK;
}

bool is_for(const fs::path& path, const char* host) {
  const Owned<X509> certificate = certificate_of(path);
  return X509_check_host(certificate.get(), host, 0, 0, nullptr) == 1 ||
         X509_check_ip_asc(certificate.get(), host, 0) == 1;
}

mode_t mode_of(const fs::path& path) {
  struct stat found{};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return found.st_mode & 07777;
}

// Whole days from now to a time of a certificate.
int days_to(const ASN1_TIME* time) {
  int whole_days = 0;
  int seconds = 0;
  REQUIRE(ASN1_TIME_diff(&whole_days, &seconds, nullptr, time) == 1);
  return whole_days + (seconds > 0 ? 1 : 0);
}

TEST_CASE("certificates are good for what they are for, and for nothing else") {
  const Place place;
  const TlsPaths made = make(place);
  CHECK(made.has_new_ca);
  for (const auto& pair : {made.proxy, made.node}) {
    CHECK(verify(made.ca.certificate, pair.certificate, X509_PURPOSE_SSL_SERVER) == X509_V_OK);
    CHECK(verify(made.ca.certificate, pair.certificate, X509_PURPOSE_SSL_CLIENT) == X509_V_OK);
  }
  const fs::path& client = made.client.certificate;
  CHECK(verify(made.ca.certificate, client, X509_PURPOSE_SSL_CLIENT) == X509_V_OK);
  CHECK(verify(made.ca.certificate, client, X509_PURPOSE_SSL_SERVER) == X509_V_ERR_INVALID_PURPOSE);
  CHECK(verify(made.ca.certificate, made.ca.certificate, X509_PURPOSE_ANY) == X509_V_OK);

  const Place other;
  CHECK(verify(make(other).ca.certificate, client, X509_PURPOSE_SSL_CLIENT) != X509_V_OK);
}

TEST_CASE("each certificate has its key, P-256, and a serial number of its own") {
  const Place place;
  const TlsPaths made = make(place);
  std::vector<std::string> serials;
  for (const auto& pair : {made.ca, made.proxy, made.node, made.client}) {
    const Owned<X509> certificate = certificate_of(pair.certificate);
    const Owned<EVP_PKEY> key = key_of(pair.key);
    CHECK(X509_check_private_key(certificate.get(), key.get()) == 1);
    CHECK(EVP_PKEY_get_bits(key.get()) == 256);
    CHECK(EVP_PKEY_is_a(key.get(), "EC") == 1);
    CHECK(X509_get_signature_nid(certificate.get()) == NID_ecdsa_with_SHA256);
    CHECK(X509_get_version(certificate.get()) == X509_VERSION_3);
    const ASN1_INTEGER* serial = X509_get0_serialNumber(certificate.get());
    CHECK(serial->type == V_ASN1_INTEGER);  // not negative
    serials.emplace_back(reinterpret_cast<const char*>(serial->data),
                         static_cast<size_t>(serial->length));
  }
  std::ranges::sort(serials);
  CHECK(std::ranges::adjacent_find(serials) == serials.end());
}

TEST_CASE("proxies and nodes have all hosts, clients none") {
  const Place place;
  const std::vector<std::string> hosts = {"n1.example", "a_b", "10.1.2.3", "fd00::1", "localhost"};
  const TlsPaths made = make(place, {.hosts = hosts});
  for (const char* host :
       {"localhost", "127.0.0.1", "::1", "n1.example", "a_b", "10.1.2.3", "fd00:0::1"}) {
    CAPTURE(host);
    CHECK(is_for(made.proxy.certificate, host));
    CHECK(is_for(made.node.certificate, host));
    CHECK_FALSE(is_for(made.client.certificate, host));
  }
  CHECK_FALSE(is_for(made.proxy.certificate, "n2.example"));
  CHECK_FALSE(is_for(made.proxy.certificate, "10.1.2.4"));
  CHECK(is_for(made.client.certificate, "client"));  // its name, for want of another
}

TEST_CASE("keys are for their owner, and so is a directory that was not there") {
  const Place place;
  const TlsPaths made = make(place);
  CHECK(mode_of(place.dir()) == 0700);
  for (const auto& pair : {made.ca, made.proxy, made.node, made.client}) {
    CHECK(mode_of(pair.key) == 0600);
    CHECK((mode_of(pair.certificate) & 0022) == 0);
  }
  CHECK(std::distance(fs::directory_iterator(place.dir()), {}) == 8);
}

TEST_CASE("the CA that is there signs new certificates") {
  const Place place;
  const TlsPaths made = make(place);
  const std::string ca = text_of(made.ca.certificate);
  const std::string ca_key = text_of(made.ca.key);
  const std::string proxy = text_of(made.proxy.certificate);
  const std::string proxy_key = text_of(made.proxy.key);
  fs::permissions(made.proxy.key, fs::perms::group_read, fs::perm_options::add);
  std::ofstream(place.file("node.key.new")) << "left by a command that was killed";

  const TlsPaths again = make(place, {.hosts = {"new.example"}});
  CHECK_FALSE(again.has_new_ca);
  CHECK(text_of(made.ca.certificate) == ca);
  CHECK(text_of(made.ca.key) == ca_key);
  CHECK(text_of(made.proxy.certificate) != proxy);
  CHECK(text_of(made.proxy.key) != proxy_key);
  CHECK(mode_of(made.proxy.key) == 0600);
  CHECK(is_for(made.proxy.certificate, "new.example"));
  CHECK(verify(made.ca.certificate, made.node.certificate, X509_PURPOSE_SSL_SERVER) == X509_V_OK);
  CHECK_FALSE(fs::exists(place.file("node.key.new")));
}

TEST_CASE("the CA changes in three steps, and what is shown is believed at each") {
  const Place place;
  make(place);
  const auto now = std::chrono::system_clock::now();
  const std::string old_ca = text_of(place.file("ca.pem"));
  const std::string old_node = text_of(place.file("node.pem"));
  CHECK(forget_old_ca(place.dir()).error() == place.file("ca.pem").string() + " has one CA only");

  REQUIRE(begin_new_ca(place.dir(), now));
  const std::string both = text_of(place.file("ca.pem"));
  CHECK(both.ends_with(old_ca));
  CHECK(both.size() > old_ca.size());
  CHECK(text_of(place.file("node.pem")) == old_node);
  CHECK(is_believed(place, "node.pem", X509_PURPOSE_SSL_SERVER));
  CHECK((fs::status(place.file("ca.key")).permissions() & fs::perms::others_all) ==
        fs::perms::none);
  CHECK(begin_new_ca(place.dir(), now).error().ends_with("ends that change first"));
  CHECK(forget_old_ca(place.dir()).error().contains("proxy.pem is by the CA before"));
  CHECK(text_of(place.file("ca.pem")) == both);

  CHECK_FALSE(make(place).has_new_ca);
  CHECK(text_of(place.file("ca.pem")) == both);
  CHECK(is_believed(place, "node.pem", X509_PURPOSE_SSL_SERVER));

  REQUIRE(forget_old_ca(place.dir()));
  CHECK(text_of(place.file("ca.pem")) + old_ca == both);
  for (const char* name : {"proxy.pem", "node.pem", "client.pem"}) {
    CHECK(is_believed(place, name, X509_PURPOSE_SSL_CLIENT));
  }
  REQUIRE(begin_new_ca(place.dir(), now));  // and again
}

TEST_CASE("a CA that is not there is not changed") {
  const Place place;
  CHECK(begin_new_ca(place.dir(), std::chrono::system_clock::now())
            .error()
            .ends_with("is not there"));
  CHECK_FALSE(fs::exists(place.dir()));
  make(place);
  fs::remove(place.file("ca.key"));
  CHECK(begin_new_ca(place.dir(), std::chrono::system_clock::now())
            .error()
            .contains("is there without ca.key"));
}

TEST_CASE("certificates are for the days that were asked for, from a little before now") {
  const Place place;
  const TlsPaths made = make(place, {.days = 3});
  for (const auto& pair : {made.proxy, made.node, made.client}) {
    const Owned<X509> certificate = certificate_of(pair.certificate);
    CHECK(days_to(X509_get0_notAfter(certificate.get())) == 3);
    CHECK(X509_cmp_current_time(X509_get0_notBefore(certificate.get())) < 0);
  }
  CHECK(days_to(X509_get0_notAfter(certificate_of(made.ca.certificate).get())) == kCaDays);
  CHECK(error_of(place, {.days = 0}) == "0 days: certificates are for 1 to 3650");
  CHECK(error_of(place, {.days = 3651}) == "3651 days: certificates are for 1 to 3650");
}

TEST_CASE("no certificate outlives its CA") {
  const Place place;
  const auto now = std::chrono::system_clock::now();
  const TlsPaths made = make(place, {.now = now});
  const std::string proxy = text_of(made.proxy.certificate);
  make(place, {.days = 100, .now = now + days(kCaDays - 100)});
  const std::string error = error_of(place, {.days = 100, .now = now + days(kCaDays - 99)});
  CHECK(error.contains(" before 100 days are over: take fewer --days"));
  CHECK(error.contains("ca.key away for a new CA"));
  CHECK_FALSE(error.contains('\n'));
}

TEST_CASE("a host is a DNS name or an IP address") {
  const Place place;
  for (const std::string host :
       {"", " ", "a b", "a..b", ".a", "a.", "-a", "a-", "10.0.0.300", "10.1", "[::1]", "fe80::1%lo",
        "*.example", "a,DNS:b", "a\nb", "h\xc3\xb6st", "https://a", "a:1"}) {
    CHECK(error_of(place, {.hosts = {"good", host}}) ==
          "'" + host + "' is neither a DNS name nor an IP address");
  }
  const std::string label(63, 'a');
  CHECK_FALSE(error_of(place, {.hosts = {label + "a"}}).empty());
  CHECK_FALSE(fs::exists(place.dir()));
  CHECK(error_of(place, {.hosts = {label + "." + label, "1.2-3.example", "1a"}}).empty());
}

TEST_CASE("a CA that cannot sign is an error, and nothing changes") {
  const Place place;
  const TlsPaths made = make(place);
  const std::string proxy = text_of(made.proxy.certificate);
  const auto expect = [&](const std::string& error) {
    CHECK(error_of(place) == error);
    CHECK(text_of(made.proxy.certificate) == proxy);
    CHECK_FALSE(fs::exists(place.file("proxy.pem.new")));
  };
  const std::string ca = made.ca.certificate;
  const std::string key = made.ca.key;

  fs::rename(key, place.file("kept.key"));
  expect(ca + " is there without ca.key: bring that back, or move it away for a new CA");
  fs::rename(ca, place.file("kept.pem"));
  fs::rename(place.file("kept.key"), key);
  expect(key + " is there without ca.pem: bring that back, or move it away for a new CA");
  fs::copy(made.proxy.certificate, ca);
  expect(key + " is not the key of " + ca);
  fs::copy(made.proxy.key, key, fs::copy_options::overwrite_existing);
  expect(ca + " is not the certificate of a CA");
  std::ofstream(ca) << "nothing";
  CHECK(error_of(place).starts_with("cannot read " + ca));

  fs::rename(place.file("kept.pem"), ca);
  const Owned<EVP_PKEY> secret = key_of(made.proxy.key);
  const Owned<FILE> file(fopen(key.c_str(), "w"));
  REQUIRE(PEM_write_PrivateKey(file.get(), secret.get(), EVP_aes_128_cbc(),
                               reinterpret_cast<const unsigned char*>("word"), 4, nullptr,
                               nullptr) == 1);
  fflush(file.get());
  expect("cannot read " + key + ": it has a pass phrase");
}

TEST_CASE("a directory in which others could have planted a CA is refused") {
  const Place place;
  fs::create_directory(place.dir());
  fs::permissions(place.dir(), fs::perms::others_write, fs::perm_options::add);
  CHECK(error_of(place).contains("can be written by others"));
  CHECK(fs::is_empty(place.dir()));
  fs::permissions(place.dir(), fs::perms::others_write | fs::perms::group_write,
                  fs::perm_options::remove);
  CHECK(error_of(place).empty());
}

TEST_CASE("what cannot be written is an error, and leaves no drafts") {
  const Place place;
  fs::create_directories(place.file("node.pem"));
  CHECK(error_of(place).starts_with("cannot write " + place.file("node.pem").string() + ": "));
  for (const auto& entry : fs::directory_iterator(place.dir())) {
    CHECK(entry.path().extension() != ".new");
  }
  std::ofstream(place.file("plain"));
  const auto made = make_cluster_certificates(place.file("plain"), {});
  REQUIRE_FALSE(made);
  CHECK(made.error() == "cannot open " + place.file("plain").string() + ": Not a directory");
}

}  // namespace
}  // namespace elastripe::cli
