"""A corpus and a graded test set that need no download: a seeded grammar whose slots hold meanings, not words.

A sentence says who did what to what, where and when: five slots. Each meaning has two wordings that share no content
word, and a sentence has several forms (active, fronted place or time, cleft). Two sentences are graded by the number of
slots whose MEANING they share, 0-5, whatever the words and the form.
"""

from functools import lru_cache

import numpy as np

Wordings = tuple[str, ...]
Meaning = tuple[int, int, int, int, int, int]
"""Indices of a sentence's meanings: (agent, domain, action in domain, object in domain, place, time)."""


def _slot(lines: str) -> tuple[Wordings, ...]:
    """Reads the wordings of a slot: one meaning a line, its two wordings around the equals sign."""
    return tuple(tuple(w.strip() for w in line.split("=")) for line in lines.strip().splitlines())


AGENTS = _slot("""
    the doctor = a physician
    the soldiers = several troops
    the king = the monarch
    a lawyer = the attorney
    the author = a writer
    the priest = a clergyman
    the children = some kids
    the scientist = a researcher
    the merchant = a trader
    the student = a pupil
    the police = law officers
    the company = a business firm
    the farmer = a peasant
    the president = the head of state
    the sailors = the navy crew
    the woman = a lady
    the boss = the manager
    a foreigner = an immigrant
""")
PLACES = _slot("""
    in the city = in a large town
    near the sea = by the ocean
    in the forest = among the woods
    on the hill = upon a mountain
    at the college = on the university campus
    beside the river = along the stream
    in the prison = inside the jail
    at the airport = where planes land
    in the church = inside a chapel
    at the market = among the shops
    abroad = in another country
    on the border = at the frontier
""")
TIME_WORDS = _slot("""
    in the morning = soon after dawn
    in the evening = around sunset
    at midnight = in the middle of the night
    during the war = while the armies fought
    last year = twelve months ago
    every week = once in seven days
    in winter = when it was cold and snowing
    in summer = during the hot season
    recently = not long before now
    often = many times
""")
VEHICLES = (
    _slot("repaired = fixed\nbought = purchased\ndestroyed = wrecked\nhid = concealed"),
    _slot("the car = an automobile\nthe boat = a ship\nthe plane = an aircraft\na bike = the bicycle"),
)
TEXT_WORDS = (
    _slot("wrote = composed\npublished = put into print\ntranslated = rendered into English\nread = studied"),
    _slot("the book = a volume\na poem = some verses\nthe letter = a written message\nthe story = a tale"),
)
BUILDINGS = (
    _slot("built = constructed\nburned = set fire to\nleft = abandoned\nsold = exchanged for money"),
    _slot("the house = a home\nthe tower = a tall building\nthe road = a street\nthe castle = a fortress"),
)
FOOD = (
    _slot("cooked = prepared\nate = consumed\nstole = took without permission\npraised = spoke well of"),
    _slot("the meal = some food\nthe meat = a piece of beef\nthe fruit = apples and pears\nsoup = a broth"),
)
CONTESTS = (
    _slot("won = gained victory in\nlost = was defeated in\nstarted = began\nended = brought to a close"),
    _slot("the match = a game of football\nthe race = a running contest\nthe fight = a battle\nthe vote = an election"),
)
ANIMALS = (
    _slot("killed = shot dead\nfed = gave something to eat to\ncaught = captured\nfeared = was afraid of"),
    _slot("the horse = a pony\nthe dog = a hound\nthe snake = a serpent\nthe pigs = some swine"),
)
DOMAINS = (VEHICLES, TEXT_WORDS, BUILDINGS, FOOD, CONTESTS, ANIMALS)
"""Pairs of (actions, objects that the actions fit), one pair for each domain of generated sentences."""
SENTENCE_SLOTS = 5
FORMS = 4
KEEP_WORDS = 0.6
"""Probability that a shared slot keeps its words, in the half of the graded pairs that are not paraphrases."""


@lru_cache(maxsize=4)
def sentences(count: int, seed: int) -> list[str]:
    """Returns `count` distinct generated sentences, in random order of meaning, wording and form."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        distinct[_say(_meaning(rng), rng.integers(0, 2, SENTENCE_SLOTS), int(rng.integers(FORMS)))] = None
    return list(distinct)


def make_graded_pairs(count: int, seed: int) -> tuple[list[str], list[str], list[float]]:
    """Returns the left texts, right texts and grades (0-5) of `count` generated pairs; every grade has an equal share.

    Every second round of grades is paraphrases: whatever their grade, the two sentences share no content word.
    """
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    grades = SENTENCE_SLOTS + 1
    pairs = [_pair(i % grades, i // grades % 2 == 0, rng) for i in range(count)]
    left, right, gold = zip(*pairs, strict=True)
    return list(left), list(right), list(gold)


def _pair(shared: int, paraphrase: bool, rng: np.random.Generator) -> tuple[str, str, float]:
    meaning = _meaning(rng)
    other = _differ(meaning, rng.permutation(SENTENCE_SLOTS) < shared, rng)
    wording = rng.integers(0, 2, SENTENCE_SLOTS)
    keeps = (rng.random(SENTENCE_SLOTS) < KEEP_WORDS) & (not paraphrase)
    forms = rng.permutation(FORMS)[:2]
    left = _say(meaning, wording, int(forms[0]))
    right = _say(other, np.where(keeps, wording, 1 - wording), int(forms[1]))
    return left, right, float(shared)


def _meaning(rng: np.random.Generator) -> Meaning:
    agent, place, time = (int(rng.integers(len(slot))) for slot in (AGENTS, PLACES, TIME_WORDS))
    domain = int(rng.integers(len(DOMAINS)))
    action, thing = (int(rng.integers(len(slot))) for slot in DOMAINS[domain])
    return agent, domain, action, thing, place, time


def _differ(meaning: Meaning, shared: np.ndarray, rng: np.random.Generator) -> Meaning:
    """Returns another meaning that equals `meaning` only in the shared slots (agent, action, object, place, time)."""
    agent, domain, action, thing, place, time = meaning
    if not shared[1] and not shared[2]:
        domain = _another(domain, len(DOMAINS), rng)
        action, thing = (int(rng.integers(len(slot))) for slot in DOMAINS[domain])
    else:
        actions, things = DOMAINS[domain]
        action = action if shared[1] else _another(action, len(actions), rng)
        thing = thing if shared[2] else _another(thing, len(things), rng)
    return (
        agent if shared[0] else _another(agent, len(AGENTS), rng),
        domain,
        action,
        thing,
        place if shared[3] else _another(place, len(PLACES), rng),
        time if shared[4] else _another(time, len(TIME_WORDS), rng),
    )


def _another(index: int, size: int, rng: np.random.Generator) -> int:
    return (index + int(rng.integers(1, size))) % size


def _say(meaning: Meaning, wording: np.ndarray, form: int) -> str:
    agent, domain, action, thing, place, time = meaning
    actions, things = DOMAINS[domain]
    slots = (AGENTS[agent], actions[action], things[thing], PLACES[place], TIME_WORDS[time])
    who, did, what, where, when = (slot[w] for slot, w in zip(slots, wording, strict=True))
    return (
        f"{who} {did} {what} {where} {when} .",
        f"{when} , {who} {did} {what} {where} .",
        f"{where} {who} {did} {what} , and it was {when} .",
        f"it was {who} who {did} {what} {where} {when} .",
    )[form]
