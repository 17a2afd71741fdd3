"""Hub data sets, read through a stand-in for the package `datasets`."""

import sys
from types import SimpleNamespace

import pytest

from isogloss.errors import InputError
from isogloss.text.readers.parallel import read_bitext, read_bitexts


class Data:
    """What the readers use of a data set: its columns."""

    def __init__(self, **columns):
        self.columns = columns
        self.column_names = list(columns)

    def __getitem__(self, name):
        return self.columns[name]


@pytest.fixture
def hub(monkeypatch):
    def _install(configs, splits=("train", "test")):
        def load(name, config, *, split):
            if name == "no/such":
                raise FileNotFoundError("Dataset 'no/such' doesn't exist on the Hub")
            assert split in splits
            return configs[config]

        stand_in = SimpleNamespace(
            get_dataset_config_names=lambda name: list(configs),
            get_dataset_split_names=lambda name, config: list(splits),
            load_dataset=load,
        )
        monkeypatch.setitem(sys.modules, "datasets", stand_in)

    return _install


PAIRS = {
    "nld-eng": Data(sentence1=["een", "twee"], sentence2=["one", "two"], lang=["nld-eng"] * 2),
    "deu-eng": Data(sentence1=["eins"], sentence2=["one"]),
}


def test_a_configuration_a_pair_english_first(hub):
    hub(PAIRS)
    bitexts = read_bitexts("hf:mteb/tatoeba-bitext-mining")
    assert [bitext.languages for bitext in bitexts] == [("en", "nl"), ("en", "de")]
    dutch = read_bitext("hf:mteb/tatoeba-bitext-mining", languages=("nl",))
    assert [list(corpus) for corpus in dutch] == [["one", "two"], ["een", "twee"]]
    assert read_bitext("hf:mteb/tatoeba-bitext-mining", languages=("nl", "en")).languages == ("nl", "en")


def test_a_missing_pair_names_those_there_are(hub):
    hub(PAIRS)
    with pytest.raises(InputError, match="has no pair of en, fr; it has nl-en, de-en"):
        read_bitexts("hf:x/y", languages=("en", "fr"))


def test_translations_in_one_column(hub):
    hub({"en-fr": Data(translation=[{"en": "one", "fr": "un"}, {"en": "two", "fr": "deux"}])})
    assert [list(corpus) for corpus in read_bitext("hf:opus100@train", languages=("fr", "en"))] == [
        ["un", "deux"],
        ["one", "two"],
    ]


def test_columns_named_after_languages(hub):
    hub({"default": Data(key=["1"], eng=["one"], nld=["een"])})
    assert read_bitext("hf:x/y").languages == ("en", "nl")


def test_other_columns_are_refused(hub):
    hub({"default": Data(text=["one"], label=[1])})
    with pytest.raises(InputError, match="has the columns text, label; expected sentence1 and sentence2"):
        read_bitext("hf:x/y")


def test_a_missing_split_or_data_set(hub):
    hub(PAIRS)
    with pytest.raises(InputError, match="no split 'dev'; there is train, test"):
        read_bitexts("hf:x/y@dev")
    with pytest.raises(InputError, match="hf:no/such cannot be loaded: Dataset 'no/such' doesn't exist"):
        read_bitexts("hf:no/such", languages=("nl",))


def test_without_the_package_the_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'isogloss\[datasets\]'"):
        read_bitexts("hf:x/y")


def test_links_do_not_go_with_several_bitexts(hub, tmp_path):
    hub(PAIRS)
    with pytest.raises(InputError, match="give it alone and without links"):
        read_bitexts("hf:x/y", links=tmp_path / "x.links")


def test_a_data_set_saved_to_disk(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"en": ["one"], "nl": ["een"]}).save_to_disk(str(tmp_path / "saved"))
    assert [list(corpus) for corpus in read_bitext(f"hf:{tmp_path / 'saved'}")] == [["one"], ["een"]]
