"""The dashboard in Chromium over 10,000 jobs and 2,000 models: requests, screens, ten curves, ten live jobs.

`--parts screens,curves` runs some of them. Each has a section of the page with the load of its own run.
"""

import argparse
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from app.config import Settings
from app.db import Database
from app.storage import BlobStore
from benchmarks.dashboard_tabs import EMPTY, TASK_MS, TRACED_SECONDS, Tracer, Watched, opened, overlapping, page_cpu
from benchmarks.page import Page, keep_section
from tests.support.chromium import SAMPLE, launched
from tests.support.filled_store import LiveJobs, fill
from tests.support.serving import Service, running_service

JOBS, MODELS = 10_000, 2_000
COMPARED = 10
ROUNDS = 6
LIVE_MINUTES = 10.0
SAMPLE_SECONDS = 30.0
TICKS = os.sysconf("SC_CLK_TCK")
FIRST_PAINT_MS, LIST_MS, DRAWING_MS = 1000, 300, 100
"""What the figures must stay below."""
FLAT_SHARE = 0.1
"""Largest growth of the JavaScript heap in the second half of the time that counts as flat. The first half fills what a
page keeps: 600 points of a curve and 200 reports of a job."""
TITLE = "# The dashboard at scale"
HOW = (
    f'Written by `make bench ARGS=dashboard`; `ARGS="dashboard --parts live"` rewrites one section. {JOBS:,} ended '
    f"jobs with curves of 200 points and {MODELS:,} models of 200 names in SQLite, written by the service's code. "
    "Service, writer and Chromium share one machine. CPU is processor time of the page's main thread, or of the API "
    "process per request: other processes of the machine lengthen the milliseconds that pass, not these."
)


class Bench(NamedTuple):
    """What the parts measure with."""

    service: Service
    browser: Any
    database: Database
    dataset: str
    minutes: float


def run(options: argparse.Namespace) -> None:
    names = options.parts.split(",") if options.parts else list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        raise SystemExit(f"no such part: {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    minutes = options.minutes or (1.0 if options.quick else LIVE_MINUTES)
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder), workers=1) as service:
        dataset = service.upload(SAMPLE.read_bytes(), name="radar")["id"]
        trained = service.wait(service.submit(dataset, model="radar", split={"test": 0.2})["id"], 300)
        database = Database(Settings(data_dir=Path(folder)).resolved_database_url)
        fill(database, BlobStore(Path(folder)), trained["id"], JOBS, MODELS)
        with launched() as browser:
            for name in names:
                title, how, measure = PARTS[name]
                page = Page("dashboard", title, how)
                measure(page, Bench(service, browser, database, dataset, minutes))
                keep_section("dashboard", f"{TITLE}\n\n{HOW}", [one for one, *_ in PARTS.values()], title, page)
        database.close()


def _judge(page: Page, what: str, figure: float, limit: float) -> None:
    page.say(f"{what}: {figure:.0f} ms, limit {limit} ms: **{'kept' if figure < limit else 'missed'}**.")


def _process_cpu(pid: int) -> float:
    """Processor milliseconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / TICKS


def _lists(page: Page, bench: Bench) -> None:
    """The requests behind the lists, one after another on one connection."""
    service = bench.service
    page.table("request", "median, ms", "slowest, ms", "CPU, ms")
    requests: dict[str, dict[str, Any]] = {
        "/v1/jobs": {},
        "/v1/jobs, page 100": {"cursor": _cursor_of_page(service, "/v1/jobs", 100)},
        "/v1/jobs, 200 rows": {"limit": 200},
        "/v1/jobs of a status": {"status": "failed"},
        "/v1/jobs of a model": {"name": "model-7"},
        "/v1/jobs with a label": {"label.run": "17"},
        "/v1/models": {},
        "/v1/models, page 20": {"cursor": _cursor_of_page(service, "/v1/models", 20)},
        "/v1/models of a name": {"name": "model-10"},
        "/v1/datasets": {},
        "/v1/system": {},
    }
    api = service.child("api")
    for name, query in requests.items():
        path = re.split(r"[, ]", name)[0]
        before = _process_cpu(api)
        taken = _repeated(partial(service.get, path, **query))
        _row(page, f"`{path}`{name.removeprefix(path)}", taken, [(_process_cpu(api) - before) / ROUNDS])
    page.end_table()


def _cursor_of_page(service: Service, path: str, number: int) -> str:
    cursor = ""
    for _ in range(number - 1):
        cursor = service.get(path, limit=50, **({"cursor": cursor} if cursor else {}))["next_cursor"]
    return cursor


def _repeated(call: Callable[[], object]) -> list[float]:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def _row(page: Page, name: str, taken: list[float], cpu: list[float]) -> None:
    page.row(name, f"{statistics.median(taken):.0f}", f"{max(taken):.0f}", f"{statistics.median(cpu):.0f}")


def _screens(page: Page, bench: Bench) -> None:
    service, browser = bench.service, bench.browser
    first, lists = [], []
    page.table("screen", "median, ms", "slowest, ms", "CPU, ms")
    for name in ("overview", "jobs", "models"):
        painted, shown, cpu, again = [], [], [], []
        for _ in range(ROUNDS):
            tab, session = opened(browser, f"{service.url}/ui/#/{name}")
            tab.wait_for_function("() => watched.rows")
            painted.append(tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            shown.append(tab.evaluate("watched.rows"))
            cpu.append(page_cpu(session))
            later, _ = opened(browser, f"{service.url}/ui/#/{name}", tab.context)
            later.wait_for_function("() => watched.rows")
            again.append(later.evaluate("watched.rows"))
            tab.context.close()
        page.row(f"{name}, empty cache: first paint", f"{statistics.median(painted):.0f}", f"{max(painted):.0f}", "")
        _row(page, f"{name}, empty cache: rows on the screen", shown, cpu)
        page.row(
            f"{name}, second visit: rows on the screen", f"{statistics.median(again):.0f}", f"{max(again):.0f}", ""
        )
        first.append(statistics.median(painted))
    tab, session = opened(browser, f"{service.url}/ui/#/jobs")
    tab.wait_for_function("() => watched.rows")
    targets = {
        "jobs of a status": "#/jobs?status=failed",
        "jobs of a model": "#/jobs?name=model-7",
        "jobs with a label": "#/jobs?label=team%3Dtext",
        "jobs, page 100": f"#/jobs?cursor={_cursor_of_page(service, '/v1/jobs', 100)}",
        "models": "#/models",
        "models of a name": "#/models?name=model-10",
    }
    for name, target in targets.items():
        taken, cpu = [], []
        for _ in range(ROUNDS):
            before = page_cpu(session)
            taken.append(tab.evaluate("target => shown(target)", target))
            cpu.append(page_cpu(session) - before)
            tab.evaluate("shown('#/jobs')")
        _row(page, name, taken, cpu)
        lists.append(statistics.median(taken))
    tab.context.close()
    page.end_table()
    _judge(page, "Slowest median of a first paint", max(first), FIRST_PAINT_MS)
    _judge(page, "Slowest median of a list, from the click to the frame that shows its rows", max(lists), LIST_MS)


def _curves(page: Page, bench: Bench) -> None:
    """Ten stored curves in one picture: from the last byte of the last curve to the end of drawing."""
    service = bench.service
    ids = ",".join(job["id"] for job in service.get("/v1/jobs", limit=COMPARED, status="succeeded")["data"])
    taken, cpu = [], []
    for _ in range(ROUNDS):
        tab, session = opened(bench.browser, f"{service.url}/ui/#/jobs/compare")
        before = page_cpu(session)
        tab.evaluate("target => { location.hash = target; }", f"#/jobs/compare?ids={ids}")
        tab.wait_for_function("() => watched.drawn.length")
        cpu.append(page_cpu(session) - before)
        curves = "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/trace'))"
        assert tab.evaluate(f"{curves}.length") == COMPARED
        taken.append(tab.evaluate(f"watched.drawn[0] - Math.max(...{curves}.map((one) => one.responseEnd))"))
        tab.context.close()
    page.table("chart", "median, ms", "slowest, ms", "CPU, ms, with twenty requests")
    _row(page, f"{COMPARED} jobs of 200 points, from the last byte to the picture", taken, cpu)
    page.end_table()
    _judge(page, "Median", statistics.median(taken), DRAWING_MS)


def _live(page: Page, bench: Bench) -> None:
    tracer = Tracer(bench.browser)
    with LiveJobs(bench.database, bench.dataset, COMPARED) as live:
        targets = {
            "overview": "overview",
            "comparison of all ten": f"jobs/compare?ids={','.join(live.ids)}",
            "one of the jobs": f"jobs/{live.ids[0]}",
        }
        tabs = {
            name: opened(bench.browser, f"{bench.service.url}/ui/#/{target}")[0] for name, target in targets.items()
        }
        control = Watched(opened(bench.browser, EMPTY)[0])
        found = {name: Watched(tab) for name, tab in tabs.items()}
        everything = [*found.values(), control]
        end = time.monotonic() + 60 * bench.minutes
        while (left := end - time.monotonic()) > 0:
            for one in everything:
                one.look()
            tracer.trace(tabs["overview"])
            for one in everything:
                one.forget()
            tabs["overview"].wait_for_timeout(1000 * min(SAMPLE_SECONDS - TRACED_SECONDS, max(left, 1.0)))
        for one in everything:
            one.look()
    page.table(
        *("screen, live", "heap, MB", "half-way", "at the end", "DOM nodes", "at the end", "long tasks", "longest, ms"),
        *("frames", "over 50 ms", "longest, ms", "CPU share"),
    )
    for name, one in {**found, "an empty page, for comparison": control}.items():
        heaps = (one.heaps[1], _half_way(one.heaps), statistics.median(one.heaps[-3:]))
        page.row(
            *(name, *(f"{heap:.1f}" for heap in heaps), one.nodes[1], one.nodes[-1]),
            *(len(one.tasks), f"{max(one.tasks, default=0):.0f}", len(one.frames)),
            *(len(one.slow_frames), f"{max((lasted for _, lasted in one.frames), default=0.0):.0f}"),
            f"{100 * one.busy:.0f} %",
        )
    page.end_table()
    growth = max(statistics.median(one.heaps[-3:]) / _half_way(one.heaps) - 1 for one in found.values())
    slow = [frame for one in found.values() for frame in one.slow_frames]
    own = sum(not overlapping(frame, control.slow_frames) for frame in slow)
    page.say(
        f"{bench.minutes:g} minutes. The first half fills what a page keeps: 600 points of a curve, 200 reports of a "
        f"job. Largest growth of a heap in the second half {100 * growth:.0f} %, limit {100 * FLAT_SHARE:g} %: "
        f"**{'kept' if growth <= FLAT_SHARE else 'missed'}**. Frames over {TASK_MS} ms: {len(slow)}, "
        f"and {own} of them while the empty page had none: **{'kept' if own == 0 else 'missed'}**. Frames are not "
        "counted while tasks are traced or heaps are measured."
    )
    page.say(
        "Long tasks are the browser's own `longtask` entries, in time that passed; times between frames also measure "
        f"how the system schedules. {len(tracer.tasks):,} tasks of the pages were traced for {TRACED_SECONDS:g} s of "
        f"every half minute: the longest took {max(tracer.tasks):.1f} ms of processor time, "
        f"{sum(task >= TASK_MS for task in tracer.tasks)} took {TASK_MS} ms or more. A heap that grew by "
        f"{100 * FLAT_SHARE:g} % or less is called flat; it was measured after forced collections."
    )


def _half_way(samples: list[float]) -> float:
    """Return the median of three samples in the middle."""
    middle = len(samples) // 2
    return statistics.median(samples[middle - 1 : middle + 2])


PARTS: dict[str, tuple[str, str, Callable[[Page, Bench], None]]] = {
    "lists": ("Requests", "The requests behind the lists, one after another on one connection.", _lists),
    "screens": ("Screens", "Timed in the page, from the start of the visit or from the click.", _screens),
    "curves": ("Ten curves", "Ten stored curves in one picture.", _curves),
    "live": (
        "Ten live jobs",
        f"{COMPARED} jobs whose progress is written twice a second, as a worker does, on three pages at once.",
        _live,
    ),
}
"""The parts by name: title of the section, what it says first, the measurement."""
