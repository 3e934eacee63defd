"""Rebalancing: steps are watched and traced, and where a device has changed training goes on under another plan, if that pays."""
