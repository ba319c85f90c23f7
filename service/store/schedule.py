"""Which generations stay: the newest, and ever fewer of the older ones, so that an operator can go back far.

Once let go a generation is never wanted again, so nothing has to be kept in case.
"""

STEP = 8


def stays(generation: int, newest: int, keep: int, levels: int) -> bool:
    """Among the newest `keep`; or on a level: a multiple of 8, 64, 512, … no older than two such steps."""
    age = newest - generation
    spacings = (STEP**level for level in range(1, levels + 1))
    return age < keep or any(generation % spacing == 0 and age < 2 * spacing for spacing in spacings)
