"""``python -m loglinear`` is the command line."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, whose json.py would be imported in place of Python's
    from loglinear.cli import main

    main()
