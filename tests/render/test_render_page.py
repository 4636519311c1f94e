"""What the page promises: one file, nothing fetched, nothing executed but its own script, and usable by everyone.

The browser is Debian's Chromium, driven by Playwright; its own downloads are never used. Accessibility is judged by
axe-core as the package axe-playwright-python carries it.
"""

import base64
import datetime as dt
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from sample_documents import DAY, HOUR, MONDAY, SAMPLES, crowd, document, kill

from kill_audit.document import Document, Window, timestamp
from kill_audit.render import render
from kill_audit.render.chart import chart
from kill_audit.render.view import Clock

CHROMIUM = os.environ.get("KILL_AUDIT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
VIEWS = {"light": ("light", 1280), "dark": ("dark", 1280), "phone": ("light", 360), "dark-phone": ("dark", 360)}


def page_of(what: Document, *, explain: bool = False) -> str:
    """The page of a document."""
    return render(what, "html", width=None, zone=dt.UTC, explain=explain)


class Tags(HTMLParser):
    """Every start tag of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        self.found.append((tag, dict(attrs)))


# without a browser


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_page_fetches_and_runs_nothing(sample: str) -> None:
    """There is no address to fetch, no inline handler and no inline style, in the page or in what others wrote."""
    tags = Tags(page_of(SAMPLES[sample]())).found
    attributes = [(name, value) for _, attrs in tags for name, value in attrs.items()]
    assert [name for name, _ in attributes if name.startswith("on") or name in ("style", "src", "srcset")] == []
    assert [value for name, value in attributes if name in ("href", "xlink:href") and (value or "")[:1] != "#"] == []
    assert {tag for tag, _ in tags} & {"img", "iframe", "object", "embed", "link", "base"} == set()


@pytest.mark.parametrize("sample", ["mixture", "nothing-found"])
def test_the_policy_allows_only_the_pages_own_style_and_script(sample: str) -> None:
    """The Content-Security-Policy is closed but for the hashes of the two inline elements."""
    text = page_of(SAMPLES[sample]())
    (policy,) = [attrs["content"] for _, attrs in Tags(text).found if "http-equiv" in attrs]
    assert policy is not None
    directives = dict(one.strip().split(" ", 1) for one in policy.split(";"))
    style, script = directives.pop("style-src"), directives.pop("script-src")
    assert directives == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    assert [_source(found) for found in re.findall("<style>(.*?)</style>", text, flags=re.DOTALL)] == [style]
    scripts = re.findall("<script>(.*?)</script>", text, flags=re.DOTALL)
    assert {_source(found) for found in scripts} <= {script}
    assert len(scripts) == (1 if SAMPLES[sample]().kills else 0)


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("left_out", ["", "kills", "blind_deaths"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_every_link_leads_somewhere(sample: str, left_out: str) -> None:
    """Each link of the page names an element of the page, and no two elements share an id."""
    wanted = SAMPLES[sample]()
    tags = Tags(page_of(msgspec.structs.replace(wanted, **{left_out: ()}) if left_out else wanted)).found
    ids = [value for _, attrs in tags for name, value in attrs.items() if name == "id"]
    links = {(value or "")[1:] for _, attrs in tags for name, value in attrs.items() if name == "href"}
    assert links - set(ids) == set()
    assert len(ids) == len(set(ids))


def test_the_chart_shows_every_day_of_the_window() -> None:
    """Days without kills have a row too, the day after the window has none, and the bars add up."""
    mixture = SAMPLES["mixture"]()
    shown = chart(mixture, Clock.over(mixture, dt.UTC))
    assert [str(bar.day) for bar in shown.bars] == [f"2026-11-{day}" for day in range(23, 30)]
    assert [bar.kills for bar in shown.bars] == [0, 3, 0, 8, 0, 0, 0]
    assert sum(number for _, number in shown.causes) == len(mixture.kills)


def test_the_chart_shows_a_long_window_by_weeks() -> None:
    """Over five weeks a row is a week, which begins on Monday."""
    window = Window(since=timestamp(MONDAY - 90 * DAY), until=timestamp(MONDAY + DAY))
    long = document([kill(0, MONDAY + HOUR), kill(1, MONDAY - 80 * DAY)], window=window)
    shown = chart(long, Clock.over(long, dt.UTC))
    assert shown.weekly
    assert {bar.day.weekday() for bar in shown.bars} == {0}
    assert sum(bar.kills for bar in shown.bars) == 2


# in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; without it CI fails, and a laptop skips."""
    if CHROMIUM is None:
        message = "no chromium: apt-get install chromium, or set KILL_AUDIT_CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


class Opened:
    """A page of a document in the browser, with whatever it said on the console and whatever it wanted to fetch."""

    def __init__(self, browser: Browser, file: Path, what: Document, *, view: str = "light") -> None:
        scheme, width = VIEWS[view]
        file.write_text(page_of(what), encoding="utf-8")
        self.said: list[str] = []
        self.fetched: list[str] = []
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if scheme == "dark" else "light"
        )
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.fetched.append(request.url))
        self.page.goto(file.as_uri())
        assert self.fetched == [file.as_uri()]

    def order(self) -> list[str]:
        """The ids of the kills that can be seen, in their order."""
        bodies = self.page.locator("#list > tbody:visible")
        return [str(one).removeprefix("kill-") for one in bodies.evaluate_all("all => all.map(one => one.id)")]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("sample", ["mixture", "hostile", "nothing-found-partial"])
def test_the_page_is_accessible(browser: Browser, tmp_path: Path, sample: str, view: str) -> None:
    """In light, dark and on a phone axe finds no serious or critical violation, and nothing is said on the console."""
    opened = Opened(browser, tmp_path / "page.html", SAMPLES[sample](), view=view)
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    opened.page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    violations = opened.page.evaluate("axe.run()")["violations"]
    serious = [(one["id"], one["nodes"][0]["html"]) for one in violations if one["impact"] in ("serious", "critical")]
    assert serious == []
    assert opened.said == []


@pytest.mark.parametrize("sample", ["mixture", "hostile", "deploys", "nothing-found-partial"])
def test_the_page_fits_a_phone(browser: Browser, tmp_path: Path, sample: str) -> None:
    """At 360 pixels nothing makes the page itself scroll sideways."""
    opened = Opened(browser, tmp_path / "page.html", SAMPLES[sample](), view="phone")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 360


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    """Names that are markup, script or templates are shown letter by letter, and nothing of them runs."""
    opened = Opened(browser, tmp_path / "page.html", SAMPLES["hostile"]())
    shown = opened.page.locator("#list").inner_text()
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in shown
    assert "{{ 7 * 7 }} {% raw %} ${x}" in shown
    assert r"tasks.\x1b[31mred\x1b[0m\r\n\x07\x9b31mforged line" in shown
    assert opened.page.locator("img").count() == 0
    assert opened.said == []


def test_the_kills_can_be_filtered(browser: Browser, tmp_path: Path) -> None:
    """The choices and the search narrow the kills together, say how many are left, and are undone by one button."""
    mixture = SAMPLES["mixture"]()
    opened = Opened(browser, tmp_path / "page.html", mixture)
    page = opened.page
    everything = opened.order()
    assert sorted(everything) == sorted(one.id for one in mixture.kills)
    page.select_option("[data-filter=verdict]", "missing")
    assert set(opened.order()) == {one.id for one in mixture.kills if one.verdict == "missing"}
    page.fill("#search", "OOM-kernel  medium")
    assert opened.order() == ["5b6e17cdae10"]
    assert page.inner_text("#shown") == "1 of 11 kills"
    page.fill("#search", "no such thing")
    assert page.is_visible("#none")
    page.click("button[type=reset]")
    page.wait_for_function("document.getElementById('shown').textContent === '11 kills'")
    assert opened.order() == everything


def test_the_kills_can_be_sorted(browser: Browser, tmp_path: Path) -> None:
    """A column sorts by its values, not by their spelling; a second click turns it round; the header says so."""
    mixture = SAMPLES["mixture"]()
    opened = Opened(browser, tmp_path / "page.html", mixture)
    page = opened.page
    page.click("th[data-key=ran] button")
    longest = sorted(mixture.kills, key=lambda one: -1.0 if one.ran_for_s is None else one.ran_for_s, reverse=True)
    assert opened.order() == [one.id for one in longest]
    assert page.get_attribute("th[data-key=ran]", "aria-sort") == "descending"
    page.click("th[data-key=ran] button")
    assert opened.order() == [one.id for one in reversed(longest)]
    assert page.get_attribute("th[data-key=ran]", "aria-sort") == "ascending"
    page.select_option("#order", "at")
    assert opened.order() == [one.id for one in sorted(mixture.kills, key=lambda one: one.at)]
    assert page.get_attribute("th[data-key=ran]", "aria-sort") is None


def test_a_word_leads_to_its_meaning(browser: Browser, tmp_path: Path) -> None:
    """A click on a cause unfolds the glossary at what it means."""
    opened = Opened(browser, tmp_path / "page.html", SAMPLES["mixture"]())
    assert not opened.page.is_visible("#cause-unit-stop")
    opened.page.locator("#list a[href='#cause-unit-stop']").first.click()
    opened.page.wait_for_selector("#cause-unit-stop", state="visible")


def test_many_kills_are_shown_in_parts(browser: Browser, tmp_path: Path) -> None:
    """Of 500 kills 200 are laid out at once; a button shows more, and a link to a hidden one shows that one."""
    many = crowd(500)
    opened = Opened(browser, tmp_path / "page.html", many)
    assert len(opened.order()) == 200
    assert opened.page.inner_text("#shown") == "500 kills; the first 200 are shown"
    opened.page.click("#more")
    assert len(opened.order()) == 400
    hidden = next(one.id for one in many.kills if one.id not in set(opened.order()))
    opened.page.evaluate("id => { location.hash = `kill-${id}`; }", hidden)
    opened.page.wait_for_selector(f"#kill-{hidden}", state="visible")


def test_the_page_can_be_read_without_its_script(browser: Browser, tmp_path: Path) -> None:
    """With scripts switched off every kill is there, and the controls that need one are not."""
    file = tmp_path / "page.html"
    file.write_text(page_of(crowd(300)), encoding="utf-8")
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(file.as_uri())
    assert page.locator("#list > tbody:visible").count() == 300
    assert not page.is_visible("#tools")


def test_the_page_prints_as_a_table_on_white(browser: Browser, tmp_path: Path) -> None:
    """Print is black on white where the screen is dark, without the controls, and a table at a paper's width."""
    opened = Opened(browser, tmp_path / "page.html", SAMPLES["mixture"](), view="dark-phone")
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not opened.page.is_visible("#search")
    assert not opened.page.is_visible("#order")
    assert opened.page.evaluate("getComputedStyle(document.getElementById('list')).display") == "table"


def test_paper_has_every_kill_and_says_what_was_left_out(browser: Browser, tmp_path: Path) -> None:
    """What is printed are all kills that the filter lets pass, not the first 200, and how many those are of all."""
    many = crowd(500)
    page = Opened(browser, tmp_path / "page.html", many).page
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#list > tbody:visible").count() == 500
    page.select_option("[data-filter=cause]", "unit-stop", force=True)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    fitting = sum(one.cause == "unit-stop" for one in many.kills)
    assert page.locator("#list > tbody:visible").count() == fitting
    assert page.inner_text("#shown") == f"{fitting} of 500 kills"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.inner_text("#shown") == f"{fitting} of 500 kills"


def test_accepted_kills_come_last_and_can_be_filtered(browser: Browser, tmp_path: Path) -> None:
    """An accepted kill stands last, says so without an alarm's colour, tells why, and can be left out."""
    mixture = SAMPLES["mixture"]()
    [known] = [one.id for one in mixture.kills if one.accepted is not None]
    opened = Opened(browser, tmp_path / "page.html", mixture)
    assert opened.order()[-1] == known
    row = opened.page.locator(f"#kill-{known}")
    assert row.locator("small", has_text="accepted").is_visible()
    assert row.locator(".verdict.missing").count() == 0
    row.locator("summary").click()
    assert (
        "the operator's own test (cause manual-signal, until 2027-01-01; kill-audit.accepted.toml:12)"
        in row.inner_text()
    )
    opened.page.select_option("[data-filter=accepted]", "no")
    assert set(opened.order()) == {one.id for one in mixture.kills} - {known}
