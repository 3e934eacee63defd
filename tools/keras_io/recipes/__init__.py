"""How the examples of keras.io are run on generated data: each module has a tuple RECIPES."""
