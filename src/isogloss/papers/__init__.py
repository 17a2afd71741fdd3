"""Papers: their published numbers, and how to reproduce them with recipes. One file per paper."""
