"""Changing a stack: masked-LM heads, sharing between languages, objectives and the one loop that trains them."""
