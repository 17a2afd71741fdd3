"""Mappings between two vector spaces: fitted on pairs, frozen records, saved as safetensors."""
