"""The dashboard in Chromium over 10,000 jobs and 2,000 models: first paint, lists, charts, ten live jobs."""

import argparse
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from app.config import Settings
from app.db import Database
from app.storage import BlobStore
from benchmarks.page import Page
from tests.support.chromium import SAMPLE, SETTLED, launched
from tests.support.filled_store import LiveJobs, fill
from tests.support.serving import Service, running_service

JOBS, MODELS = 10_000, 2_000
COMPARED = 10
ROUNDS = 6
LIVE_MINUTES = 10.0
SAMPLE_SECONDS = 30.0
TRACED_SECONDS = 5.0
"""Of each sample: what is traced, to know the processor time of single tasks."""
TICKS = os.sysconf("SC_CLK_TCK")
AFTER_COLLECTION_MS = 300
PATIENCE_MS = 120_000
FIRST_PAINT_MS, LIST_MS, DRAWING_MS, TASK_MS = 1000, 300, 100, 50
"""What the figures must stay below."""
FLAT_SHARE = 0.1
"""Largest growth of the JavaScript heap between the first minute and the last that counts as flat."""

WATCH = Path(__file__).with_name("dashboard_watch.js")


class Watched:
    """What a live page gave: the heap after forced collections, long tasks, times between frames."""

    def __init__(self, tab: Any) -> None:
        self._tab = tab
        self._session = _measured(tab)
        self.heaps: list[float] = []
        self.nodes: list[int] = []
        self.tasks: list[float] = []
        self.frames: list[float] = []
        self._busy: list[tuple[float, float]] = []

    @property
    def busy(self) -> float:
        """Processor time of the page's thread, as a share of the time that passed."""
        (first, began), *_, (last, ended) = self._busy
        return (last - first) / (ended - began)

    def look(self) -> None:
        """Take a sample. Tasks and frames of opening the page and of the collections are left out."""
        tasks, frames = self._tab.evaluate("taken()")
        if self.heaps:
            self.tasks += tasks
            self.frames += frames
        self._session.send("HeapProfiler.collectGarbage")
        self.heaps.append(self._session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
        metrics = _metrics(self._session)
        self.nodes.append(int(metrics["Nodes"]))
        self._busy.append((metrics["TaskDuration"], time.monotonic()))
        self._tab.wait_for_timeout(AFTER_COLLECTION_MS)
        self._tab.evaluate("taken()")


def _measured(tab: Any) -> Any:
    """A session whose metrics count processor time, which other processes of the machine do not change."""
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def _metrics(session: Any) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def _page_cpu(session: Any) -> float:
    """Processor milliseconds of the page's thread so far."""
    return 1000 * _metrics(session)["TaskDuration"]


def _process_cpu(pid: int) -> float:
    """Processor milliseconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / TICKS


def run(options: argparse.Namespace) -> None:
    minutes = options.minutes or (1.0 if options.quick else LIVE_MINUTES)
    page = Page("dashboard", "The dashboard at scale", _how(minutes))
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder), workers=1) as service:
        dataset = service.upload(SAMPLE.read_bytes(), name="radar")["id"]
        trained = service.wait(service.submit(dataset, model="radar", split={"test": 0.2})["id"], 300)
        database = Database(Settings(data_dir=Path(folder)).resolved_database_url)
        fill(database, BlobStore(Path(folder)), trained["id"], JOBS, MODELS)
        _lists(page, service)
        with launched() as browser:
            _screens(page, service, browser)
            _comparison(page, service, browser)
            _live(page, service, browser, database, dataset, minutes)
        database.close()
    page.write()


def _how(minutes: float) -> str:
    return (
        f"{JOBS:,} ended jobs with curves of 200 points and {MODELS:,} models of 200 names in SQLite, written by the "
        f"service's code; {COMPARED} more jobs whose progress is written twice a second, as a worker does, for "
        f"{minutes:g} minutes. Service, writer and Chromium share one machine. Screens are timed in the page, from the "
        "click to the frame that shows the rows. CPU is processor time of the page's main thread, or of the API "
        "process per request: other processes of the machine lengthen the milliseconds that pass, not these.\n\n"
        f"The limits: first paint {FIRST_PAINT_MS} ms, a list {LIST_MS} ms, ten charts {DRAWING_MS} ms, a task of a "
        f"live page {TASK_MS} ms."
    )


def _lists(page: Page, service: Service) -> None:
    """The requests behind the lists, one after another on one connection."""
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


def _screens(page: Page, service: Service, browser: Any) -> None:
    page.table("screen", "median, ms", "slowest, ms", "CPU, ms")
    for name in ("overview", "jobs", "models"):
        painted, shown, cpu = [], [], []
        for _ in range(ROUNDS):
            tab, session = _opened(browser, f"{service.url}/ui/#/{name}")
            tab.wait_for_function("() => watched.rows")
            painted.append(tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            shown.append(tab.evaluate("watched.rows"))
            cpu.append(_page_cpu(session))
            tab.context.close()
        page.row(f"{name}, empty cache: first paint", f"{statistics.median(painted):.0f}", f"{max(painted):.0f}", "")
        _row(page, f"{name}, empty cache: rows on the screen", shown, cpu)
    tab, session = _opened(browser, f"{service.url}/ui/#/jobs")
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
            before = _page_cpu(session)
            taken.append(tab.evaluate("target => shown(target)", target))
            cpu.append(_page_cpu(session) - before)
            tab.evaluate("shown('#/jobs')")
        _row(page, name, taken, cpu)
    tab.context.close()
    page.end_table()


def _opened(browser: Any, url: str) -> tuple[Any, Any]:
    """A page in a window of its own, and a session that measures it."""
    tab = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.add_init_script(path=WATCH)
    session = _measured(tab)
    tab.goto(url)
    tab.wait_for_function(SETTLED)
    return tab, session


def _comparison(page: Page, service: Service, browser: Any) -> None:
    """Ten stored curves in one picture: from the last byte of the last curve to the end of drawing."""
    ids = ",".join(job["id"] for job in service.get("/v1/jobs", limit=COMPARED, status="succeeded")["data"])
    taken, cpu = [], []
    for _ in range(ROUNDS):
        tab, session = _opened(browser, f"{service.url}/ui/#/jobs/compare")
        before = _page_cpu(session)
        tab.evaluate("target => { location.hash = target; }", f"#/jobs/compare?ids={ids}")
        tab.wait_for_function("() => watched.drawn.length")
        cpu.append(_page_cpu(session) - before)
        curves = "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/trace'))"
        assert tab.evaluate(f"{curves}.length") == COMPARED
        taken.append(tab.evaluate(f"watched.drawn[0] - Math.max(...{curves}.map((one) => one.responseEnd))"))
        tab.context.close()
    page.table("chart", "median, ms", "slowest, ms", "CPU, ms, with twenty requests")
    _row(page, f"{COMPARED} jobs of 200 points, from the last byte to the picture", taken, cpu)
    page.end_table()


def _live(page: Page, service: Service, browser: Any, database: Database, dataset: str, minutes: float) -> None:
    tracer = Tracer(browser)
    with LiveJobs(database, dataset, COMPARED) as live:
        targets = {
            "overview": "overview",
            "comparison of all ten": f"jobs/compare?ids={','.join(live.ids)}",
            "one of the jobs": f"jobs/{live.ids[0]}",
        }
        tabs = {name: _opened(browser, f"{service.url}/ui/#/{target}")[0] for name, target in targets.items()}
        found = {name: Watched(tab) for name, tab in tabs.items()}
        end = time.monotonic() + 60 * minutes
        while (left := end - time.monotonic()) > 0:
            for one in found.values():
                one.look()
            tracer.trace(tabs["overview"])
            tabs["overview"].wait_for_timeout(1000 * min(SAMPLE_SECONDS - TRACED_SECONDS, max(left, 1.0)))
        for one in found.values():
            one.look()
    page.table(
        *("screen, live", "heap, MB", "at the end", "DOM nodes", "at the end", "long tasks", "longest, ms"),
        *("frames", "over 50 ms", "CPU share"),
    )
    for name, one in found.items():
        heap, last = one.heaps[1], statistics.median(one.heaps[-3:])
        page.row(
            *(name, f"{heap:.1f}", f"{last:.1f}", one.nodes[1], one.nodes[-1]),
            *(len(one.tasks), f"{max(one.tasks, default=0):.0f}", len(one.frames)),
            *(sum(frame > TASK_MS for frame in one.frames), f"{100 * one.busy:.0f} %"),
        )
    page.end_table()
    page.say(
        "Long tasks are the browser's own `longtask` entries, in time that passed; times between frames also measure "
        f"how the system schedules. {len(tracer.tasks):,} tasks of the pages were traced for {TRACED_SECONDS:g} s of "
        f"every half minute: the longest took {max(tracer.tasks):.1f} ms of processor time, "
        f"{sum(task >= TASK_MS for task in tracer.tasks)} took {TASK_MS} ms or more. A heap that grew by "
        f"{100 * FLAT_SHARE:g} % or less is called flat; it was measured after forced collections."
    )


class Tracer:
    """Processor milliseconds of every task on the main threads of the browser's pages."""

    def __init__(self, browser: Any) -> None:
        self._session = browser.new_browser_cdp_session()
        self._events: list[dict[str, Any]] = []
        self._complete = False
        self.tasks: list[float] = []
        self._session.on("Tracing.dataCollected", lambda message: self._events.extend(message["value"]))
        self._session.on("Tracing.tracingComplete", lambda _: setattr(self, "_complete", True))

    def trace(self, tab: Any) -> None:
        self._events, self._complete = [], False
        config = {"includedCategories": ["toplevel"]}
        self._session.send("Tracing.start", {"traceConfig": config, "transferMode": "ReportEvents"})
        tab.wait_for_timeout(1000 * TRACED_SECONDS)
        self._session.send("Tracing.end")
        while not self._complete:
            tab.wait_for_timeout(50)
        named = [event for event in self._events if event.get("name") == "thread_name"]
        mains = {(one["pid"], one["tid"]) for one in named if one["args"]["name"] == "CrRendererMain"}
        for event in self._events:
            if "RunTask" in event.get("name", "") and (event["pid"], event["tid"]) in mains:
                self.tasks.append(event.get("tdur", 0) / 1000)
