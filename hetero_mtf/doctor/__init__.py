"""Whether this installation works on this machine: what is there, what runs, how fast, and whether a second device pays."""
