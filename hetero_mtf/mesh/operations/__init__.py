"""Operations on slices of any sizes, each with its gradient."""
