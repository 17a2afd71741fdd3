"""Readers: files in, records out. With the catalog and its checks, the only part of `text` that touches the disk."""
