"""The list of decisions, from the titles of their pages."""

from pathlib import Path

from docs.scripts.markdown import table

__all__ = ["decisions_page"]

FOLDER = Path(__file__).resolve().parents[1] / "adr"


def decisions_page() -> str:
    rows = []
    for page in sorted(FOLDER.glob("0*.md")):
        lines = page.read_text().splitlines()
        title = lines[0].removeprefix("# ").partition(". ")[2]
        status = next(line for line in lines[1:] if line.strip())
        rows.append((f"[{page.name[:4]}]({page.name})", title, status.partition(".")[0]))
    return f"""# Decisions

Each page records one decision: its context, what was decided, and what follows from it. A page is a record of its day;
later decisions name the ones that they replace.

{table(("number", "decision", "status"), rows)}"""
