"""Host keys on the way to a board: an address enters, the keys that the hosts show leave, to be trusted or not."""

from __future__ import annotations

from collections.abc import Iterator

from edgetune.boards.ssh.trusting import OfferedKey, offered_keys
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import HostKeyRefused


def shown_keys(address: BoardAddress) -> Iterator[OfferedKey]:
    """Yield the key of every host on the way to a board, the board last.

    A key that is not known must be trusted before the next is asked for: nobody logs in at a host that is not trusted,
    and the board itself is not logged in at. Raises what connecting raises, and HostKeyRefused for a key of a host on
    the way that was not trusted.
    """
    told: set[str] = set()
    while True:
        offered = offered_keys(address)
        for key in offered:
            if key.host not in told:
                told.add(key.host)
                yield key
            elif key.status != "known":
                raise HostKeyRefused(f"board '{address.name}': the host key of {key.host} was not trusted")
        if not offered or offered[-1].status == "known":
            return
