"""Vectors of sentences, words and tokens at every layer, and their projection to a plane."""

from isogloss.vectors.extract import Vectors as Vectors, stream as stream, vectors as vectors
