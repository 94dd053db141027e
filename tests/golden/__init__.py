"""A record of what the solvers answered and what it cost, against which a rewritten inside is compared."""
