"""Data: images by name, and sources that hand over batches while the present one trains."""

from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.data.factory import batch_source
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.data.named import load
from hetero_mtf.data.source import BatchSource

__all__ = ["ArraySource", "Batch", "BatchSource", "Dataset", "LabelledData", "batch_source", "load"]
