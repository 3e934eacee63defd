"""Integer apportionment, bounds, elimination and bottleneck search: solvers that do not depend on networks."""
