"""The tables of the five papers that are reproduced here, beside the printed ones: writes docs/papers.md."""

import importlib
import re
from pathlib import Path

PAPERS = {
    "joachims2006": "Joachims: Training linear SVMs in linear time",
    "joachims2006_ordinal": "Joachims: ordinal regression and ROC area",
    "schneider2014": "Schneider, Bogojeska and Vlachos: Solving linear SVMs with multiple 1D projections",
    "mangasarian2000": "Mangasarian and Musicant: Active support vector machine classification",
    "arnosti2011": "Arnosti and Kalita: Cutting plane training for linear support vector machines",
    "nie2014": "Nie, Huang, Wang and Huang: New primal SVM solver with linear computational cost",
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "papers.md"
PREFACE = """# The papers' tables, measured here

Written by `make bench ARGS=papers`, a section as soon as it is measured; `ARGS=papers.arnosti2011` prints one section.
"Printed" is what the paper says; its machine, and often its data, are not ours, and each section says what differs.
Seconds are of two shared cores: trust ratios before seconds, and no digit after the second.
"""


def run() -> None:
    for name, title in PAPERS.items():
        print(f"-- {name}: {title}", flush=True)
        module = importlib.import_module(f"{__name__}.{name}")
        text = "\n".join(_shown(table) for table in module.tables())
        _replace_section(name, f"## {title}\n\n{text.strip()}\n")


def _shown(table: str) -> str:
    print(table, flush=True)
    return table


def _replace_section(name: str, text: str) -> None:
    """Each paper's part lies between two comments; the other parts, and what is written by hand, stay as they are."""
    page = PAGE.read_text() if PAGE.exists() else PREFACE
    section = f"<!-- {name} -->\n{text}<!-- end of {name} -->\n"
    pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- end of {name} -->\n", re.DOTALL)
    page = pattern.sub(lambda _: section, page) if pattern.search(page) else f"{page}\n{section}"
    PAGE.write_text(page)
