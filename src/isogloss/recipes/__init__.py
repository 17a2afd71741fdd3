"""Recipes: one file a command, each one typed function (`isogloss.recipes.recipe`)."""
