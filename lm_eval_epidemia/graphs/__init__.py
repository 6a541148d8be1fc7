"""What an intervention changes: causal graphs, the questions about them and the names they bear.

A neighbour of `surveys`: where those say what the world recorded, a graph says what is known of it
by construction. Truth is computed from the graph, never written down.
"""
