"""How batches reach the devices of a program."""
