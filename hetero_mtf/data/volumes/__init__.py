"""MRI volumes: from a table of participants and NIfTI files to batches.

How to use it, from the table to a trained network:

    from hetero_mtf.data.volumes import (
        Augmentation, CohortOptions, Preprocessing, VolumeCache, VolumeSource, cache_folder, open_cohort, read_scan, to_scan_space
    )
    from hetero_mtf.devices import environment

    steps = Preprocessing((64, 64, 64), spacing_mm=(3, 3, 3), normalisation="zscore", mask="otsu")
    folder, notes = cache_folder("data/participants.tsv", environment.variables())     # or VolumeCache(None, steps): no cache
    cache = VolumeCache(folder, steps)
    cohort = open_cohort("data/participants.tsv", cache, CohortOptions(label="diagnosis", skip_bad=False))
    for line in (*notes, *steps.lines(), *cohort.lines()):
        print(line)                                                                     # cache.trouble says why the cache stopped, or ""
    everybody = cohort.participants                                                     # .scans, .ids, .classes, .y
    train, test = everybody.part(["sub-01", "sub-02"]), everybody.part(["sub-03"])      # by subject, as a split says

    source = VolumeSource(train, cache, batch_size=4, seed=0, augmentation=Augmentation(flip=True, shift_voxels=2, noise=0.05))
    trainer.fit(source, epochs=10, validation_data=VolumeSource(test, cache, batch_size=4, shuffle=False))
    print(source.waited_s, source.handed_over)                                          # seconds waited for batches, and how many
    outputs = trainer.predict(VolumeSource(test, cache, batch_size=4, shuffle=False, labels=False))      # rows in the order of test.scans

    json.dumps(steps.to_json()); Preprocessing.from_json(...)                           # to store with the model
    volume = read_scan(scan.path, steps, scan.mask)                                     # values (D, H, W), affine, notes
    nibabel.save(to_scan_space(heat, volume.affine, scan.path), "heat.nii.gz")          # heat: (D, H, W), on the grid of volume

`open_cohort` raises one DataError with every fault of the table and of the files (and of a split, by `more=`), one a line.
For evaluating and predicting: CohortOptions(classes=the trained model's, labelled=True or False).
"""

from hetero_mtf.data.volumes.augmentation import Augmentation
from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.cache_folder import cache_folder
from hetero_mtf.data.volumes.check import Cohort, CohortOptions, check_scans, open_cohort
from hetero_mtf.data.volumes.fault import Fault
from hetero_mtf.data.volumes.nifti import Volume
from hetero_mtf.data.volumes.participants import Participants, Scan, read_participants
from hetero_mtf.data.volumes.preprocessing import Preprocessing
from hetero_mtf.data.volumes.scan import read_scan, to_scan_space
from hetero_mtf.data.volumes.split_choice import SplitChoice
from hetero_mtf.data.volumes.volume_data import VolumeData, VolumeRequest, open_volumes
from hetero_mtf.data.volumes.volume_source import VolumeSource

__all__ = [
    "Augmentation",
    "Cohort",
    "CohortOptions",
    "Fault",
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
