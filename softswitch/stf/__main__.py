"""`python -m softswitch.stf DIR` is `softswitch stf DIR`."""

from softswitch.cli import main

if __name__ == "__main__":
    main(["stf"])
