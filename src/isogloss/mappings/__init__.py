"""Mappings between two spaces: fitted on pairs, kept as frozen records, saved as safetensors."""
