"""isogloss."""
