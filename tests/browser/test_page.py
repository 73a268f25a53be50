"""The HTML report in a real browser: complete, readable, sortable and accessible, without a network."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.pages import answered, everything, reviewed

# What holds of every page that Muster makes.
EVERY_PAGE = pytest.mark.parametrize(
    "opened", [everything, answered], ids=["report", "what-if"], indirect=True
)
# The page of one realistic change, and where its pictures are kept.
REVIEWED = pytest.mark.parametrize("opened", [reviewed], ids=["reviewed"], indirect=True)
PICTURES = Path(__file__).parents[2] / "build" / "pages"
# The W3C's minimum for text of this size: https://www.w3.org/TR/WCAG22/#contrast-minimum
LEAST_CONTRAST = 4.5


@pytest.fixture
def page(context: BrowserContext, opened: Path) -> Page:
    complaints: list[str] = []
    made = context.new_page()
    made.on("console", lambda said: complaints.append(said.text))
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.goto(opened.as_uri())
    assert complaints == []
    return made


def _open_all(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def test_the_page_renders_and_makes_no_request(page: Page, asked: list[str]) -> None:
    _open_all(page)
    assert page.title() == "Muster preview"
    assert page.locator("h2").all_inner_texts()[0] == "dev"
    titles = page.locator("h3, summary").all_inner_texts()
    for wanted in ("Policy violations", "Who uses more than the new quota now", "The queue tree"):
        assert wanted in titles
    assert page.locator("table").count() >= 8
    box = page.locator("svg").first.bounding_box()
    assert box is not None
    assert box["width"] > 100
    assert page.locator("img, a, iframe").count() == 0
    assert asked == []


@EVERY_PAGE
@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    _open_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = """(width) => Array.from(document.querySelectorAll("main *"))
        .filter((each) => !each.closest(".wide > *") && each.getBoundingClientRect().right > width + 0.5)
        .map((each) => each.tagName + ": " + each.textContent.slice(0, 40))"""
    assert page.evaluate(beyond, width) == []


@REVIEWED
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_first_screen_answers_and_begins_the_quotas(page: Page, width: int, scheme: Any) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"first-screen-{width}-{scheme}.png")
    for shown in (page.locator(".badge"), page.locator(".banner"), page.locator("tbody tr").first):
        box = shown.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 844
    assert page.locator(".badge").inner_text() == "Needs review"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cells = page.locator("details[open] td").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect().right)"
    )
    assert max(cells) <= width, "a figure is cut off"
    _open_all(page)
    page.screenshot(path=PICTURES / f"unfolded-{width}-{scheme}.png", full_page=True)


@REVIEWED
@pytest.mark.parametrize("width", [390, 1440])
def test_no_name_or_figure_is_broken_within_a_word(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    _open_all(page)
    lines = """(all) => all
        .filter((each) => !/[ /]/.test(each.textContent) && each.getClientRects().length > 1)
        .map((each) => each.textContent)"""
    assert page.locator("td code").evaluate_all(lines) == []


@REVIEWED
def test_losses_and_risks_are_signs_as_well_as_colours(page: Page) -> None:
    signs = {"less": "▼", "new": "+", "risk": "!"}
    sign = "(each) => getComputedStyle(each, '::before').content"
    for kind, wanted in signs.items():
        assert wanted in page.locator(f"tr.{kind} td:first-child").first.evaluate(sign), kind
    for kind, wanted in {"less": "▼", "more": "▲", "risk": "!"}.items():
        assert wanted in page.locator(f".banner .{kind}").first.evaluate(sign), kind
    dashes = "(each) => getComputedStyle(each).strokeDasharray"
    assert page.locator("svg .lost").first.evaluate(dashes) != "none"


@REVIEWED
def test_a_reader_without_javascript_unfolds_everything(browser: Browser, opened: Path) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(opened.as_uri())
    part = page.locator(".part", has=page.get_by_role("heading", name="The queue tree"))
    assert not part.locator(".tree").is_visible()
    part.locator("summary").first.click()
    assert part.locator(".tree").is_visible()
    page.close()


@REVIEWED
def test_paper_has_what_is_folded(page: Page) -> None:
    assert not page.locator(".tree").is_visible()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".tree").is_visible()
    assert page.pdf().startswith(b"%PDF")


@EVERY_PAGE
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    _open_all(page)
    found = page.evaluate(_CONTRASTS)
    assert len(found) > 100
    weak = {
        f"{each['text']} {each['ink']} on {each['ground']}"
        for each in found
        if each["ratio"] < LEAST_CONTRAST
    }
    assert weak == set()


def test_dark_mode_has_a_dark_background(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    assert (light, page.evaluate(ground)) == ("rgb(255, 255, 255)", "rgb(15, 19, 24)")


@EVERY_PAGE
def test_every_column_of_every_table_sorts_both_ways(page: Page, asked: list[str]) -> None:
    _open_all(page)
    for table in page.locator("table").all():
        rows = sorted(table.evaluate(_ROWS))
        for column in range(table.locator("th").count()):
            for direction in ("ascending", "descending"):
                found = table.evaluate(_PRESSED, [column, direction])
                assert (found["said"], found["cells"]) == (direction, found["wanted"])
        assert sorted(table.evaluate(_ROWS)) == rows
    assert asked == []


@pytest.mark.parametrize("opened", [answered], indirect=True)
def test_the_what_if_page_shows_victims_and_reasons(page: Page, asked: list[str]) -> None:
    _open_all(page)
    titles = page.locator("h3, summary").all_inner_texts()
    assert {"Teams with a different outcome", "Preempted with head", "Why work is pending with head"} <= {
        *titles
    }
    assert page.locator("img, a, iframe").count() == 0
    assert page.title() == "Muster preview"
    assert asked == []


def test_numbers_sort_as_numbers(page: Page) -> None:
    table = page.locator(".part", has=page.get_by_role("heading", name="Quota of teams")).locator("table")
    heads = table.locator("th").all_inner_texts()
    table.locator("th button").nth(heads.index("Quota")).click()
    assert table.evaluate(_COLUMN, heads.index("Quota")) == ["4 → 2", "1 → 12"]


@EVERY_PAGE
def test_everything_that_can_be_used_is_reached_by_tab_and_seen_to_be(page: Page) -> None:
    """Buttons, folds and what scrolls, in the order in which they stand; and Enter sorts as a click does."""
    _open_all(page)
    wanted = page.locator("button, summary, [tabindex='0']").count()
    reached = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(_FOCUSED))
    assert [each["place"] for each in reached] == list(range(wanted))
    assert all(each["outline"] >= 2 for each in reached)
    page.locator("th button").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("th").first.get_attribute("aria-sort") == "ascending"


def test_enter_folds_and_unfolds(page: Page) -> None:
    _open_all(page)
    fold = page.locator("summary").first
    fold.focus()
    page.keyboard.press("Enter")
    assert not page.locator("details").first.evaluate("(each) => each.open")


@EVERY_PAGE
def test_a_screen_reader_gets_names_and_roles(page: Page) -> None:
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("main").count() == 1
    assert page.locator("h1").count() == 1
    unnamed = page.locator("[role=region]:not([aria-label]), svg:not([aria-label]), th:not([scope])").count()
    assert unnamed == 0
    assert page.locator("svg[role=img]").count() == page.locator("svg").count()


_COLUMN = "(table, column) => Array.from(table.tBodies[0].rows, (row) => row.cells[column].textContent)"
_ROWS = "(table) => Array.from(table.tBodies[0].rows, (row) => row.textContent)"
# Presses a column's button. What is wanted is the order that the page's own rule gives: what stands after the
# arrow, numbers as numbers, a stable sort.
_PRESSED = """(table, [column, direction]) => {
    const cells = () => Array.from(table.tBodies[0].rows, (row) => row.cells[column]);
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = cells().map((cell) => [key(cell), cell.textContent]);
    const wanted = keyed.sort((one, two) => sign * order(one[0], two[0])).map((each) => each[1]);
    const head = table.tHead.rows[0].cells[column];
    head.querySelector("button").click();
    return {said: head.getAttribute("aria-sort"), cells: cells().map((each) => each.textContent), wanted};
}"""
_FOCUSED = """() => {
    const all = Array.from(document.querySelectorAll("button, summary, [tabindex='0']"));
    const style = getComputedStyle(document.activeElement);
    const drawn = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
    return {place: all.indexOf(document.activeElement), outline: drawn};
}"""
_CONTRASTS = """() => {
    const channel = (value) => {
        const part = value / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    };
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => {
        const [red, green, blue] = numbers(colour).map(channel);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ground = (element) => {
        const drawn = element.tagName === "text" && element.parentNode.querySelector("rect");
        if (drawn) return getComputedStyle(drawn).fill;
        for (let here = element; here; here = here.parentElement) {
            const colour = getComputedStyle(here).backgroundColor;
            if (numbers(colour)[3] !== 0) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (words.nextNode()) {
        const element = words.currentNode.parentElement;
        if (!words.currentNode.data.trim() || element.closest("title, script, style")) continue;
        const style = getComputedStyle(element);
        const ink = element.tagName === "text" ? style.fill : style.color;
        const below = ground(element);
        const [one, two] = [light(ink), light(below)].sort((a, b) => b - a);
        const ratio = (one + 0.05) / (two + 0.05);
        found.push({text: element.textContent.slice(0, 30), ink, ground: below, ratio});
    }
    return found;
}"""
