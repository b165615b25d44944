"""Pages of the dashboard that are measured: processor time, heap, tasks and frames, by Chromium's own counters."""

import time
from pathlib import Path
from typing import Any

from tests.support.chromium import SETTLED

__all__ = ["EMPTY", "TASK_MS", "TRACED_SECONDS", "Tracer", "Watched", "opened", "overlapping", "page_cpu"]

PATIENCE_MS = 120_000
AFTER_COLLECTION_MS = 300
TRACED_SECONDS = 5.0
"""Of each sample: what is traced, to know the processor time of single tasks."""
TASK_MS = 50
"""What a task or a frame of a live page must stay below."""
EMPTY = "data:text/html,<title>empty</title>"
"""A page without content. Its frames are late only if the browser or the machine is."""
WATCH = Path(__file__).with_name("dashboard_watch.js")


def opened(browser: Any, url: str, context: Any = None) -> tuple[Any, Any]:
    """Open a page in a window of its own, with a session that measures it. `context`: in a window that was there."""
    tab = (context or browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.add_init_script(path=WATCH)
    session = _measured(tab)
    tab.goto(url)
    if url != EMPTY:
        tab.wait_for_function(SETTLED)
    return tab, session


def _measured(tab: Any) -> Any:
    """A session whose metrics count processor time, which other processes of the machine do not change."""
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def _metrics(session: Any) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def page_cpu(session: Any) -> float:
    """Processor milliseconds of the page's thread so far."""
    return 1000 * _metrics(session)["TaskDuration"]


class Watched:
    """What a live page gave: the heap after forced collections, long tasks, times between frames."""

    def __init__(self, tab: Any) -> None:
        self._tab = tab
        self._session = _measured(tab)
        self.heaps: list[float] = []
        self.nodes: list[int] = []
        self.tasks: list[float] = []
        self.frames: list[tuple[float, float]] = []
        """End, in ms since 1970, and duration in ms."""
        self._busy: list[tuple[float, float]] = []

    @property
    def busy(self) -> float:
        """Processor time of the page's thread, as a share of the time that passed."""
        (first, began), *_, (last, ended) = self._busy
        return (last - first) / (ended - began)

    @property
    def slow_frames(self) -> list[tuple[float, float]]:
        return [(end, duration) for end, duration in self.frames if duration > TASK_MS]

    def look(self) -> None:
        """Take a sample. Tasks and frames of opening the page and of the collections are left out."""
        tasks, frames = self._tab.evaluate("taken()")
        if self.heaps:
            self.tasks += tasks
            self.frames += [(end, duration) for end, duration in frames]
        self._session.send("HeapProfiler.collectGarbage")
        self.heaps.append(self._session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
        metrics = _metrics(self._session)
        self.nodes.append(int(metrics["Nodes"]))
        self._busy.append((metrics["TaskDuration"], time.monotonic()))
        self._tab.wait_for_timeout(AFTER_COLLECTION_MS)
        self.forget()

    def forget(self) -> None:
        """Leave out the tasks and frames since the last look: a measurement disturbed them."""
        self._tab.evaluate("taken()")


def overlapping(frame: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    """Whether one of the other frames was on the screen at the same time."""
    end, duration = frame
    return any(end - duration < other and other - lasted < end for other, lasted in others)


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
