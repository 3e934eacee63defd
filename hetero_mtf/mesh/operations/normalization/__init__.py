"""Normalisation on a mesh: of batches and of samples, where the statistics of a slice are those of the whole."""
