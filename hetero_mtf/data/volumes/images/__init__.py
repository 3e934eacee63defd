"""One volume: its file, its grid, its intensities and its preprocessing."""
