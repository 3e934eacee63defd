"""What each command does, after its options were checked and its first line was printed."""
