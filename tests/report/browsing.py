"""A real browser for the tests of the page."""

import shutil
import time

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1280,1000",
)  # fmt: skip

NEEDED = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver on the path"),
]


def visit(driver, page):
    driver.get_log("browser")
    driver.get_log("performance")
    driver.get(page.as_uri())
    wait(driver, lambda: driver.execute_script("return document.documentElement.classList.contains('ready')"))
    return driver


def wait(driver, met, seconds=8.0):
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)
