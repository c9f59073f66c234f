#include "tools/cli/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace elastripe::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCaName = "ca";
constexpr const char* kProxy = "proxy";
constexpr const char* kNode = "node";
constexpr const char* kClient = "client";
constexpr std::array kLeaves{kProxy, kNode, kClient};
constexpr const char* kDraftEnding = ".new";
constexpr int kSerialBits = 128;
constexpr long kClockSkewSeconds = 3600;  // clocks that are slow believe it, too
constexpr mode_t kForOwner = 0600;
constexpr mode_t kForAll = 0644;

struct Free {
  void operator()(ASN1_TIME* it) const { ASN1_TIME_free(it); }
  void operator()(BIGNUM* it) const { BN_free(it); }
  void operator()(BIO* it) const { BIO_free(it); }
  void operator()(EVP_PKEY* it) const { EVP_PKEY_free(it); }
  void operator()(X509* it) const { X509_free(it); }
  void operator()(X509_EXTENSION* it) const { X509_EXTENSION_free(it); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

struct Identity {
  Owned<X509> certificate;
  Owned<EVP_PKEY> key;
};

std::unexpected<std::string> openssl_failure(std::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return fail("{}: {}", what, reason != nullptr ? reason : "OpenSSL gives no reason");
}

std::unexpected<std::string> system_failure(std::string_view what, const fs::path& path) {
  return fail("cannot {} {}: {}", what, path.string(), std::strerror(errno));
}

// An address as everybody writes it; nothing if it is none.
std::optional<std::string> address_of(const std::string& host) {
  for (const int family : {AF_INET, AF_INET6}) {
    in6_addr address{};
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (::inet_pton(family, host.c_str(), &address) == 1) {
      return ::inet_ntop(family, &address, text.data(), text.size());
    }
  }
  return {};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_label(std::string_view text) {
  constexpr size_t kMaxBytes = 63;
  return !text.empty() && text.size() <= kMaxBytes && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' ||
                  c == '_';
         });
}

// A last label of digits is that of an address with a typing error.
bool is_dns_name(std::string_view name) {
  constexpr size_t kMaxBytes = 253;
  if (name.size() > kMaxBytes) return false;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    if (!is_label(name.substr(0, dot))) return false;
    name.remove_prefix(dot + 1);
  }
  return is_label(name) && !std::ranges::all_of(name, is_digit);
}

// The subjectAltName, as OpenSSL reads it: "DNS:localhost,IP:127.0.0.1".
Result<std::string> alternative_names(const std::vector<std::string>& hosts) {
  std::vector<std::string> names = {"DNS:localhost", "IP:127.0.0.1", "IP:::1"};
  for (const std::string& host : hosts) {
    const auto address = address_of(host);
    if (!address && !is_dns_name(host)) {
      return fail("'{}' is neither a DNS name nor an IP address", host);
    }
    const std::string name = address ? "IP:" + *address : "DNS:" + host;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ","));
}

using Extensions = std::vector<std::pair<int, std::string>>;  // NID, as OpenSSL reads its value

struct Validity {
  std::time_t now = 0;
  int days = 0;
};

struct Profile {
  const char* common_name = "";
  Extensions extensions;
  Validity validity;
};

Profile ca_profile(std::time_t now) {
  return {.common_name = "elastripe CA",
          .extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                         {NID_key_usage, "critical,keyCertSign,cRLSign"},
                         {NID_subject_key_identifier, "hash"}},
          .validity = {now, kCaDays}};
}

// A certificate without names is only a client's.
Profile leaf_profile(const char* name, const std::string& names, const Validity& validity) {
  Profile profile{.common_name = name,
                  .extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                                 {NID_key_usage, "critical,digitalSignature"},
                                 {NID_subject_key_identifier, "hash"},
                                 {NID_authority_key_identifier, "keyid:always"}},
                  .validity = validity};
  if (names.empty()) {
    profile.extensions.emplace_back(NID_ext_key_usage, "clientAuth");
  } else {
    profile.extensions.emplace_back(NID_ext_key_usage, "serverAuth,clientAuth");
    profile.extensions.emplace_back(NID_subject_alt_name, names);
  }
  return profile;
}

bool set_serial(X509& certificate) {
  const Owned<BIGNUM> serial(BN_new());
  return serial && BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

bool set_validity(X509& certificate, Validity validity) {
  return X509_time_adj_ex(X509_getm_notBefore(&certificate), 0, -kClockSkewSeconds,
                          &validity.now) != nullptr &&
         X509_time_adj_ex(X509_getm_notAfter(&certificate), validity.days, 0, &validity.now) !=
             nullptr;
}

bool set_names(X509& certificate, const char* common_name, const X509& issuer) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(&certificate), "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(common_name), -1, -1,
                                    0) == 1 &&
         X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer)) == 1;
}

bool add_extensions(X509& certificate, const Extensions& extensions, X509& issuer) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  return std::ranges::all_of(extensions, [&](const auto& extension) {
    const Owned<X509_EXTENSION> made(
        X509V3_EXT_conf_nid(nullptr, &context, extension.first, extension.second.c_str()));
    return made && X509_add_ext(&certificate, made.get(), -1) == 1;
  });
}

// A new key, with a certificate by the CA; without one, by itself.
Result<Identity> issue(const Profile& profile, const Identity* ca) {
  Identity made{Owned<X509>(X509_new()), Owned<EVP_PKEY>(EVP_EC_gen("P-256"))};
  if (!made.certificate || !made.key) return openssl_failure(profile.common_name);
  X509& certificate = *made.certificate;
  const Identity& signer = ca != nullptr ? *ca : made;
  const bool is_made = X509_set_version(&certificate, X509_VERSION_3) == 1 &&
                       set_serial(certificate) && set_validity(certificate, profile.validity) &&
                       set_names(certificate, profile.common_name, *signer.certificate) &&
                       X509_set_pubkey(&certificate, made.key.get()) == 1 &&
                       add_extensions(certificate, profile.extensions, *signer.certificate) &&
                       X509_sign(&certificate, signer.key.get(), EVP_sha256()) > 0;
  if (!is_made) return openssl_failure(fmt::format("certificate of {}", profile.common_name));
  return made;
}

struct File {
  std::string name;
  std::string text;
  mode_t mode = kForOwner;

  std::string draft() const { return name + kDraftEnding; }
};

// One command at a time makes certificates in a directory.
class Directory {
 public:
  static Result<Directory> open(const fs::path& path);
  ~Directory() {
    if (fd_ >= 0) ::close(fd_);
  }
  Directory(Directory&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  Directory& operator=(Directory&&) = delete;

  bool has(const fs::path& path) const {
    struct stat found{};
    return ::fstatat(fd_, path.filename().c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
  }
  // All drafts are written before the first takes its place, so a full disk changes nothing.
  Result<> replace(std::span<const File> files) const;

 private:
  Directory(fs::path path, int fd) : path_(std::move(path)), fd_(fd) {}

  Result<> check_trusted() const;
  bool write_draft(const File& file) const;

  fs::path path_;
  int fd_;  // has the lock
};

Result<Directory> Directory::open(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return fail("cannot make {}: {}", path.parent_path().string(), error.message());
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) return system_failure("make", path);
  Directory directory(path, ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd_ < 0) return system_failure("open", path);
  if (auto trusted = directory.check_trusted(); !trusted) return std::unexpected(trusted.error());
  // Some file systems have no such locks, and do without.
  if (::flock(directory.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return fail("another command makes certificates in {}", path.string());
  }
  return directory;
}

// Whoever can write it can plant a CA of his own, which we would sign with.
Result<> Directory::check_trusted() const {
  struct stat found{};
  if (::fstat(fd_, &found) != 0) return system_failure("open", path_);
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    return fail("{} belongs to someone else; choose another --dir", path_.string());
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(
        "{} can be written by others, who could have planted a CA in it; chmod go-w, or choose "
        "another --dir",
        path_.string());
  }
  return {};
}

bool Directory::write_draft(const File& file) const {
  ::unlinkat(fd_, file.draft().c_str(), 0);  // what a command that was killed has left
  const int fd =
      ::openat(fd_, file.draft().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file.mode);
  if (fd < 0) return false;
  errno = ENOSPC;  // a short write sets none
  const bool is_whole =
      ::write(fd, file.text.data(), file.text.size()) == static_cast<ssize_t>(file.text.size()) &&
      ::fsync(fd) == 0;
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return is_whole;
}

Result<> Directory::replace(std::span<const File> files) const {
  Result<> done;
  for (const File& file : files) {
    if (done && !write_draft(file)) done = system_failure("write", path_ / file.name);
  }
  for (const File& file : files) {
    if (done && ::renameat(fd_, file.draft().c_str(), fd_, file.name.c_str()) != 0) {
      done = system_failure("write", path_ / file.name);
    }
  }
  if (done && ::fsync(fd_) != 0) done = system_failure("write", path_);
  if (done) return {};
  for (const File& file : files) ::unlinkat(fd_, file.draft().c_str(), 0);
  return done;
}

CertificatePaths paths_of(const fs::path& dir, const std::string& name) {
  return {dir / (name + ".pem"), dir / (name + ".key")};
}

template <class Write>
std::string pem_text(Write write) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  char* begin = nullptr;
  if (!bio || write(bio.get()) != 1) return "";
  const long bytes = BIO_get_mem_data(bio.get(), &begin);
  return {begin, static_cast<size_t>(bytes)};
}

std::string text_of(X509& certificate) {
  return pem_text([&](BIO* bio) { return PEM_write_bio_X509(bio, &certificate); });
}

// The key goes first: should the rest not come to pass, no certificate is there without its key.
Result<> add_files(std::vector<File>& files, const std::string& name, const Identity& identity) {
  File key{name + ".key", pem_text([&](BIO* bio) {
             return PEM_write_bio_PrivateKey(bio, identity.key.get(), nullptr, nullptr, 0, nullptr,
                                             nullptr);
           })};
  File certificate{name + ".pem", text_of(*identity.certificate), kForAll};
  if (key.text.empty() || certificate.text.empty()) return openssl_failure(name);
  files.push_back(std::move(key));
  files.push_back(std::move(certificate));
  return {};
}

template <class T, class Read>
Result<Owned<T>> read_pem(const fs::path& path, Read read) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_failure("read", path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (!bio) return openssl_failure(path.string());
  // OpenSSL would ask the terminal itself.
  bool has_pass_phrase = false;
  const auto refuse = [](char*, int, int, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
  };
  Owned<T> found(read(bio.get(), nullptr, refuse, &has_pass_phrase));
  if (has_pass_phrase) return fail("cannot read {}: it has a pass phrase", path.string());
  if (!found) return openssl_failure(fmt::format("cannot read {}", path.string()));
  return found;
}

std::string date_of(const ASN1_TIME& time) {
  std::tm fields{};
  std::array<char, 16> text{};
  if (ASN1_TIME_to_tm(&time, &fields) != 1) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &fields)};
}

// It has to outlive what it signs now.
Result<> check_ca(const Identity& ca, const CertificatePaths& paths, const Validity& validity) {
  if (X509_check_private_key(ca.certificate.get(), ca.key.get()) != 1) {
    ERR_clear_error();
    return fail("{} is not the key of {}", paths.key.string(), paths.certificate.string());
  }
  if (X509_check_ca(ca.certificate.get()) != 1) {
    return fail("{} is not the certificate of a CA", paths.certificate.string());
  }
  std::time_t now = validity.now;
  const ASN1_TIME& end = *X509_get0_notAfter(ca.certificate.get());
  const Owned<ASN1_TIME> wanted(X509_time_adj_ex(nullptr, validity.days, 0, &now));
  if (!wanted || ASN1_TIME_compare(&end, wanted.get()) < 0) {
    return fail(
        "{} ends on {}, before {} days are over: take fewer --days, or move it and {} away for a "
        "new CA",
        paths.certificate.string(), date_of(end), validity.days, paths.key.filename().string());
  }
  return {};
}

Result<Identity> read_ca(const CertificatePaths& paths) {
  auto certificate = read_pem<X509>(paths.certificate, PEM_read_bio_X509);
  if (!certificate) return std::unexpected(certificate.error());
  auto key = read_pem<EVP_PKEY>(paths.key, PEM_read_bio_PrivateKey);
  if (!key) return std::unexpected(key.error());
  return Identity{std::move(*certificate), std::move(*key)};
}

// True if there is a CA.
Result<bool> find_ca(const Directory& directory, const CertificatePaths& paths) {
  const bool has_certificate = directory.has(paths.certificate);
  const bool has_key = directory.has(paths.key);
  if (has_certificate == has_key) return has_key;
  const auto& [there, missing] =
      has_key ? std::pair(paths.key, paths.certificate) : std::pair(paths.certificate, paths.key);
  return fail("{} is there without {}: bring that back, or move it away for a new CA",
              there.string(), missing.filename().string());
}

// The CA that signs is the first in ca.pem; the one behind it, if any, is only believed.
Result<std::vector<Owned<X509>>> read_certificates(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_failure("read", path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (!bio) return openssl_failure(path.string());
  std::vector<Owned<X509>> found;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    found.emplace_back(next);
  }
  ERR_clear_error();  // there are no more
  if (found.empty()) return fail("{} has no certificate", path.string());
  return found;
}

Result<> check_signed_by(X509& ca, const fs::path& path) {
  const auto certificate = read_pem<X509>(path, PEM_read_bio_X509);
  if (!certificate) return std::unexpected(certificate.error());
  if (X509_verify(certificate->get(), X509_get0_pubkey(&ca)) == 1) return {};
  ERR_clear_error();
  return fail("{} is by the CA before: `elastripe tls init` makes it anew", path.string());
}

// The path of the directory, absolute.
Result<fs::path> place_of(const fs::path& dir) {
  std::error_code error;
  fs::path place = fs::absolute(dir, error);
  if (error) return fail("cannot make {}: {}", dir.string(), error.message());
  if (!place.has_filename()) place = place.parent_path();  // "tls/"
  return place;
}

// A directory with a CA.
struct CaDirectory {
  Directory directory;
  fs::path place;
  CertificatePaths ca;
};

Result<CaDirectory> open_ca(const fs::path& dir) {
  const auto place = place_of(dir);
  if (!place) return std::unexpected(place.error());
  std::error_code error;
  if (!fs::exists(*place, error)) return fail("{} is not there", place->string());
  auto directory = Directory::open(*place);
  if (!directory) return std::unexpected(directory.error());
  const CertificatePaths ca = paths_of(*place, kCaName);
  const auto has_ca = find_ca(*directory, ca);
  if (!has_ca) return std::unexpected(has_ca.error());
  if (!*has_ca)
    return fail("{} is not there: `elastripe tls init` makes it", ca.certificate.string());
  return CaDirectory{std::move(*directory), *place, ca};
}

}  // namespace

Result<TlsPaths> make_cluster_certificates(const fs::path& dir, const CertificateOptions& options) {
  ERR_clear_error();
  if (options.days < 1 || options.days > kCaDays) {
    return fail("{} days: certificates are for 1 to {}", options.days, kCaDays);
  }
  const auto names = alternative_names(options.hosts);
  if (!names) return std::unexpected(names.error());
  const auto place = place_of(dir);
  if (!place) return std::unexpected(place.error());
  const auto directory = Directory::open(*place);
  if (!directory) return std::unexpected(directory.error());

  TlsPaths paths{paths_of(*place, kCaName), paths_of(*place, kProxy), paths_of(*place, kNode),
                 paths_of(*place, kClient)};
  const auto has_ca = find_ca(*directory, paths.ca);
  if (!has_ca) return std::unexpected(has_ca.error());
  paths.has_new_ca = !*has_ca;
  const Validity validity{std::chrono::system_clock::to_time_t(options.now), options.days};
  const auto ca = *has_ca ? read_ca(paths.ca) : issue(ca_profile(validity.now), nullptr);
  if (!ca) return std::unexpected(ca.error());
  if (auto good = check_ca(*ca, paths.ca, validity); !good) return std::unexpected(good.error());

  std::vector<File> files;
  if (paths.has_new_ca) {
    if (auto done = add_files(files, kCaName, *ca); !done) return std::unexpected(done.error());
  }
  for (const auto& [name, hosts] :
       {std::pair(kProxy, *names), std::pair(kNode, *names), std::pair(kClient, std::string())}) {
    const auto made = issue(leaf_profile(name, hosts, validity), &*ca);
    if (!made) return std::unexpected(made.error());
    if (auto done = add_files(files, name, *made); !done) return std::unexpected(done.error());
  }
  if (auto done = directory->replace(files); !done) return std::unexpected(done.error());
  return paths;
}

Result<CertificatePaths> begin_new_ca(const fs::path& dir,
                                      std::chrono::system_clock::time_point now) {
  ERR_clear_error();
  const auto opened = open_ca(dir);
  if (!opened) return std::unexpected(opened.error());
  const auto& [directory, place, paths] = *opened;
  const auto before = read_certificates(paths.certificate);
  if (!before) return std::unexpected(before.error());
  if (before->size() > 1) {
    return fail("{} has two CAs: `elastripe tls forget-ca` ends that change first",
                paths.certificate.string());
  }
  const auto made = issue(ca_profile(std::chrono::system_clock::to_time_t(now)), nullptr);
  if (!made) return std::unexpected(made.error());
  std::vector<File> files;
  if (auto done = add_files(files, kCaName, *made); !done) return std::unexpected(done.error());
  files.back().text += text_of(*before->front());
  if (auto done = directory.replace(files); !done) return std::unexpected(done.error());
  return paths;
}

Result<CertificatePaths> forget_old_ca(const fs::path& dir) {
  ERR_clear_error();
  const auto opened = open_ca(dir);
  if (!opened) return std::unexpected(opened.error());
  const auto& [directory, place, paths] = *opened;
  const auto believed = read_certificates(paths.certificate);
  if (!believed) return std::unexpected(believed.error());
  if (believed->size() < 2) return fail("{} has one CA only", paths.certificate.string());
  for (const char* name : kLeaves) {
    const auto checked = check_signed_by(*believed->front(), paths_of(place, name).certificate);
    if (!checked) return std::unexpected(checked.error());
  }
  const File only{paths.certificate.filename(), text_of(*believed->front()), kForAll};
  if (auto done = directory.replace({&only, 1}); !done) return std::unexpected(done.error());
  return paths;
}

}  // namespace elastripe::cli
