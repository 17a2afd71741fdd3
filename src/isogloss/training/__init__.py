"""Changing a stack: language modelling, sharing between languages, objectives and the one loop that trains them."""
