"""What the page in browsers shows: one look for each of its views, from one instant.

The page runs them on the database, or asks the intake, which runs the same ones.
"""
