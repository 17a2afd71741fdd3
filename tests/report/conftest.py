"""Made-up run folders, shared by the tests of the report."""

from pathlib import Path

import pytest
from browsing import CHROMIUM, DRIVER, FLAGS
from report_runs import write_run
from training_runs import write_training


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """A run of five languages in four scripts, twelve blocks."""
    return write_run(tmp_path_factory.mktemp("runs") / "plain")


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory) -> Path:
    """A run whose words, model name and notes try to be markup."""
    return write_run(tmp_path_factory.mktemp("runs") / "hostile", hostile=True)


@pytest.fixture(scope="session")
def training(tmp_path_factory) -> Path:
    """A training of four languages, six blocks, eleven probes."""
    return write_training(tmp_path_factory.mktemp("runs") / "training")


@pytest.fixture(scope="module")
def downloads(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(tmp_path_factory, downloads):
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    yield browser
    browser.quit()
