"""The dashboard's modules as one file: each once, after those that it imports, and no form that is not understood."""

import re
from pathlib import Path

import pytest

from app.ui.assets import ENTRY, LIBRARY, STATIC, bundle


def write(folder: Path, **modules: str) -> None:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source)


def test_a_module_comes_after_those_that_it_imports(tmp_path: Path) -> None:
    write(
        tmp_path,
        html="export const h = 1;\n",
        low="import { h } from './html.js';\nexport const low = h + 1;\nexport async function wait() {}\n",
        app="import { low as base } from './low.js';\nimport { h } from './html.js';\nconst high = base + h;\n",
    )
    joined = bundle(tmp_path, "app.js", "html.js")
    assert joined.startswith("import * as $html from './html.js';\nconst $low = (() => {\nconst { h } = $html;\n")
    assert "return { low, wait };" in joined
    assert joined.index("const $low") < joined.index("const { low: base } = $low;")


def test_modules_that_import_each_other_are_refused(tmp_path: Path) -> None:
    write(tmp_path, a="import { b } from './b.js';\n", b="import { a } from './a.js';\nexport const b = 1;\n")
    with pytest.raises(ValueError, match=r"a\.js imports b\.js imports a\.js"):
        bundle(tmp_path, "a.js", "html.js")


@pytest.mark.parametrize("line", ["import * as all from './b.js';", "export default 1;", "export let count = 0;"])
def test_other_forms_are_refused(tmp_path: Path, line: str) -> None:
    write(tmp_path, a=f"{line}\n")
    with pytest.raises(ValueError, match="cannot join"):
        bundle(tmp_path, "a.js", "html.js")


def test_every_module_of_the_dashboard_is_in_it_once() -> None:
    joined = bundle(STATIC, ENTRY, LIBRARY)
    own = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    modules = {path.relative_to(STATIC).as_posix() for path in own} - {LIBRARY, "theme.js", "early.js"}
    found = re.findall(r"^const \$(\w+) = \(\(\) => \{$", joined, re.MULTILINE)
    assert sorted(found) == sorted(re.sub(r"\W", "_", name.removesuffix(".js")) for name in modules)
