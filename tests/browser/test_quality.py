"""What every screen owes its readers: nothing that axe calls serious, text that stays text, no button without right."""

from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.db import Database
from app.keys import service as keys
from app.names import MAX_LABEL_LENGTH
from tests.support.chromium import SAMPLE, SETTLED
from tests.support.serving import Service, checked, running_service

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
SERIOUS = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | '))"""


def screens(service: Service) -> list[str]:
    job = service.get("/v1/jobs", name="radar")["data"][0]
    dataset = job["dataset_id"]
    search, race = (service.get("/v1/jobs", type=name)["data"][0] for name in ("tune", "race"))
    return [
        *("overview", "jobs", f"jobs/{job['id']}", f"jobs/compare?ids={job['id']}", "jobs/new", "datasets"),
        *(f"datasets/{dataset}", f"datasets/{dataset}?tab=histograms", f"datasets/{dataset}?tab=preview"),
        *("models", "models/radar:1", "models/radar:1?tab=weights", "models/radar:1?tab=aliases"),
        *("models/several/versions?refs=radar:1,radar:2", "try?model=radar:1", "operate"),
        *(f"jobs/{search['id']}", "jobs/new?type=tune", f"jobs/new?from={search['id']}&C=1", "models/tuned:1"),
        *(f"jobs/{race['id']}", "jobs/new?type=race"),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Any, service: Service, theme: str) -> None:
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.goto(f"{service.url}/ui/")
    page.get_by_role("heading", level=1).wait_for()
    page.evaluate(AXE.read_text())
    found = {}
    for screen in screens(service):
        page.evaluate("target => { location.hash = '#/' + target; }", screen)
        page.wait_for_function(SETTLED)
        page.wait_for_timeout(150)
        if problems := page.evaluate(SERIOUS):
            found[screen] = problems
    assert found == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_of_a_model_is_readable_and_loads_nothing(page: Any, service: Service, theme: str) -> None:
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"{service.url}/v1/models/radar:1/report")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.evaluate(AXE.read_text())
    assert page.evaluate(SERIOUS) == []
    assert (len(asked), said) == (1, [])


def test_a_first_visit_needs_few_requests(page: Any, service: Service) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(service.url)))
    page.goto(f"{service.url}/ui/#/jobs")
    page.get_by_role("link", name="radar").first.wait_for()
    assert len([path for path in asked if path.startswith("/ui/")]) <= 12
    for path in ("/v1/session", "/v1/system", "/v1/jobs?limit=50"):
        assert asked.count(path) == 1, "what was asked for early is used"


@pytest.mark.parametrize("width", [360, 1440, 3840])
def test_no_screen_is_wider_than_the_window(page: Any, service: Service, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{service.url}/ui/")
    wide = []
    for screen in screens(service):
        page.evaluate("target => { location.hash = '#/' + target; }", screen)
        page.wait_for_function(SETTLED)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            wide.append(screen)
    assert wide == []


def test_hostile_names_are_shown_as_text(page: Any, service: Service) -> None:
    """HTML, text that runs from right to left, and 10,000 characters: in columns, classes and labels."""
    html, rtl, long = "<img src=x onerror=document.title='owned'>", "\u202eevil\u05d0", "long" * 2500
    header = ",".join([f'"{html}"', rtl, long, "y"])
    rows = "\n".join(f"{n % 7},{n % 5},{n % 3},<b>{n % 2}</b>" for n in range(40))
    dataset = service.upload(f"{header}\n{rows}\n".encode(), name="hostile", **{"label.x": "<script>1</script>"})
    labels = {"html": html, "rtl": rtl, "long": "l" * MAX_LABEL_LENGTH}
    job = service.wait(service.submit(dataset["id"], model="hostile", labels=labels)["id"], 120)
    screens = {
        **{f"datasets/{dataset['id']}?tab={tab}": "<img src=x" for tab in ("columns", "histograms", "preview")},
        "datasets": "<script>1</script>",
        "jobs": "<img src=x",
        f"jobs/{job['id']}": "<img src=x",
        "models/hostile:1": "<b>0</b>",
        "models/hostile:1?tab=weights": "<img src=x",
        "try?model=hostile:1": "<img src=x",
    }
    for screen, text in screens.items():
        page.set_viewport_size({"width": 600, "height": 800})  # lists leave out the labels on a phone
        page.goto(f"{service.url}/ui/#/{screen}")
        page.get_by_text(text).first.wait_for()
        page.wait_for_function(SETTLED)
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.locator("main img, main script, main b").count() == 0, screen
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), screen
        assert "owned" not in page.title()
    unguarded = """() => [...document.querySelectorAll('main *')].filter((one) => one.children.length === 0
        && one.textContent.includes('\u202e') && !one.closest('bdi, option, title, textarea, pre, code')).length"""
    for screen in (f"datasets/{dataset['id']}", "jobs", f"jobs/{job['id']}"):
        page.goto(f"{service.url}/ui/#/{screen}")
        page.wait_for_function(SETTLED)
        assert page.evaluate(unguarded) == 0, "text that runs from right to left turns its neighbours"


LIBLINEAR = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n1.0\n2.0\n"
ACTIONS = (
    *("New job", "Delete", "Train", "Choose a file", "Add", "Upload data", "Train a model", "Train again", "Apply"),
    *("Load the sample data set", "Verify", "Roll back", "Promote version 1", "Cancel", "Pause", "Finish now", "Test"),
    *("Start training", "Resume", "Try it", "Tune", "Run again", "Train with this C", "Start the search"),
)
"""What changes something, or asks a model: a key that only reads must not see it."""


def test_a_read_only_key_sees_no_action(browser: Any, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with running_service(tmp_path, workers=0) as service:
        dataset = service.upload(SAMPLE.read_bytes(), name="radar")
        queued = service.submit(dataset["id"], model="radar")
        headers = {"Content-Type": "text/x-liblinear-model"}
        checked(service.http.post("/v1/models/import", params={"name": "radar"}, content=LIBLINEAR, headers=headers))
        database = Database(settings.resolved_database_url)
        with database.write() as session:
            key = keys.create(session, None, ["read"])
        database.close()
        context = browser.new_context()
        page = context.new_page()
        page.wait_for_timeout(2500)  # the page caches for two seconds that the service needs no key
        page.goto(f"{service.url}/ui/")
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Overview").wait_for()
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert key not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        single = [f"jobs/{queued['id']}", f"datasets/{dataset['id']}", "models/radar:1", "models/radar:1?tab=aliases"]
        seen = []
        for screen in ("overview", "jobs", "datasets", "models", "operate", *single):
            page.goto(f"{service.url}/ui/#/{screen}")
            page.wait_for_function(SETTLED)
            names = page.evaluate("[...document.querySelectorAll('main a, main button')].map((one) => one.innerText)")
            seen += [(screen, name) for name in names if name.strip() in ACTIONS]
        assert seen == []
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("API key").wait_for()
        context.close()
