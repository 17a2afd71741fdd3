"""Vectors of sentences, words and tokens at every layer."""

from isogloss.vectors.extract import Vectors as Vectors, stream as stream, vectors as vectors
