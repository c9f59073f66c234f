// Certificates for tests, made anew for each: a CA, and what it signs.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "proxy/io/tls.h"

namespace elastripe {

struct CertificateKind {
  long begins_in_s = -3600;
  long ends_in_s = 3600;
  std::string usage = {};  // extended key usage as OpenSSL writes it: "clientAuth"; empty: any
};

// A directory of PEM files, which goes with it.
class TestCertificates {
 public:
  TestCertificates() {
    must(mkdtemp(directory_.data()) != nullptr);
    ca_key_ = EVP_EC_gen("P-256");
    ca_ = make(directory_, ca_key_, "", {});
    write("ca", ca_, ca_key_);
  }
  ~TestCertificates() {
    X509_free(ca_);
    EVP_PKEY_free(ca_key_);
    std::filesystem::remove_all(directory_);
  }
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  // Has a new key. `names`: as OpenSSL writes a subjectAltName, "DNS:localhost,IP:127.0.0.1".
  TlsFiles issue(const std::string& name, const std::string& names = "DNS:localhost",
                 const CertificateKind& kind = {}) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = make(name, key, names, kind);
    write(name, certificate, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return {path(name + ".pem"), path(name + ".key"), path("ca.pem")};
  }
  std::string path(const std::string& file) const { return directory_ + "/" + file; }

 private:
  // Fuzzers use it, too, which have no Catch2.
  static void must(bool is_done) {
    if (is_done) return;
    fputs("a certificate for a test can not be made\n", stderr);
    abort();
  }
  X509* make(const std::string& name, EVP_PKEY* key, const std::string& names,
             const CertificateKind& kind) {
    X509* made = X509_new();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made), kind.begins_in_s);
    X509_gmtime_adj(X509_getm_notAfter(made), kind.ends_in_s);
    X509_set_pubkey(made, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const bool is_ca = ca_ == nullptr;
    X509_set_issuer_name(made, X509_get_subject_name(is_ca ? made : ca_));
    add(made, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (!names.empty()) add(made, NID_subject_alt_name, names);
    if (!kind.usage.empty()) add(made, NID_ext_key_usage, kind.usage);
    must(X509_sign(made, ca_key_, EVP_sha256()) > 0);
    return made;
  }
  static void add(X509* certificate, int what, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    must(extension != nullptr);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  void write(const std::string& name, X509* certificate, EVP_PKEY* key) const {
    FILE* file = fopen(path(name + ".pem").c_str(), "w");
    must(PEM_write_X509(file, certificate) == 1);
    fclose(file);
    file = fopen(path(name + ".key").c_str(), "w");
    must(PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    fclose(file);
  }

  std::string directory_ =
      (std::filesystem::temp_directory_path() / "elastripe-tls-XXXXXX").string();
  EVP_PKEY* ca_key_ = nullptr;
  X509* ca_ = nullptr;
  long serial_ = 0;
};

}  // namespace elastripe
