"""Text: corpora, the readers that fill them, words as spans of characters, language codes."""
