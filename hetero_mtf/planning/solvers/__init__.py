"""Integer apportionment, bounds, elimination and bottleneck search: solvers that know nothing of networks."""
