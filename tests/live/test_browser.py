"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from runs_made import CHUNK, OPEN, SIDE, STEPS, columns, history, make, picture, served

pytestmark = pytest.mark.services
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("there is no Chromium: make test-services", allow_module_level=True)
pytest.importorskip("starlette")
api: Any = pytest.importorskip("playwright.sync_api")

SMOKE = ["--preset", "smoke", "--map-interval", "400", "--eval-interval", "0"]
LONG = 1000 * float(os.environ.get("DEVOTE_PATIENCE", "120"))  # milliseconds
VIRIDIS = {"low": (68, 1, 84), "high": (253, 231, 37), "wall": (60, 60, 66), "none": (245,) * 3}
DARK_WALL = (47, 53, 61)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api.expect.set_options(timeout=LONG)
    with api.sync_playwright() as play:
        launched = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("browser")
    one = make(runs / "one", maps=history())
    (one / "figures").mkdir()
    Image.new("RGB", (8, 8)).save(one / "figures" / "plot.png")
    make(runs / "two", columns(explore__coverage=np.linspace(0.1, 0.3, 20)), seed=1)
    make(runs / "film", maps=[picture(CHUNK * i, 1 + i // 5) for i in range(40)])
    make(runs / "dead", columns(10), saved=5 * CHUNK, maps=history()[:2])
    make(runs / "ill", columns(plasticity__dormant_frac=0.9), optimism=3.0)
    cells = [
        {"task": task, "method": "devote", "seed": seed, "run": run}
        for task, seed, run in (("maze", 0, "one"), ("maze", 1, "two"), ("sea", 0, "none"))
    ]
    (runs / "study").mkdir()
    Image.new("RGB", (6, 6)).save(runs / "study" / "figure.png")
    (runs / "study" / "study.json").write_text(json.dumps({"title": "A study", "cells": cells}))
    return runs


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with served(root) as port:
        yield f"http://127.0.0.1:{port}/"


class Page:
    """A page that has loaded, and what it complained of."""

    def __init__(self, browser: Any, address: str, run: str | None = "one", **more: Any) -> None:
        self.page = browser.new_page(viewport={"width": 1400, "height": 1200}, **more)
        self.errors: list[str] = []
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)
        if run is not None:
            self.open(run)

    def __getitem__(self, selector: str) -> Any:
        return self.page.locator(selector)

    def open(self, run: str) -> None:
        self.page.get_by_role("link", name=run, exact=True).click()
        api.expect(self["#name"]).to_contain_text(run)

    def canvas(self, name: str) -> np.ndarray:
        """The pixels of a map."""
        found = self[f'canvas[data-name="{name}"]']
        found.scroll_into_view_if_needed()
        with Image.open(BytesIO(found.screenshot())) as shot:
            return np.asarray(shot.convert("RGB")).astype(int)

    def pixel(self, name: str, row: int, column: int) -> tuple[int, ...]:
        """The colour in the middle of a bin."""
        shot = self.canvas(name)
        high, wide = (side / SIDE for side in shot.shape[:2])
        return tuple(shot[int((row + 0.5) * high), int((column + 0.5) * wide)])

    def slide(self, place: int, step: int) -> None:
        self["#slider"].fill(str(place))
        api.expect(self["#at"]).to_contain_text(f"step {step:,} ")

    def line(self, run: str) -> Any:
        """A run's place in the list."""
        link = self.page.get_by_role("link", name=run, exact=True)
        return self["#runs li"].filter(has=link)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Page]:
    shown = Page(browser, address)
    yield shown
    assert shown.errors == []  # no script failed, and nothing was against the policy
    shown.page.close()


def expect(locator: Any) -> Any:
    return api.expect(locator)


def near(one: Any, other: Any) -> bool:
    return bool(np.abs(np.subtract(one, other)).max() <= 3)


def test_runs_are_listed_with_their_state_and_how_far_they_are(page: Page) -> None:
    expect(page["#runs li"]).to_have_count(5)
    expect(page["#count"]).to_have_text("5")
    expect(page.line("one")).to_contain_text("finished")
    expect(page.line("one")).to_contain_text("320,000 steps")
    expect(page["#link"]).to_have_text("Live")


def test_a_killed_run_is_shown_as_such(page: Page) -> None:
    expect(page.line("dead").locator(".state.killed")).to_have_text("killed")
    expect(page.line("dead")).to_contain_text("160,000 of 320,000 steps")
    page.open("dead")
    expect(page["#name .killed"]).to_have_text("killed")


def test_runs_are_found_by_words(page: Page) -> None:
    page["#find"].fill("killed spiral")
    expect(page["#count"]).to_have_text("1 of 5")
    page["#find"].fill("nothing like it")
    expect(page["#runs li"]).to_have_count(0)


def test_a_reload_and_the_back_button_keep_what_is_looked_at(page: Page) -> None:
    page.open("dead")
    page.page.reload()
    expect(page["#name"]).to_contain_text("dead")
    page.open("two")
    page.page.go_back()
    expect(page["#name"]).to_contain_text("dead")


def test_a_folder_without_runs_says_how_to_start_one(browser: Any, tmp_path: Path) -> None:
    with served(tmp_path) as port:
        page = Page(browser, f"http://127.0.0.1:{port}/", None)
        expect(page["#empty"]).to_contain_text("devote train spiral")
        make(tmp_path / "new", maps=history())
        expect(page["#name"]).to_contain_text("new")  # by itself
        expect(page["#empty"]).to_be_hidden()
        shutil.rmtree(tmp_path / "new")
        expect(page["#empty"]).to_contain_text("not there any more")
        page.page.close()


def test_a_server_that_ends_is_noticed(browser: Any, tmp_path: Path) -> None:
    make(tmp_path / "one")
    with served(tmp_path) as port:
        page = Page(browser, f"http://127.0.0.1:{port}/")
        expect(page["#link"]).to_have_text("Live")
    expect(page["#link"]).to_have_text("No connection; trying again")
    page.page.close()


def test_the_slider_shows_the_snapshot_asked_for_to_the_pixel(page: Page) -> None:
    page["#paths"].select_option("none")
    for place, one in enumerate(history()):
        page.slide(place, one.step)
        values = one.arrays["novelty value rb"][0]
        inside = np.where(OPEN, values, np.nan).reshape(SIDE, SIDE)
        low = np.unravel_index(np.nanargmin(inside), inside.shape)
        high = np.unravel_index(np.nanargmax(inside), inside.shape)
        assert near(page.pixel("novelty value rb", *low), VIRIDIS["low"])
        assert near(page.pixel("novelty value rb", *high), VIRIDIS["high"])
        assert near(page.pixel("novelty value rb", 0, 0), VIRIDIS["wall"])
        seen = one.arrays["visits"][0].reshape(SIDE, SIDE)
        for column in range(1, SIDE - 1):
            unseen = near(page.pixel("visits", 5, column), VIRIDIS["none"])
            assert unseen == (seen[5, column] == 0), (one.step, column)


def test_linked_scales_show_that_novelty_fell(page: Page) -> None:
    page["#linked"].check()
    page.slide(0, 0)
    before = page.pixel("novelty |c + g|", 5, 3)
    page.slide(2, STEPS)
    after = page.pixel("novelty |c + g|", 5, 3)
    assert sum(before) > sum(after) + 60
    caption = page['figure[data-name="novelty |c + g|"] .scale']
    said = caption.text_content()
    page.slide(0, 0)
    expect(caption).to_have_text(said)  # one scale for the whole run
    page["#linked"].uncheck()
    expect(caption).not_to_have_text(said)


def test_a_finished_run_replays(browser: Any, address: str) -> None:
    page = Page(browser, address, "film")
    expect(page["#at"]).to_contain_text("40 of 40")
    page["#play"].click()
    expect(page["#play"]).to_have_attribute("aria-pressed", "true")
    expect(page["#at"]).to_contain_text(re.compile(r" 1?\d of 40"))
    expect(page["#at"]).to_contain_text("40 of 40")
    expect(page["#play"]).to_have_text("Play")
    page.page.close()


def test_hovering_tells_the_values_of_a_bin_on_every_map(page: Page) -> None:
    canvas = page['canvas[data-name="visits"]']
    size = canvas.bounding_box()
    canvas.hover(position={"x": size["width"] * 3.5 / SIDE, "y": size["height"] * 5.5 / SIDE})
    last, place = picture(STEPS), 5 * SIDE + 3
    visits = last.arrays["visits"][0][place]
    expect(page["#hover"]).to_contain_text(f"x 3.5, y 6.5: visits {visits},")
    value = float(last.arrays["novelty value rb"][0][place])
    expect(page["#hover"]).to_contain_text(f"novelty value rb {value:g}")
    expect(page['figure[data-name="novelty value rb"] .here']).to_have_text(f"{value:g}")
    canvas.hover(position={"x": 4, "y": 4})
    expect(page["#hover"]).to_contain_text("wall")


def test_arrow_keys_read_a_map_bin_by_bin(page: Page) -> None:
    canvas = page['canvas[data-name="visits"]']
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):  # from the middle
        page.page.keyboard.press(key)
    visits = picture(STEPS).arrays["visits"][0][5 * SIDE + 7]
    expect(page["#hover"]).to_contain_text(f"x 7.5, y 6.5: visits {visits},")


def test_trajectories_and_arrows_are_drawn_over_the_maps(page: Page) -> None:
    def changed(name: str, since: np.ndarray) -> int:
        return int((np.abs(page.canvas(name) - since).max(axis=2) > 30).sum())

    plain = page.canvas("novelty value rb")
    page["#arrows"].check()
    assert changed("novelty value rb", plain) > 100
    page["#arrows"].uncheck()
    assert changed("novelty value rb", plain) == 0
    page["#paths"].select_option("all")
    assert changed("novelty value rb", plain) > 10
    drawn = page.canvas("visits")
    page["#paths"].select_option("none")
    assert changed("visits", drawn) > 10


def test_two_runs_lie_over_each_other(page: Page) -> None:
    plot = page[".plot"].first
    expect(plot).to_have_attribute("data-lines", "1")
    page.page.get_by_role("checkbox", name="Compare two").check()
    expect(plot).to_have_attribute("data-lines", "2")
    expect(plot).to_have_attribute(
        "aria-label", "explore/coverage, 2 curves: one ends at 0.7; two ends at 0.3"
    )
    page["#over"].check()
    expect(plot).to_have_attribute("data-lines", "1")
    expect(page[".u-legend"].first).to_contain_text("spiral devote (2 seeds)")
    page["#over"].uncheck()
    page["#compare-all"].click()
    expect(plot).to_have_attribute("data-lines", "5")
    page["#compare-none"].click()
    expect(plot).to_have_attribute("data-lines", "1")


def test_log_scale_and_smoothing_change_the_picture(page: Page) -> None:
    def drawn() -> np.ndarray:
        with Image.open(BytesIO(page[".plot canvas"].first.screenshot())) as shot:
            return np.asarray(shot.convert("RGB")).astype(int)

    page[".chart select"].first.select_option("explore/novelty")
    expect(page[".plot"].first).to_have_attribute("aria-label", re.compile("explore/novelty"))
    plain = drawn()
    page["#log"].check()
    page.page.wait_for_timeout(300)
    log = drawn()
    assert (log != plain).any()
    page["#smooth"].fill("15")
    page.page.wait_for_timeout(300)
    assert (drawn() != log).any()


def test_another_metric_and_another_chart(page: Page) -> None:
    page[".chart select"].first.select_option("explore/novelty")
    expect(page[".plot"].first).to_have_attribute(
        "aria-label", "explore/novelty, 1 curve: one ends at 0.01"
    )
    expect(page[".chart"]).to_have_count(2)
    page["#add"].click()
    expect(page[".chart"]).to_have_count(3)
    expect(page[".chart select"].last).to_be_focused()
    page.page.get_by_role("button", name="Remove this chart").last.click()
    expect(page[".chart"]).to_have_count(2)


def test_doctor_settings_and_figures(browser: Any, address: str) -> None:
    page = Page(browser, address, "ill")
    expect(page[".finding h4"]).to_have_text("Dormant explorer")
    expect(page[".finding"]).to_contain_text("Shorten reset_interval")
    expect(page["#facts .doctor"]).to_contain_text("1 finding")
    expect(page["#changes tbody"]).to_contain_text("optimism3.01.0")  # here, and in the preset
    expect(page["#hover"]).to_contain_text("no maps")
    expect(page["#figures"]).to_be_hidden()
    page.open("one")
    expect(page["#findings"]).to_have_text("Nothing found.11 checks.")
    expect(page["#facts .doctor"]).to_contain_text("no findings")
    picture = page["#pictures img"]
    picture.scroll_into_view_if_needed()
    expect(picture).to_have_js_property("naturalWidth", 8)
    assert page.errors == []
    page.page.close()


def test_a_run_without_metrics_is_not_called_healthy(browser: Any, tmp_path: Path) -> None:
    make(tmp_path / "new", columns(0), saved=None)
    with served(tmp_path) as port:
        page = Page(browser, f"http://127.0.0.1:{port}/", "new")
        expect(page["#facts .doctor"]).to_contain_text("no data yet")
        expect(page["#findings"]).to_have_text("There are no metrics to examine yet.")
        expect(page["#hover"]).to_contain_text("No maps yet")
        expect(page[".plot"]).to_contain_text("No values of explore/coverage yet.")
        assert page.errors == []
        page.page.close()


def test_a_study_has_a_page_of_its_own(page: Page) -> None:
    page.page.get_by_role("link", name="A study").click()
    expect(page["#name"]).to_have_text("A study")
    expect(page["#cells-count"]).to_have_text("2 done, 1 queued")
    expect(page["#cells tbody tr"]).to_have_text(["maze2 done", "sea1 queued"])
    expect(page[".chart b"]).to_have_text(["maze", "sea"])
    expect(page[".u-legend"]).to_contain_text("devote (2 seeds)")
    expect(page["#pictures img"]).to_have_js_property("naturalWidth", 6)
    expect(page["#maps"]).to_be_hidden()
    page.page.get_by_role("link", name="maze, devote, seed 1: done").click()
    expect(page["#name"]).to_contain_text("two")


def test_the_keyboard_reaches_everything(page: Page) -> None:
    keys = page.page.keyboard
    page["#slider"].focus()
    keys.press("Home")
    expect(page["#at"]).to_contain_text("1 of 3")
    keys.press("ArrowRight")
    expect(page["#at"]).to_contain_text("2 of 3")
    expect(page["#slider"]).to_have_attribute("aria-valuetext", f"step {STEPS // 2:,} · 2 of 3")
    page["#compare-none"].focus()
    keys.press("Tab")
    keys.press("Tab")
    expect(page["#runs li a"].first).to_be_focused()
    keys.press("Enter")
    expect(page["#runs li.current a"]).to_have_attribute("aria-current", "page")


def test_a_screen_reader_has_names_for_everything(page: Page) -> None:
    for kind, name in (
        ("navigation", "Runs and studies"),
        ("heading", "one finished"),
        ("region", "Maps"),
        ("region", "Curves"),
        ("region", "Doctor"),
        ("slider", "Snapshot"),
        ("button", "Play"),
        ("combobox", "Metric"),
        ("checkbox", "Log scale"),
        ("checkbox", "Compare one"),
        ("progressbar", "progress of dead"),
        ("img", f"map of visits at step {STEPS}, "),
        ("img", "explore/coverage, 1 curve"),
    ):
        expect(page.page.get_by_role(kind, name=name).first).to_be_visible()
    for control in page["input, select, button"].all():
        named = control.evaluate("x => x.labels?.length || x.textContent || x.ariaLabel")
        assert named, control.evaluate("x => x.outerHTML")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser: Any, address: str, scheme: str) -> None:
    page = Page(browser, address, color_scheme=scheme)
    ink, paper = (
        [int(x) for x in page["body"].evaluate(f"x => getComputedStyle(x).{name}")[4:-1].split(",")]
        for name in ("color", "backgroundColor")
    )
    assert (sum(paper) > 600) == (scheme == "light")
    assert abs(sum(ink) - sum(paper)) > 400
    wall = VIRIDIS["wall"] if scheme == "light" else DARK_WALL
    assert near(page.pixel("visits", 0, 0), wall)
    shown = picture(STEPS).arrays["novelty value rb"][0].reshape(SIDE, SIDE)
    top = np.unravel_index(np.argmax(shown[:, 1:-1]), (SIDE, SIDE - 2))
    assert near(page.pixel("novelty value rb", 5, int(top[1]) + 1), VIRIDIS["high"])  # in both
    page.page.close()


def test_a_folder_of_a_thousand_runs_is_listed_within_two_seconds(
    browser: Any, tmp_path: Path
) -> None:
    one = make(tmp_path / "0")
    for number in range(1, 1000):
        shutil.copytree(one, tmp_path / str(number))
    with served(tmp_path) as port:
        started = time.monotonic()
        page = Page(browser, f"http://127.0.0.1:{port}/", None)
        expect(page["#count"]).to_have_text("1,000")
        took = time.monotonic() - started
        expect(page["#runs li"]).to_have_count(1000)
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    assert took < 2 * max(1, busy)
    page.page.close()


def test_a_map_changes_while_a_training_runs_and_a_kill_is_seen(
    browser: Any, tmp_path: Path
) -> None:
    words = ["train", "spiral", *SMOKE, "--steps", "10000000", "--out", str(tmp_path / "run")]
    words += ["--checkpoint-interval", "10000000"]  # one that has just saved is only stopped
    training = subprocess.Popen([sys.executable, "-m", "devote", *words], stdout=subprocess.DEVNULL)
    try:
        with served(tmp_path) as port:
            page = Page(browser, f"http://127.0.0.1:{port}/", None)
            state = page["#runs .state"]
            expect(state).to_have_text("running", timeout=LONG)
            expect(page["#at"]).to_contain_text("step", timeout=LONG)
            before, said = page.canvas("novelty |c + g|"), page["#at"].text_content()
            expect(page["#at"]).not_to_have_text(said, timeout=LONG)
            after = page.canvas("novelty |c + g|")
            assert before.shape == after.shape
            assert (after != before).any()
            training.send_signal(signal.SIGKILL)
            training.wait()
            expect(state).to_have_text("killed")
            assert page.errors == []
            page.page.close()
    finally:
        training.kill()
        training.wait()


def test_the_page_beside_a_training(tmp_path: Path) -> None:
    words = ["train", "spiral", *SMOKE, "--steps", "500", "--watch", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "devote", *words], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "watch at http://127.0.0.1:" in done.stdout
