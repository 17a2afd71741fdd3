"""Recipes: one file per command, each with one typed function (`isogloss.recipes.recipe`).

`RECIPES` lists them with a short description, so that the command line can list them without importing any.
"""

RECIPES = {
    "map": "Map a model: at every layer, how close are translations?",
    "lexicon": "Look words up in another language by their vectors, at every layer.",
    "rotate": "Learn a rotation from parallel sentences, and find the translations of others with it.",
    "stitch": "Train a task on one model's lower layers, and test it on another's through a rotation.",
    "drift": "Fine-tune a model on one language and measure what happens to the others.",
    "transfer": "Train a task in one language and test it in others.",
    "align": "Train a model further on parallel text, so that translations get similar vectors.",
    "pretrain": "Pretrain a language model on plain text of one or many languages.",
    "lens": "Read a language model's head at every layer: when the next token is known, and in which language.",
    "tokens": "Measure what a tokenizer costs each language on parallel text.",
}
