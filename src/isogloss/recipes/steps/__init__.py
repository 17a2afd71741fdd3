"""Steps recipes are made of: choose words, read a text once, keep its pool, draw words."""
