"""A self-signed certificate for 127.0.0.1, made with the JDK's own keytool."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from changeling.spark.java import find_java


@dataclass(frozen=True)
class Certificate:
    """What a server shows (`keystore`, opened by `password`) and what its clients have to trust (`trusted`, PEM)."""

    keystore: Path
    password: str
    trusted: Path

    def private_key(self) -> bytes:
        """The key as PEM, for servers that take no keystore."""
        key, _, _ = pkcs12.load_key_and_certificates(self.keystore.read_bytes(), self.password.encode())
        assert key is not None
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certificate(folder: Path) -> Certificate:
    """A new certificate whose files lie in the folder."""
    made = Certificate(folder / "keystore.p12", "not-a-secret", folder / "trusted.pem")
    store = ["-keystore", str(made.keystore), "-storetype", "PKCS12", "-storepass", made.password, "-alias", "broker"]
    key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2"]
    _keytool("-genkeypair", *store, *key, "-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost")
    _keytool("-exportcert", *store, "-rfc", "-file", str(made.trusted))
    return made


def _keytool(*arguments: str) -> None:
    keytool = find_java()[0].resolve().with_name("keytool")
    subprocess.run([str(keytool), *arguments], check=True, capture_output=True)
