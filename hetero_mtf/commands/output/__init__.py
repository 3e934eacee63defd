"""What commands print, and what they show while they train."""
