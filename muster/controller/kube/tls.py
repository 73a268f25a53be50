"""TLS contexts from PEM bytes.

A key pair that exists only in memory becomes an ssl context: OpenSSL needs file names and the root file
system is read-only, so the bytes pass through an anonymous memory file. Callers decide whom to trust.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("muster-tls", os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def load_pair(context: ssl.SSLContext, *, certificate: bytes, key: bytes) -> None:
    """Give a context its own certificate (a PEM chain) and key. Raises ssl.SSLError when they do not belong
    together.
    """
    with _memory_file(certificate) as certificate_path, _memory_file(key) as key_path:
        context.load_cert_chain(certificate_path, key_path)


def client_context(
    *, authority: bytes | None, certificate: bytes | None = None, key: bytes | None = None
) -> ssl.SSLContext:
    """A context that trusts `authority` (PEM), or the system's roots when it is None."""
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate and key:
        load_pair(context, certificate=certificate, key=key)
    return context


def server_context(*, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A context that serves with the given pair and asks clients for nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, certificate=certificate, key=key)
    return context
