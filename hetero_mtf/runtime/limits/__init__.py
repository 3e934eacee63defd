"""How a worker process, or its threads that compute, get a share of a core: cores, control groups and duty cycles."""
