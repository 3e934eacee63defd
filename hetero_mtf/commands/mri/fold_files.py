"""The files of a training of all folds, named after --save, --output, or train."""

from __future__ import annotations

import dataclasses
import pathlib

from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.process.files import CommandFile, command_file
from hetero_mtf.commands.process.run_files import beside, of_fold


@dataclasses.dataclass(frozen=True)
class FoldFiles:
    """Where a training of all folds keeps its files.

    Parameters
    ----------
    run_file : the file that others are named after, such as "run/state.npz".
    save, output : --save and --output; those of a fold have its number.
    """

    run_file: str
    save: str | None = None
    output: str | None = None

    @classmethod
    def of(cls, request: TrainRequest) -> FoldFiles:
        """Return the files of a command.

        Parameters
        ----------
        request : its options.
        """
        return cls(request.run_file, request.save, request.output)

    @property
    def record(self) -> pathlib.Path:
        """What was finished, and in the end the scores of all folds."""
        return beside(self.run_file, "folds")

    @property
    def predictions(self) -> pathlib.Path:
        """The out-of-fold predictions of all scans."""
        return self._together(".csv")

    @property
    def plot(self) -> pathlib.Path:
        """The curves of all out-of-fold predictions."""
        return self._together(".png")

    @property
    def page(self) -> pathlib.Path:
        """The report of all folds."""
        return self._together(".html")

    def state(self, fold: int) -> str | None:
        """Return the state of a fold, None where none is saved.

        Parameters
        ----------
        fold : number of the fold, from 1.
        """
        return None if self.save is None else str(of_fold(self.save, fold))

    def model(self, fold: int) -> str | None:
        """Return the Keras model of a fold, None where none is saved.

        Parameters
        ----------
        fold : number of the fold, from 1.
        """
        return None if self.output is None else str(of_fold(self.output, fold))

    def fold_predictions(self, fold: int) -> pathlib.Path:
        """Return the predictions of the scans that a fold tests on.

        Parameters
        ----------
        fold : number of the fold, from 1.
        """
        path = of_fold(self.run_file, fold)
        return path.with_name(f"{path.stem}-predictions.csv")

    def fold_scores(self, fold: int) -> pathlib.Path:
        """Return the scores of a fold.

        Parameters
        ----------
        fold : number of the fold, from 1.
        """
        return beside(of_fold(self.run_file, fold), "scores")

    def written(self, folds: int) -> list[CommandFile]:
        """Return all files that are written, for the check of a command's files.

        Parameters
        ----------
        folds : how many folds there are.
        """
        together = {"the scores of all folds": self.record, "the predictions of all folds": self.predictions}
        together |= {"the curves of all folds": self.plot, "the page of all folds": self.page}
        files = [CommandFile(role, path) for role, path in together.items()]
        for fold in range(1, folds + 1):
            files += [*command_file("--save", self.state(fold)), *command_file("--output", self.model(fold))]
            described = [path for path in (self.state(fold), self.model(fold)) if path is not None]
            files += [CommandFile("the description of the data", beside(path, "data")) for path in described]
            files.append(CommandFile("the predictions of a fold", self.fold_predictions(fold)))
            files.append(CommandFile("the scores of a fold", self.fold_scores(fold)))
        return files

    def _together(self, ending: str) -> pathlib.Path:
        return self.record.with_suffix(ending)
