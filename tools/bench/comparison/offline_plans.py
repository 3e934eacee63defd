"""Plan from a profile by every strategy, in a process of its own that has no device, and write plans and predictions to disk.

    python -m tools.bench.comparison.offline_plans PROFILE FOLDER

FOLDER gets a plan a strategy, STRATEGY.json, and predictions.json: when it was made, and the predicted seconds of a step of each.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from hetero_mtf.devices.environment import child_variables

PREDICTIONS = "predictions.json"


def now() -> str:
    """Return the date and time, to the microsecond."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")


def plan_all(profile_path: str, folder: pathlib.Path) -> dict[str, Any]:
    """Write the plan of every strategy, and return the predictions and why the other strategies have none."""
    from hetero_mtf.errors import HeteroError
    from hetero_mtf.planning.choose import STRATEGIES, plan
    from hetero_mtf.planning.profile.profile import Profile

    profile = Profile.load(profile_path)
    predicted, none, seconds = {}, {}, {}
    for strategy in ("auto", *STRATEGIES, "pipeline"):
        start_s = time.perf_counter()
        try:
            strategy_plan = plan(profile, strategy=strategy)
        except HeteroError as fault:
            none[strategy] = fault.reason
            continue
        seconds[strategy] = time.perf_counter() - start_s
        strategy_plan.save(folder / f"{strategy}.json")
        predicted[strategy] = strategy_plan.predicted.step_s
    return {"predicted_s": predicted, "no_plan": none, "planning_s": seconds}


def plan_apart(profile_path: pathlib.Path, folder: pathlib.Path) -> dict[str, Any]:
    """Run this module in a process of its own, and return the predictions that it left on disk."""
    command = [sys.executable, "-m", __name__, str(profile_path), str(folder)]
    subprocess.run(command, env=child_variables({}), check=True)
    predictions: dict[str, Any] = json.loads((folder / PREDICTIONS).read_text())
    return predictions


def main() -> None:
    """Plan, and write the predictions so that they are on the disk itself."""
    folder = pathlib.Path(sys.argv[2])
    predictions = plan_all(sys.argv[1], folder)
    predictions["frameworks_loaded"] = sorted({"tensorflow", "keras"} & set(sys.modules))
    with open(folder / PREDICTIONS, "w") as file:
        json.dump({"made": now(), **predictions}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
