"""The control plane: placement, provisioning over P4Runtime, and the `libra` command line."""
