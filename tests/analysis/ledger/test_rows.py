"""JSON out of the ledger's texts: each different text is read once, and seeds of one cell share theirs."""

import json

import pytest

from analysis.ledger.rows import Objects


def test_seeds_of_one_cell_share_their_settings_and_keep_the_order_of_keys() -> None:
    objects = Objects()
    texts = [f'{{"a":1.0,"train.seed":{seed},"z":null}}' for seed in (0, 1, 10)]
    read = [objects.config(text) for text in texts]
    assert [config for config, _ in read] == [json.loads(text) for text in texts]
    assert [list(config) for config, _ in read] == [["a", "train.seed", "z"]] * 3
    assert len({settings for _, settings in read}) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ['{"a":1,"train.seed":3}', '{"a":2,"train.seed":3}'],
        ['{"train.seed":3,"a":1}', '{"train.seed":3,"a":1.0}'],
        ['{"a":{"train.seed":3},"train.seed":4}', '{"a":{"train.seed":4},"train.seed":4}'],
        ['{"a":{"train.seed":3}}', '{"a":{"train.seed":4}}'],
        ['{"train.seed":3.5,"a":1}', '{"train.seed":4.5,"a":1}'],
        ['{"train.seed":-3,"a":1}', '{"train.seed":"3","a":1}'],
        ['[{"train.seed":3,"a":1}]', '[{"train.seed":4,"a":1}]'],
        ['{"a":"\\"train.seed\\":3,"}', '{"a":"\\"train.seed\\":4,"}'],
    ],
)
def test_what_is_no_seed_of_the_run_keeps_settings_apart(texts: list[str]) -> None:
    objects = Objects()
    read = [objects.config(text) for text in texts]
    assert [config for config, _ in read] == [json.loads(text) for text in texts]
    assert len({settings for _, settings in read}) == 2


def test_a_broken_text_is_an_error() -> None:
    objects = Objects()
    objects.config('{"a":1,"train.seed":3}')
    for text in ('{"a":1,"train.seed":03}', '{"a":1,"train.seed":3', '{"a":1,}'):
        with pytest.raises(json.JSONDecodeError):
            objects.config(text)
