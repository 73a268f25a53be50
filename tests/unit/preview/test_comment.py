"""There is exactly one comment, whatever fails on the way, and the report is never lost."""

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli import main
from muster.preview.forge import format_marker
from tests.unit.preview import forge_world
from tests.unit.preview.forge_world import PROJECT, REPOSITORY, TOKEN, Comments
from tests.unit.preview.http_world import Asked, Reply, Server, serving

FORGES = {"github": forge_world.github, "gitlab": forge_world.gitlab}


@pytest.fixture(params=["github", "gitlab"])
def forge(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def _job(forge: str, state: Comments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    def answer(asked: Asked) -> Reply:
        return FORGES[forge](state, asked)

    with serving(answer) as server:
        state.base = server.url
        event, summary = tmp_path / "event.json", tmp_path / "summary.md"
        event.write_text(json.dumps({"pull_request": {"number": 7}}), encoding="utf-8")
        variables = {
            "github": {
                "GITHUB_ACTIONS": "true",
                "GITHUB_API_URL": server.url,
                "GITHUB_REPOSITORY": REPOSITORY,
                "GITHUB_EVENT_PATH": str(event),
                "GITHUB_TOKEN": TOKEN,
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            "gitlab": {
                "GITLAB_CI": "true",
                "CI_API_V4_URL": server.url,
                "CI_PROJECT_ID": "1",
                "CI_MERGE_REQUEST_PROJECT_ID": PROJECT,
                "CI_MERGE_REQUEST_PROJECT_URL": "https://gitlab.example/acme/platform",
                "CI_MERGE_REQUEST_IID": "7",
                "GITLAB_TOKEN": TOKEN,
            },
        }[forge]
        for name in ("GITHUB_ACTIONS", "GITHUB_REPOSITORY", "GITLAB_CI"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        yield server


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def comment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(body: str = "# Report\n", *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(body))
        code = main(["ci", "comment", *arguments])
        found = capsys.readouterr()
        assert TOKEN not in found.out + found.err
        return code, found.out, found.err

    return run


@pytest.fixture
def state() -> Comments:
    return Comments()


@pytest.fixture
def server(forge: str, state: Comments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with _job(forge, state, monkeypatch, tmp_path) as server:
        yield server


def _read_summary(forge: str, tmp_path: Path) -> str:
    return (tmp_path / {"github": "summary.md", "gitlab": "muster-preview.md"}[forge]).read_text("utf-8")


@pytest.mark.usefixtures("server")
def test_the_first_run_creates_it_and_the_next_brings_it_up_to_date(state: Comments, comment: Run) -> None:
    code, out, _ = comment("one\n")
    assert (code, out.startswith("comment created: https://")) == (0, True)
    assert comment("two\n")[0] == 0
    assert comment("two\n")[1].startswith("comment unchanged")
    assert [each["body"] for each in state.bodies] == [f"{format_marker('report')}\ntwo\n"]


@pytest.mark.usefixtures("server")
def test_it_is_found_behind_two_hundred_others(state: Comments, comment: Run) -> None:
    for index in range(230):
        state.say(f"comment {index}")
    comment("one\n")
    for index in range(30):
        state.say(f"later {index}")
    code, out, _ = comment("two\n")
    assert (code, "updated" in out) == (0, True)
    assert sum(format_marker("report") in each["body"] for each in state.bodies) == 1
    assert len(state.bodies) == 261


@pytest.mark.usefixtures("server")
def test_a_foreign_comment_with_our_marker_is_not_changed(state: Comments, comment: Run) -> None:
    theirs = f"{format_marker('report')}\nmine, all mine\n"
    state.say(theirs)
    state.say(f"I quote: {format_marker('report')}\n", author="muster-bot")
    comment("one\n")
    assert state.bodies[0]["body"] == theirs
    assert len(state.bodies) == 3


@pytest.mark.usefixtures("server")
def test_comments_of_two_names_stay_two(state: Comments, comment: Run) -> None:
    comment("dev\n", "--name", "dev")
    comment("prod\n", "--name", "prod")
    comment("dev 2\n", "--name", "dev")
    assert [each["body"].partition("\n")[2] for each in state.bodies] == ["dev 2\n", "prod\n"]


@pytest.mark.usefixtures("server")
def test_a_creation_whose_answer_is_lost_is_not_made_twice(state: Comments, comment: Run) -> None:
    state.lost = 1
    code, out, _ = comment("one\n")
    assert (code, len(state.bodies)) == (0, 1)
    assert "unchanged" in out


@pytest.mark.usefixtures("server")
def test_without_the_right_to_comment_the_report_is_in_the_summary(
    forge: str, state: Comments, comment: Run, tmp_path: Path
) -> None:
    state.may_write = False
    code, out, err = comment("one\n")
    assert (code, out) == (0, "")
    assert "403" in err
    assert "one" in _read_summary(forge, tmp_path)


@pytest.mark.usefixtures("server")
def test_a_forge_that_is_down_fails_the_step_and_loses_no_report(
    forge: str, state: Comments, comment: Run, tmp_path: Path
) -> None:
    state.first = [Reply(503)] * 20
    code, _, err = comment("one\n")
    assert code == 3
    assert "answered 503" in err
    assert "one" in _read_summary(forge, tmp_path)


@pytest.mark.usefixtures("server")
def test_a_wrong_token_fails_the_step(
    monkeypatch: pytest.MonkeyPatch, forge: str, comment: Run, tmp_path: Path
) -> None:
    monkeypatch.setenv({"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN"}[forge], "wrong")
    code, _, err = comment("one\n")
    assert code == 3
    assert "answered 401" in err
    assert "wrong" not in err


@pytest.mark.usefixtures("server")
def test_without_a_token_or_a_pull_request_the_report_is_in_the_summary(
    monkeypatch: pytest.MonkeyPatch, forge: str, comment: Run, tmp_path: Path
) -> None:
    monkeypatch.delenv({"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN"}[forge])
    code, _, err = comment("one\n")
    assert code == 0
    assert "is not set" in err
    assert "one" in _read_summary(forge, tmp_path)
    monkeypatch.setenv({"github": "GITHUB_EVENT_PATH", "gitlab": "CI_MERGE_REQUEST_IID"}[forge], "")
    assert "does not run for a" in comment("one\n")[2]


@pytest.mark.parametrize("forge", ["github"], indirect=True)
@pytest.mark.usefixtures("server")
def test_a_workflows_own_token_finds_its_comment_among_those_of_people(state: Comments, comment: Run) -> None:
    state.me = None
    state.say(f"{format_marker('report')}\nfrom a person\n")
    comment("one\n")
    comment("two\n")
    assert len(state.bodies) == 2
    assert state.bodies[1]["body"].endswith("two\n")


@pytest.mark.usefixtures("server")
def test_a_next_page_on_another_server_gets_no_token(state: Comments, comment: Run) -> None:
    for index in range(150):
        state.say(f"comment {index}")
    with serving(lambda _: Reply(body=[])) as thief:
        state.base = thief.url
        code, _, err = comment("one\n")
    assert code == 3
    assert "another server" in err
    assert thief.asked == []


@pytest.mark.usefixtures("server")
def test_status_is_available_as_json(comment: Run) -> None:
    assert json.loads(comment("one\n", "--json")[1])["action"] == "created"


@pytest.mark.parametrize(
    ("body", "message"), [(" \n", "the report is empty"), ("x" * 70_000, "has 70000 characters")]
)
@pytest.mark.usefixtures("server")
def test_what_cannot_be_a_comment_is_refused(body: str, message: str, comment: Run) -> None:
    code, _, err = comment(body)
    assert (code, message in err) == (2, True)


@pytest.mark.parametrize("forge", ["github"], indirect=True)
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GITHUB_API_URL", "http://forge.example", "only sent over https://"),
        ("GITHUB_REPOSITORY", "../../user", "not OWNER/NAME"),
    ],
)
@pytest.mark.usefixtures("server")
def test_surroundings_that_would_send_the_token_astray_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str, comment: Run
) -> None:
    monkeypatch.setenv(name, value)
    code, _, err = comment("one\n")
    assert (code, message in err) == (2, True)


def test_the_pull_request_is_known_from_its_ref(
    monkeypatch: pytest.MonkeyPatch, state: Comments, comment: Run, tmp_path: Path
) -> None:
    with _job("github", state, monkeypatch, tmp_path):
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "gone"))
        monkeypatch.setenv("GITHUB_REF", "refs/pull/7/merge")
        assert comment("one\n")[0] == 0
    assert len(state.bodies) == 1


@given(st.text())
def test_a_marker_is_one_whole_html_comment_whatever_the_name(name: str) -> None:
    found = format_marker(name)
    inner = found.removeprefix("<!--").removesuffix("-->")
    assert found == f"<!--{inner}-->"
    assert "--" not in inner
    assert ">" not in inner
    assert len(found.splitlines()) == 1
