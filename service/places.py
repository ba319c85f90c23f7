"""A bookmark as a checkpoint keeps it: each position under the name of its log.

The same offset means other events in another log, so a checkpoint is never continued on one.
"""

from service.sources.contract import Bookmark, SourceLost


def named(log_name: str, bookmark: Bookmark) -> Bookmark:
    return Bookmark({f"{log_name}/{key}": at for key, at in bookmark.positions.items()}, bookmark.marks)


def own(log_name: str, bookmark: Bookmark) -> Bookmark:
    """The inverse of `named`, for the log that it was made of."""
    strange = sorted({key.rpartition("/")[0] for key in bookmark.positions} - {log_name})
    if strange:
        named_log = f"the log {strange[0]}" if strange[0] else "a log without a name"
        raise SourceLost(f"the checkpoint is of {named_log}, the source is {log_name}; use another `name`")
    return Bookmark({key.rpartition("/")[2]: at for key, at in bookmark.positions.items()}, bookmark.marks)
