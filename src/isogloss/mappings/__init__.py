"""mappings."""
