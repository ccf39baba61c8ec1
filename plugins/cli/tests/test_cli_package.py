"""The command with what its package declares: it runs, and says what is not installed."""

from __future__ import annotations

import json
import subprocess
import sys

RUN = [sys.executable, "-c", "from tilecopy_cli import main; main()"]


def test_a_plan_and_its_text() -> None:
    copy = ["global float16 [128, 64]", "shared float16 [128, 64]", "--json"]
    plan = json.loads(subprocess.run([*RUN, "plan", *copy], check=True, capture_output=True, text=True).stdout)
    assert plan["variant"] == "gmem_smem"
    text = subprocess.run([*RUN, "ptx", *copy], check=True, capture_output=True, text=True).stdout
    assert ".visible .entry copy(" in json.loads(text)["ptx"]


def test_the_doctor_tells_of_everything_that_could_be_there() -> None:
    done = subprocess.run([*RUN, "doctor", "--json"], check=True, capture_output=True, text=True)
    rows = {row["what"] for row in json.loads(done.stdout)}
    assert {
        "executor cuda",
        "executor emulator",
        "driver's compute cache",
        "variant ldgsts",
        "package tilecopy-relayout",
    } <= rows


def test_the_command_line_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "tilecopy", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "tilecopy" in done.stdout
