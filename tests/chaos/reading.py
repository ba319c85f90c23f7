"""A reader of a log of numbered records, which judges whether a cut of the log was noticed."""

from service.sources import open_source
from service.sources.base import Entry, Options, SourceLostError, SourceUnavailableError
from tests.waiting import wait_for


def make_records(first, count):
    return [
        Entry(b'{"n": %d}' % number, b"key %d" % (number % 7))
        for number in range(first, first + count)
    ]


def number_of(record):
    return int(record.value[6:-1])


class Reading:
    """One reader of a log of numbered records, and the numbers it got."""

    def __init__(self, url, on_data_loss="fail", client="kafka-python"):
        self.url = url
        self.source = open_source(
            url, "earliest", Options(client=client, on_data_loss=on_data_loss)
        )
        self.close = self.source.close
        self.found = []
        self.lost = ""

    def read(self, until, most=50):
        """Poll until this number was read, or the loss was noticed."""

        def there():
            if not self.lost and until not in self.found[-most:]:
                self.read_once(most)
            return self.lost or until in self.found[-most:]

        wait_for(there, f"number {until} or a loss")

    def look_again(self, wanted):
        """Poll until the loss is noticed if a number is missing: the topic's id is checked every
        two seconds.
        """
        if set(wanted) - set(self.found):
            wait_for(lambda: self.lost or self.read_once(50) or self.lost, "the loss is noticed")

    def read_once(self, most):
        try:
            self.found += map(number_of, self.source.poll(0.1, most))
            self.lost = str(self.source.gaps() or "")
        except SourceUnavailableError:
            pass
        except SourceLostError as error:
            self.lost = str(error)

    def judge(self, wanted):
        """Return `noticed` or `whole`; a silent loss fails the test."""
        assert self.found == sorted(set(self.found))
        if self.lost:
            return "noticed"
        missing = sorted(set(wanted) - set(self.found))
        assert not missing, f"{len(missing)} lost in silence, from {missing[0]}"
        return "whole"
