"""Ways to damage an array, for tests of what a restore refuses."""

import numpy as np


def put(place, value):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return change


def plus(more):
    return lambda array: array + np.array(more)
