"""Searches and races in the dashboard: from the form to the proof, the trials, the winner."""

import re
from pathlib import Path
from typing import Any

from tests.support.serving import Service


def test_a_search_shows_its_proof_and_leads_to_a_training(page: Any, service: Service, tmp_path: Path) -> None:
    dataset = service.get("/v1/datasets", name="radar")["data"][0]["id"]
    page.goto(f"{service.url}/ui/#/datasets/{dataset}")
    page.get_by_role("link", name="Tune", exact=True).click()
    page.get_by_role("heading", name="New search").wait_for()
    page.get_by_label("C", exact=True).select_option("range")
    page.get_by_label("Smallest C").fill("0.01")
    page.get_by_label("Largest C").fill("1")
    page.get_by_label("Certify").select_option("number")
    page.get_by_label("Epsilon to prove").fill("0.1")
    page.get_by_label("hinge", exact=True).check()
    page.get_by_text('"certify":{"epsilon":0.1}').wait_for()
    page.get_by_text("The job is valid.").wait_for()
    page.get_by_role("button", name="Start the search").click()

    page.get_by_text("Proven.").wait_for(timeout=120_000)
    job = service.get(f"/v1/jobs/{re.search(r'job_[0-9a-z]+', page.url)[0]}")  # type: ignore[index]
    found = job["result"]
    certificate = found["certificate"]
    assert page.get_by_text("No C from 0.01 to 1, tried or not").count() == 1
    shown = page.locator(".stats dd").first.inner_text()
    assert float(shown) == float(f"{found['best']['C']:.4g}")
    assert page.get_by_text(f"{len(found['trials'])} trials").count() > 0

    page.get_by_role("button", name="Table").first.click()
    steps = page.get_by_role("region", name="Data: Cross-validated error against C").locator("tbody tr")
    assert steps.count() == min(200, len(found["trials"]) + len(certificate["steps"]))
    trials = page.get_by_role("region", name="trials", exact=True)
    means = trials.locator("tbody td:nth-child(2)")
    trials.get_by_role("button", name="mean error").click()
    ascending = [float(text) for text in means.all_inner_texts()]
    assert ascending == sorted(ascending)
    trials.get_by_role("button", name="mean error").click()
    assert [float(text) for text in means.all_inner_texts()] == ascending[::-1]
    with page.expect_download() as saved:
        page.locator(".table-foot").get_by_role("button", name="CSV").click()
    saved.value.save_as(tmp_path / "trials.csv")
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    assert len(lines) == 1 + len(found["trials"])
    assert sorted(float(line.split(",")[0]) for line in lines[1:]) == sorted(one["C"] for one in found["trials"])
    page.get_by_role("img", name=re.compile("Coefficients against C")).wait_for()

    page.get_by_role("link", name="Train with this C").click()
    page.get_by_text("The job is valid.").wait_for()
    assert float(page.get_by_label("C", exact=True).input_value()) == found["best"]["C"]
    assert '"certify"' not in page.locator("pre").inner_text()


def test_outer_folds_show_what_each_of_them_chose(page: Any, service: Service) -> None:
    dataset = service.get("/v1/datasets", name="radar")["data"][0]["id"]
    nested = service.submit(dataset, type="tune", model="nested", C=[0.1, 1.0], outer_folds=2, cross_validation=2)
    outer = service.wait(nested["id"])["result"]["outer"]
    page.goto(f"{service.url}/ui/#/jobs/{nested['id']}")
    folds = page.get_by_role("region", name="outer folds", exact=True).locator("tbody tr")
    folds.first.wait_for()
    assert folds.count() == 2
    assert [float(row.split()[1]) for row in folds.all_inner_texts()] == [one["C"] for one in outer["chosen"]]


def test_points_appear_while_the_search_runs(page: Any, service: Service) -> None:
    dataset = service.get("/v1/datasets", name="radar")["data"][0]["id"]
    endless = {"type": "tune", "C": {"min": 1e-4, "max": 1e4}, "certify": {"epsilon": 0}, "tol": 1e-9, "refit": False}
    job = service.submit(dataset, model="endless", loss="hinge", **endless)["id"]
    page.goto(f"{service.url}/ui/#/jobs/{job}")
    page.get_by_text("Proving that no C is better", exact=True).wait_for(timeout=120_000)
    count = "() => Number(document.querySelector('.table-foot .fine')?.innerText.split(' ')[0] || 0)"
    page.wait_for_function(f"() => ({count})() > 2")
    before = page.evaluate(count)
    page.wait_for_function(f"before => ({count})() > before", arg=before, timeout=60_000)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_text("The same as a request").click()
    page.get_by_role("dialog").get_by_text(f"/v1/jobs/{job}/cancel").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_text("cancelled", exact=True).first.wait_for()


def test_a_race_shows_who_finished_first(page: Any, service: Service) -> None:
    page.goto(f"{service.url}/ui/#/jobs/new?type=race")
    page.get_by_label("newton", exact=True).check()
    page.get_by_label("auto", exact=True).uncheck()
    page.get_by_label("Loss", exact=True).select_option(label="squared_hinge")
    page.get_by_text('"solvers":["dcd","newton"]').wait_for()
    page.get_by_text("The job is valid.").wait_for()
    page.get_by_role("button", name="Start the race").click()
    page.get_by_role("heading", name="Finish order").wait_for(timeout=120_000)
    job = service.get(f"/v1/jobs/{re.search(r'job_[0-9a-z]+', page.url)[0]}")  # type: ignore[index]
    order = page.get_by_role("region", name="finish order").locator("tbody td:nth-child(2) strong").all_inner_texts()
    assert order == [one["solver"] for one in job["result"]["race"]]
    assert page.locator(".stats dd").first.inner_text() == job["result"]["winner"] == order[0]
    page.get_by_role("button", name="Table").first.click()
    page.get_by_role("region", name="Data: Relative gap, proven").get_by_text("newton").first.wait_for()
