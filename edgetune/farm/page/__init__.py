"""What a night leaves to read: one page without script and network, `night.json` and `junit.xml`."""

from edgetune.farm.page.files import page_folder, write_page

__all__ = ["page_folder", "write_page"]
