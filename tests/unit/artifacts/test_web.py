"""A call has a timeout, is retried where that helps, and never sends credentials to another host."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from muster.artifacts.oci.registry import (
    Credentials,
    Registry,
    RegistryError,
    Repository,
    UnreachableError,
    Web,
    credentials_for,
)

QUICK = Web(timeout=60, tries=3, pause=0.01)


class Script:
    """Answers in order, the last one for ever; `asked` is what came: (path, Authorization)."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None]] = []


@contextmanager
def served(script: Script) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script.asked.append((self.path, self.headers.get("Authorization")))
            answers = script.answers
            status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_busy_server_is_asked_again_and_a_refusal_is_not() -> None:
    busy = Script((503, {}, b""), (429, {}, b""), (200, {}, b"here"))
    with served(busy) as host:
        assert QUICK.call("GET", f"http://{host}/").body == b"here"
    refused = Script((403, {}, b""))
    with served(refused) as host:
        assert QUICK.call("GET", f"http://{host}/").status == 403
    assert (len(busy.asked), len(refused.asked)) == (3, 1)


def test_a_server_that_stays_busy_is_given_up() -> None:
    busy = Script((503, {}, b""))
    with served(busy) as host:
        assert QUICK.call("GET", f"http://{host}/").status == 503
    assert len(busy.asked) == 3


def test_an_unreachable_host_is_reported_by_name() -> None:
    with served(Script((200, {}, b""))) as host:
        pass
    with pytest.raises(
        UnreachableError, match=rf"{host} does not answer .* after 3 tries .* Fix: check the name"
    ):
        QUICK.call("GET", f"http://{host}/")


def test_credentials_do_not_follow_to_another_host() -> None:
    elsewhere = Script((200, {}, b"blob"))
    with served(elsewhere) as other:
        here = Script((307, {"Location": f"http://{other}/blob"}, b""))
        with served(here) as host:
            QUICK.call("GET", f"http://{host}/", headers={"Authorization": "Basic secret"})
    assert here.asked == [("/", "Basic secret")]
    assert elsewhere.asked == [("/blob", None)]


def test_a_challenge_is_answered_with_a_token_of_its_scope() -> None:
    with served(Script((200, {}, b'{"token": "t"}'))) as realm:
        challenge = f'Bearer realm="http://{realm}/token",service="s",scope="repository:a/b:pull"'
        script = Script((401, {"WWW-Authenticate": challenge}, b""), (200, {}, b""))
        with served(script) as host:
            registry = Registry(Repository.of(f"{host}/a/b"), Credentials("u", "p"), QUICK)
            assert registry.has_manifest("latest")
    assert [held for _, held in script.asked] == ["Basic dTpw", "Bearer t"]


@pytest.mark.parametrize(("status", "expected"), [(401, "log in"), (403, "roles"), (500, "try again")])
def test_a_refusal_has_a_remedy(status: int, expected: str) -> None:
    body = b'{"errors": [{"code": "DENIED", "message": "no"}]}'
    with served(Script((status, {}, body))) as host:
        registry = Registry(Repository.of(f"{host}/a"), None, QUICK)
        with pytest.raises(RegistryError, match=expected):
            registry.manifest("latest")


def test_content_that_does_not_match_its_digest_is_refused() -> None:
    digest = "sha256:" + "ab" * 32
    with served(Script((200, {}, b"something else"))) as host:
        registry = Registry(Repository.of(f"{host}/a"), None, QUICK)
        for fetch in (registry.manifest, registry.blob):
            with pytest.raises(RegistryError, match="the content has digest"):
                fetch(digest)


def test_secrets_are_not_printed() -> None:
    credentials = Credentials("user", "hidden")
    assert "hidden" not in repr(credentials)
    assert "hidden" not in repr(Registry(Repository("h", "p"), credentials))


def test_docker_logins_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert credentials_for("registry.example") is None
    (tmp_path / "config.json").write_text('{"auths": {"registry.example": {"auth": "dTpw"}}}')
    assert credentials_for("registry.example") == Credentials("u", "p")


@pytest.mark.parametrize("text", ["a/b", "a", "https://a.b/c", "a.b"])
def test_what_is_no_repository_is_refused(text: str) -> None:
    with pytest.raises(RegistryError, match=f"'{text}' is not a repository\\. Fix: write a host and a path"):
        Repository.of(text)
