"""`python -m cli`: the same as `layby`, for where that is not on the path."""

from cli.main import main

if __name__ == "__main__":
    main()
