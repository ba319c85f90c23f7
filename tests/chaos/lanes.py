"""Run independent scenarios side by side: two cores, two lanes."""

from concurrent.futures import ThreadPoolExecutor


def side_by_side(scenario, *arguments):
    """Run the scenario once per argument, all at once. When all have ended, raise the first
    failure.
    """
    with ThreadPoolExecutor(len(arguments)) as pool:
        lanes = [pool.submit(scenario, argument) for argument in arguments]
    return [lane.result() for lane in lanes]
