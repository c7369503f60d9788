"""Generated C++: `module` makes the texts, `build` a library of them, for what `targets` lists.

Nothing is imported here: a start that finds its module in the cache needs `targets` alone.
"""
