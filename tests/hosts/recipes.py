"""The scripts of docs/hosts.md, as they are run here."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "hosts.md"


def recipe(mark, **replaced):
    """Return the bash script of the page that has a text in it, for this machine: the command of this installation, run by root.

    Parameters
    ----------
    mark : a text in one script alone.
    replaced : what to put in the place of "--epochs", "--nodes" and so on: option -> text after it.
    """
    scripts = [block.partition("```")[0] for block in PAGE.read_text().split("```bash\n")[1:]]
    (script,) = [script for script in scripts if mark in script]
    command = f"{sys.executable} -m hetero_mtf"
    script = script.replace("hetero-mtf worker", f"{command} worker --allow-root").replace("hetero-mtf train", f"{command} train")
    for option, text in replaced.items():
        script = script.replace("hetero_mtf train", f"hetero_mtf train --{option.replace('_', '-')} {text}")
    return script
