"""Refinement: a profile corrected by the steps of its own plans, and the plan with the best measured step."""
