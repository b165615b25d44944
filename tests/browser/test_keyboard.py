"""The README's walk with the keyboard alone: every control is reached by Tab, and the focus is always visible."""

import re
from typing import Any

from tests.support.chromium import SAMPLE, SETTLED
from tests.support.serving import Service

NAME_OF_FOCUS = """() => {
  const one = document.activeElement;
  return one.getAttribute('aria-label') || one.labels?.[0]?.innerText || one.innerText?.trim() || one.tagName;
}"""
FOCUS_IS_VISIBLE = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
}"""
MOST_STOPS = 250


def reach(page: Any, name: str) -> None:
    """Press Tab until the control with this name has the focus."""
    seen = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(NAME_OF_FOCUS))
        if seen[-1] == name:
            assert page.evaluate(FOCUS_IS_VISIBLE), f"the focus on {name} is not visible"
            return
    raise AssertionError(f"Tab does not reach {name!r}; it stops at {list(dict.fromkeys(seen))}")


def press(page: Any, name: str, key: str = "Enter") -> None:
    reach(page, name)
    page.keyboard.press(key)


def test_the_walk_needs_no_mouse(page: Any, service: Service) -> None:
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    page.goto(f"{service.url}/ui/#/overview")
    page.get_by_role("heading", name="Overview").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate(NAME_OF_FOCUS) == "Skip to the content"
    press(page, "Datasets")
    page.get_by_role("heading", name="Datasets").wait_for()
    with page.expect_file_chooser() as chooser:
        press(page, "Choose a file")
    table = b"".join([*lines, lines[-2]])  # equal bytes would be the dataset that the service has already
    chooser.value.set_files({"name": "typed.csv", "mimeType": "text/csv", "buffer": table})
    page.get_by_role("heading", name="typed", exact=True).wait_for()
    page.get_by_text("constant columns").wait_for()
    reach(page, "Role of pulse01_im")
    page.keyboard.type("ig")
    press(page, "Train with them")

    page.get_by_text("The job is valid.").wait_for()
    reach(page, "Tol")
    page.keyboard.type("0.000001")
    assert page.get_by_label("Tol", exact=True).input_value() == "0.000001"
    page.get_by_text('"tol":0.000001').wait_for()
    page.get_by_text("The job is valid.").wait_for()
    press(page, "Start training")
    page.get_by_role("link", name="Open the model").wait_for(timeout=120_000)  # kernels may have to be compiled
    page.get_by_text("The optimum is inside the band").wait_for()
    press(page, "Table")
    page.get_by_role("region", name="Data: The optimum is inside the band").wait_for()
    press(page, "Open the model")
    page.get_by_role("heading", name=re.compile(r"typed:\d+")).wait_for()

    press(page, "Models")
    page.get_by_role("heading", name="Models", exact=True).wait_for()
    press(page, "Select radar:2", "Space")
    press(page, "Select radar:1", "Space")
    press(page, "Side by side")
    page.get_by_role("rowheader", name="relative gap").wait_for()
    press(page, "radar:2")
    page.get_by_role("heading", name="radar:2", exact=True).wait_for()
    press(page, "Aliases")
    page.get_by_role("heading", name="Promote this version").wait_for()
    page.wait_for_function(SETTLED)
    reach(page, "Alias")
    page.keyboard.press("Control+A")
    page.keyboard.type("typed")
    page.get_by_text("requests to radar@typed go to version 2").wait_for()
    press(page, "Promote version 2")
    page.get_by_role("img", name="version 2: 100 %").wait_for()

    press(page, "Try it")
    page.get_by_role("table", name="Contributions to the score").wait_for()
    before = page.locator(".try dd").nth(1).inner_text()
    reach(page, "pulse01_re")
    page.keyboard.press("Control+A")
    page.keyboard.type("-3")
    page.wait_for_function("text => document.querySelectorAll('.try dd')[1].innerText !== text", arg=before)


def test_a_dialog_takes_the_focus_and_gives_it_back(page: Any, service: Service) -> None:
    page.goto(f"{service.url}/ui/#/models/radar:1")
    page.get_by_role("heading", name="radar:1", exact=True).wait_for()
    press(page, "Delete")
    page.get_by_role("dialog", name="Delete radar:1?").wait_for()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate(NAME_OF_FOCUS) == "Delete"
