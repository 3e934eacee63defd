"""`python -m hetero_mtf` is the program `hetero-mtf`."""

from hetero_mtf.commands.main import main

if __name__ == "__main__":
    main()
