"""An agent whose transfers need an approval, recorded in Layby so that any process can carry it on."""
