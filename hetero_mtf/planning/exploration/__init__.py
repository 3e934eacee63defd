"""Which plan a training tries next: a policy over what its steps have told so far."""
