"""Draws the structure of a sentence: who does what, how, where, in which tense."""

from dataclasses import replace
from functools import cache
from random import Random

from attnlab.grammar import lexicon as concepts
from attnlab.grammar.lexicon import ANY, PERSON, PLACE, VERBS, Adjective, Adverb, Verb
from attnlab.grammar.phrase_structure import (
    Adjunct,
    Clause,
    Coordination,
    Modal,
    NounPhrase,
    Phrase,
    PhraseSampler,
    Pronoun,
    Sentence,
    Tense,
    adjectives_for,
    agreement,
    natural_gender,
)

_TENSES: tuple[Tense, ...] = ("present", "present", "past", "past", "future", "progressive")
_STATIVE_TENSES: tuple[Tense, ...] = ("present", "present", "past", "future")
_RELATIVE_TENSES: tuple[Tense, ...] = ("present", "past")
_TENSES_WITH: dict[str, tuple[Tense, ...]] = {
    "because": _STATIVE_TENSES,
    "when": ("present", "past"),
    "while": ("present", "progressive"),
}
_MODALS: tuple[Modal, ...] = ("can", "must", "want")
_MADE_FOR_OTHERS = {"buy", "prepare", "build", "paint", "draw", "write"}
_TAKING_PLACE = {"eat", "drink", "buy", "find", "see", "greet", "wait", "talk", "lose", "follow"}
_NOT_IN_PROGRESS = {"see", "find", "forget"}
_NO_TOWNS = {"enter", "arrive", "build", "clean", "dream"}
_SINGLE = [verb for verb in VERBS if verb.frame != "complement"]
_SAYING = [verb for verb in VERBS if verb.frame == "complement"]


@cache
def _verbs_acting_on(kind: str) -> tuple[Verb, ...]:
    """Verbs of people that take a direct object of this kind in every language."""
    return tuple(
        verb
        for verb in VERBS
        if kind in verb.objects and not verb.experienced and not verb.indirect
    )


@cache
def _verbs_done_by(kind: str) -> tuple[Verb, ...]:
    return tuple(verb for verb in _SINGLE if kind in verb.subjects and not verb.experienced)


def _heavy(phrase: Phrase | None) -> bool:
    """True where nothing should follow that could be read as part of the phrase."""
    return isinstance(phrase, NounPhrase) and bool(phrase.relative or phrase.modifier)


class Sampler(PhraseSampler):
    """Draws sentences: single clauses, questions, and two clauses joined in five ways."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._kinds = (
            *[self._single] * 9,
            *[self._question] * 2,
            *[self._mentioned_again] * 3,
            *[self._subordinated] * 3,
            self._contrasted,
            *[self._reported] * 2,
        )

    def sentence(self) -> Sentence:
        """One sentence of any kind; its length is not limited here."""
        return self.pick(self._kinds)()

    def _single(self) -> Sentence:
        clause = self._clause(None)
        if clause.time is not None and clause.time is not concepts.HERE and self.chance(0.5):
            return Sentence(replace(clause, time=None), opening=clause.time)
        return Sentence(clause)

    def _question(self) -> Sentence:
        clause = self._clause(None)
        modal = None if clause.modal == "must" else clause.modal
        questioned = replace(clause, negated=False, frequency=None, modal=modal)
        return Sentence(questioned, question=True)

    def _contrasted(self) -> Sentence:
        tense = self.pick(_STATIVE_TENSES)
        first, second = self._clause(tense, short=True), self._clause(tense, short=True)
        return Sentence(first, conjunction=concepts.CONJUNCTIONS["but"], second=second)

    def _reported(self) -> Sentence:
        verb = self.pick(_SAYING)
        complement = self._clause(None, short=True)
        subject = self._subject(verb.subjects)
        tense: Tense = "past" if verb.name == "discover" else "present"
        return Sentence(Clause(subject, verb, tense, complement=complement))

    def _subordinated(self) -> Sentence:
        name = self.pick(("because", "because", "when", "while"))
        tense = self.pick(_TENSES_WITH[name])
        main = self._clause(tense, short=True)
        second = self._clause(tense, short=True)
        if main.subject is not None and self.chance(0.6):
            second = self._about_the_same(main.subject, tense)
        return Sentence(main, conjunction=concepts.CONJUNCTIONS[name], second=second)

    def _about_the_same(self, subject: Phrase, tense: Tense) -> Clause:
        """A clause whose subject is a pronoun for the subject before."""
        who = agreement(subject)
        again = Pronoun(who.person, who.plural, who.gender)
        personal = not isinstance(subject, NounPhrase) or subject.noun.kind == "person"
        if not personal:
            return self._clause(tense, short=True)
        if tense != "progressive" and self.chance(0.4):
            return self._copular(again, tense)
        return self._verbal(again, self.pick(_SINGLE), tense, short=True)

    def _mentioned_again(self) -> Sentence:
        """Two clauses that share subject and object: Anna buys the apples and eats them."""
        thing = self.noun_phrase(ANY - PLACE, plain=True)
        kind = thing.noun.kind
        verbs = [verb for verb in _verbs_acting_on(kind) if not verb.stative]
        first = self.pick([verb for verb in verbs if verb.frame == "object"])
        second = self.pick([verb for verb in verbs if verb is not first])
        tense = self.pick(_STATIVE_TENSES)
        again = Pronoun(
            3,
            thing.plural,
            natural_gender(thing.noun),
            animate=kind == "person",
            noun=thing.noun,
        )
        subject = self._subject(PERSON)
        recipient = self._recipient(subject) if second.frame == "recipient" else None
        return Sentence(
            Clause(subject, first, tense, object=thing),
            conjunction=concepts.CONJUNCTIONS["and"],
            second=Clause(None, second, tense, object=again, recipient=recipient),
        )

    def _recipient(self, giver: Phrase | None) -> Phrase:
        if self.chance(0.4):
            return self.other_than(giver, third_plural=False)
        return self.human()

    def _subject(self, kinds: frozenset[str], *, alone: bool = False) -> Phrase:
        """Who acts; a pronoun they only where the sentence stands alone."""
        if "person" not in kinds:
            return self._add_relative_clause(self.noun_phrase(kinds))
        dice = self._uniform()
        if dice < 0.2:
            return self.speaker_or_other(third_plural=alone)
        if kinds == PERSON or dice < 0.7:
            person = self.human()
            return self._add_relative_clause(person) if isinstance(person, NounPhrase) else person
        return self._add_relative_clause(self.noun_phrase(kinds))

    def _add_relative_clause(self, phrase: NounPhrase) -> NounPhrase:
        """The phrase, now and then with a relative clause on its subject or its object."""
        if phrase.modifier is not None or phrase.possessor is not None or not self.chance(0.15):
            return phrase
        kind = phrase.noun.kind
        tense = self.pick(_RELATIVE_TENSES)
        acting = _verbs_done_by(kind)
        if acting and self.chance(0.6):
            verb = self.pick(acting)
            clause = replace(self._verbal(None, verb, tense, short=True), gap="subject")
            return replace(phrase, relative=clause)
        acted_on = [verb for verb in _verbs_acting_on(kind) if verb.frame == "object"]
        if not acted_on or self.chance(0.2):
            adjective = self.pick(adjectives_for(kind))
            return replace(phrase, relative=Clause(None, adjective, tense, gap="subject"))
        subject = self.person()
        who: Phrase = self.speaker_or_other(third_plural=False) if self.chance(0.4) else subject
        clause = Clause(who, self.pick(acted_on), tense, gap="object")
        return replace(phrase, relative=clause)

    def _clause(self, tense: Tense | None, *, short: bool = False) -> Clause:
        if tense != "progressive" and self.chance(0.15):
            return self._copular(None, tense if tense is not None else self.pick(_STATIVE_TENSES))
        verb = self.pick(_SINGLE)
        subject = self._subject(verb.subjects, alone=not short)
        chosen = tense if tense is not None else self.pick(_TENSES)
        return self._verbal(subject, verb, chosen, short=short)

    def _copular(self, subject: Phrase | None, tense: Tense) -> Clause:
        if subject is None:
            subject = self._subject(ANY if self.chance(0.6) else PERSON)
        kind = subject.noun.kind if isinstance(subject, NounPhrase) else "person"
        adjective: Adjective = self.pick(adjectives_for(kind))
        if isinstance(subject, NounPhrase) and adjective in subject.adjectives:
            subject = replace(subject, adjectives=())
        frequency = self.pick(concepts.FREQUENCIES) if self.chance(0.1) else None
        return Clause(
            subject,
            adjective,
            tense,
            negated=frequency is None and self.chance(0.2),
            frequency=frequency,
            degree=concepts.VERY if adjective.gradable and self.chance(0.3) else None,
        )

    def _verbal(
        self, subject: Phrase | None, verb: Verb, tense: Tense, *, short: bool = False
    ) -> Clause:
        """A clause with this subject and verb; a `short` one ends with its objects."""
        if tense == "progressive" and (verb.stative or verb.name in _NOT_IN_PROGRESS):
            tense = "present"
        modal = self._modal(verb, tense)
        every = isinstance(subject, NounPhrase) and subject.determiner is concepts.EVERY
        negated = not every and self.chance(0.15)
        frequency = None
        if not negated and modal is None and tense != "progressive" and self.chance(0.12):
            frequency = self.pick(concepts.FREQUENCIES)
        goal = self._object(verb, subject, negated=negated, short=short)
        recipient = self._recipient(subject) if verb.frame == "recipient" else None
        free = not _heavy(goal) and not _heavy(recipient)
        adjuncts = self._adjuncts(verb, goal) if free and not short else ()
        manner = None
        if verb.manner and free and not adjuncts and not negated and self.chance(0.15):
            manner = self.pick(concepts.MANNERS)
        time = None
        if free and not short and modal is None and frequency is None and self.chance(0.2):
            time = self._time(verb, tense, bare=not adjuncts)
        return Clause(
            subject,
            verb,
            tense,
            modal,
            negated,
            goal,
            recipient,
            frequency,
            manner,
            time,
            adjuncts=adjuncts,
        )

    def _modal(self, verb: Verb, tense: Tense) -> Modal | None:
        if tense != "present" or verb.stative or not self.chance(0.25):
            return None
        return self.pick(_MODALS)

    def _object(
        self, verb: Verb, subject: Phrase | None, *, negated: bool, short: bool
    ) -> Phrase | None:
        if not verb.objects:
            return None
        share = 0.3 if verb.objects == PLACE else 0.05
        if verb.objects >= PLACE and verb.name not in _NO_TOWNS and self.chance(share):
            return self.town()
        if "person" in verb.objects and not verb.experienced:
            dice = self._uniform()
            if dice < 0.2:
                return self.other_than(subject, third_plural=not short)
            if dice < 0.5:
                return self.human() if not negated else self.person()
        phrase = self.noun_phrase(verb.objects, plain=negated or verb.experienced)
        return phrase if short or verb.experienced else self._add_relative_clause(phrase)

    def _adjuncts(self, verb: Verb, goal: Phrase | None) -> tuple[Adjunct, ...]:
        if verb.frame == "none":
            dice = self._uniform()
            if dice < 0.5:
                return (self.whereabouts(),)
            if dice < 0.75:
                preposition = concepts.WITH if self.chance(0.7) else concepts.WITHOUT
                with_person = Adjunct(preposition, self.human())
                return (self.whereabouts(), with_person) if self.chance(0.3) else (with_person,)
            return ()
        if verb.name in _MADE_FOR_OTHERS and self.chance(0.3):
            return (Adjunct(concepts.FOR, self.human()),)
        takes_place = verb.name in _TAKING_PLACE and not isinstance(goal, Coordination)
        return (self.whereabouts(),) if takes_place and self.chance(0.3) else ()

    def _time(self, verb: Verb, tense: Tense, *, bare: bool) -> Adverb | None:
        fitting = [time for time in concepts.TIMES if tense in time.tenses]
        if verb.frame != "none" or not bare:
            fitting = [time for time in fitting if time is not concepts.HERE]
        return self.pick(fitting)
