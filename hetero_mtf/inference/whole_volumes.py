"""SlidingWindow: the outputs of a network for whole volumes, window by window, on all devices of a cluster at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import keras
import numpy as np

from hetero_mtf.errors import DataError, HeteroError, UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.inference.assembly import Assembly
from hetero_mtf.inference.shared_work import SharedWork
from hetero_mtf.inference.windowing import Place, Windowing
from hetero_mtf.keras_reading.graph_of_calls import input_shapes
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.engine import Engine
from hetero_mtf.program.optimizer_reading import read_optimizer
from hetero_mtf.runtime.cluster import Cluster
from hetero_mtf.training import batches
from hetero_mtf.training.distribution.extents import Extents
from hetero_mtf.training.keras_side import read_weights


class SlidingWindow:
    """Predicts volumes window by window; windows are shared out over unequal devices by the seconds that each needs for one.

    Each device has the whole network. What windows give is put together in their order, so results do not depend on which device was
    faster, except for rounding where devices round differently. Windows, padding and importance are those of MONAI's
    `sliding_window_inference`, whose names the options have; arrays are channels last.

    Parameters
    ----------
    model : keras.Model with one input (*extents, channels), and outputs of the same extents; each call has its present weights.
    roi_size : extents of a window, voxels: one number, or one for each spatial dimension; None or -1 for all of that dimension.
    cluster : live cluster; None for the devices of this process.
    sw_batch_size : windows that a device predicts at once.
    overlap : part of a window that the next one covers too, from 0 to below 1; one number, or one for each dimension.
    mode : "constant" for means where windows overlap, "gaussian" for less of voxels that are near the border of a window.
    sigma_scale : standard deviation of the Gaussian, as a part of the window; one number, or one for each dimension.
    padding_mode, cval : what volumes are padded with that are smaller than a window: "constant" for `cval`, "reflect", "replicate" or
        "circular".
    devices : numbers or names of the devices that take part; None for all of the cluster.

    Raises
    ------
    HeteroError
        If an option is none of these, or the network has other inputs or is not supported.

    Examples
    --------
    >>> with hm.SlidingWindow(model, 96, cluster, overlap=0.5, mode="gaussian") as windows:  # doctest: +SKIP
    ...     probabilities = windows.predict(scans)
    """

    def __init__(
        self,
        model: Any,
        roi_size: Any,
        cluster: Any = None,
        *,
        sw_batch_size: int = 1,
        overlap: Any = 0.25,
        mode: str = "constant",
        sigma_scale: Any = 0.125,
        padding_mode: str = "constant",
        cval: float = 0.0,
        devices: Sequence[int | str] | None = None,
    ) -> None:
        shapes = input_shapes(model)
        if len(shapes) != 1 or len(shapes[0]) < 2:
            given = ", ".join(map(str, shapes))
            raise UnsupportedError(f"the network has inputs {given}; windows are cut from one, (*extents, channels)", "concatenate them")
        if not isinstance(sw_batch_size, int) or sw_batch_size < 1:
            raise DataError(f"sw_batch_size is {sw_batch_size!r}, not a whole number above 0", "give the windows of a batch")
        self._model, self._own, self._size = model, shapes[0], sw_batch_size
        self._windowing = Windowing.of(len(shapes[0]) - 1, roi_size, overlap, mode, sigma_scale, padding_mode, cval)
        self._extents = Extents(model)
        self._owns_cluster = cluster is None
        self._cluster = Cluster.local() if cluster is None else cluster
        self._devices = self._chosen(devices)
        self._engines: list[Engine] = []
        self._read: tuple[Any, LayerGraph] | None = None  # what weights are read from
        self._values: dict[str, np.ndarray] = {}
        self._lock = threading.Lock()
        self._changed: list[dict[str, np.ndarray]] = [{} for _ in self._devices]  # weights that a device does not have yet
        self._threads: dict[int, threading.Thread] = {}  # the last one of each device
        self._built: set[tuple[int, tuple[int, ...]]] = set()  # devices and the shapes of windows that they have predicted
        self._taken: tuple[int, ...] = ()
        self._closed = False

    @property
    def taken(self) -> tuple[int, ...]:
        """(devices,) batches of windows that each device has predicted in the last call, in the order of `devices`."""
        return self._taken

    def predict(self, x: Any) -> Any:
        """Return the network's outputs for volumes.

        Parameters
        ----------
        x : (samples, *extents, channels) array; one that lies in a file, such as `numpy.memmap`, is read window by window.

        Returns
        -------
        (samples, *extents, channels) array, or several packed as the model's outputs, in their dtype but at least float32.

        Raises
        ------
        DataError
            If samples do not fit the network.
        UnsupportedError
            If outputs have other extents than windows.
        HeteroError
            If a device fails.
        """
        if self._closed:
            raise HeteroError("the sliding window is closed", "make a new one")
        volumes = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(x)
        if len(volumes.shape) != len(self._own) + 1 or 0 in tuple(volumes.shape):
            wanted = f"(samples, {', '.join('?' if extent is None else str(extent) for extent in self._own)})"
            raise DataError(f"x has shape {tuple(volumes.shape)}, volumes of this network have {wanted}", "reshape x")
        extents = tuple(int(extent) for extent in volumes.shape[1:-1])
        graph = self._graph((*self._windowing.window(extents), int(volumes.shape[-1])))
        places = self._windowing.places(extents)
        assembly = Assembly(self._windowing, len(volumes), extents, places, self._size)
        work = SharedWork(assembly.batches, len(self._devices))
        for device in range(len(self._devices)):
            self._start(device, graph, volumes, assembly, work)
        try:
            work.wait()
        except BaseException as fault:
            work.fail(fault)  # an interruption ends the devices' work too
            raise
        self._taken = tuple(work.taken)
        return read_wiring(self._model).output_structure.pack(assembly.outputs())

    def close(self) -> None:
        """Free what the devices hold; closing twice is harmless."""
        self._closed = True
        for thread in self._threads.values():
            thread.join()
        with contextlib.ExitStack() as stack:
            for engine in self._engines:
                stack.callback(engine.close)
        self._engines = []
        if self._owns_cluster:
            self._cluster.close()

    def __enter__(self) -> SlidingWindow:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _chosen(self, devices: Sequence[int | str] | None) -> list[int]:
        """Return the numbers of the devices that take part."""
        names = [device.name for device in self._cluster.devices]
        if devices is None:
            return list(range(len(names)))
        chosen = [names.index(each) if each in names else each for each in devices]
        known = [each for each in chosen if isinstance(each, int) and 0 <= each < len(names)]
        if not known or len(known) < len(chosen) or len(set(known)) < len(known):
            raise DataError(f"devices are {list(devices)!r}, not some of {', '.join(names)}", "give each once, by number or name")
        return known

    def _graph(self, shape: tuple[int, ...]) -> LayerGraph:
        """Return the network for windows of a shape, and note which weights have changed; the engines are made with the first one."""
        shapes = self._extents.shapes_of((np.broadcast_to(np.float32(0), (1, *shape)),))
        graph = None if shapes is None else self._extents.graph(shapes)
        if graph is None or shapes is None or graph.layers[graph.inputs[0]].output_shape != shape:
            raise DataError(f"windows have shape {shape}, the network's input is {self._own}", "give roi_size as the network's input")
        for index in graph.outputs:
            given = graph.layers[index].output_shape
            if given[:-1] != shape[:-1]:
                what = f"output {graph.layers[index].name} has shape {given} of a window of {shape}"
                raise UnsupportedError(f"{what}; outputs are put together that have the extents of windows", "predict whole volumes")
        if self._read is None:  # the model is followed once for its weights, which do not depend on extents
            self._read = self._extents.function(shapes), graph
        values = read_weights(*self._read)
        if not self._engines:
            rule, _ = read_optimizer(keras.optimizers.SGD(), graph.dtype, graph.has_one_variable_dtype)
            objective = (None,) * len(graph.outputs)
            for device in self._devices:
                plan = Plan.single(graph, device, self._cluster, self._size)
                self._engines.append(Engine(graph, plan, self._cluster, objective, rule, 0, values))
        changed = {key: value for key, value in values.items() if key in self._values and not np.array_equal(self._values[key], value)}
        with self._lock:
            for missed in self._changed:
                missed |= changed
        self._values = values
        return graph

    def _start(self, device: int, graph: LayerGraph, volumes: Any, assembly: Assembly, work: SharedWork) -> None:
        """Let a device take batches of windows, once it has ended what it did for an earlier call."""
        before = self._threads.get(device)

        def predict() -> None:
            if before is not None:
                before.join()
            try:
                self._predict(device, graph, volumes, assembly, work)
            except BaseException as fault:
                work.fail(fault)

        self._threads[device] = threading.Thread(target=predict, name=f"sliding-window-{device}", daemon=True)
        self._threads[device].start()

    def _predict(self, device: int, graph: LayerGraph, volumes: Any, assembly: Assembly, work: SharedWork) -> None:
        engine = self._engines[device]
        with self._lock:
            changed, self._changed[device] = self._changed[device], {}
        if changed:
            engine.write(changed)
        while (batch := work.take(device)) is not None:
            windows = batches.samples(graph, _filled(self._windows(volumes, assembly.windows_of(batch)), self._size))
            start_s, form = time.perf_counter(), (device, windows[0].shape)
            outputs = engine.predict(windows, graph)
            if form in self._built:  # else its graph was built
                work.note(device, time.perf_counter() - start_s)
            self._built.add(form)
            assembly.put(batch, outputs)
            work.finish(device)

    def _windows(self, volumes: Any, windows: Sequence[tuple[int, Place]]) -> np.ndarray:
        return np.stack([self._windowing.cut(volumes, sample, place) for sample, place in windows])


def _filled(windows: np.ndarray, size: int) -> np.ndarray:
    """Return a batch of a size, whose last windows are there more than once if need be: one program does for all."""
    return windows[np.minimum(np.arange(size), len(windows) - 1)]
