"""Tasks: what a head on the stack is trained for in one language and tested on in others; one file each."""
