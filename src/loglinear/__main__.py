"""``python -m loglinear`` is the command line."""

from loglinear.cli import main

if __name__ == "__main__":
    main()
