"""``rankd evaluate``: the whole decision as a pure function of one document.

The document is converted to the same structures that the daemon's services fill from the database. The same functions
decide on them. The modules here do not read files, clocks or entry points.
"""
