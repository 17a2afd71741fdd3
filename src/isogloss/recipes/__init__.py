"""Recipes: one file a command, each one typed function (`isogloss.recipes.recipe`).

`RECIPES` names them with the first line of their help, so that the command line can list them without loading any.
"""

RECIPES = {
    "map": "Map a model: at every layer, how close are translations?",
    "lexicon": "Look words up in another language by their vectors, at every layer.",
    "rotate": "Learn a rotation from parallel sentences, and find the translations of others with it.",
    "stitch": "Learn a task on one model's lower layers, and ask it of another's through a rotation.",
    "drift": "Tune a model on one language and watch what happens to the others.",
    "transfer": "Train a task in one language and test it in others.",
    "align": "Train a model further on parallel text, so that translations meet.",
    "pretrain": "Pretrain a language model on plain text of one or many languages.",
    "lens": "Read a language model's head at every layer: when the next token is known, and in which language.",
    "tokens": "Tell what a tokenizer costs each language on parallel text.",
}
