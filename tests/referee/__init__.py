"""An independent referee: it computes what the package should return with no code of the package.

A case is described once (`specification`); from the description come both the source of the object under test and the
referee's own formulas, kinks as exact fractions and everything else in long double.
"""
