#include "tools/cli/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "proxy/base/names.h"

namespace elastripe::cli {
namespace {

namespace fs = std::filesystem;

struct Free {
  void operator()(X509* it) const { X509_free(it); }
  void operator()(EVP_PKEY* it) const { EVP_PKEY_free(it); }
  void operator()(X509_EXTENSION* it) const { X509_EXTENSION_free(it); }
  void operator()(BIO* it) const { BIO_free(it); }
};
using CertificatePtr = std::unique_ptr<X509, Free>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free>;
using BioPtr = std::unique_ptr<BIO, Free>;

struct Pair {
  CertificatePtr certificate;
  KeyPtr key;
};

constexpr int kCaDays = 3650;
constexpr long kSecondsADay = 24 * 60 * 60;
constexpr long kSkewSeconds = 60 * 60;  // of clocks that are behind ours
constexpr size_t kSerialBytes = 16;
constexpr mode_t kForAll = 0644;
constexpr mode_t kForOwner = 0600;

std::unexpected<std::string> tls_failure(std::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return fail("{}: {}", what, reason != nullptr ? reason : "OpenSSL failed");
}

// What a certificate is to say.
struct Subject {
  std::string name;
  std::string usage;  // extendedKeyUsage; empty: it is the CA's
  std::string hosts;  // subjectAltName; empty: none
  int days = 0;
};

bool set_serial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return false;
  bytes[0] &= 0x7f;  // not negative
  bytes[0] |= 0x40;  // nor shorter
  BIGNUM* number = BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr);
  const bool is_set = number != nullptr &&
                      BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return is_set;
}

bool add_extension(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool describe(X509* certificate, X509* issuer, const Subject& subject) {
  const bool is_ca = subject.usage.empty();
  const auto add = [&](int what, const std::string& value) {
    return value.empty() || add_extension(certificate, issuer, what, value);
  };
  return add(NID_basic_constraints, is_ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
         add(NID_key_usage, is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
         add(NID_subject_key_identifier, "hash") &&
         (is_ca || add(NID_authority_key_identifier, "keyid:always")) &&
         add(NID_ext_key_usage, subject.usage) && add(NID_subject_alt_name, subject.hosts);
}

// By the CA; without one, by itself.
Result<Pair> make(const Subject& subject, const Pair* ca) {
  Pair made{CertificatePtr(X509_new()), KeyPtr(EVP_EC_gen("P-256"))};
  X509* const certificate = made.certificate.get();
  if (certificate == nullptr || made.key == nullptr) return tls_failure(subject.name);
  X509* const issuer = ca != nullptr ? ca->certificate.get() : certificate;
  const auto* common_name = reinterpret_cast<const unsigned char*>(subject.name.c_str());
  const bool is_made =
      X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
      X509_gmtime_adj(X509_getm_notBefore(certificate), -kSkewSeconds) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(certificate), subject.days * kSecondsADay) != nullptr &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                 common_name, -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
      X509_set_pubkey(certificate, made.key.get()) == 1 && describe(certificate, issuer, subject) &&
      X509_sign(certificate, ca != nullptr ? ca->key.get() : made.key.get(), EVP_sha256()) > 0;
  if (!is_made) return tls_failure(subject.name);
  return made;
}

// Under another name until it is whole: whoever reads the file finds the old one or the new one.
Result<> replace(const fs::path& path, std::string_view text, mode_t mode) {
  const std::string draft = path.string() + ".new";
  ::unlink(draft.c_str());
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  const bool is_whole =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!is_whole) return fail("cannot write {}: {}", path.string(), std::strerror(error));
  return {};
}

std::string text_of(BIO* bio) {
  char* begin = nullptr;
  const long bytes = BIO_get_mem_data(bio, &begin);
  return {begin, static_cast<size_t>(bytes)};
}

Result<> write(const fs::path& directory, const std::string& name, const Pair& pair) {
  const BioPtr certificate(BIO_new(BIO_s_mem()));
  const BioPtr key(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate.get(), pair.certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key.get(), pair.key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return tls_failure(name);
  }
  // The key first: a certificate whose key is not there is of no use.
  auto written = replace(directory / (name + ".key"), text_of(key.get()), kForOwner);
  if (!written) return written;
  return replace(directory / (name + ".pem"), text_of(certificate.get()), kForAll);
}

template <class Ptr, class Read>
Result<Ptr> read(const fs::path& path, Read read_from) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return fail("cannot read {}", path.string());
  const BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Ptr found(read_from(bio.get(), nullptr, nullptr, nullptr));
  if (!found) return tls_failure(path.string());
  return found;
}

Result<Pair> open_ca(const fs::path& directory, bool& is_new) {
  const fs::path certificate_path = directory / "ca.pem";
  const fs::path key_path = directory / "ca.key";
  const bool has_certificate = fs::exists(certificate_path);
  is_new = !has_certificate && !fs::exists(key_path);
  if (is_new)
    return make({.name = "elastripe CA", .usage = "", .hosts = "", .days = kCaDays}, nullptr);
  if (has_certificate != fs::exists(key_path)) {
    return fail("{} has only {} of a CA: bring the other file back, or remove this one",
                directory.string(), has_certificate ? "ca.pem" : "ca.key");
  }
  auto certificate = read<CertificatePtr>(certificate_path, PEM_read_bio_X509);
  if (!certificate) return std::unexpected(certificate.error());
  auto key = read<KeyPtr>(key_path, PEM_read_bio_PrivateKey);
  if (!key) return std::unexpected(key.error());
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    return tls_failure(key_path.string());
  }
  return Pair{std::move(*certificate), std::move(*key)};
}

bool is_address(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// "DNS:localhost,IP:127.0.0.1"
Result<std::string> alternative_names(const std::vector<std::string>& hosts) {
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  for (const std::string& host : hosts) {
    if (!is_host(host)) return fail("{} is neither a host name nor an IP address", host);
    names += fmt::format(",{}:{}", is_address(host) ? "IP" : "DNS", host);
  }
  return names;
}

}  // namespace

Result<> make_certificates(const fs::path& directory, const CertificateOptions& options) {
  const auto hosts = alternative_names(options.hosts);
  if (!hosts) return std::unexpected(hosts.error());
  std::error_code error;
  if (fs::create_directories(directory, error)) {
    fs::permissions(directory, fs::perms::owner_all, error);
  }
  if (error) return fail("cannot make {}: {}", directory.string(), error.message());
  bool is_new = false;
  const auto ca = open_ca(directory, is_new);
  if (!ca) return std::unexpected(ca.error());
  if (is_new) {
    if (auto written = write(directory, "ca", *ca); !written) return written;
  }
  for (const std::string name : {"proxy", "node", "client"}) {
    const bool is_client = name == "client";
    const auto made = make({.name = name,
                            .usage = is_client ? "clientAuth" : "serverAuth,clientAuth",
                            .hosts = is_client ? "" : *hosts,
                            .days = options.days},
                           &*ca);
    if (!made) return std::unexpected(made.error());
    if (auto written = write(directory, name, *made); !written) return written;
  }
  return {};
}

}  // namespace elastripe::cli
