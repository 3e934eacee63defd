"""Whether workers answer, a program and each other, and which program uses them."""
