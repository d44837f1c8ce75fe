"""`python -m playground`."""

from playground.cli import main

if __name__ == "__main__":
    main()
