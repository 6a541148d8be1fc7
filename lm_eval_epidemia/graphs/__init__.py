"""What is known of causal graphs: which effects they have, and what an intervention changes.

Nothing here is estimated: a `Graph` with names is the whole of what is known, and truth follows
from reachability.
"""
