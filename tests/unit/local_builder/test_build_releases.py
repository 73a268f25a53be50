"""A released program is used only when it is what its publisher published."""

import hashlib
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from muster.local.builder import bundle
from muster.local.builder.cache import Cache
from muster.local.builder.children import Children
from muster.local.builder.progress import Board
from muster.local.builder.releases import DownloadError, Limits, Releases, digest_in
from muster.local.builder.versions import How, Program, Release, origin_of

PROGRAM = b"#!/bin/sh\necho released\n"
FAST = Limits(probe=0.3, silence=0.3, whole=30.0, pause=0.0)


@dataclass
class Publisher:
    """Serves `files`; what is in `ways` is served in that way instead."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    ways: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def publish(self, name: str, content: bytes) -> None:
        self.files[f"/{name}"] = content
        self.files[f"/{name}.sha256"] = f"{hashlib.sha256(content).hexdigest()}  {name}\n".encode()


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            way = served.ways.get(self.path, "")
            if way.startswith(("http://", "https://", "/")):
                self.send_response(302)
                self.send_header("Location", way)
                self.end_headers()
                return
            if way == "hang":
                over.wait(20)
                return
            content = served.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if way == "half" else content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Publisher(f"http://127.0.0.1:{server.server_port}")
    served.publish("prog", PROGRAM)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def program_at(publisher: Publisher, *, file: str = "prog", member: str = "") -> Program:
    address = f"{publisher.address}/{file}"
    release = Release(
        url=address, checksums=f"{address}.sha256", member=member, version="v1", names={}, digests={}
    )
    return Program(
        name="prog",
        directory=Path(),
        module="example.org/prog",
        version="v1",
        package=".",
        stamps=(),
        accept="",
        beside=(),
        seconds=1,
        packages=1,
        release=release,
    )


def releases(tmp_path: Path) -> Releases:
    board = Board()
    board.add("prog", 1)
    return Releases(Cache(tmp_path / "cache"), Children(), board=board, arch="amd64", limits=FAST)


def with_digest(program: Program, digest: str) -> Program:
    assert program.release is not None
    return replace(program, release=replace(program.release, digests={"amd64": digest}))


def archive(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_what_is_published_is_used_and_downloaded_once(publisher: Publisher, tmp_path: Path) -> None:
    program, downloads = program_at(publisher), releases(tmp_path)
    assert downloads.ready(program) is None
    path = downloads.fetch(program)
    assert path.read_bytes() == PROGRAM
    assert path.stat().st_mode & 0o111
    assert downloads.fetch(program) == downloads.ready(program) == path
    assert publisher.asked.count("/prog") == 1


def test_the_record_states_what_vouched_for_the_program(publisher: Publisher, tmp_path: Path) -> None:
    program = program_at(publisher)
    origin = origin_of(program, releases(tmp_path).fetch(program), cache=tmp_path / "cache")
    assert (origin.how, origin.version, origin.checked) == (How.DOWNLOADED, "v1", "publisher's checksum file")
    assert origin.sha256 == hashlib.sha256(PROGRAM).hexdigest()
    pinned = with_digest(program, origin.sha256)
    again = origin_of(pinned, releases(tmp_path / "other").fetch(pinned), cache=tmp_path / "other" / "cache")
    assert again.checked == "digest in versions.toml"


def test_a_program_is_taken_out_of_an_archive_with_its_scripts(publisher: Publisher, tmp_path: Path) -> None:
    publisher.publish("prog.tar.gz", archive(prog=PROGRAM, script=b"beside", other=b"not wanted"))
    program = replace(
        program_at(publisher, file="prog.tar.gz", member="folder/prog"), beside=("deep/in/module/script",)
    )
    path = releases(tmp_path).fetch(program)
    assert path.read_bytes() == PROGRAM
    assert (path.parent / "script").read_bytes() == b"beside"
    assert not (path.parent / "other").exists()


def refused(publisher: Publisher, tmp_path: Path, program: Program | None = None) -> str:
    downloads, wanted = releases(tmp_path), program or program_at(publisher)
    with pytest.raises(DownloadError) as error:
        downloads.fetch(wanted)
    assert downloads.ready(wanted) is None
    assert not list((tmp_path / "cache" / "scratch").iterdir())
    return str(error.value)


@pytest.mark.parametrize(
    ("file", "content", "says", "downloads"),
    [
        ("/prog", b"something else", "do not use it", 1),
        ("/prog", None, "HTTP 404", 1),
        ("/prog.sha256", b"no digest here\n", "has no SHA-256 of prog", 0),
    ],
    ids=["wrong bytes", "a release that is not there", "no checksum"],
)
def test_what_is_published_wrongly_is_refused_and_not_asked_for_again(
    publisher: Publisher, tmp_path: Path, file: str, content: bytes | None, says: str, downloads: int
) -> None:
    del publisher.files[file]
    if content is not None:
        publisher.files[file] = content
    assert says in refused(publisher, tmp_path)
    assert publisher.asked.count("/prog") == downloads


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("half", "cannot be downloaded"),
        ("hang", "timed out"),
        ("http://storage.invalid/prog", "is not an https address"),
    ],
)
def test_what_does_not_arrive_whole_from_a_trusted_place_is_refused(
    publisher: Publisher, tmp_path: Path, way: str, says: str
) -> None:
    publisher.ways["/prog"] = way
    assert says in refused(publisher, tmp_path)


def test_a_digest_that_was_recorded_outweighs_the_publisher(publisher: Publisher, tmp_path: Path) -> None:
    assert "in versions.toml" in refused(publisher, tmp_path, with_digest(program_at(publisher), "0" * 64))
    assert "/prog" not in publisher.asked


def test_a_download_that_another_digest_was_recorded_for_is_dropped(
    publisher: Publisher, tmp_path: Path
) -> None:
    downloads, program = releases(tmp_path), program_at(publisher)
    downloads.fetch(program)
    assert downloads.ready(with_digest(program, "0" * 64)) is None
    assert downloads.ready(program) is None


def test_an_archive_without_the_program_is_refused(publisher: Publisher, tmp_path: Path) -> None:
    publisher.publish("prog.tar.gz", archive(other=b"x"))
    program = program_at(publisher, file="prog.tar.gz", member="folder/prog")
    assert "cannot be unpacked" in refused(publisher, tmp_path, program)


def test_a_redirect_is_followed(publisher: Publisher, tmp_path: Path) -> None:
    publisher.files["/storage"] = publisher.files.pop("/prog")
    publisher.ways["/prog"] = "/storage"
    assert releases(tmp_path).fetch(program_at(publisher)).read_bytes() == PROGRAM


def test_only_publishers_that_answer_are_reachable(publisher: Publisher, tmp_path: Path) -> None:
    publisher.files.clear()  # Its answer is 404.
    with socket.socket() as closed_port:
        closed_port.bind(("127.0.0.1", 0))
        closed = Publisher(f"http://127.0.0.1:{closed_port.getsockname()[1]}")
        near, far = program_at(publisher), replace(program_at(closed), name="far")
        built_only = replace(near, name="built", release=None)
        assert releases(tmp_path).reachable([near, far, built_only]) == {"prog"}


def test_a_silent_publisher_is_not_reachable(publisher: Publisher, tmp_path: Path) -> None:
    publisher.ways["/prog.sha256"] = "hang"
    assert releases(tmp_path).reachable([program_at(publisher)]) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A" * 64, "a" * 64),
        (f"{'b' * 64}  other\n{'c' * 64}  prog\n", "c" * 64),
        (f"{'c' * 64} *prog\n", "c" * 64),
        (f"{'c' * 64}  ./prog\n", "c" * 64),
        (f"{'c' * 128}  prog\n", None),
        (f"{'c' * 64}  prog.sig\n", None),
        ("", None),
        ("<html>not found</html>", None),
    ],
)
def test_a_digest_is_read_from_the_usual_checksum_files(text: str, found: str | None) -> None:
    assert digest_in(text, file="prog") == found


def test_a_downloaded_program_arrives_unharmed_with_a_bundle(publisher: Publisher, tmp_path: Path) -> None:
    program = program_at(publisher)
    path = releases(tmp_path).fetch(program)
    record = {"version": "v1", "checked": "publisher's checksum file"}
    part = bundle.Part(kind="imported", name="prog", key="key", folder=path.parent, record=record)
    bundle.write(tmp_path / "bundle", [part], pins="pins")
    importer = Cache(tmp_path / "importer")
    entry = bundle.read(tmp_path / "bundle", importer, pins="pins")[0]
    assert entry.fault() is None
    origin = origin_of(program, entry.path / "prog", cache=importer.root)
    assert (origin.how, origin.checked) == (How.IMPORTED, "publisher's checksum file")
