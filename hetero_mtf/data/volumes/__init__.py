"""MRI volumes: from a table of participants and NIfTI files to batches.

The steps of a scan: `read_participants` lists it, `open_cohort` checks it with all others and names every fault in one report, a
`VolumeCache` decodes it once by a `Preprocessing`, and a `VolumeSource` hands it over in batches that `Trainer.fit`, `evaluate` and
`predict` take. `read_scan` gives one scan with its affine, and `to_scan_space` brings a map on its grid back into the file's own space.

Examples
--------
A cohort of four, here of noise:

>>> import pathlib, tempfile
>>> import nibabel, numpy as np
>>> folder = tempfile.TemporaryDirectory()
>>> table = pathlib.Path(folder.name) / "participants.tsv"
>>> rows = ["participant_id\\tdiagnosis\\tpath"]
>>> for number, diagnosis in enumerate(["AD", "NC", "AD", "NC"]):
...     values = np.random.default_rng(number).normal(size=(20, 24, 22)).astype(np.float32)
...     nibabel.save(nibabel.Nifti1Image(values, np.diag([-2, 2, 2, 1])), table.parent / f"{number}.nii.gz")
...     rows.append(f"sub-{number}\\t{diagnosis}\\t{number}.nii.gz")
>>> count = table.write_text("\\n".join(rows))

Without a cache use `VolumeCache(None, steps)`; `CohortOptions` sets how the table is read: which column, whether bad scans are left out.

>>> steps = Preprocessing((12, 12, 12), spacing_mm=(3, 3, 3))
>>> place, notes = cache_folder(table, {})
>>> cache = VolumeCache(place, steps)
>>> cohort = open_cohort(table, cache, CohortOptions(label="diagnosis"))
>>> print("\\n".join(cohort.lines()))
4 scans of 4 participants: 2 AD, 2 NC
4 scans: turned from LAS to RAS
4 scans: resampled from 2 x 2 x 2 to 3 x 3 x 3 mm
4 scans: cropped by 1 x 4 x 3 voxels

Parts are taken by participant. To train, shuffle and augment; to test and to predict, take the table's order.

>>> train, test = cohort.participants.part(["sub-0", "sub-1"]), cohort.participants.part(["sub-2", "sub-3"])
>>> source = VolumeSource(train, cache, batch_size=2, seed=0, augmentation=Augmentation(flip=True, shift_voxels=1, noise=0.05))
>>> with source, VolumeSource(test, cache, batch_size=2, shuffle=False) as held_out:
...     [(batch.x.shape, sorted(batch.y.tolist())) for batch in source], [batch.y.tolist() for batch in held_out]
([((2, 12, 12, 12, 1), [0, 1])], [[0, 1]])
>>> source.handed_over, source.waited_s < 60
(1, True)

A map on the network's grid, such as what it looked at, laid over the scan; and the steps as they are stored with a model:

>>> scan = test.scans[0]
>>> heat = to_scan_space(np.ones((12, 12, 12)), cache.volume(scan).affine, scan.path)
>>> heat.shape, Preprocessing.from_json(steps.to_json()) == steps
((20, 24, 22), True)
>>> folder.cleanup()
"""

from hetero_mtf.data.volumes.augmentation import Augmentation
from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.cache_folder import cache_folder
from hetero_mtf.data.volumes.class_weight import ClassWeight
from hetero_mtf.data.volumes.cohort.cohort_options import CohortOptions
from hetero_mtf.data.volumes.cohort.fault import CohortFault
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.reading import read_participants
from hetero_mtf.data.volumes.cohort.split_choice import SplitChoice
from hetero_mtf.data.volumes.cohort_check import Cohort, check_scans, open_cohort
from hetero_mtf.data.volumes.images.nifti import Volume
from hetero_mtf.data.volumes.images.preprocessing import Preprocessing
from hetero_mtf.data.volumes.images.scan import read_scan, to_scan_space
from hetero_mtf.data.volumes.volume_data import VolumeData, VolumeRequest, open_volumes
from hetero_mtf.data.volumes.volume_source import VolumeSource

__all__ = [
    "Augmentation",
    "ClassWeight",
    "Cohort",
    "CohortOptions",
    "CohortFault",
    "Participants",
    "Preprocessing",
    "Scan",
    "SplitChoice",
    "Volume",
    "VolumeCache",
    "VolumeData",
    "VolumeRequest",
    "VolumeSource",
    "cache_folder",
    "check_scans",
    "open_cohort",
    "open_volumes",
    "read_participants",
    "read_scan",
    "to_scan_space",
]
