"""The peers that Layby is measured beside: each with `missing()`, why it cannot run here, and `running()`, which starts
it on loopback with a temporary folder of its own, and takes both away when the block is left."""
