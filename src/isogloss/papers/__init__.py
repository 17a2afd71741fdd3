"""Papers: their published numbers, and how to answer them with recipes. One file a paper."""
