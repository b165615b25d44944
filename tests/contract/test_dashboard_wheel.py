"""The wheel carries every file of the dashboard, and an installation of it serves them."""

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from app.ui.assets import SAMPLE, STATIC
from tests.support.wheels import unpacked_wheel

ROOT = Path(__file__).resolve().parents[2]
FETCH_ALL = """
import asyncio, hashlib, json, re, sys
import httpx
from fastapi import FastAPI
import app
from app.ui.endpoints import router

service = FastAPI()
service.include_router(router)

async def fetched():
    digest = lambda answer: hashlib.sha256(answer.raise_for_status().content).hexdigest()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url="http://127.0.0.1") as client:
        page = (await client.get("/ui/")).text
        version = re.search(r'src="([^"/]+)/all.js"', page).group(1)
        found = {name: digest(await client.get(f"/ui/{version}/{name}")) for name in sys.argv[1:]}
        return {**found, "sample.csv": digest(await client.get("/ui/sample.csv")), "package": app.__file__}

print(json.dumps(asyncio.run(fetched())))
"""


def test_a_wheel_carries_and_serves_the_dashboard(tmp_path: Path) -> None:
    names, installed = unpacked_wheel(tmp_path)
    carried = {name for name in names if re.match(r"app/ui/static/.*[^/]$", name)}
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.is_file()}
    assert carried == {f"app/ui/static/{name}" for name in files}
    # -S: without the .pth file by which an editable installation finds the checkout
    paths = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    served = subprocess.run(
        [sys.executable, "-S", "-P", "-c", FETCH_ALL, *files],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert served.returncode == 0, served.stderr
    found = json.loads(served.stdout)
    assert Path(found.pop("package")).is_relative_to(installed)
    wanted = {**files, "sample.csv": SAMPLE}
    assert found == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in wanted.items()}
