"""A CA of a test's own, and certificates by it."""

import ssl
import subprocess


def openssl(*words, cwd):
    subprocess.run(["openssl", *words], cwd=cwd, check=True, capture_output=True)


class Authority:
    """A CA in a directory, and certificates by it."""

    def __init__(self, directory, name="ca"):
        self.dir = directory
        self.dir.mkdir()
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                "ca.key", "-out", "ca.pem", "-days", "2", "-subj", f"/CN={name}", cwd=self.dir)

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1"):
        (self.dir / "extensions").write_text(f"subjectAltName={names}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}", cwd=self.dir)
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "extensions", "-out", f"{name}.pem", cwd=self.dir)

    def file(self, name):
        return str(self.dir / name)

    def context(self, client=None):
        context = ssl.create_default_context(cafile=self.file("ca.pem"))
        if client:
            context.load_cert_chain(self.file(f"{client}.pem"), self.file(f"{client}.key"))
        return context
