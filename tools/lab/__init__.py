"""Several hosts on one machine, for tests and benches: network namespaces with links that can be slowed and cut, and a Slurm on them."""
