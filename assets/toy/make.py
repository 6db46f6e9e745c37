#!/usr/bin/env python3
"""Writes the toy corpus: train, dev and test in English and German, from a small grammar with agreement.

Run in this folder; the output is the same each time. Only `Random.random` is used, whose numbers are fixed for a seed.
"""

from collections import Counter, namedtuple
from random import Random

SIZES = {"train": 600, "dev": 40, "test": 40}
SEEN = 5  # each word of dev and test is at least so often in train

# ---- words ----------------------------------------------------------------------------------------------------------

# obl: accusative and dative singular of weak nouns; dat: dative plural.
Noun = namedtuple("Noun", "en en_pl gender de de_pl dat obl")


def noun(en, gender, de, de_pl="", en_pl="", obl=""):
    dat = de_pl if de_pl.endswith(("n", "s")) else de_pl + "n"
    return Noun(en, en_pl or en + "s", gender, de, de_pl, dat, obl or de)


N = {n.en: n for n in [
    noun("man", "m", "Mann", "Männer", "men"), noun("woman", "f", "Frau", "Frauen", "women"),
    noun("child", "n", "Kind", "Kinder", "children"), noun("boy", "m", "Junge", "Jungen", obl="Jungen"),
    noun("girl", "n", "Mädchen", "Mädchen"), noun("teacher", "m", "Lehrer", "Lehrer"),
    noun("mother", "f", "Mutter"), noun("father", "m", "Vater"), noun("friend", "m", "Freund", "Freunde"),
    noun("dog", "m", "Hund", "Hunde"), noun("cat", "f", "Katze", "Katzen"), noun("bird", "m", "Vogel", "Vögel"),
    noun("horse", "n", "Pferd", "Pferde"),
    noun("book", "n", "Buch", "Bücher"), noun("letter", "m", "Brief", "Briefe"), noun("cup", "f", "Tasse", "Tassen"),
    noun("key", "m", "Schlüssel", "Schlüssel"), noun("apple", "m", "Apfel", "Äpfel"),
    noun("ball", "m", "Ball", "Bälle"), noun("flower", "f", "Blume", "Blumen"), noun("lamp", "f", "Lampe", "Lampen"),
    noun("hat", "m", "Hut", "Hüte"), noun("picture", "n", "Bild", "Bilder"),
    noun("chair", "m", "Stuhl", "Stühle"), noun("car", "n", "Auto", "Autos"), noun("house", "n", "Haus"),
    noun("garden", "m", "Garten"), noun("kitchen", "f", "Küche"),
    noun("door", "f", "Tür"), noun("window", "n", "Fenster"),
]}

PEOPLE = "man woman child boy girl teacher".split()
FAMILY = "mother father friend teacher".split()
ANIMALS = "dog cat bird horse".split()
THINGS = "book letter cup key apple ball flower lamp hat picture chair".split()
BUYABLE = "book cup apple ball flower lamp hat picture chair".split()
SMALL = "book letter cup key apple ball flower lamp hat picture".split()  # what one brings and finds

COLOURS = "red blue green white black".split()
A = dict(red="rot", blue="blau", green="grün", white="weiß", black="schwarz", big="groß", small="klein",
         old="alt", new="neu", young="jung", beautiful="schön",
         tired="müde", hungry="hungrig", happy="glücklich", sad="traurig")
MOODS = "tired hungry happy sad".split()

# Which adjectives make sense with which nouns.
FITS = {n: "old young".split() for n in "man woman teacher".split()}
FITS.update({n: "big small".split() for n in "child boy girl".split()})
FITS.update(
    dog="black white big small old young", cat="black white big small old young",
    bird="black white blue small beautiful", horse="black white big beautiful young old",
    book="red green blue new old big small", cup="white blue green red new small", key="small old new big",
    apple="red green big small", ball="red blue green white new big", flower="red white blue beautiful small",
    lamp="green white new old beautiful", hat="red black white blue new old", picture="beautiful new old big small",
    chair="old new red white green", car="red blue black green new old big", house="big small old new beautiful white",
    garden="big small beautiful old", door="green white old new black", window="big small old new",
    kitchen="big small new white beautiful")
FITS = {n: a.split() if isinstance(a, str) else a for n, a in FITS.items()}

NUMBERS = dict(two="zwei", three="drei", four="vier", five="fünf", six="sechs", ten="zehn")

PLACES = {
    "in the garden": "im Garten", "in the house": "im Haus", "in the kitchen": "in der Küche",
    "in the street": "auf der Straße", "in the car": "im Auto", "in the tree": "im Baum", "at school": "in der Schule",
    "on the table": "auf dem Tisch", "on the chair": "auf dem Stuhl", "on the bed": "auf dem Bett",
    "under the table": "unter dem Tisch", "under the tree": "unter dem Baum", "under the bed": "unter dem Bett",
    "at the window": "am Fenster", "at the door": "an der Tür", "behind the door": "hinter der Tür",
    "behind the house": "hinter dem Haus",
}
IN = ["in the garden", "in the house", "in the kitchen"]
OF_PEOPLE = IN + ["in the street", "in the car", "at school", "at the window", "at the door", "behind the house",
                  "under the tree"]
OF_ANIMALS = IN + ["in the street", "on the bed", "under the table", "under the tree", "under the bed",
                   "behind the door", "behind the house"]
OF_HORSES = ["in the garden", "in the street", "under the tree", "behind the house"]
OF_THINGS = ["in the house", "in the kitchen", "in the car", "on the table", "on the chair", "on the bed",
             "under the table", "under the bed", "behind the door"]

Verb = namedtuple("Verb", "en en_3s en_past de ich du er part")  # de: infinitive, also the form of wir and sie
V = {v.en: v for v in [
    Verb("see", "sees", "saw", "sehen", "sehe", "siehst", "sieht", "gesehen"),
    Verb("have", "has", "had", "haben", "habe", "hast", "hat", "gehabt"),
    Verb("buy", "buys", "bought", "kaufen", "kaufe", "kaufst", "kauft", "gekauft"),
    Verb("find", "finds", "found", "finden", "finde", "findest", "findet", "gefunden"),
    Verb("bring", "brings", "brought", "bringen", "bringe", "bringst", "bringt", "gebracht"),
    Verb("give", "gives", "gave", "geben", "gebe", "gibst", "gibt", "gegeben"),
    Verb("read", "reads", "read", "lesen", "lese", "liest", "liest", "gelesen"),
    Verb("eat", "eats", "ate", "essen", "esse", "isst", "isst", "gegessen"),
    Verb("drink", "drinks", "drank", "trinken", "trinke", "trinkst", "trinkt", "getrunken"),
    Verb("sleep", "sleeps", "slept", "schlafen", "schlafe", "schläfst", "schläft", "geschlafen"),
    Verb("play", "plays", "played", "spielen", "spiele", "spielst", "spielt", "gespielt"),
    Verb("work", "works", "worked", "arbeiten", "arbeite", "arbeitest", "arbeitet", "gearbeitet"),
    Verb("wait", "waits", "waited", "warten", "warte", "wartest", "wartet", "gewartet"),
    Verb("sing", "sings", "sang", "singen", "singe", "singst", "singt", "gesungen"),
    Verb("sit", "sits", "sat", "sitzen", "sitze", "sitzt", "sitzt", "gesessen"),
]}
BE = {"1s": ("am", "was", "bin", "war"), "2s": ("are", "were", "bist", "warst"), "3s": ("is", "was", "ist", "war"),
      "1p": ("are", "were", "sind", "waren"), "3p": ("are", "were", "sind", "waren")}
HATTE = {"1s": "hatte", "3s": "hatte", "1p": "hatten", "3p": "hatten"}
CAN = {"1s": "kann", "2s": "kannst", "3s": "kann", "1p": "können", "3p": "können"}
MUST = {"1s": "muss", "2s": "musst", "3s": "muss", "1p": "müssen", "3p": "müssen"}
DRINKS = {"water": "Wasser", "milk": "Milch", "coffee": "Kaffee", "tea": "Tee"}
NOW = {"today": "heute", "every day": "jeden Tag", "in the morning": "am Morgen", "in the evening": "am Abend"}

# ---- agreement ------------------------------------------------------------------------------------------------------

DER = dict(nom=dict(m="der", f="die", n="das", p="die"), acc=dict(m="den", f="die", n="das", p="die"),
           dat=dict(m="dem", f="der", n="dem", p="den"))
EIN = dict(nom=dict(m="", f="e", n="", p="e"), acc=dict(m="en", f="e", n="", p="e"),
           dat=dict(m="em", f="er", n="em", p="en"))
WEAK = dict(nom=dict(m="e", f="e", n="e", p="en"), acc=dict(m="en", f="e", n="e", p="en"),
            dat=dict(m="en", f="en", n="en", p="en"))
MIXED = dict(nom=dict(m="er", f="e", n="es", p="en"), acc=dict(m="en", f="e", n="es", p="en"),
             dat=dict(m="en", f="en", n="en", p="en"))
EIN_WORDS = {"a": "ein", "no": "kein", "my": "mein", "your": "dein", "his": "sein", "her": "ihr", "our": "unser"}
IT = dict(m="er", f="sie", n="es")

# A noun phrase: English, German in each case, person and number of the verb, gender or p.
NP = namedtuple("NP", "en nom acc dat person gender")


def phrase(det, name, adj="", plural=False):
    """`det` is the, an ein-word, or a number; `adj` an English adjective or nothing."""
    n = N[name]
    gender = "p" if plural else n.gender
    de = {}
    for case in ("nom", "acc", "dat"):
        if det == "the":
            article, ending = DER[case][gender], WEAK[case][gender]
        elif det in NUMBERS:
            assert plural
            article, ending = NUMBERS[det], {"nom": "e", "acc": "e", "dat": "en"}[case]
        else:
            assert not (plural and det == "a")
            article, ending = EIN_WORDS[det] + EIN[case][gender], MIXED[case][gender]
        if plural:
            word = n.dat if case == "dat" else n.de_pl
            assert word
        else:
            word = n.de if case == "nom" else n.obl
        de[case] = " ".join(filter(None, [article, A[adj] + ending if adj else "", word]))
    en = " ".join(filter(None, [adj, n.en_pl if plural else n.en]))
    article = "an" if det == "a" and en[0] in "aeiou" else det
    return NP(f"{article} {en}", de["nom"], de["acc"], de["dat"], "3p" if plural else "3s", gender)


PRONOUNS = {en: NP(en, de, "", "", person, "") for en, de, person in
            [("I", "ich", "1s"), ("he", "er", "3s"), ("she", "sie", "3s"), ("we", "wir", "1p"), ("they", "sie", "3p")]}
YOU = NP("you", "du", "", "", "2s", "")


def present(verb, person):
    v = V[verb]
    return (v.en_3s if person == "3s" else v.en), {"1s": v.ich, "2s": v.du, "3s": v.er}.get(person, v.de)


def have(person):
    return present("have", person)[1]


# ---- sentences ------------------------------------------------------------------------------------------------------


class Maker:
    """Draws sentences; each method whose name starts with `s_` is one pattern and gives (English, German)."""

    def __init__(self, seed):
        self.random = Random(seed)

    def pick(self, items):
        items = list(items)
        return items[int(self.random.random() * len(items))]

    def chance(self, p):
        return self.random.random() < p

    def adj(self, name, p):
        return self.pick(FITS[name]) if name in FITS and self.chance(p) else ""

    def person(self, pronoun=0.35):
        """A subject who does things."""
        if self.chance(pronoun):
            return self.pick([PRONOUNS["I"], *PRONOUNS.values()])
        if self.chance(0.3):
            return phrase(self.pick(["my", "your", "his", "her", "our"]), self.pick(FAMILY))
        name = self.pick(PEOPLE)
        plural = self.chance(0.25)
        return phrase("the", name, self.adj(name, 0.25), plural)

    def animal(self, names=ANIMALS):
        name = self.pick(names)
        if self.chance(0.2):
            return phrase(self.pick(["my", "his", "her", "our"]), name)
        return phrase("the", name, self.adj(name, 0.3), self.chance(0.25))

    def one(self, names, adj=0.35, det=("a",)):
        """A thing in the singular."""
        name = self.pick(names)
        return phrase(self.pick(det), name, self.adj(name, adj))

    def thing(self, names, adj=0.3):
        """An object: a, the, or a number."""
        name = self.pick(names)
        det = self.pick(["a", "a", "the", "the", "my", "his", "her", "number"])
        if det == "number" and N[name].de_pl:
            return phrase(self.pick(NUMBERS), name, self.adj(name, adj / 2), True)
        return phrase("a" if det == "number" else det, name, self.adj(name, adj))

    def doing(self):
        """Someone, an intransitive verb and a place."""
        if self.chance(0.3):
            who, verb, places = self.animal(), self.pick(["sleep", "play", "sit", "wait"]), OF_ANIMALS
            if "bird" in who.en:
                verb, places = self.pick(["sleep", "sit", "sing"]), ["in the tree"]
            elif "horse" in who.en:
                verb, places = self.pick(["sleep", "play", "wait"]), OF_HORSES
        else:
            who, places = self.person(), OF_PEOPLE
            verb = self.pick(["sleep", "play", "work", "wait", "sing", "sit"])
            places = {"sleep": IN + ["in the car", "under the tree"],
                      "work": IN + ["in the street", "at school", "behind the house"],
                      "play": IN + ["in the street", "at school", "behind the house", "under the tree"],
                      "sit": IN + ["on the chair", "on the bed", "at the window", "in the car", "under the tree"],
                      }.get(verb, OF_PEOPLE)
        return who, verb, self.pick(places)

    def having(self):
        """Someone, a transitive verb and its object."""
        verb = self.pick(["see", "have", "buy", "find", "read", "bring", "eat", "drink"])
        who = self.person()
        if verb == "drink":
            en = self.pick(DRINKS)
            return who, verb, NP(en, "", DRINKS[en], "", "", "mass")
        names = {"see": ANIMALS + ["car", "house"] + THINGS, "have": THINGS + ANIMALS + ["car", "house", "garden"],
                 "buy": BUYABLE + ["car", "house", "horse", "dog"], "find": SMALL + ["dog", "cat"],
                 "read": ["book", "letter"], "bring": SMALL, "eat": ["apple"]}[verb]
        return who, verb, self.thing(names)

    # Plain present.

    def s_where_it_happens(self):
        who, verb, place = self.doing()
        en, de = present(verb, who.person)
        return f"{who.en} {en} {place}", f"{who.nom} {de} {PLACES[place]}"

    def s_when_and_where(self):
        who, verb, place = self.doing()
        en, de = present(verb, who.person)
        time = self.pick(NOW)
        if self.chance(0.5):
            return f"{time} {who.en} {en} {place}", f"{NOW[time]} {de} {who.nom} {PLACES[place]}"
        return f"{who.en} {en} {place} {time}", f"{who.nom} {de} {NOW[time]} {PLACES[place]}"

    def s_object(self):
        who, verb, what = self.having()
        en, de = present(verb, who.person)
        return f"{who.en} {en} {what.en}", f"{who.nom} {de} {what.acc}"

    def s_gift(self):
        who, det = self.person(), self.pick(["the", "the", "my", "his", "her"])
        to = phrase(det, self.pick(PEOPLE if det == "the" else FAMILY))
        what = self.one(SMALL)
        if who.en.split()[-1] == to.en.split()[-1]:
            return None
        if self.chance(0.5):
            en, de = present("give", who.person)
            return f"{who.en} {en} {to.en} {what.en}", f"{who.nom} {de} {to.dat} {what.acc}"
        return f"{who.en} gave {to.en} {what.en}", f"{who.nom} {have(who.person)} {to.dat} {what.acc} gegeben"

    def s_play_with(self):
        who = self.person() if self.chance(0.7) else self.animal(["dog", "cat"])
        name = self.pick(["dog", "cat", "ball", "friend", "child", "girl", "boy"])
        whose = ["the"] if name in PEOPLE else ["my", "his", "her"] if name == "friend" else ["the", "my", "his", "her"]
        what = phrase(self.pick(whose), name)
        if name in who.en or N[name].en_pl in who.en:
            return None
        en, de = present("play", who.person)
        return f"{who.en} {en} with {what.en}", f"{who.nom} {de} mit {what.dat}"

    def s_two_people(self):
        one, two = self.person(0), self.person(0)
        if one.en.split()[-1] == two.en.split()[-1] or len(f"{one.en} {two.en}".split()) > 5:
            return None
        verb = self.pick(["play", "work", "wait", "sing", "sit"])
        place = self.pick(IN + ["under the tree", "at school"])
        return f"{one.en} and {two.en} {verb} {place}", f"{one.nom} und {two.nom} {V[verb].de} {PLACES[place]}"

    # To be.

    def s_be(self):
        tense, negated = self.pick([0, 0, 1]), self.chance(0.3)
        if self.chance(0.4):
            who, adj = self.person(0.5), self.pick(MOODS)
        else:
            name = self.pick(ANIMALS + THINGS + ["car", "house", "garden", "door", "window", "kitchen"])
            who = phrase(self.pick(["the", "the", "my", "your", "his", "her", "our"]), name,
                         plural=name in ANIMALS + THINGS and self.chance(0.35))
            adj = self.pick(FITS.get(name, ["old", "new"]))
        en, de = BE[who.person][tense], BE[who.person][2 + tense]
        very = not negated and adj not in COLOURS and self.chance(0.4)
        return (f"{who.en} {en} {'not ' * negated}{'very ' * very}{adj}",
                f"{who.nom} {de} {'nicht ' * negated}{'sehr ' * very}{A[adj]}")

    def s_be_somewhere(self):
        tense, negated = self.pick([0, 0, 1]), self.chance(0.3)
        kind = self.pick(["person", "animal", "thing", "thing"])
        if kind == "person":
            who, place = self.person(), self.pick(OF_PEOPLE)
        elif kind == "animal":
            who = self.animal()
            place = self.pick(OF_HORSES if "horse" in who.en else OF_ANIMALS)
        else:
            name = self.pick(SMALL)
            who = phrase(self.pick(["the", "the", "my", "your", "our"]), name, self.adj(name, 0.3), self.chance(0.3))
            place = self.pick(OF_THINGS)
        en, de = BE[who.person][tense], BE[who.person][2 + tense]
        no = "not " * negated, "nicht " * negated
        return f"{who.en} {en} {no[0]}{place}", f"{who.nom} {de} {no[1]}{PLACES[place]}"

    def s_there_is(self):
        if self.chance(0.35):
            name = self.pick(ANIMALS)
            place = self.pick(OF_HORSES if name == "horse" else OF_ANIMALS)
        else:
            name, place = self.pick(SMALL), self.pick(OF_THINGS)
        det = self.pick(["a", "a", "no", "number", "number"])
        plural = det == "number" or det == "no" and self.chance(0.5)
        what = phrase(self.pick(NUMBERS) if det == "number" else det, name, self.adj(name, 0.25), plural)
        en, de = ("are", "sind") if plural else ("is", "ist")
        return f"there {en} {what.en} {place}", f"{PLACES[place]} {de} {what.nom}"

    # Past: the perfect in German, with the participle at the end.

    def s_past_place(self):
        who, verb, place = self.doing()
        v = V[verb]
        if verb == "sit":
            return None
        if self.chance(0.5):
            return f"{who.en} {v.en_past} {place}", f"{who.nom} {have(who.person)} {PLACES[place]} {v.part}"
        return (f"yesterday {who.en} {v.en_past} {place}",
                f"gestern {have(who.person)} {who.nom} {PLACES[place]} {v.part}")

    def s_past_object(self):
        who, verb, what = self.having()
        v = V[verb]
        if verb == "have":
            return f"{who.en} had {what.en}", f"{who.nom} {HATTE[who.person]} {what.acc}"
        if verb == "read" and who.person != "3s":
            return None  # "I read" may be present or past
        if self.chance(0.5):
            return f"{who.en} {v.en_past} {what.en}", f"{who.nom} {have(who.person)} {what.acc} {v.part}"
        return (f"yesterday {who.en} {v.en_past} {what.en}",
                f"gestern {have(who.person)} {who.nom} {what.acc} {v.part}")

    # Not.

    def s_not_there(self):
        who, verb, place = self.doing()
        do = "does" if who.person == "3s" else "do"
        return f"{who.en} {do} not {verb} {place}", f"{who.nom} {present(verb, who.person)[1]} nicht {PLACES[place]}"

    def s_not_object(self):
        who, verb, what = self.having()
        v, past = V[verb], self.chance(0.5)
        if what.gender in ("p", "mass") or verb in ("have", "eat") and not what.en.startswith(("a ", "an ")):
            return None
        if what.en.startswith(("a ", "an ")):
            if not past and verb not in ("have", "see", "buy"):
                return None
            no = "k" + what.acc
        else:
            no = what.acc + " nicht"
        if past and verb != "have":
            return f"{who.en} did not {verb} {what.en}", f"{who.nom} {have(who.person)} {no} {v.part}"
        do = "does" if who.person == "3s" else "do"
        return f"{who.en} {do} not {verb} {what.en}", f"{who.nom} {present(verb, who.person)[1]} {no}"

    # Can and must.

    def s_modal(self):
        who = self.person()
        en, forms = self.pick([("can", CAN), ("must", MUST)])
        if self.chance(0.5):
            verb = self.pick(["work", "wait", "sleep", "sing", "play"])
            place = self.pick(IN + ["at school", "in the car"])
            return f"{who.en} {en} {verb} {place}", f"{who.nom} {forms[who.person]} {PLACES[place]} {V[verb].de}"
        verb = self.pick(["buy", "find", "bring", "read"] + ["see"] * (en == "can"))
        names = {"read": ["book", "letter"], "buy": BUYABLE}.get(verb, SMALL)
        what = self.one(names, 0.2, ("the",) if verb == "see" else ("the", "a"))
        return f"{who.en} {en} {verb} {what.en}", f"{who.nom} {forms[who.person]} {what.acc} {V[verb].de}"

    # Questions.

    def s_where(self):
        kind = self.pick(["animal", "thing", "family"])
        if kind == "family":
            what = phrase(self.pick(["your", "his", "her", "our"]), self.pick(FAMILY))
        else:
            name = self.pick(ANIMALS if kind == "animal" else SMALL)
            what = phrase(self.pick(["the", "the", "my", "your"]), name, self.adj(name, 0.3), self.chance(0.3))
        en, _, de, _ = BE[what.person]
        return f"where {en} {what.en}?", f"wo {de} {what.nom}?"

    def s_where_and_answer(self):
        name = self.pick(ANIMALS + SMALL)
        what = phrase("the", name)
        place = self.pick(OF_HORSES if name == "horse" else OF_ANIMALS if name in ANIMALS else OF_THINGS)
        it = IT[what.gender].title()
        return f"where is {what.en}? It is {place}", f"wo ist {what.nom}? {it} ist {PLACES[place]}"

    def s_is_it(self):
        name = self.pick(ANIMALS + THINGS + ["car", "house", "garden"])
        what = phrase(self.pick(["the", "your", "his", "her"]), name, plural=bool(N[name].de_pl) and self.chance(0.3))
        adj = self.pick(FITS.get(name, ["old", "new"]))
        en, _, de, _ = BE[what.person]
        return f"{en} {what.en} {adj}?", f"{de} {what.nom} {A[adj]}?"

    def s_do_you(self):
        _, verb, what = self.having()
        if self.chance(0.4) and verb not in ("have", "drink", "eat"):
            return f"did you {verb} {what.en}?", f"hast du {what.acc} {V[verb].part}?"
        return f"do you {verb} {what.en}?", f"{V[verb].du} du {what.acc}?"

    def s_who(self):
        if self.chance(0.5):
            verb, place = self.pick(["sleep", "work", "wait", "sing", "play"]), self.pick(OF_PEOPLE)
            return f"who {V[verb].en_3s} {place}?", f"wer {V[verb].er} {PLACES[place]}?"
        _, verb, what = self.having()
        if self.chance(0.5):
            return f"who {V[verb].en_3s} {what.en}?", f"wer {V[verb].er} {what.acc}?"
        if verb in ("have", "read"):
            return None
        return f"who {V[verb].en_past} {what.en}?", f"wer hat {what.acc} {V[verb].part}?"

    def s_how_many(self):
        name, who = self.pick(BUYABLE + ANIMALS), self.person(0.3)
        do = "does" if who.person == "3s" else "do"
        verb = self.pick(["have", "have", "see", "buy"])
        de = present(verb, who.person)[1]
        return (f"how many {N[name].en_pl} {do} {who.en} {verb}?", f"wie viele {N[name].de_pl} {de} {who.nom}?")

    def s_why(self):
        who, adj = self.person(0.3), self.pick(MOODS)
        if who.en == "I":
            who = YOU
        en, _, de, _ = BE[who.person]
        return f"why {en} {who.en} {adj}?", f"warum {de} {who.nom} {A[adj]}?"

    # Requests, in the polite form.

    def s_please_bring(self):
        name = self.pick(SMALL)
        det = self.pick(["the", "a", "my", "number"])
        plural = det == "number"
        what = phrase(self.pick(NUMBERS) if plural else det, name, self.adj(name, 0.3), plural)
        en, de = self.pick([("bring", "bringen"), ("give", "geben")])
        if self.chance(0.6):
            return f"please {en} me {what.en}", f"bitte {de} Sie mir {what.acc}"
        return f"could you {en} me {what.en}, please?", f"könnten Sie mir bitte {what.acc} {de}?"

    def s_please_do(self):
        kind = self.pick(["door", "place", "read", "drink"])
        if kind == "door":
            en, de = self.pick([("open", "öffnen"), ("close", "schließen")])
            what = self.one(["door", "window"], 0.4, ("the",))
        elif kind == "place":
            en, de = self.pick([("wait", "warten"), ("work", "arbeiten"), ("sing", "singen"), ("play", "spielen")])
            place = self.pick(IN + ["in the car", "at the door", "at school", "under the tree", "behind the house"])
            what = NP(place, "", PLACES[place], "", "", "")
        elif kind == "read":
            en, de, what = "read", "lesen", self.one(["book", "letter"], 0.3, ("the", "my"))
        else:
            en, de = "buy", "kaufen"
            what = self.one(BUYABLE, 0.3)
            if self.chance(0.5):
                what = phrase(self.pick(NUMBERS), self.pick(BUYABLE), "", True)
        if self.chance(0.7):
            return f"please {en} {what.en}", f"bitte {de} Sie {what.acc}"
        return f"could you {en} {what.en}, please?", f"könnten Sie bitte {what.acc} {de}?"


def finish(text):
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".?" else text + "."


def words(pair):
    return [side + word for side, text in zip(("en ", "de "), pair)
            for word in text.replace(",", " ,").replace("?", " ?").replace(".", " .").split()]


def main():
    maker = Maker(2017)
    patterns = [getattr(maker, name) for name in vars(Maker) if name.startswith("s_")]
    pairs, count, english, german = [], Counter(), set(), set()
    while len(pairs) < sum(SIZES.values()):
        # The next pattern offers some sentences; the one with the rarest words is taken.
        offers = []
        while len(offers) < 20:
            pair = patterns[len(pairs) % len(patterns)]()
            if pair is None:
                continue
            pair = tuple(finish(text) for text in pair)
            if 3 <= len(pair[0].split()) <= 10 and pair[0] not in english and pair[1] not in german:
                offers.append(pair)
        best = max(offers, key=lambda pair: sum(1 / (1 + count[word]) for word in words(pair)) / len(words(pair)))
        pairs.append(best)
        english.add(best[0])
        german.add(best[1])
        count.update(words(best))

    for i in range(len(pairs) - 1, 0, -1):
        j = int(maker.random.random() * (i + 1))
        pairs[i], pairs[j] = pairs[j], pairs[i]
    # Held out: the first whose words stay frequent enough in train.
    splits = {"dev": [], "test": [], "train": []}
    for k, pair in enumerate(pairs):
        split = next((s for s in ("dev", "test") if len(splits[s]) < SIZES[s]), "train")
        need = Counter(words(pair))
        if split != "train" and all(count[word] - n >= SEEN for word, n in need.items()):
            count -= need
            splits[split].append(pair)
        else:
            splits["train"].append(pair)
    held_out = {word for split in ("dev", "test") for pair in splits[split] for word in words(pair)}
    assert all(count[word] >= SEEN for word in held_out)
    for split, lines in splits.items():
        assert len(lines) == SIZES[split], (split, len(lines))
        for side, language in enumerate(("en", "de")):
            with open(f"{split}.{language}", "w", encoding="utf-8", newline="\n") as file:
                file.writelines(pair[side] + "\n" for pair in lines)


if __name__ == "__main__":
    main()
