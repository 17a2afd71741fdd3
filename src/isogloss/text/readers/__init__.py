"""Readers: files in, records out. With the catalog and streams, the only part of `text` that opens user files."""
