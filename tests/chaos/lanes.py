"""Independent scenarios side by side: two cores, two lanes."""

from concurrent.futures import ThreadPoolExecutor


def side_by_side(scenario, *arguments):
    """Run the scenario once per argument, all at once; the first failure is raised when all have
    ended.
    """
    with ThreadPoolExecutor(len(arguments)) as pool:
        lanes = [pool.submit(scenario, argument) for argument in arguments]
    return [lane.result() for lane in lanes]
