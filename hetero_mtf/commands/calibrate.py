"""`hetero-mtf calibrate`: measure devices with the layers of a model."""

from __future__ import annotations

from typing import Any

import click

from hetero_mtf.commands.command_files import calibrate_files
from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.requests import CalibrateRequest
from hetero_mtf.commands.process.files import check_files
from hetero_mtf.commands.process.start_line import print_start_line


@click.command()
@shared.cluster_option
@model_options()
@click.option("--batch-size", type=click.IntRange(1), default=shared.BATCH_SIZE, help="Batch size, samples/step.")
@shared.optimizer_options()
@shared.budget_option
@click.option("--reuse", metavar="FILE", help="An earlier profile; what of it still holds is not measured again.")
@click.option("-o", "--output", default="profile.json", metavar="FILE", help="The profile to write.")
@click.option("--json", "as_json", is_flag=True, help="Print what was measured as JSON instead of tables.")
def command(**options: Any) -> None:
    """Measure every distinct layer of a model on every device, and the links between the devices, and show the speeds.

    The same tables are shown by hetero-mtf explain PROFILE.

    With --reuse, layers and links that the earlier profile holds for the same devices, batch size and optimizer are kept. All are
    measured again where it is more than 30 days old, or where two layers, as a check, take a different time. --output may be the
    same file.
    """
    request = CalibrateRequest(**options)
    check_files(calibrate_files(request.model, request.reuse, request.output))
    print_start_line(request.cluster)
    from hetero_mtf.commands.runs.calibrate import calibrate  # loads SciPy, so after the first line

    calibrate(request)
