"""Trainer: a Keras model trained under a plan on a cluster, numerically equivalent to training on one device."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Any

from hetero_mtf.errors import DataError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from hetero_mtf.report.progress import check_verbose
from hetero_mtf.runtime.cluster import Cluster
from hetero_mtf.training import batches
from hetero_mtf.training.batch_trainer import BatchTrainer
from hetero_mtf.training.control.measure_option import read_measure
from hetero_mtf.training.first_use import settings_of, sized
from hetero_mtf.training.keras_side import KerasSide, Settings, copied
from hetero_mtf.training.loops.callback_hooks import listed
from hetero_mtf.training.loops.given import Given, testing_data, training_data
from hetero_mtf.training.loops.trainer_loops import Fit, TrainerLoops, shown_verbosity
from hetero_mtf.training.loops.validation import check_fit, check_validation, split_off
from hetero_mtf.training.run.run import Run
from hetero_mtf.training.run.run_plans import Choosing
from hetero_mtf.training.run.run_state import RunState
from hetero_mtf.training.trained_network import adds_losses, read_network


class Trainer(BatchTrainer):
    """Trains a Keras model under a plan.

    Parameters
    ----------
    model : keras.Model, functional or sequential; it is not changed, its weights are the start.
    plan : a plan for a network of this structure, which is trained by as it is; None for the one with the best measured step, which is
        found by the first steps; what they tell is kept in the user's cache folder.
    cluster : the cluster the plan is for; leaving the trainer leaves the cluster open. None for the devices of this process.
    optimizer : a Keras optimizer, or its name; its settings are copied. None for the one that the model was compiled with, else "sgd";
        where it has trained the model already, training goes on with its steps and slots.
    loss : keras.losses.Loss, or its name; for several outputs one for all, or a list or dict of losses, None for an output without.
        None for what the model was compiled with, with its loss weights.
    loss_weights : factor of each output's loss, as for `keras.Model.compile`; None for 1 each.
    metrics, weighted_metrics : Keras metrics, as for `keras.Model.compile`; None for those that the model was compiled with.
    seed : seed of dropout and shuffling, a whole number from 0.
    profile : Profile of the network and cluster to make a plan from by `refine` now, where none is given.
    refine_s : seconds after which no further plan is tried then.
    rebalance : whether training goes on under another plan where a device becomes slower or faster and that pays (`moves`). None for
        where the plan was chosen by the trainer, True also for a given plan, whose profile has to be given too, False for never.
    measure, elastic : as for `distribute`.

    Raises
    ------
    HeteroError
        If the plan is for another network or cluster, or something asked for is not supported.

    Examples
    --------
    >>> trainer = hm.Trainer(compiled_model, cluster=cluster)  # doctest: +SKIP
    >>> with hm.Trainer(model, plan, cluster, optimizer="adam", loss="mse") as trainer:  # doctest: +SKIP
    ...     history = trainer.fit(x, y, epochs=5)
    ...     trained = trainer.to_keras()
    """

    def __init__(
        self,
        model: Any,
        plan: Plan | None = None,
        cluster: Any = None,
        *,
        optimizer: Any = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        seed: int = 0,
        profile: Profile | None = None,
        refine_s: float = TIME_LIMIT_S,
        rebalance: bool | None = None,
        measure: Any = None,
        elastic: bool = False,
    ) -> None:
        graph = layer_graph(model)
        given = Settings(optimizer, loss, loss_weights, metrics, weighted_metrics)
        settings = settings_of(model, given, adds_losses(graph))
        self._owns_cluster = cluster is None and plan is None
        self._cluster = Cluster.local() if self._owns_cluster else cluster
        network, compiled, step, loss_scale = read_network(model, model, graph, settings, self._cluster)
        copy, outputs = copied(model, compiled, network.form.outputs), network.form.outputs
        keras_side = KerasSide(copy, graph, outputs, (compiled.metrics, compiled.weighted_metrics))
        state = RunState(step, batches.checked_seed(seed), loss_scale)
        run = Run(network, keras_side, state, Choosing(refine_s, read_measure(measure), rebalance, elastic))
        super().__init__(run)
        self._loops: TrainerLoops | None = None  # those of `fit`, `evaluate` and `predict`, from their first use on
        run.begin(plan, profile)

    def __repr__(self) -> str:
        network, plans = self._run.network, self._run.plans
        read = f"{len(network.graph.layers)} layers (digest {network.graph.digest})"
        plan = repr(plans.plan) if plans.has_plan else "no plan yet"
        return f"<Trainer: {read}, {network.optimizer_name}, step {self.step}, {plan}>"

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: str | int = 0,
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Return the network's outputs.

        Parameters
        ----------
        x : (samples, ...) array, several packed as the model's inputs, or a stream of batches.
        batch_size : samples a batch; None takes the plan's.
        verbose, steps, callbacks : as for `evaluate`.

        Returns
        -------
        (samples, ...) array, or several packed as the model's outputs.
        """
        check_verbose(verbose)
        x, size = sized(self._run, x, None, batch_size, steps, labels=False)
        with testing_data(x, batch_size=size, labels=False, steps=steps, form=self._run.network.form) as tested:
            return self._bound.predict(tested, listed(callbacks), verbose, steps)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: str | int = 0,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = True,
    ) -> Any:
        """Return the mean loss and the metrics over all samples, by name.

        The losses and metrics of several outputs have Keras's names. All losses are means over samples, as in Keras run eagerly;
        compiled, it takes the losses of outputs (not the whole loss) as means over batches.

        Parameters
        ----------
        x, y, sample_weight : arrays, several packed as the model's inputs and outputs, or a stream of batches as x.
        batch_size : samples a batch of arrays; None takes the plan's, or with `steps` as many as let these take all samples.
        verbose : 0 for nothing, or as for `fit`.
        steps : batches at most; None for all.
        callbacks : Keras callbacks, which see the present weights when the test begins and ends.
        return_dict : whether to return a dict; else, as Keras by default, the values in their order, or the loss alone.
        """
        check_verbose(verbose)
        x, size = sized(self._run, x, y, batch_size, steps)
        with testing_data(x, y, batch_size=size, sample_weight=sample_weight, steps=steps, form=self._run.network.form) as tested:
            logs = self._bound.evaluate(tested, listed(callbacks), verbose, steps)
        return logs if return_dict else list(logs.values()) if len(logs) > 1 else logs["loss"]

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | Collection[int] = 1,
        *,
        keep_going: bool = False,
    ) -> Any:
        """Train by Keras's `fit` and return its History; after `restore`, training goes on where the checkpoint was made, up to `epochs`.

        Parameters
        ----------
        x, y : arrays, several packed as the model's inputs and outputs, or a generator, keras.utils.PyDataset, tf.data.Dataset,
            torch DataLoader or BatchSource of batches as x; a BatchSource stays open.
        validation_data : (x, y) or (x, y, sample_weight), or a stream that can be read every epoch.
        validation_split, validation_freq : part of arrays, the last of them, to validate on without validation_data, 0 for none; after how
            many epochs to validate, or the numbers of these epochs, from 1.
        validation_batch_size, validation_steps : samples a batch of arrays, and batches at most; None for `batch_size`, and all.
        epochs, initial_epoch, batch_size : the last epoch and the one to begin with, from 0, and samples a batch of arrays; None takes the
            plan's, or 32 where there is none yet, or with `steps_per_epoch` as many as let these take all samples.
        sample_weight, class_weight : as for `train_on_batch`.
        shuffle, steps_per_epoch : whether arrays are shuffled, by the trainer's seed, and the batches of a PyDataset, by Keras; batches an
            epoch, which goes on in arrays or a stream where the one before ended, and ends with them, as in Keras.
        callbacks : Keras callbacks; they see a copy of the model, which has the present weights, slots and iterations whenever an epoch, a
            test or the training begins or ends. What they change then is trained on with, and training begins at the epoch that they set.
            Between batches it has the weights of the epoch's beginning, unless one has a save_freq of batches: these read them each time.
        verbose : as for `keras.Model.fit`, but "auto" is 1, a bar, on a terminal or in a notebook only, and 2, a line an epoch, elsewhere.
        keep_going : whether to warn, rather than to raise, where a loss is NaN or infinite.

        Raises
        ------
        DataError, WorkerError
            If the data do not fit the network or each other, have NaN or infinity, or an option does not go with them; if a worker dies.
        NotFiniteError
            If the loss of a step is NaN or infinite, which ends the epoch, and no callback stops training then; it names step and layer.
        """
        check_fit(epochs, verbose, shuffle)
        check_validation(validation_freq, validation_batch_size, validation_steps)
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = split_off(x, y, sample_weight, validation_split)
        x, size = sized(self._run, x, y, batch_size, steps_per_epoch, verbose=verbose)
        drawn: dict[str, Any] = {"batch_size": size, "shuffle": shuffle, "steps": steps_per_epoch, "seed": self._run.state.seed}
        drawn |= {"sample_weight": sample_weight, "class_weight": class_weight, "form": self._run.network.form, "finite": True}
        tested = validation_data, (batch_size or None) if validation_batch_size is None else validation_batch_size, validation_steps
        with training_data(x, y, **drawn) as given, self._validated(*tested) as validation:
            seen = listed(callbacks), shown_verbosity(verbose), keep_going
            return self._fit(given, Fit(epochs, initial_epoch, *seen, validation, validation_freq, validation_steps))

    def close(self) -> None:
        """Free the trainer's variables on the cluster; closing twice is harmless."""
        super().close()
        if self._owns_cluster:
            self._cluster.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _fit(self, given: Given, fit: Fit) -> Any:
        """Train on batches from where a checkpoint was made, if one was restored; meanwhile `save` has the position."""
        run = self._run
        if run.state.position is not None:
            given.at.restore(run.state.position)
            run.state = dataclasses.replace(run.state, position=None)
        with run.plans.told(lambda: self._bound.steps_ahead, fit.verbose != 0):
            return self._bound.fit(given, fit)

    @property
    def _bound(self) -> TrainerLoops:
        """Keras's loops of the model on the Keras side."""
        if self._loops is None:
            self._loops = TrainerLoops(self._run)
            self._run.watcher = self._loops
        return self._loops

    @contextlib.contextmanager
    def _validated(self, data: Any, batch_size: int | None, steps: int | None) -> Iterator[Given | None]:
        """Yield what is validated on, as `validation_data` of `fit`."""
        if data is None:
            yield None
            return
        parts = tuple(data) if isinstance(data, tuple) else (data,)
        if isinstance(data, tuple) and len(parts) not in (2, 3):
            raise DataError(f"validation_data has {len(parts)} parts", "give (x, y) or (x, y, sample_weight)")
        x, y, weights = (*parts, None, None)[:3]
        x, size = sized(self._run, x, y, batch_size, steps)
        with testing_data(x, y, batch_size=size, sample_weight=weights, steps=steps, form=self._run.network.form) as tested:
            yield tested
