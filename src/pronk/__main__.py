"""`python -m pronk` is the command line."""

from pronk.cli import main

if __name__ == "__main__":
    main()
