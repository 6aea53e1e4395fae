"""Charts, from plain rows to Altair."""
