"""The runner of documentation blocks notices what is wrong: a failing command, a changed output, a dead link."""

from pathlib import Path

import pytest

from tests.support import documents
from tests.support.documents import blocks, dead_links
from tests.support.page_session import BlockFailed, PageSession


def run(folder: Path, text: str) -> None:
    page = folder / "page.md"
    page.write_text(text)
    (folder / "checkout").mkdir()
    with PageSession(folder / "checkout", "127.0.0.1:1", folder) as session:
        for block in blocks(page):
            session.run(block)


@pytest.fixture(autouse=True)
def pages_of_the_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(documents, "ROOT", tmp_path)


def test_blocks_of_a_page_share_a_shell_and_an_interpreter(tmp_path: Path) -> None:
    run(
        tmp_path,
        "```bash\nNAME=one\necho two > file\n```\n```python\nx = open('file').read()\n```\n"
        "```bash\necho $NAME; cat file\n```\n<!-- output -->\n```text\none\ntwo\n```\n"
        "```python\nprint(x, 12.5)\n```\n<!-- output -->\n```text\ntwo\n… 12.…\n```\n",
    )


@pytest.mark.parametrize(
    "text",
    [
        "```bash\nfalse\n```\n",
        "```bash\necho $UNSET\n```\n",
        "```bash\ncurl -s http://127.0.0.1:8000/v1/solvers\n```\n",
        "```python\n1 / 0\n```\n",
        "```bash\necho one\n```\n<!-- output -->\n```text\ntwo\n```\n",
        "```python\nprint('one')\nprint('two')\n```\n<!-- output -->\n```text\none\n```\n",
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path: Path, text: str) -> None:
    with pytest.raises(BlockFailed):
        run(tmp_path, text)


def test_a_block_with_a_reason_is_not_run(tmp_path: Path) -> None:
    run(tmp_path, "<!-- not run: needs docker -->\n```bash\nfalse\n```\n")


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Some title\n")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md) [b](other.md#some-title) [c](none.md) [d](other.md#none) [e](#none) `[f](x.md)`\n")
    assert dead_links(page) == ["none.md", "other.md#none", "#none"]
