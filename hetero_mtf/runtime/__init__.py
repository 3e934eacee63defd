"""Live things: worker processes, emulated devices, sessions, containers and their clean-up."""
