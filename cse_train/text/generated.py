"""A corpus and a graded test that need no download: a seeded grammar whose slots hold meanings, not words.

A sentence says who did what to what, where and when: five slots. Each meaning has several wordings that share no
content word, and a sentence has several forms (active, passive, fronted place or time, cleft). Two sentences are
graded by the number of slots whose MEANING they share, 0-5, whatever the words and the form.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

Wordings = tuple[str, ...]
Meaning = tuple[int, int, int, int, int, int]
"""(agent, domain, action in domain, object in domain, place, time)."""

AGENTS: tuple[Wordings, ...] = (
    ("the doctor", "a physician"),
    ("the soldiers", "several troops"),
    ("the king", "the monarch"),
    ("a lawyer", "the attorney"),
    ("the author", "a writer"),
    ("the priest", "a clergyman"),
    ("the children", "some kids"),
    ("the scientist", "a researcher"),
    ("the merchant", "a trader"),
    ("the student", "a pupil"),
    ("the police", "law officers"),
    ("the company", "a business firm"),
    ("the farmer", "a peasant"),
    ("the president", "the head of state"),
    ("the sailors", "the navy crew"),
    ("the woman", "a lady"),
    ("the boss", "the manager"),
    ("a foreigner", "an immigrant"),
)
PLACES: tuple[Wordings, ...] = (
    ("in the city", "in a large town"),
    ("near the sea", "by the ocean"),
    ("in the forest", "among the woods"),
    ("on the hill", "upon a mountain"),
    ("at the college", "on the university campus"),
    ("beside the river", "along the stream"),
    ("in the prison", "inside the jail"),
    ("at the airport", "where planes land"),
    ("in the church", "inside a chapel"),
    ("at the market", "among the shops"),
    ("abroad", "in another country"),
    ("on the border", "at the frontier"),
)
TIMES: tuple[Wordings, ...] = (
    ("in the morning", "soon after dawn"),
    ("in the evening", "around sunset"),
    ("at midnight", "in the middle of the night"),
    ("during the war", "while the armies fought"),
    ("last year", "twelve months ago"),
    ("every week", "once in seven days"),
    ("in winter", "when it was cold and snowing"),
    ("in summer", "during the hot season"),
    ("recently", "in the past few days"),
    ("often", "many times"),
)
DOMAINS: tuple[tuple[tuple[Wordings, ...], tuple[Wordings, ...]], ...] = (
    (
        (("repaired", "fixed"), ("bought", "purchased"), ("destroyed", "wrecked"), ("hid", "concealed")),
        (("the car", "an automobile"), ("the boat", "a ship"), ("the plane", "an aircraft"), ("a bike", "the bicycle")),
    ),
    (
        (("wrote", "composed"), ("published", "put into print"), ("translated", "rendered into English"), ("read", "studied")),
        (("the book", "a volume"), ("a poem", "some verses"), ("the letter", "a written message"), ("the story", "a tale")),
    ),
    (
        (("built", "constructed"), ("burned", "set fire to"), ("left", "abandoned"), ("sold", "exchanged for money")),
        (("the house", "a home"), ("the tower", "a tall building"), ("the road", "a street"), ("the castle", "a fortress")),
    ),
    (
        (("cooked", "prepared"), ("ate", "consumed"), ("stole", "took without permission"), ("praised", "spoke well of")),
        (("the meal", "some food"), ("the meat", "a piece of beef"), ("the fruit", "apples and pears"), ("soup", "a broth")),
    ),
    (
        (("won", "gained victory in"), ("lost", "was defeated in"), ("started", "began"), ("ended", "brought to a close")),
        (("the match", "a game of football"), ("the race", "a running contest"), ("the fight", "a battle"), ("the vote", "an election")),
    ),
    (
        (("killed", "shot dead"), ("fed", "gave something to eat to"), ("caught", "captured"), ("feared", "was afraid of")),
        (("the horse", "a pony"), ("the dog", "a hound"), ("the snake", "a serpent"), ("the pigs", "some swine")),
    ),
)  # fmt: skip
SLOTS = 5
FORMS = 4
KEEP_WORDS = 0.25
"""Probability that a shared slot of a pair below grade 5 keeps its words; at grade 5 none does."""


@lru_cache(maxsize=4)
def sentences(count: int, seed: int) -> list[str]:
    """`count` distinct sentences, in random order of meaning, wording and form."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    made: dict[str, None] = {}
    while len(made) < count:
        made[_say(_meaning(rng), rng.integers(0, 2, SLOTS), int(rng.integers(FORMS)))] = None
    return list(made)


def graded_pairs(count: int, seed: int) -> tuple[list[str], list[str], list[float]]:
    """`count` pairs (left, right, gold 0-5); grades in turn, so every grade has the same share."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    left, right, gold = zip(*(_pair(i % (SLOTS + 1), rng) for i in range(count)), strict=True)
    return list(left), list(right), list(gold)


def _pair(shared: int, rng: np.random.Generator) -> tuple[str, str, float]:
    one = _meaning(rng)
    kept = rng.permutation(SLOTS) < shared
    other = _differ(one, kept, rng)
    wording = rng.integers(0, 2, SLOTS)
    same_words = (rng.random(SLOTS) < KEEP_WORDS) & (shared < SLOTS)
    forms = rng.permutation(FORMS)[:2]
    left = _say(one, wording, int(forms[0]))
    right = _say(other, np.where(same_words, wording, 1 - wording), int(forms[1]))
    return left, right, float(shared)


def _meaning(rng: np.random.Generator) -> Meaning:
    agent, place, time = (int(rng.integers(len(slot))) for slot in (AGENTS, PLACES, TIMES))
    domain = int(rng.integers(len(DOMAINS)))
    action, thing = (int(rng.integers(len(slot))) for slot in DOMAINS[domain])
    return agent, domain, action, thing, place, time


def _differ(one: Meaning, kept: np.ndarray, rng: np.random.Generator) -> Meaning:
    """A meaning that agrees with `one` in exactly the kept slots (agent, action, object, place, time)."""
    agent, domain, action, thing, place, time = one
    if not kept[1] and not kept[2]:
        domain = _another(domain, len(DOMAINS), rng)
        action, thing = (int(rng.integers(len(slot))) for slot in DOMAINS[domain])
    else:
        actions, things = DOMAINS[domain]
        action = action if kept[1] else _another(action, len(actions), rng)
        thing = thing if kept[2] else _another(thing, len(things), rng)
    return (
        agent if kept[0] else _another(agent, len(AGENTS), rng),
        domain,
        action,
        thing,
        place if kept[3] else _another(place, len(PLACES), rng),
        time if kept[4] else _another(time, len(TIMES), rng),
    )


def _another(index: int, size: int, rng: np.random.Generator) -> int:
    return (index + int(rng.integers(1, size))) % size


def _say(meaning: Meaning, wording: np.ndarray, form: int) -> str:
    agent, domain, action, thing, place, time = meaning
    actions, things = DOMAINS[domain]
    who, did, what, where, when = (
        slot[w]
        for slot, w in zip(
            (AGENTS[agent], actions[action], things[thing], PLACES[place], TIMES[time]), wording, strict=True
        )
    )
    return (
        f"{who} {did} {what} {where} {when} .",
        f"{when} , {who} {did} {what} {where} .",
        f"{where} {who} {did} {what} , and it was {when} .",
        f"it was {who} who {did} {what} {where} {when} .",
    )[form]


def meanings_of_words() -> Iterator[Wordings]:
    """Every meaning's wordings."""
    yield from (*AGENTS, *PLACES, *TIMES)
    for actions, things in DOMAINS:
        yield from (*actions, *things)
