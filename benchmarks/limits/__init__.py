"""What the machine itself can do: the bounds that Layby's figures stand beside."""
