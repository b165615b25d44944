"""Write docs/images/ui/*.png: each screen in both themes, 360 and 1440 px wide. Run by `make screenshots`.

Without `--url` it starts a service of its own with the sample data set and two versions of a model.
"""

import argparse
import contextlib
import shutil
import tempfile
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

from tests.browser.conftest import BROWSERS, FLAGS, SAMPLE
from tests.support.serving import running_service

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images" / "ui"
HEIGHTS = {360: 780, 1440: 900}


def screens(url: str) -> dict[str, str]:
    job = httpx.get(f"{url}/v1/jobs", params={"status": "succeeded", "name": "radar"}).json()["data"][0]
    return {
        "overview": "overview",
        "jobs": "jobs",
        "job": f"jobs/{job['id']}",
        "new-job": "jobs/new",
        "dataset": f"datasets/{job['dataset_id']}?tab=histograms",
        "models": "models",
        "model": "models/radar:1",
        "try-it": "try?model=radar:1",
        "operate": "operate",
    }


def take(url: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = next(path for name in BROWSERS if (path := shutil.which(name)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=FLAGS)
        for theme in ("light", "dark"):
            for width, height in HEIGHTS.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
                )
                page = context.new_page()
                page.goto(f"{url}/ui/")
                for name, screen in screens(url).items():
                    page.evaluate("target => { location.hash = '#/' + target; }", screen)
                    page.wait_for_function("() => document.querySelector('h1') && !document.querySelector('.skeleton')")
                    page.wait_for_timeout(500)
                    page.screenshot(path=FOLDER / f"{name}-{theme}-{width}.png")
                context.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a running service with a model `radar`")
    url = parser.parse_args().url
    if url:
        take(url)
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        service = stack.enter_context(running_service(Path(folder), workers=1))
        dataset = service.upload(SAMPLE.read_bytes(), name="radar")
        for C in (1.0, 0.01):
            job = service.submit(dataset["id"], model="radar", C=C, tol=1e-6, split={"test": 0.2})
            service.wait(job["id"], 300)
        take(service.url)


if __name__ == "__main__":
    main()
