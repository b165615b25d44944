"""Write docs/images/ui/*.webp: each screen in both themes, 360 and 1440 px wide. Run by `make screenshots`.

It starts a service of its own with sample data: two versions of a model behind an alias with a canary, jobs that
ended in every way, a search with its proof, a race, and a job that runs.
"""

import argparse
import base64
import tempfile
from pathlib import Path
from typing import Any

from tests.support.chromium import SAMPLE, SETTLED, launched
from tests.support.serving import Service, checked, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images" / "ui"
HEIGHTS = {360: 780, 1440: 900}
QUALITY = 70
"""Of WebP, from 0 to 100. Larger: sharper text, more bytes; all pictures together must stay below 3 MB."""
SETTLE_MS = 700
"""Milliseconds for charts and the first events after everything is loaded."""


def prepare(service: Service) -> dict[str, str]:
    """Make the sample data; returns the address of each screen."""
    http = service.http
    radar = service.upload(SAMPLE.read_bytes(), name="radar", **{"label.source": "uci"})["id"]
    common = {"model": "radar", "tol": 1e-6, "split": {"test": 0.2}, "calibrate": True, "loss": "squared_hinge"}
    for C, solver, team in ((1.0, "auto", "sensing"), (0.01, "dcd", "sensing"), (100.0, "pcd", "baseline")):
        job = service.submit(radar, C=C, solver=solver, labels={"team": team}, **common)
        service.wait(job["id"], 300)
    noise = service.upload(csv_text(*noisy_rows(20_000, 30, seed=1, flipped=0.3)), name="sensors")["id"]
    common = {"model": "sensors", "loss": "hinge", "labels": {"team": "night"}}
    slow = {**common, "solver": "dcd", "tol": 1e-9}
    doomed = {"C": 1000.0, "stop": {"passes": 3}, "on_limit": "fail"}
    service.wait(service.submit(noise, **{**slow, **doomed})["id"], 300)
    curves = [service.wait(service.submit(noise, C=C, **slow)["id"], 300)["id"] for C in (1.0, 0.1)]
    endless = {"solver": "dcd", "C": 1000.0, "tol": 1e-12, "stop": {"seconds": 3600}}
    search = {"type": "tune", "model": "radar-tuned", "loss": "hinge", "C": {"min": 1e-3, "max": 100}}
    tuned = service.wait(service.submit(radar, **search, certify={"epsilon": 0.02})["id"], 600)["id"]
    race = {"type": "race", "model": "race", "solvers": ["dcd", "pcd", "newton"], "tol": 1e-9, "C": 10.0}
    raced = service.wait(service.submit(noise, loss="squared_hinge", **race)["id"], 300)["id"]
    live = service.submit(noise, **endless, **common)["id"]
    waiting = [service.submit(noise, C=1.0, **slow)["id"] for _ in range(2)]
    checked(http.post(f"/v1/jobs/{waiting[0]}/cancel"))
    alias = "/v1/models/radar/aliases/prod"
    checked(http.put(alias, json={"version": 1}))
    checked(http.put(alias, json={"targets": [{"version": 1, "weight": 0.9}, {"version": 2, "weight": 0.1}]}))
    checked(http.post("/v1/webhooks", json={"url": "https://example.org/hook", "events": ["job.failed"]}))
    wait_until(lambda: len(service.get(f"/v1/jobs/{live}/trace")["data"]) > 40, 120, "a curve of the live job")
    return {
        "overview": "overview",
        "jobs": "jobs",
        "job": f"jobs/{curves[0]}",
        "job-live": f"jobs/{live}",
        "compare": f"jobs/compare?ids={','.join([*curves, live])}",
        "tune": f"jobs/{tuned}",
        "race": f"jobs/{raced}",
        "new-job": f"jobs/new?dataset={radar}",
        "new-search": f"jobs/new?dataset={radar}&type=tune",
        "datasets": "datasets",
        "dataset": f"datasets/{radar}",
        "histograms": f"datasets/{radar}?tab=histograms",
        "models": "models",
        "model": "models/radar:1",
        "weights": "models/radar:1?tab=weights",
        "aliases": "models/radar:1?tab=aliases",
        "versions": "models/several/versions?refs=radar:1,radar:2,radar:3",
        "try-it": "try?model=radar:1",
        "operate": "operate",
    }


def take(browser: Any, url: str, screens: dict[str, str], folder: Path, kind: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        for width, height in HEIGHTS.items():
            size = {"width": width, "height": height}
            context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")
            page = context.new_page()
            session = context.new_cdp_session(page)
            page.goto(f"{url}/ui/")
            for name, screen in screens.items():
                page.evaluate("target => { location.hash = '#/' + target; }", screen)
                page.wait_for_function(SETTLED)
                page.wait_for_timeout(SETTLE_MS)
                page.evaluate("document.activeElement?.blur()")
                options = {"format": kind, **({} if kind == "png" else {"quality": QUALITY})}
                picture = session.send("Page.captureScreenshot", options)["data"]
                (folder / f"{name}-{theme}-{width}.{kind}").write_bytes(base64.b64decode(picture))
            context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    parser.add_argument(
        "--format", choices=("webp", "png"), default="webp", help="png: larger, for programs without WebP"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder), workers=1) as service:
        screens = prepare(service)
        with launched() as browser:
            take(browser, service.url, screens, options.folder, options.format)
    taken = sorted(options.folder.glob(f"*.{options.format}"))
    print(f"written: {len(taken)} pictures, {sum(path.stat().st_size for path in taken) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
